"""All local contexts of a column of a sum, for numbers of any length.

Columns are counted from 1, the units. A column holds a digit of both numbers (an unordered pair, since attention does
not see the order), of one number, or nothing. The query that writes the digit of column p sees the columns from p -
`below` to p + `above` and the digits written just before. A context is the state of the visible columns and the carry
into the lowest of them. The other carries and the written digits follow from these.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

PAIRS = [(low, high) for low in range(10) for high in range(low, 10)]
SINGLES = [(digit, -1) for digit in range(10)]
STATES = np.array([*PAIRS, *SINGLES, (-1, -1)])
"""State of a column -> its digits, -1 for a missing digit: 55 pairs, 10 single digits, nothing."""
N_PAIRS, N_STATES = len(PAIRS), len(STATES)
EMPTY = N_STATES - 1
IS_PAIR, IS_SINGLE = np.arange(N_STATES) < N_PAIRS, (np.arange(N_STATES) >= N_PAIRS) & (np.arange(N_STATES) < EMPTY)
TOTAL = np.maximum(STATES, 0).sum(1)
"""State -> the sum of its digits."""

States = Int[np.ndarray, "context column"]


@dataclass(frozen=True)
class Reach:
    """How many columns each kind of attention sees, and the distance from which all distances are equal (`clip`)."""

    encoder: int
    decoder: int
    cross: int
    clip: int

    @property
    def above(self) -> int:
        return self.cross + self.encoder

    @property
    def below(self) -> int:
        """Visible columns below p, including those whose digits were written just before."""
        return max(self.cross + self.encoder, self.decoder + 1)

    @property
    def general(self) -> int:
        """From this column on, contexts no longer depend on the column's index."""
        return max(self.clip + self.cross, self.below + 1)


@dataclass(frozen=True)
class Place:
    """The contexts of one column p, or of all columns from `reach.general` on, for one carry into the lowest visible
    column.
    """

    reach: Reach
    column: int
    carry: int

    @property
    def everywhere(self) -> bool:
        return self.column == self.reach.general

    @property
    def lowest(self) -> int:
        return max(1, self.column - self.reach.below)

    @property
    def units(self) -> bool:
        """Whether the lowest visible column can be the units."""
        return self.lowest == 1 and self.carry == 0

    @property
    def n_below(self) -> int:
        return self.column - self.lowest

    @property
    def only_units(self) -> bool:
        """Whether the lowest visible column must be the units, so that it holds a pair."""
        return not self.everywhere and self.lowest == 1

    @property
    def size(self) -> int:
        """The number of contexts, counted without listing them."""
        only_units = self.only_units or not self.n_below
        return _count(self.n_below, self.reach.above, self.carry, units=self.units, only_units=only_units)

    def describe(self) -> str:
        return f"column {self.column}" + (" and above" if self.everywhere else "")


def places(reach: Reach) -> list[Place]:
    """One entry for each low column, and one for all higher columns together."""
    found = []
    for column in range(1, reach.general + 1):
        place = Place(reach, column, 0)
        found.append(place)
        if place.lowest > 1 or place.everywhere:
            found.append(Place(reach, column, 1))
    return found


@lru_cache(maxsize=2)
def may_follow(*, units: bool) -> Bool[np.ndarray, "column next"]:
    """Whether a column may have the next one above it; a number of two or more digits has no leading 0.

    `units`: the lower column may be the units, where a number may be 0.
    """
    low = STATES[:, 0]
    one_nonzero = np.asarray((STATES > 0).any(1) | units)
    both_nonzero = np.asarray((low > 0) | units)
    allowed = np.zeros((N_STATES, N_STATES), dtype=bool)
    allowed[np.ix_(IS_PAIR, IS_PAIR)] = True
    allowed[np.ix_(IS_PAIR, IS_SINGLE)] = one_nonzero[IS_PAIR, None]
    allowed[IS_PAIR, EMPTY] = both_nonzero[IS_PAIR]
    allowed[np.ix_(IS_SINGLE, IS_SINGLE)] = True
    allowed[IS_SINGLE, EMPTY] = low[IS_SINGLE] > 0
    allowed[EMPTY, EMPTY] = True
    return allowed


