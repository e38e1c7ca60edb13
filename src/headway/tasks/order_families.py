"""Families of sequences on which a classifier of sortedness may fail, for `headway attack`.

plateaus     3 3 3 7 9 9 9     two constant runs and one value between them, in order
descents     5 5 5 8 2 4 4     one value pair that descends between two constant runs
two-runs     1 4 8 2 3 9       two sorted runs; where they meet is the only descent
adjacent     1 4 3 8 9 9       a sorted sequence with one neighbouring pair exchanged
ties         6 6 7 7 6 7       two to four neighbouring values, sorted or with one descent
extremes     0 0 1 98 99 0     the lowest and the highest values, sorted or with one descent
ends         4 1 2 6 8 9       the first or the last pair is the only descent
odd-one-out  5 5 5 9 5 5 5     one element differs from all the others, or none does
"""

from functools import cache, partial

import numpy as np
from jaxtyping import Int

from headway.tasks.attack_families import AttackFamily, Draw, Families, Family, ListedFamily
from headway.tasks.sequences import odd_one_out

Rows = Int[np.ndarray, "batch width"]
Numbers = Int[np.ndarray, " batch"]
MOST_VALUES = 128
"""Largest number of values for which triples of values are enumerated; with more they are drawn."""


def order_families(drawn: Draw, length: int, values: int) -> Families:
    """The families at a length; `drawn` gives sequences as for training."""
    made: dict[str, Family] = {"random": AttackFamily("drawn as for training, of this length", drawn)}
    if length >= 3 and values <= MOST_VALUES:
        rows = len(_ascending_triples(values))
        made["plateaus"] = ListedFamily(
            "two constant runs and one value between them, in order", rows, partial(_plateaus, length, values)
        )
        made["descents"] = ListedFamily(
            "one descent between two constant runs of any values",
            values * values * (values - 1) // 2,
            partial(_descents, length, values),
        )
    drawn_ones = {
        "two-runs": ("two sorted runs that meet in the only descent", _two_runs),
        "adjacent": ("sorted but for one neighbouring pair that is exchanged", _adjacent),
        "ties": ("two to four neighbouring values, sorted or with one descent", _ties),
        "extremes": ("the lowest and the highest values, sorted or with one descent", _extremes),
        "ends": ("sorted but for the first or the last pair", _ends),
    }
    for name, (about, family) in drawn_ones.items():
        made[name] = AttackFamily(about, partial(family, length, values))
    made["odd-one-out"] = ListedFamily(
        "one element differs from all the others, or none does",
        values * values * length,
        partial(odd_one_out, length, values),
    )
    return made


@cache
def _ascending_triples(values: int) -> Int[np.ndarray, "triple 3"]:
    """Every x <= y <= z."""
    x, y, z = np.indices((values, values, values)).reshape(3, -1)
    return np.stack([x, y, z], axis=1)[(x <= y) & (y <= z)]


def _plateaus(length: int, values: int, number: Numbers) -> Rows:
    """x ... x y z ... z; the position of y varies between inputs."""
    x, y, z = _ascending_triples(values)[number].T[:, :, None]
    middle = 1 + (number * 7 % (length - 2))[:, None]
    place = np.arange(length)
    return np.where(place < middle, x, np.where(place == middle, y, z))


def _descents(length: int, values: int, number: Numbers) -> Rows:
    """l ... l y z r ... r with y > z; all l, y, z occur side by side once, and so do all y, z, r (from length 4 on)."""
    pair, left = np.divmod(number, values)
    low, high = np.triu_indices(values, k=1)
    y, z = high[pair][:, None], low[pair][:, None]
    step = next(one for one in (37, 31, 1) if np.gcd(one, values) == 1)
    right = ((left * step + pair) % values)[:, None]
    first = (number * 7 % (length - 3) + 1 if length > 3 else number % 2)[:, None]
    place = np.arange(length)
    outer = np.where(place < first, left[:, None], right)
    return np.where(place == first, y, np.where(place == first + 1, z, outer))


