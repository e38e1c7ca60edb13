"""Test sets of sortedness that hold a neighbourhood fixed while the length grows."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from headway.tasks.examples import Examples
from headway.tasks.sortedness import RUNS, Sortedness, SortednessOptions


class MatchedSortedness(Sortedness):
    """One adjacent inversion at any length, whose neighbourhood is distributed as at the training lengths.

    A sequence of a training length is drawn with its inverted pair, and elements outside the pair are repeated where
    they stand until the sequence is long enough. A sorted sequence is made the same way, without the swap.

        2 7 31 90, inverted 2 31 7 90, at length 9:  2 2 2 31 7 90 90 90 90

    So the gap of the inverted pair, and the steps right before and right after it (ties among them), follow the
    training lengths exactly, and so do all rises. The share of ties elsewhere cannot follow: values 0 to 99 allow at
    most 99 rises, and only about 10 of the size in training. At a training length nothing is repeated: the set is that
    of natural adjacent inversions.
    """

    def __init__(self, options: SortednessOptions, length: int):
        super().__init__(replace(options, negatives="adjacent"))
        self.at_length(length)  # refuses what has no unsorted sequence
        self.length = length

    def draw(self, random: np.random.Generator, n: int) -> Examples:
        shortest, longest = self.options.min_length, self.options.max_length
        own = np.full(n, self.length)
        lengths = own if self.length <= longest else random.integers(shortest, longest + 1, size=n)
        ordered, inverted = self._inverted_pairs(random, lengths)
        places = np.repeat(np.tile(np.arange(ordered.shape[1]), n), self._copies(random, inverted, lengths).ravel())
        wanted = np.arange(n) % 2
        random.shuffle(wanted)
        short = np.where(wanted[:, None] == 1, ordered, inverted)
        source = np.take_along_axis(short, places.reshape(n, self.length), axis=1)
        return Examples(source, self.answer(source))

    def _copies(self, random: np.random.Generator, inverted: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """How often each element is repeated in the long row: the inverted pair once, others at random, padding
        never.
        """
        inside = np.arange(inverted.shape[1]) < lengths[:, None]
        left = np.argmax(np.diff(inverted, axis=1) < 0, axis=1)[:, None]
        column = np.arange(inverted.shape[1])
        free = inside & (column != left) & (column != left + 1)
        free = np.where(free.any(1, keepdims=True), free, inside)  # a row of two elements is its pair
        return inside + random.multinomial(self.length - lengths, free / free.sum(1, keepdims=True))

    def widths(self) -> tuple[int, ...]:
        return (self.length,)


class SortednessOfRuns(Sortedness):
    """Sequences whose middle is between two constant runs; random sequences hardly contain such neighbourhoods.

        plateaus   x x x y z z z      x <= y <= z: all of them are sorted
        descents   l l l y z r r r    y > z, l and r any values: none of them is sorted

    With values 0 to 99 there are 171,700 plateaus and 49,500,000 descents at every length. The runs left and right are
    of equal length, the right one longer by one where that cannot be.
    """

    def __init__(self, options: SortednessOptions, family: str, length: int):
        super().__init__(replace(options, min_length=length, max_length=length))
        self.at_length(length)  # refuses what has no unsorted sequence
        self.family, self.label, self.length = family, RUNS[family], length
        middle = 1 if family == "plateaus" else 2
        left = max(0, (length - middle) // 2)
        kinds = np.repeat(np.arange(middle + 2), [left, *[1] * middle, max(0, length - middle - left)])
        self.kind_of_place = kinds[:length]

    def groups(self) -> tuple[int, ...]:
        return (self.label,)

    def draw(self, random: np.random.Generator, n: int) -> Examples:
        """Every member is equally likely."""
        values = self.options.values
        if self.family == "descents":
            outer, one = random.integers(0, values, size=(n, 2)), random.integers(0, values, size=n)
            other = (one + random.integers(1, values, size=n)) % values
            return self._between(outer, np.stack([np.maximum(one, other), np.minimum(one, other)], axis=1))
        # Three different numbers below values + 2, in order, less 0, 1 and 2: every x <= y <= z once.
        chosen = np.sort(random.integers(0, values + 2, size=(n, 3)), axis=1)
        while len(redo := np.flatnonzero((np.diff(chosen, axis=1) == 0).any(1))):
            chosen[redo] = np.sort(random.integers(0, values + 2, size=(len(redo), 3)), axis=1)
        return self._examples(chosen - np.arange(3))

    def size(self) -> int | None:
        """The number of different members; None at lengths where two members would be the same sequence."""
        v = self.options.values
        if self.family == "plateaus":
            return v * (v + 1) * (v + 2) // 6 if self.length >= 3 else None
        return v * v * v * (v - 1) // 2 if self.length >= 4 else None

    def members(self) -> Iterator[Examples]:
        """All members, in chunks with the same x or the same y."""
        v = self.options.values
        for value in range(v):
            if self.family == "plateaus":
                y, z = np.triu_indices(v - value)
                yield self._examples(value + np.stack([np.zeros_like(y), y, z], axis=1))
            elif value:
                lower, left, right = (grid.ravel() for grid in np.indices((value, v, v)))
                inner = np.stack([np.full_like(lower, value), lower], axis=1)
                yield self._between(np.stack([left, right], axis=1), inner)

    def _between(self, outer: np.ndarray, inner: np.ndarray) -> Examples:
        return self._examples(np.concatenate([outer[:, :1], inner, outer[:, 1:]], axis=1))

    def _examples(self, values: np.ndarray) -> Examples:
        source = values[:, self.kind_of_place]
        return Examples(source, self.answer(source))
