"""Sums in which a carry travels through many columns. They are constructed, because random sums have few of them.

A column that sums to 10 or more always carries. A column that sums to 9 carries exactly when a carry comes
in: a ripple is a carry that passes several such columns. Of 2,000 random sums of 125 digits, none has a ripple
longer than about 5. In other bases, 9 is the highest digit and 10 the base.

    ripple   19994 + 30008   one ripple of a drawn length anywhere in the sum, or its twin (19994 + 30003) in which
                             the carry never starts
    full     99999 + 1       a carry from the lowest columns through all the others
    nines    90990 + 99099   nine in ten digits are 0 or 9: most columns start a carry, pass one on or stop one
"""

from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Int

from headway.tasks.columns import Digits

Lengths = Int[np.ndarray, " batch"]
Numbers = tuple[Digits, Digits, Lengths, Lengths]
"""Both operands, least significant digit first and 0 above their top, and how many digits each has."""
ONE_DIGIT = 0.25
"""Share of sums 9...9 + m in which m has one digit; otherwise its number of digits is uniform."""
EXTREME = 0.9
"""Share of digits in `nines` that are 0 or 9."""


def ripple(random: np.random.Generator, n: int, digits: int, base: int = 10) -> Numbers:
    """Rows 0, 2, 4, ... have a ripple; the next row is the same sum with a lowest column that does not carry.

    Lengths 1, 2, 3, 4, 5 to 8, 9 to 16, ... up to digits - 1 are equally likely, as are the places of a ripple. The
    first pair has the longest.
    """
    pairs = (n + 1) // 2
    a, b = _digits(random, pairs, digits, base)
    length = _drawn_lengths(random, pairs, digits - 1)[:, None]
    length[:1] = max(1, digits - 1)
    start = (random.random((pairs, 1)) * (digits - length)).astype(np.int64)
    column = np.arange(digits)[None]
    low = (column == digits - 1).astype(np.int64)  # no leading zero
    passing = (column > start) & (column <= start + length)
    first = random.integers(low, np.maximum(base - low, low + 1), size=a.shape)
    a, b = np.where(passing, first, a), np.where(passing, base - 1 - first, b)
    after = (column == start + length + 1) & (a + b == base - 1)  # would make the ripple longer
    b = np.where(after, np.where(b == base - 1, b - 1, b + 1), b)
    a, b = np.repeat(a, 2, axis=0), np.repeat(b, 2, axis=0)
    rows, lowest = np.arange(2 * pairs), np.repeat(start[:, 0], 2)
    starting = np.repeat(np.stack([*_starting(random, pairs, base)]), 2, axis=1)
    silent = np.repeat(np.stack([*_silent(random, pairs, base)]), 2, axis=1)
    a[rows, lowest], b[rows, lowest] = np.where(rows % 2 == 0, starting, silent)
    return a[:n], b[:n], np.full(n, digits), np.full(n, digits)


def full(random: np.random.Generator, n: int, digits: int, base: int = 10) -> Numbers:
    """9...9 + m in either order; m has any number of digits, and the first sum is 9...9 + 1.

    The carry starts in the lowest column of m that is not 0 and passes all columns above m.
    """
    nines = np.full((n, digits), base - 1)
    lengths = np.where(random.random(n) < ONE_DIGIT, 1, random.integers(1, digits + 1, size=n))
    other = random.integers(0, base, size=(n, digits)) * (np.arange(digits) < lengths[:, None])
    other[np.arange(n), lengths - 1] = random.integers(1, base, size=n)
    if n:
        other[0], lengths[0] = np.eye(digits, dtype=np.int64)[0], 1
    turned = random.random(n) < 0.5
    a, b = np.where(turned[:, None], other, nines), np.where(turned[:, None], nines, other)
    longest = np.full(n, digits)
    return a, b, np.where(turned, lengths, longest), np.where(turned, longest, lengths)


def nines(random: np.random.Generator, n: int, digits: int, base: int = 10) -> Numbers:
    """Numbers of equal length, most of whose digits are 0 or 9; the top digit is not 0."""
    top = base - 1
    numbers = np.where(random.random((2, n, digits)) < EXTREME, top * random.integers(0, 2, size=(2, n, digits)), base)
    numbers = np.where(numbers < base, numbers, random.integers(0, base, size=numbers.shape))
    numbers[:, :, -1] = np.where(numbers[:, :, -1] == 0, top, numbers[:, :, -1])
    return numbers[0], numbers[1], np.full(n, digits), np.full(n, digits)


Maker = Callable[[np.random.Generator, int, int, int], Numbers]
"""(random, n, digits, base) -> n sums."""
FAMILIES: Mapping[str, Maker] = {
    "ripple": ripple,
    "full": full,
    "nines": nines,
}


def _digits(random: np.random.Generator, n: int, digits: int, base: int) -> tuple[Digits, Digits]:
    numbers = random.integers(0, base, size=(2, n, digits))
    numbers[:, :, -1] = random.integers(1, base, size=(2, n))
    return numbers[0], numbers[1]


def _drawn_lengths(random: np.random.Generator, n: int, longest: int) -> Lengths:
    """Random lengths from 1 to `longest`: first a range 1, 2, 3, 4, 5 to 8, 9 to 16, ..., then a length in it."""
    tops = [1, 2, 3, 4]
    while tops[-1] < longest:
        tops.append(2 * tops[-1])
    tops = sorted({max(1, min(top, longest)) for top in tops})
    bottoms = [1, *(top + 1 for top in tops[:-1])]
    chosen = random.integers(len(tops), size=n)
    return random.integers(np.array(bottoms)[chosen], np.array(tops)[chosen] + 1)


def _starting(random: np.random.Generator, n: int, base: int) -> tuple[np.ndarray, np.ndarray]:
    """Two digits that sum to 10 or more; given the first, all such second digits are equally likely."""
    first = random.integers(1, base, size=n)
    return first, random.integers(base - first, base)


def _silent(random: np.random.Generator, n: int, base: int) -> tuple[np.ndarray, np.ndarray]:
    """Two digits that sum to 8 or less, so that no carry leaves even if one comes in."""
    first = random.integers(0, base - 1, size=n)
    return first, random.integers(0, base - 1 - first)
