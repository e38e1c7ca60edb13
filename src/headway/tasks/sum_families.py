"""Families of sums on which a model may fail, for `headway attack`.

ripple      19994 + 30008   one carry that travels through columns which sum to 9, and the twin in which it never starts
full        99999 + 1       a carry from the lowest columns through all the others
nines       90990 + 99099   nine in ten digits are 0 or 9
repeats     77777 + 34343   the digits of each number repeat with a period of 1 to 3
doubles     48213 + 48213   a number and itself, or a neighbour of itself
boundary    10000 + 9999    powers of the base, one less, one more, multiples of them; 0 and 1
unequal     48213 + 7       every pair of numbers of digits in turn; half of the digits are 0 or 9
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Int

from headway.tasks.attack_families import AttackFamily, Draw, Families, Family
from headway.tasks.columns import Digits
from headway.tasks.ripples import FAMILIES, Lengths, Numbers

Rows = Int[np.ndarray, "batch width"]
Encode = Callable[[Digits, Digits, Lengths, Lengths], Rows]
"""Both operands, least significant digit first, and how many digits each has -> sources."""
ABOUT = {
    "ripple": "a carry that travels through columns which sum to base - 1, or never starts",
    "full": "a carry from the lowest columns through all the others",
    "nines": "nine in ten digits are 0 or base - 1",
    "repeats": "the digits of each number repeat with a period of 1 to 3",
    "doubles": "a number and itself, or a neighbour of itself",
    "boundary": "powers of the base, one less, one more, multiples of them; 0 and 1",
    "unequal": "operands of different numbers of digits, every pair of them in turn",
}


@dataclass(frozen=True)
class SumFamilies:
    """Sums of numbers of at most `digits` digits; with `varied`, operands may have fewer."""

    digits: int
    base: int
    varied: bool
    encode: Encode

    def all(self, drawn: Draw) -> Families:
        """The families by name; `drawn` gives sums as for training."""
        makers: dict[str, Callable[[np.random.Generator, int], Numbers]] = {
            **{name: partial(self._ripples, name) for name in FAMILIES},
            "repeats": self._repeats,
            "doubles": self._doubles,
            "boundary": self._boundary,
            **({"unequal": self._unequal} if self.varied and self.digits > 1 else {}),
        }
        made: dict[str, Family] = {"random": AttackFamily("drawn as for training, of this length", drawn)}
        for name, maker in makers.items():
            made[name] = AttackFamily(ABOUT[name], partial(self._sources, maker))
        return made

    def _sources(
        self, maker: Callable[[np.random.Generator, int], Numbers], random: np.random.Generator, n: int
    ) -> Rows:
        return self.encode(*maker(random, n))

    def _ripples(self, name: str, random: np.random.Generator, n: int) -> Numbers:
        return FAMILIES[name](random, n, self.digits, self.base)

    def _lengths(self, random: np.random.Generator, n: int) -> tuple[Lengths, Lengths]:
        """Both lengths are `digits`; if they may differ, one of the two is random."""
        longest = np.full(n, self.digits)
        if not self.varied:
            return longest, longest
        other = np.where(random.random(n) < 0.5, random.integers(1, self.digits + 1, size=n), self.digits)
        turned = random.random(n) < 0.5
        return np.where(turned, other, longest), np.where(turned, longest, other)

    def _repeats(self, random: np.random.Generator, n: int) -> Numbers:
        periods = random.integers(1, 4, size=(2, n, 1))
        pattern = random.integers(0, self.base, size=(2, n, 3))
        column = np.arange(self.digits)[None, None] % periods
        a, b = np.take_along_axis(pattern, np.broadcast_to(column, (2, n, self.digits)), axis=2)
        return self._cut(random, a, b, *self._lengths(random, n))

    def _doubles(self, random: np.random.Generator, n: int) -> Numbers:
        a = random.integers(0, self.base, size=(n, self.digits))
        b = a.copy()
        place = random.integers(0, self.digits, size=n)
        other = random.integers(0, self.base, size=n)
        b[np.arange(n), place] = np.where(np.arange(n) % 2 == 0, b[np.arange(n), place], other)
        longest = np.full(n, self.digits)
        return self._cut(random, a, b, longest, longest)

    def _boundary(self, random: np.random.Generator, n: int) -> Numbers:
        """Both operands of this kind, or one of them and any number."""
        lengths = self._lengths(random, n)
        a, b = (self._boundary_numbers(random, one) for one in lengths)
        plain = random.integers(0, self.base, size=a.shape)
        kind = np.arange(n)[:, None] % 3
        return self._cut(random, np.where(kind == 1, plain, a), np.where(kind == 2, plain, b), *lengths)

    def _boundary_numbers(self, random: np.random.Generator, lengths: Lengths) -> Digits:
        """d 0 ... 0, d 0 ... 0 1, d 9 ... 9, 9 ... 9 and 9 ... 9 8, where d is a digit and 9 the highest one."""
        n, top = len(lengths), self.base - 1
        column = np.arange(self.digits)
        leading = column == lengths[:, None] - 1
        kind = random.integers(0, 5, size=(n, 1))
        digit = np.where(random.random((n, 1)) < 0.5, 1, random.integers(0, self.base, size=(n, 1)))
        inner = np.where(kind < 2, 0, top) + np.zeros_like(column)
        inner = np.where((column == 0) & (kind == 1), 1, inner)
        inner = np.where((column == 0) & (kind == 4), top - 1, inner)
        return np.where(leading & (kind < 3), digit, inner)

    def _unequal(self, random: np.random.Generator, n: int) -> Numbers:
        """All pairs of lengths in turn, starting at a random one."""
        pair = (random.integers(0, self.digits**2) + np.arange(n) * _scatter(self.digits**2)) % self.digits**2
        first, second = np.divmod(pair, self.digits)
        numbers = random.integers(0, self.base, size=(2, n, self.digits))
        ends = (self.base - 1) * random.integers(0, 2, size=numbers.shape)
        a, b = np.where(random.random((1, n, 1)) < 0.5, numbers, ends)
        return self._cut(random, a, b, first + 1, second + 1)

    def _cut(self, random: np.random.Generator, a: Digits, b: Digits, *lengths: Lengths) -> Numbers:
        """Both numbers with these numbers of digits: 0 above the top digit, which is not 0 unless it is
        the only one.
        """
        found = []
        for number, length in zip((a, b), lengths, strict=True):
            rows, top = np.arange(len(number)), length - 1
            leading = number[rows, top]
            other = random.integers(1, self.base, size=len(number))
            cut = number * (np.arange(self.digits) < length[:, None])
            cut[rows, top] = np.where((leading == 0) & (length > 1), other, leading)
            found.append(cut)
        return found[0], found[1], lengths[0], lengths[1]


def _scatter(size: int) -> int:
    """A step, coprime to `size`, that visits all numbers below `size` in a scattered order."""
    step = max(1, int(size * 0.618))
    while np.gcd(step, size) != 1:
        step += 1
    return step
