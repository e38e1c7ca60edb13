"""The common part of tasks on random integer sequences: lengths, sets at a length, records, and parts."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Int

from headway.config import setting
from headway.errors import InputError
from headway.json_values import JsonObject
from headway.tasks.attack_families import AttackFamily, Families, ListedFamily, holds_values, sets_of_lengths
from headway.tasks.base import Task
from headway.tasks.descriptions import PageDescription, whole_numbers
from headway.tasks.examples import (
    Answer,
    Examples,
    Keys,
    LengthPlan,
    Part,
    Prefix,
    Rows,
    Vocabulary,
    check_set,
    seen_by_all,
)

Family = Callable[[np.random.Generator, int, int, int], Rows]
"""Draws `n` sequences of one length over a number of values: (random, n, length, values)."""


def uniform(random: np.random.Generator, n: int, length: int, values: int) -> Rows:
    """Every element is drawn independently."""
    return random.integers(0, values, size=(n, length))


def two_values(random: np.random.Generator, n: int, length: int, values: int) -> Rows:
    """Two different values per sequence, in random order, which gives the most repeats."""
    low = random.integers(0, values - 1, size=(n, 1))
    high = random.integers(low + 1, values)
    return np.where(random.random((n, length)) < 0.5, low, high)


def constant_runs(length: int, values: int, random: np.random.Generator, n: int) -> Rows:
    """Two to four constant runs of random values."""
    starts = random.random((n, 1, 3)) * length * (np.arange(3) < random.integers(1, 4, size=(n, 1, 1)))
    run = (np.arange(length)[:, None] >= starts).sum(2) - 1
    return np.take_along_axis(random.integers(0, values, size=(n, 4)), run + 1, axis=1)


def periods(length: int, values: int, random: np.random.Generator, n: int) -> Rows:
    """A repeated pattern of 1 to 4 elements."""
    place = np.arange(length) % random.integers(1, 5, size=(n, 1))
    return np.take_along_axis(random.integers(0, values, size=(n, 4)), place, axis=1)


def extremes(length: int, values: int, random: np.random.Generator, n: int) -> Rows:
    """Only the two lowest and the two highest values."""
    ends = np.unique(np.clip([0, 1, values - 2, values - 1], 0, values - 1))
    return random.choice(ends, size=(n, length))


def odd_one_out(length: int, values: int, number: Int[np.ndarray, " batch"]) -> Rows:
    """A constant sequence with one random element."""
    pair, place = np.divmod(number, length)
    value, odd = np.divmod(pair, values)
    return np.where(np.arange(length) == place[:, None], odd[:, None], value[:, None])


@dataclass(frozen=True, kw_only=True)
class SequenceOptions:
    min_length: int = setting(4, "shortest sequence", low=1, high=65_536)
    max_length: int = setting(16, "longest sequence", low=1, high=65_536)
    values: int = setting(10, "elements are 0 to values - 1", low=2, high=65_536)
    test_lengths: tuple[int, ...] = setting((32, 64, 128), "lengths that have their own test set", low=1, high=65_536)


class SequenceTask(Task):
    """Integer sequences; a subclass defines the answer."""

    Options: ClassVar[type] = SequenceOptions
    SETS: ClassVar[Mapping[str, Family]] = {"uniform": uniform}
    """The sets of `headway lengths`. Training draws from the first."""
    RULE: ClassVar[str | None] = None
    """How the explorer computes the right answer to a typed sequence; see `Task.page`."""
    PARTS: ClassVar[Mapping[str, str]] = {
        **Task.PARTS,
        "previous_element": "the element right before the query's. For the 7 of 2 7 31 that is the 2.",
        "next_element": "the element right after the query's. For the 7 of 2 7 31 that is the 31.",
    }

    def __init__(self, options: Any, family: str | None = None):
        super().__init__(options)
        if options.min_length > options.max_length:
            raise InputError(
                f"task.min_length = {options.min_length} is larger than task.max_length = {options.max_length}"
            )
        self.family = self.SETS[family or next(iter(self.SETS))]
        elements = tuple(map(str, range(self.values)))
        self.end = self.values + 1
        if self.kind == "class":
            self.vocabulary = Vocabulary((*elements, "PAD"), pad=self.values)
        else:
            names = (*elements, "BOS", "EOS", "PAD")
            self.vocabulary = Vocabulary(names, pad=self.end + 1, bos=self.values, eos=self.end)

    @property
    def values(self) -> int:
        return int(self.options.values)

    def draw(self, random: np.random.Generator, n: int) -> Examples:
        lengths = random.integers(self.options.min_length, self.options.max_length + 1, size=n)
        width = int(lengths.max(initial=1))
        drawn = self.family(random, n, width, self.values)
        source = np.where(np.arange(width) < lengths[:, None], drawn, self.vocabulary.pad)
        return Examples(source, self.answer(source))

    @abstractmethod
    def answer_of(self, source: Rows, present: np.ndarray) -> np.ndarray:
        """The elements of the answer at the source's positions, or the class; values at padding are ignored."""

    def answer(self, source: Rows) -> Int[np.ndarray, "batch *answer"]:
        present = source != self.vocabulary.pad
        found = self.answer_of(source, present)
        if self.kind == "class":
            return found
        lengths = present.sum(1, keepdims=True)
        column = np.arange(int(lengths.max(initial=0)) + 1)
        wide = np.pad(found, ((0, 0), (0, 1)))[:, : len(column)]
        target = np.where(column < lengths, wide, self.vocabulary.pad)
        return np.where(column == lengths, self.end, target)

    def canonical(self, source: Rows) -> Keys:
        return np.where(source == self.vocabulary.pad, -1, source)

    def features(self, source: Rows) -> dict[str, Int[np.ndarray, " batch"]]:
        present = source != self.vocabulary.pad
        ordered = np.sort(source, axis=1)
        repeats = ((np.diff(ordered, axis=1) == 0) & (ordered[:, 1:] != self.vocabulary.pad)).sum(1)
        return {"length": present.sum(1), "repeats": repeats}

    def difficulty(self, source: Rows) -> dict[str, Int[np.ndarray, " batch"]]:
        return {"repeats": self.features(source)["repeats"]}

    def parts(self, source: Rows, prefix: Prefix | None) -> dict[str, Part]:
        found = super().parts(source, prefix)
        width, present = source.shape[1], source != self.vocabulary.pad
        for name, shift in (("previous_element", -1), ("next_element", 1)):
            part = np.zeros_like(found["diagonal"])
            part[:, :width, :width] = seen_by_all(present, present) & np.eye(width, k=shift, dtype=bool)
            found[name] = part
        return found

    def at_length(self, length: int) -> "SequenceTask":
        if length < 1:
            raise InputError(f"{self.name} at length {length} has no sequences; at least 1 needed")
        return self._with(length, None)

    def _with(self, length: int, family: str | None) -> "SequenceTask":
        return type(self)(replace(self.options, min_length=length, max_length=length), family)

    def length_plan(self) -> LengthPlan:
        """Half and all of the longest training length with up to four lengths between; then 2, 4 and 8 times it."""
        shortest, longest = self.options.min_length, self.options.max_length
        inside = np.unique(np.linspace(max(shortest, longest // 2), longest, 4).round().astype(int))
        longer = tuple(longest * times for times in (2, 4, 8))
        return LengthPlan("length", "elements", tuple(self.SETS), shortest, longest, tuple(inside.tolist()), longer)

    def for_lengths(self, name: str, length: int) -> "SequenceTask":
        check_set(self.name, name, self.length_plan())
        self.at_length(length)
        return self._with(length, name)

    def attack_families(self, length: int | None) -> Families:
        """The sets of `headway lengths`, constant runs, repeated patterns, and one value beside another."""
        length = length or self.options.max_length
        return {
            **sets_of_lengths(self, length),
            "runs": AttackFamily("two to four constant runs", partial(constant_runs, length, self.values)),
            "periods": AttackFamily("a pattern of 1 to 4 elements, repeated", partial(periods, length, self.values)),
            "extremes": AttackFamily("the lowest and the highest values", partial(extremes, length, self.values)),
            "odd-one-out": ListedFamily(
                "one element differs from all the others, or none does",
                self.values**2 * length,
                partial(odd_one_out, length, self.values),
            ),
        }

    def is_valid(self, source: Rows) -> Bool[np.ndarray, " batch"]:
        return holds_values(source, self.values, self.vocabulary.pad)

    def test_lengths(self) -> tuple[int, ...]:
        return tuple(self.options.test_lengths)

    def widths(self) -> tuple[int, ...]:
        longest = self.options.max_length
        return (longest,) if self.kind == "class" else (longest, longest + 1)

    def longest_answer(self, source_width: int) -> int:
        return 0 if self.kind == "class" else source_width + 1

    def page(self) -> PageDescription:
        """Sequences can be typed; `RULE` names how the page answers them, if it can."""
        page: PageDescription = {"view": "tokens", "values": self.values}
        return {**page, "rule": self.RULE} if self.RULE else page

    def show(self, source: np.ndarray, target: Answer | None = None) -> str:
        text = " ".join(str(value) for value in source if value != self.vocabulary.pad)
        if target is None:
            return text
        return f"{text} -> {int(target) if self.kind == 'class' else ' '.join(self.written(target))}"

    def to_record(self, source: np.ndarray, target: Answer) -> JsonObject:
        return {"input": _elements(source, self.values), "target": self._recorded(target)}

    def _recorded(self, target: Answer) -> list[int] | int:
        return int(target) if self.kind == "class" else _elements(target, self.values)

    def from_record(self, record: JsonObject) -> tuple[list[int], list[int] | int]:
        source = whole_numbers(record["input"], "input")
        if not source:
            raise InputError("input is []; a list of whole numbers needed")
        self.check_source(source)
        right = self._recorded(self.answer(np.array([source]))[0])
        if record["target"] != right or isinstance(record["target"], bool):
            raise InputError(f"target is {record['target']!r:.60}; {right!r:.60} is right")
        return source, right if isinstance(right, int) else [*right, self.end]

    def check_source(self, source: list[int]) -> None:
        for value in source:
            if not 0 <= value < self.values:
                raise InputError(f"input holds {value}; values lie in 0..{self.values - 1}")


def _elements(row: np.ndarray, values: int) -> list[int]:
    """The elements of a row without EOS and padding, whose ids lie above the values."""
    return [int(value) for value in row if value < values]