def _sorted(random: np.random.Generator, n: int, length: int, values: int) -> Rows:
    """Sorted rows; half of them from a band of random width."""
    width = np.exp(random.random((n, 1)) * np.log(values)).astype(np.int64) + 1
    width = np.where(random.random((n, 1)) < 0.5, width, values).clip(1, values)
    low = (random.random((n, 1)) * (values - width + 1)).astype(np.int64)
    return np.sort(low + (random.random((n, length)) * width).astype(np.int64), axis=1)


def _cut(random: np.random.Generator, rows: Rows) -> Rows:
    """Each row rotated, with its end before its beginning: sorted rows become two sorted runs."""
    n, length = rows.shape
    shift = random.integers(1, max(2, length), size=(n, 1))
    return np.take_along_axis(rows, (np.arange(length) + shift) % length, axis=1)


def _two_runs(length: int, values: int, random: np.random.Generator, n: int) -> Rows:
    """In half of the rows the second run is below the first; in the others both are drawn independently."""
    rotated = _cut(random, _sorted(random, n, length, values))
    first, second = _sorted(random, n, length, values), _sorted(random, n, length, values)
    meeting = random.integers(1, max(2, length), size=(n, 1))
    return np.where(np.arange(n)[:, None] % 2 == 0, rotated, np.where(np.arange(length) < meeting, first, second))


def _adjacent(length: int, values: int, random: np.random.Generator, n: int) -> Rows:
    return _exchanged(random, _sorted(random, n, length, values))


def _exchanged(random: np.random.Generator, rows: Rows) -> Rows:
    """One ascending neighbouring pair of each row swapped, if it has one."""
    rises = np.diff(rows, axis=1) > 0
    return _exchange_at(rows, np.argmax(rises * random.random(rises.shape), axis=1))


def _exchange_at(rows: Rows, left: Numbers) -> Rows:
    rows, each = rows.copy(), np.arange(len(rows))
    rows[each, left], rows[each, left + 1] = rows[each, left + 1], rows[each, left]
    return rows


def _ties(length: int, values: int, random: np.random.Generator, n: int) -> Rows:
    kinds = random.integers(2, min(4, values) + 1, size=(n, 1))
    low = (random.random((n, 1)) * (values - kinds + 1)).astype(np.int64)
    return _sorted_or_one_descent(random, low + (random.random((n, length)) * kinds).astype(np.int64))


def _extremes(length: int, values: int, random: np.random.Generator, n: int) -> Rows:
    ends = np.unique(np.clip([0, 1, values - 2, values - 1], 0, values - 1))
    rows = random.choice(ends, size=(n, length))
    inner = random.random((n, length)) < 0.3 * (np.arange(n)[:, None] % 2)
    return _sorted_or_one_descent(random, np.where(inner, random.integers(0, values, size=(n, length)), rows))


def _sorted_or_one_descent(random: np.random.Generator, rows: Rows) -> Rows:
    """A third sorted, a third with an exchanged pair, a third cut into two runs."""
    rows = np.sort(rows, axis=1)
    kind = np.arange(len(rows))[:, None] % 3
    return np.where(kind == 0, rows, np.where(kind == 1, _exchanged(random, rows), _cut(random, rows)))


def _ends(length: int, values: int, random: np.random.Generator, n: int) -> Rows:
    """The first element is drawn above the second, or the last below the one before it."""
    rows = _sorted(random, n, length, values)
    first = np.arange(n) % 2 == 0
    above = rows[:, 1] + 1 + (random.random(n) * (values - rows[:, 1] - 1)).astype(np.int64)
    below = (random.random(n) * rows[:, -2]).astype(np.int64)
    rows[:, 0] = np.where(first, np.minimum(above, values - 1), rows[:, 0])
    rows[:, -1] = np.where(first, rows[:, -1], below)
    return rows
