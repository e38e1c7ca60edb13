"""Pairs of sums that differ in one digit and therefore in one carry, or in one digit of the answer."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int

from headway.tasks.columns import carry_into
from headway.tasks.examples import Contrast, Control, Examples

Numbers = Int[np.ndarray, "operand=2 batch column"]
"""Both operands of each row, least significant digit first."""
Column = Int[np.ndarray, " batch"]
Accept = Callable[[Column, Column, Column], Bool[np.ndarray, " batch"]]
"""Which rows are accepted, from the digit sums of the column in both versions and the incoming carry."""


@dataclass(frozen=True)
class SumPairs:
    """Draws pairs of sums that differ in one digit of one operand; the operand is chosen at random.

    Operands have `digits` digits and a top digit of `lowest_top` or more. Without `overflow`, which needs a base of 5
    or more, the sum has no more digits than they have. Columns count from the units: column 0 of 121 + 137 is 1 and 7.
    """

    digits: int
    base: int
    lowest_top: int
    overflow: bool

    def carry(self, random: np.random.Generator, n: int, column: int, origin: int) -> tuple[Numbers, Numbers] | None:
        """Sums without and with a carry that starts in column `origin` and ends in `column`; None if there are none.

        121 + 137 and 126 + 137: into column 1 from column 0. 161 + 137 and 166 + 137: into 2 from 0, as 6 + 3 is 9.
        """
        if not self._can_carry(column, origin):
            return None
        numbers = self._draw(random, n)
        for between in range(origin + 1, column):
            low = self._low(between)
            numbers[0, :, between] = random.integers(low, self.base - low, size=n)
            numbers[1, :, between] = self.base - 1 - numbers[0, :, between]
        if column < self.digits:
            self._stop(random, numbers, column)
        if self.base == self._low(origin) + 2:  # 0 + 1 would pass on in base 2 what comes from below
            self._silence(numbers, origin)
        return self._vary(random, numbers, origin, lambda one, two, into: (one + into < self.base) & (two >= self.base))

    def digit(self, random: np.random.Generator, n: int, column: int) -> tuple[Numbers, Numbers] | None:
        """Sums whose answers differ only in the digit of `column`, the smaller first; None if there are none.

        121 + 137 and 141 + 137: 258 and 278 differ in column 1.
        """
        if self.base < self._low(column) + 2:
            return None
        may_carry = self.overflow or column < self.digits - 1

        def alike(one: Column, two: Column, into: Column) -> Bool[np.ndarray, " batch"]:
            out = one + into >= self.base
            return (one < two) & (out == (two + into >= self.base)) & (may_carry | ~out)

        return self._vary(random, self._draw(random, n), column, alike)

    def other_digit(
        self, random: np.random.Generator, numbers: Numbers, other: Numbers, column: int
    ) -> tuple[Numbers, Bool[np.ndarray, " batch"]]:
        """The numbers with another digit in `column`, in the operand that `other` changes, with the same carry out.

        Also whether there is such a digit; a row without one is unchanged. The furthest digit is used, so that the
        control changes the input as much as possible: 120 + 137, of which the other version is 126 + 137, becomes 122 +
        137, as 123 would carry; 121 + 137 becomes 120 or 122 + 137, which are as far.
        """
        rows = np.arange(numbers.shape[1])
        changed = (numbers[1, :, column] != other[1, :, column]).astype(np.int64)
        own, shared = numbers[changed, rows, column], numbers[1 - changed, rows, column]
        shared = shared + carry_into(numbers[0], numbers[1], self.base, column)
        digits = np.arange(self.base)
        carries = (shared + own >= self.base)[:, None]
        fits = ((shared[:, None] + digits >= self.base) == carries) & (digits != own[:, None])
        fits &= digits >= self._low(column)
        there = fits.any(1)
        found = numbers.copy()
        chosen = np.where(fits, np.abs(digits - own[:, None]) + random.random(fits.shape), -1.0).argmax(1)
        found[changed, rows, column] = np.where(there, chosen, own)
        return found, there

    def _low(self, column: int) -> int:
        return self.lowest_top if column == self.digits - 1 else 0

    def _can_carry(self, column: int, origin: int) -> bool:
        """Whether a digit of the origin can change its carry, and the columns between can sum to base - 1."""
        passing = all(2 * self._low(between) <= self.base - 1 for between in range(origin + 1, column))
        return passing and self.base >= self._low(origin) + 2

    def _draw(self, random: np.random.Generator, n: int) -> Numbers:
        """Random numbers with allowed top digits; without overflow the top digits sum to at most base - 2."""
        numbers = random.integers(0, self.base, size=(2, n, self.digits))
        low = self.lowest_top
        first = random.integers(low, self.base if self.overflow else self.base - 1 - low, size=n)
        numbers[:, :, -1] = first, random.integers(low, self.base if self.overflow else self.base - 1 - first, size=n)
        return numbers

    def _stop(self, random: np.random.Generator, numbers: Numbers, column: int) -> None:
        """Change the second digit of the column, in place, where the column sums to base - 1 and would pass a carry
        on.
        """
        low, (first, second) = self._low(column), numbers[:, :, column]
        choices = self.base - low
        step = random.integers(1, max(choices, 2), size=len(second))
        other = low + (second - low + step) % choices
        numbers[1, :, column] = np.where(first + second == self.base - 1, other, second)

    def _silence(self, numbers: Numbers, column: int) -> None:
        """Where the lower columns carry into the column, replace each of their digits d by base - 1 - d, in place; then
        they do not.
        """
        loud = carry_into(numbers[0], numbers[1], self.base, column) == 1
        numbers[:, loud, :column] = self.base - 1 - numbers[:, loud, :column]

    def _vary(
        self, random: np.random.Generator, numbers: Numbers, column: int, accept: Accept
    ) -> tuple[Numbers, Numbers]:
        """Two versions in which the column is drawn again; they differ in one operand's digit, uniformly among accepted
        ones.
        """
        into = carry_into(numbers[0], numbers[1], self.base, column)
        drawn = np.zeros((3, len(into)), dtype=np.int64)
        redo = np.arange(len(into))
        while len(redo):  # each proposal has a chance of 1 in 64 or more, in any base
            drawn[:, redo] = random.integers(self._low(column), self.base, size=(3, len(redo)))
            shared, one, two = drawn[:, redo]
            redo = redo[~accept(shared + one, shared + two, into[redo])]
        versions = np.stack([numbers, numbers])
        rows, changed = np.arange(len(into)), random.integers(2, size=len(into))
        versions[:, 1 - changed, rows, column] = drawn[0]
        versions[:, changed, rows, column] = drawn[1:]
        return versions[0], versions[1]


def sum_contrasts(
    random: np.random.Generator,
    n: int,
    pairs: SumPairs,
    encode: Callable[[np.ndarray, np.ndarray], Examples],
    written: list[int],
) -> list[Contrast]:
    """A contrast for every carry and every column's digits; `written` lists the columns in the order of the answer.

    Two digits with overflow: carry into column 1 from column 0, into 2 from 1 and from 0, digits of columns 0 and 1.
    Every carry has a control if the base allows one: another digit at the same position of its origin, with the same
    carry.
    """
    columns, top = range(pairs.digits), pairs.digits + int(pairs.overflow)
    journeys = [(column, origin) for column in range(1, top) for origin in reversed(range(column))]
    drawn = [
        (f"carry into column {column} from column {origin}", "carry", column, pairs.carry(random, n, column, origin))
        for column, origin in journeys
    ] + [(f"digits of column {column}", "digits", column, pairs.digit(random, n, column)) for column in columns]
    origins = [origin for _, origin in journeys] + [None] * len(columns)
    found = []
    for (name, about, column, versions), origin in zip(drawn, origins, strict=True):
        if versions is None:
            continue
        contrast = Contrast.both_ways(name, about, written.index(column), *(encode(*one) for one in versions))
        if origin is not None:
            base, other = _turned(versions)
            numbers, there = pairs.other_digit(random, base, other, origin)
            if there.any():
                contrast = replace(contrast, control=Control(encode(*numbers), there, written.index(origin)))
        found.append(contrast)
    return found


def _turned(versions: tuple[Numbers, Numbers]) -> tuple[Numbers, Numbers]:
    """The two versions as base and source; the first is the base in rows 0, 2, 4, ..., as in `Contrast.both_ways`."""
    odd = (np.arange(versions[0].shape[1]) % 2 == 1)[None, :, None]
    return np.where(odd, versions[1], versions[0]), np.where(odd, versions[0], versions[1])
