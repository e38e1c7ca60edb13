"""Is the number of ones odd?

1 0 1 1  ->  1    (three ones)
1 0 1 0  ->  0
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import comb
from typing import ClassVar

import numpy as np
from jaxtyping import Int

from headway.config import setting
from headway.tasks.examples import Contrast, Examples, Part, Prefix, Rows, SimpleRule, seen_by_all
from headway.tasks.sequences import Family, SequenceTask, uniform


def few_ones(random: np.random.Generator, n: int, length: int, values: int) -> Rows:
    """Sequences with zero to three ones at random positions."""
    order = random.random((n, length)).argsort(1).argsort(1)
    return (order < random.integers(0, MOST_FEW + 1, size=(n, 1))).astype(np.int64)


def mostly_ones(random: np.random.Generator, n: int, length: int, values: int) -> Rows:
    """The same with zeros and ones exchanged."""
    return 1 - few_ones(random, n, length, values)


MOST_FEW = 3
"""The most ones in the set few-ones, and the most zeros in mostly-ones."""
LONGEST_LISTED = 20
"""The longest length at which all sequences are listed; there are 2^length of them."""


@dataclass(frozen=True, kw_only=True)
class ParityOptions:
    min_length: int = setting(2, "shortest sequence", low=1, high=65_536)
    max_length: int = setting(12, "longest sequence", low=1, high=65_536)
    test_lengths: tuple[int, ...] = setting((16, 24, 48), "lengths that have their own test set", low=1, high=65_536)


class Parity(SequenceTask):
    """Bits; class 1 if the number of ones is odd."""

    name = "parity"
    Options = ParityOptions
    kind = "class"
    n_classes = 2
    RULE = "odd ones"
    SETS: ClassVar[Mapping[str, Family]] = {"uniform": uniform, "few-ones": few_ones, "mostly-ones": mostly_ones}
    PARTS: ClassVar[Mapping[str, str]] = {
        **SequenceTask.PARTS,
        "ones": "the ones. In 1 0 1 these are the first and the last element.",
    }

    @property
    def values(self) -> int:
        return 2

    def simple_rules(self) -> tuple[SimpleRule, ...]:
        fix = "Train longer, or on sequences of more lengths."
        return (SimpleRule("answers with the first element", lambda source: source[:, 0], fix),)

    def class_names(self) -> tuple[str, ...]:
        return ("even", "odd")

    def answer_of(self, source: Rows, present: np.ndarray) -> Int[np.ndarray, " batch"]:
        return ((source == 1).sum(1) % 2).astype(np.int64)

    def features(self, source: Rows) -> dict[str, Int[np.ndarray, " batch"]]:
        return {"length": (source != self.vocabulary.pad).sum(1), "ones": (source == 1).sum(1)}

    def difficulty(self, source: Rows) -> dict[str, Int[np.ndarray, " batch"]]:
        return {"ones": self.features(source)["ones"]}

    def strata(self, source: Rows) -> Int[np.ndarray, " batch"]:
        return self.answer(source)

    def groups(self) -> tuple[int, ...]:
        return (0, 1)

    def set_size(self, name: str, length: int) -> int | None:
        self.for_lengths(name, length)
        if length > LONGEST_LISTED:
            return None
        return 2**length if name == "uniform" else sum(comb(length, few) for few in range(MOST_FEW + 1))

    def list_set(self, name: str, length: int) -> Iterator[Examples]:
        if self.set_size(name, length) is None:
            return super().list_set(name, length)
        source = (np.arange(2**length)[:, None] >> np.arange(length)) & 1
        ones = source.sum(1)
        if name != "uniform":
            source = source[(ones if name == "few-ones" else length - ones) <= MOST_FEW]
        return iter([Examples(source, self.answer(source))])

    def parts(self, source: Rows, prefix: Prefix | None) -> dict[str, Part]:
        present = source != self.vocabulary.pad
        return super().parts(source, prefix) | {"ones": seen_by_all(present, source == 1)}

    def contrasts(self, random: np.random.Generator, n: int) -> list[Contrast]:
        """Sequences of the longest length that differ in one bit."""
        length = self.options.max_length
        zero = uniform(random, n, length, 2)
        place = random.integers(0, length, size=n)
        one = zero.copy()
        zero[np.arange(n), place], one[np.arange(n), place] = 0, 1
        sides = (Examples(source, self.answer(source)) for source in (zero, one))
        return [Contrast.both_ways("one bit", "ones", 0, *sides)]
