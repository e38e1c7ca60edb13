"""Is this sequence sorted? Ascending order with ties allowed is class 1, anything else class 0.

2 7 7 31 90  ->  1
2 7 31 7 90  ->  0    (one adjacent inversion: 31 before 7)
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Int

from headway.config import setting
from headway.errors import InputError
from headway.json_values import JsonObject
from headway.tasks.attack_families import Families, holds_values, sources_of
from headway.tasks.base import Task
from headway.tasks.descriptions import PageDescription, whole_numbers
from headway.tasks.examples import (
    Answer,
    Contrast,
    Examples,
    Keys,
    LengthPlan,
    Part,
    Prefix,
    Rows,
    SimpleRule,
    Vocabulary,
    check_set,
    seen_by_all,
)
from headway.tasks.order_families import order_families

MOST_TRAINED_LENGTHS = 16
"""The most training lengths that are tested; from a wider range they are chosen evenly."""

RUNS = {"plateaus": 1, "descents": 0}
"""Sets of sequences made of constant runs, and the class of all their members; see `SortednessOfRuns`."""
LENGTH_SETS = ("swaps", "adjacent", "matched", *RUNS)


@dataclass(frozen=True, kw_only=True)
class SortednessOptions:
    min_length: int = setting(8, "shortest sequence", low=2, high=65_536)
    max_length: int = setting(16, "longest sequence", low=2, high=65_536)
    values: int = setting(100, "elements are 0 to values - 1", low=2, high=65_536)
    negatives: Literal["swaps", "adjacent", "mixed"] = setting(
        "swaps", "max(2, length // 3) random swaps, exactly one adjacent inversion, or half of each"
    )
    spread: Literal["whole", "bands"] = setting(
        "whole",
        "values from the whole range, or in half of the sequences from a random band (ties, small gaps)",
    )
    test_lengths: tuple[int, ...] = setting(
        (32, 64, 128, 256), "lengths that have their own test set", low=2, high=65_536
    )


class Sortedness(Task):
    """Half of the examples are sorted; the others are sorted sequences with swapped elements."""

    name = "sortedness"
    Options = SortednessOptions
    kind = "class"
    n_classes = 2
    PARTS: ClassVar[Mapping[str, str]] = {
        **Task.PARTS,
        "next_element": "the element right after the query's. For the 7 of 2 7 31 that is the 31.",
        "previous_element": "the element right before the query's. For the 7 of 2 7 31 that is the 2.",
        "inversion": "both elements of every neighbouring pair that descends. In 2 31 7 90 these are the 31 and the 7.",
    }

    def __init__(self, options: SortednessOptions):
        super().__init__(options)
        if options.min_length > options.max_length:
            raise InputError(
                f"task.min_length = {options.min_length} is larger than task.max_length = {options.max_length}"
            )
        self.vocabulary = Vocabulary((*map(str, range(options.values)), "PAD"), pad=options.values)

    def draw(self, random: np.random.Generator, n: int) -> Examples:
        lengths = random.integers(self.options.min_length, self.options.max_length + 1, size=n)
        wanted = np.arange(n) % 2
        random.shuffle(wanted)
        inside = np.arange(lengths.max(initial=1)) < lengths[:, None]
        source = self._sorted_rows(random, inside)
        adjacent = self._adjacent_rows(random, n)
        redo = np.flatnonzero(wanted == 0)
        while len(redo):
            disturbed = self._disturb(random, source[redo], lengths[redo], adjacent[redo])
            source[redo] = disturbed
            redo = redo[self.answer(disturbed) == 1]
            # A row that came out sorted (ties, or swaps that undid each other) starts again from new values.
            source[redo] = self._sorted_rows(random, inside[redo])
        return Examples(source, self.answer(source))

    def _sorted_rows(self, random: np.random.Generator, inside: np.ndarray) -> np.ndarray:
        values = random.integers(0, self.options.values, size=inside.shape)
        if self.options.spread == "bands":
            low, width = self._bands(random, len(inside))
            values = low + values * width // self.options.values
        return np.sort(np.where(inside, values, self.vocabulary.pad), axis=1)

    def _bands(self, random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Lowest value and width of each row's value range; half of the rows use all values, the rest a log-uniform
        width.
        """
        least, most = np.log(2), np.log(self.options.values + 1)
        width = np.exp(least + random.random((n, 1)) * (most - least)).astype(np.int64).clip(max=self.options.values)
        width = np.where(random.random((n, 1)) < 0.5, width, self.options.values)
        return (random.random((n, 1)) * (self.options.values - width + 1)).astype(np.int64), width

    def _adjacent_rows(self, random: np.random.Generator, n: int) -> np.ndarray:
        if self.options.negatives == "mixed":
            return random.random(n) < 0.5
        return np.full(n, self.options.negatives == "adjacent")

    def _disturb(
        self, random: np.random.Generator, source: np.ndarray, lengths: np.ndarray, adjacent: np.ndarray
    ) -> np.ndarray:
        """Swap one neighbouring pair of different values in rows of kind adjacent, and random pairs in the others."""
        source = source.copy()
        rises = (np.diff(source, axis=1) > 0) & (np.arange(1, source.shape[1]) < lengths[:, None])
        left = np.argmax(rises * random.random(rises.shape), axis=1)
        _swap(source, adjacent, left, left + 1)
        swaps = np.where(adjacent, 0, np.maximum(2, lengths // 3))
        for count in range(swaps.max(initial=0)):
            i, j = (random.random((2, len(source))) * lengths).astype(np.int64)
            _swap(source, count < swaps, i, j)
        return source

    def answer(self, source: Rows) -> Int[np.ndarray, " batch"]:
        # Padding has the highest id and stands on the right, so it never looks like a descent.
        return np.min(np.diff(source, axis=1) >= 0, axis=1, initial=True).astype(np.int64)

    def canonical(self, source: Rows) -> Keys:
        return np.where(source == self.vocabulary.pad, -1, source)

    def features(self, source: Rows) -> dict[str, Int[np.ndarray, " batch"]]:
        step = np.diff(source, axis=1)
        pair = source[:, 1:] != self.vocabulary.pad
        return {
            "length": (source != self.vocabulary.pad).sum(1),
            "descents": ((step < 0) & pair).sum(1),
            "largest_descent": np.where(pair, -step, 0).max(axis=1, initial=0),
            "ties": ((step == 0) & pair).sum(1),
        }

    def parts(self, source: Rows, prefix: Prefix | None) -> dict[str, Part]:
        """Neighbours and inversions; in 2 31 7 90 the inversion is 0 1 1 0 for each of the four queries."""
        present = source != self.vocabulary.pad
        both = seen_by_all(present, present)
        descent = np.diff(source, axis=1) < 0
        inversion = np.pad(descent, ((0, 0), (0, 1))) | np.pad(descent, ((0, 0), (1, 0)))
        return super().parts(source, prefix) | {
            "next_element": both & np.eye(source.shape[1], k=1, dtype=bool),
            "previous_element": both & np.eye(source.shape[1], k=-1, dtype=bool),
            "inversion": seen_by_all(present, inversion),
        }

    def contrasts(self, random: np.random.Generator, n: int) -> list[Contrast]:
        """Sorted sequences of the longest length, and the same with one rising neighbouring pair swapped.

        2 7 31 90 (sorted) and 2 31 7 90 (not).
        """
        ordered, swapped = self._inverted_pairs(random, np.full(n, self.options.max_length))
        one, other = (Examples(source, self.answer(source)) for source in (ordered, swapped))
        return [Contrast.both_ways("one adjacent inversion", "inversion", 0, one, other)]

    def _inverted_pairs(self, random: np.random.Generator, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sorted rows of these lengths, and the same rows with one rising neighbouring pair swapped."""
        inside = np.arange(lengths.max(initial=1)) < lengths[:, None]
        ordered = self._sorted_rows(random, inside)
        rows = np.arange(len(lengths))
        while len(level := np.flatnonzero(ordered[:, 0] == ordered[rows, lengths - 1])):  # a chance of a half at most
            ordered[level] = self._sorted_rows(random, inside[level])
        return ordered, self._disturb(random, ordered, lengths, adjacent=np.ones(len(lengths), dtype=bool))

    def strata(self, source: Rows) -> Int[np.ndarray, " batch"]:
        return self.answer(source)

    def groups(self) -> tuple[int, ...]:
        return (0, 1)

    def at_length(self, length: int) -> "Sortedness":
        if length < 2:
            raise InputError(f"sortedness at length {length} has no unsorted sequences; at least 2 needed")
        return Sortedness(replace(self.options, min_length=length, max_length=length))

    def length_plan(self) -> LengthPlan:
        """Every training length (16 of them at most), then 2 to 64 times the longest: 8 to 16, then 32 ... 1024."""
        shortest, longest = self.options.min_length, self.options.max_length
        inside = np.unique(np.linspace(shortest, longest, MOST_TRAINED_LENGTHS).round().astype(int))
        longer = tuple(longest * 2**doubling for doubling in range(1, 7))
        trained = tuple(inside.tolist())
        return LengthPlan("length", "elements", LENGTH_SETS, shortest, longest, trained, longer)

    def for_lengths(self, name: str, length: int) -> "Sortedness":
        """Natural sequences with random swaps or one adjacent inversion, matched sequences, or constant runs."""
        from headway.tasks.sortedness_sets import MatchedSortedness, SortednessOfRuns  # they derive from this class

        check_set(self.name, name, self.length_plan())
        natural = replace(self.options, spread="whole")
        if name == "matched":
            return MatchedSortedness(natural, length)
        if name in RUNS:
            return SortednessOfRuns(natural, name, length)
        return Sortedness(replace(natural, negatives=name)).at_length(length)

    def set_size(self, name: str, length: int) -> int | None:
        return self.for_lengths(name, length).size()

    def list_set(self, name: str, length: int) -> Iterator[Examples]:
        made = self.for_lengths(name, length)
        return super().list_set(name, length) if made.size() is None else made.members()

    def size(self) -> int | None:
        """The number of different examples, where `members` lists them; otherwise None."""
        return None

    def members(self) -> Iterator[Examples]:
        """Every example, in chunks."""
        return super().list_set(self.name, self.options.max_length)

    def attack_families(self, length: int | None) -> Families:
        at = self.at_length(length or self.options.max_length)
        return order_families(sources_of(at), at.options.max_length, self.options.values)

    def is_valid(self, source: Rows) -> Bool[np.ndarray, " batch"]:
        return holds_values(source, self.options.values, self.vocabulary.pad)

    def difficulty(self, source: Rows) -> dict[str, Int[np.ndarray, " batch"]]:
        """The gap of the inverted pair, or the largest of several: 2 31 7 90 has 24."""
        gap = self.features(source)["largest_descent"]
        return {"gap": np.where(gap > 0, gap, -1)}

    def pieces(self, random: np.random.Generator, source: Rows, length: int) -> Int[np.ndarray, "batch piece"]:
        """Crops of rows without padding; crops of unsorted rows contain a descent.

        2 7 31 7 90 95 at length 3 is 7 31 7, or 31 7 90.
        """
        width = source.shape[1]
        descent = np.diff(source, axis=1) < 0
        chosen = np.argmax(descent * random.random(descent.shape), axis=1)  # a random one of its descents
        ordered = ~descent.any(1)
        first = np.where(ordered, 0, np.maximum(0, chosen + 2 - length))
        last = np.where(ordered, width - length, np.minimum(chosen, width - length))
        start = random.integers(first, last + 1)
        return np.take_along_axis(source, start[:, None] + np.arange(length), axis=1)

    def widths(self) -> tuple[int, ...]:
        return (self.options.max_length,)

    def test_lengths(self) -> tuple[int, ...]:
        return tuple(self.options.test_lengths)

    def simple_rules(self) -> tuple[SimpleRule, ...]:
        fix = "Train longer, or on negatives whose ends are in order."
        keys = ("agree_unsorted", "agree_sorted")
        return (SimpleRule("compares the first and the last element", self._ends_rise, fix, keys=keys),)

    def _ends_rise(self, source: Rows) -> Int[np.ndarray, " batch"]:
        last = source[np.arange(len(source)), (source != self.vocabulary.pad).sum(1) - 1]
        return (last >= source[:, 0]).astype(np.int64)

    def class_names(self) -> tuple[str, ...]:
        return ("not sorted", "sorted")

    def page(self) -> PageDescription:
        return {"view": "bars", "values": self.options.values, "rule": "is ascending"}

    def show(self, source: np.ndarray, target: Answer | None = None) -> str:
        text = " ".join(str(value) for value in source if value != self.vocabulary.pad)
        return text if target is None else f"{text} -> {int(target)}"

    def to_record(self, source: np.ndarray, target: Answer) -> JsonObject:
        sequence = source[source != self.vocabulary.pad].tolist()
        return {"sequence": sequence, "is_sorted": int(target), "length": len(sequence)}

    def from_record(self, record: JsonObject) -> tuple[list[int], list[int] | int]:
        sequence = whole_numbers(record["sequence"], "sequence")
        label, length = record["is_sorted"], record["length"]
        if not sequence:
            raise InputError("sequence is empty")
        self.check_source(sequence)
        if type(length) is not int or length != len(sequence):
            raise InputError(f"length is {length!r:.60}, and the sequence has {len(sequence)} elements")
        right = int(self.answer(np.array([sequence]))[0])
        if type(label) is not int or label != right:
            raise InputError(f"is_sorted is {label!r:.60}; {right} is right")
        return sequence, right

    def check_source(self, source: list[int]) -> None:
        for value in source:
            if not 0 <= value < self.options.values:
                raise InputError(f"sequence holds {value}; values lie in 0..{self.options.values - 1}")


def _swap(source: np.ndarray, rows: np.ndarray, i: np.ndarray, j: np.ndarray) -> None:
    """Swap the elements i and j of the chosen rows, in place."""
    chosen = np.flatnonzero(rows)
    i, j = i[chosen], j[chosen]
    source[chosen, i], source[chosen, j] = source[chosen, j], source[chosen, i]
