"""Sort a sequence.

31 7 90 7  ->  7 7 31 90
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from jaxtyping import Int

from headway.tasks.examples import Contrast, Examples, Part, Prefix, Rows, SimpleRule
from headway.tasks.sequences import Family, SequenceTask, two_values, uniform


def falling(random: np.random.Generator, n: int, length: int, values: int) -> Rows:
    """Descending order: every element has to move."""
    return -np.sort(-uniform(random, n, length, values), axis=1)


class Sorting(SequenceTask):
    """The answer holds the same elements in ascending order."""

    name = "sorting"
    kind = "sequence"
    RULE = "ascending"
    SETS: ClassVar[Mapping[str, Family]] = {"uniform": uniform, "two-values": two_values, "falling": falling}
    PARTS: ClassVar[Mapping[str, str]] = {
        **SequenceTask.PARTS,
        "next_value": "the elements that hold the value to be written next. At the start of 31 7 90 7 they are both 7.",
    }

    def answer_of(self, source: Rows, present: np.ndarray) -> np.ndarray:
        return np.sort(source, axis=1)  # padding has the highest id

    def simple_rules(self) -> tuple[SimpleRule, ...]:
        fix = "Train longer; the accuracy is that of sequences in order."
        return (SimpleRule("copies the sequence as it stands", self._copied, fix),)

    def _copied(self, source: Rows) -> Int[np.ndarray, "batch answer"]:
        answer = self.answer(source)
        return np.where(answer < self.values, np.pad(source, ((0, 0), (0, 1)))[:, : answer.shape[1]], answer)

    def parts(self, source: Rows, prefix: Prefix | None) -> dict[str, Part]:
        found = super().parts(source, prefix)
        width = source.shape[1]
        part = np.zeros_like(found["diagonal"])
        if prefix is not None:
            ordered = np.sort(source, axis=1)
            wide = np.pad(ordered, ((0, 0), (0, prefix.shape[1])), constant_values=self.end)[:, : prefix.shape[1]]
            asks = (prefix != self.vocabulary.pad) & (wide < self.values)
            part[:, width:, :width] = asks[:, :, None] & (wide[:, :, None] == source[:, None, :])
        return found | {"next_value": part}

    def contrasts(self, random: np.random.Generator, n: int) -> list[Contrast]:
        """Sequences of the longest length whose smallest element differs, and nothing else."""
        length = self.options.max_length
        rest = random.integers(2, max(3, self.values), size=(n, length))
        place = random.integers(0, length, size=n)
        rows = np.arange(n)
        sides = []
        for smallest in (0, 1):
            source = np.minimum(rest, self.values - 1)
            source[rows, place] = smallest
            sides.append(Examples(source, self.answer(source)))
        return [Contrast.both_ways("smallest element", "next_value", 0, *sides)] if self.values > 2 else []