@lru_cache(maxsize=256)
def _count(n_below: int, above: int, carry: int, *, units: bool, only_units: bool) -> int:
    """The number of rows of columns with a token still to write at the column above the first `n_below`."""
    ways = np.zeros((N_STATES, 2), dtype=object)  # by state of the column and carry into it; whole numbers of any size
    ways[IS_PAIR | (not only_units), carry] = 1
    for index in range(n_below + above + 1):
        if index:
            ways = may_follow(units=units and index == 1).T.astype(object) @ ways
        if index < n_below:
            ways[EMPTY, 0] = 0  # the answer has already ended
            carries = (TOTAL[:, None] + [0, 1]) // 10
            ways = np.stack([(ways * (carries == carry_out)).sum(1) for carry_out in (0, 1)], axis=1)
    return int(ways.sum())


@dataclass(frozen=True)
class Group:
    """Contexts that share the digits written just before: every lower row with every upper row that may follow it.

    `lower` are the columns below p, `carry` is the carry into p, `written` are the digits before p, oldest first.
    """

    place: Place
    lower: States
    carry: Int[np.ndarray, " lower"]
    written: tuple[int, ...]

    @cached_property
    def upper(self) -> States:
        """The visible columns from p upwards."""
        first = not self.place.n_below
        return _rows(self.place.reach.above + 1, units=self.place.units and first, only_units=first)

    @cached_property
    def joins(self) -> Bool[np.ndarray, "state upper"]:
        """Which upper rows may follow a column of each state."""
        if not self.place.n_below:
            return np.ones((N_STATES, len(self.upper)), dtype=bool)
        return may_follow(units=self.place.units and self.place.n_below == 1)[:, self.upper[:, 0]]

    @cached_property
    def size(self) -> int:
        """The number of contexts."""
        if not self.place.n_below:
            return len(self.upper)
        return int(self.joins.sum(1)[self.lower[:, -1]].sum())

    def contexts(self, device: torch.device, most: int) -> Iterator["Contexts"]:
        """All contexts in batches of about `most` (at least one lower row)."""
        lower, upper, carry, joins = (
            torch.as_tensor(x, device=device) for x in (self.lower, self.upper, self.carry, self.joins)
        )
        last = lower[:, -1] if self.place.n_below else torch.zeros_like(carry)
        size = max(1, most // len(upper))
        for start in range(0, len(lower), size):
            rows = slice(start, start + size)
            row, above = torch.nonzero(joins[last[rows]], as_tuple=True)
            yield Contexts(
                self.place, torch.cat([lower[rows][row], upper[above]], dim=1), carry[rows][row], self.written
            )


@dataclass(frozen=True)
class Contexts:
    """A batch of contexts: the visible columns from the lowest on, the carry into p, and the digits before it."""

    place: Place
    states: Int[Tensor, "context column"]
    carry: Int[Tensor, " context"]
    written: tuple[int, ...]

    def right(self, eos: int) -> Int[Tensor, " context"]:
        """The right next token: the column's digit, the final carry, or EOS."""
        here = self.states[:, self.place.n_below]
        digit = (torch.as_tensor(TOTAL, device=here.device)[here] + self.carry) % 10
        return torch.where(here == EMPTY, torch.where(self.carry == 1, 1, eos), digit)

    def split(self, size: int) -> Iterator["Contexts"]:
        """The same contexts in batches of at most `size`."""
        for states, carry in zip(self.states.split(size), self.carry.split(size), strict=True):
            yield Contexts(self.place, states, carry, self.written)

    def one(self, index: int) -> "Context":
        states = tuple(map(int, self.states[index].tolist()))
        return Context(self.place, states, int(self.carry[index]))


@dataclass(frozen=True)
class Context:
    """One context: the states of the visible columns from the lowest on, and the carry into column p."""

    place: Place
    states: tuple[int, ...]
    carry: int

    def describe(self) -> str:
        """A description, highest column first: `column 3 and above: columns 3 [9+9] 1+4 with carry 0 into ...`."""
        columns = ["+".join(str(digit) for digit in STATES[state] if digit >= 0) or "-" for state in self.states]
        columns[self.place.n_below] = f"[{columns[self.place.n_below]}]"
        shown = " ".join(reversed(columns))
        return f"{self.place.describe()}: columns {shown} with carry {self.carry} into the one in brackets"

    def numbers(self) -> tuple[list[int], list[int]]:
        """The shortest two numbers (units first) in which this context occurs."""
        below = self.place.lowest - 1
        if below == 0 and (self.place.carry or not IS_PAIR[self.states[0]]):
            below = 1  # a column that carries, or in which both numbers have a digit
        columns = [(1, 1)] * (below - 1) + [(5, 6) if self.place.carry else (1, 1)] * (below > 0)
        columns += [(int(low), int(high)) for low, high in STATES[list(self.states)] if low >= 0]
        last = self.states[-1]
        if last != EMPTY and not may_follow(units=False)[last, EMPTY]:  # a number would have a leading 0
            columns.append((1, 1 if IS_PAIR[last] else -1))
        return _in_rows(columns)


def _in_rows(columns: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Two numbers with these columns of unordered digits. The one that ends first gets the larger digit there."""
    first, second = [], []
    for index, (low, high) in enumerate(columns):
        if high < 0:
            first.append(low)
            continue
        ends = index + 1 < len(columns) and columns[index + 1][1] < 0
        first.append(low if ends else high)
        second.append(high if ends else low)
    return first, second


def groups(place: Place) -> list[Group]:
    """The contexts of a column, grouped by the digits written before; only those with a token still to write."""
    lower = _rows(place.n_below, units=place.units, only_units=place.only_units)
    carry = np.full(len(lower), place.carry)
    if not place.n_below:
        return [Group(place, lower, carry, ())]
    asked, digits = np.ones(len(lower), dtype=bool), []
    for column in lower.T:
        asked &= (column != EMPTY) | (carry == 1)  # otherwise the answer has already ended
        digits.append((TOTAL[column] + carry) % 10)
        carry = (TOTAL[column] + carry) // 10
    seen = np.stack(digits[-(place.reach.decoder + 1) :], axis=1)[asked]
    kinds, kind = np.unique(seen, axis=0, return_inverse=True)
    lower, carry = lower[asked], carry[asked]
    return [
        Group(place, lower[kind.ravel() == i], carry[kind.ravel() == i], tuple(map(int, one)))
        for i, one in enumerate(kinds)
    ]


@lru_cache(maxsize=16)
def _rows(width: int, *, units: bool, only_units: bool) -> States:
    """Every row of `width` columns in which each column may follow the one below it.

    `units`: the first column may be the units; `only_units`: it must be, so it holds a pair.
    """
    rows = np.zeros((1, 0), dtype=np.int64)
    for index in range(width):
        first = (IS_PAIR | (not only_units))[None]
        row, state = np.nonzero(may_follow(units=units and index == 1)[rows[:, -1]] if index else first)
        rows = np.concatenate([rows[row], state[:, None]], axis=1)
    return rows


_CODES = {(int(low), int(high)): code for code, (low, high) in enumerate(STATES)}


def contexts_of(reach: Reach, a: Sequence[int], b: Sequence[int]) -> list[tuple[Context, tuple[int, ...]]]:
    """The contexts of one sum, one for each token of the answer, each with the digits written before it."""
    longest = max(len(a), len(b))
    states = [EMPTY] * (longest + reach.above + 2)
    for column in range(longest):
        digits = sorted(number[column] for number in (a, b) if column < len(number))
        states[column] = _CODES[digits[0], digits[1] if len(digits) > 1 else -1]
    carries = [0]
    for state in states:
        carries.append(int(TOTAL[state] + carries[-1]) // 10)
    written = [int(TOTAL[state] + carry) % 10 for state, carry in zip(states, carries, strict=False)]
    found = []
    for column in range(1, longest + 1 + carries[longest] + 1):
        lowest = max(1, column - reach.below)
        place = Place(reach, min(column, reach.general), carries[lowest - 1])
        view = tuple(states[lowest - 1 : column + reach.above])
        context = Context(place, view, carries[column - 1])
        found.append((context, tuple(written[max(0, column - 1 - reach.decoder - 1) : column - 1])))
    return found
