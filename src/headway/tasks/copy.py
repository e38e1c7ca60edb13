"""Copy a sequence in which elements repeat.

5 3 3 5 -> 5 3 3 5

With repeated elements, the last written token does not determine the next one: `3 3 5` and `3 5` start with the same
token. A model that finds the last written token and copies its successor is right only if all elements differ.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from headway.tasks.examples import Contrast, Examples, Part, Prefix, Rows
from headway.tasks.sequences import Family, SequenceTask, two_values, uniform


class Copy(SequenceTask):
    """The answer is the sequence itself."""

    name = "copy"
    kind = "sequence"
    RULE = "same"
    SETS: ClassVar[Mapping[str, Family]] = {"uniform": uniform, "two-values": two_values}
    PARTS: ClassVar[Mapping[str, str]] = {
        **SequenceTask.PARTS,
        "aligned": "the element to be written next. Once 5 3 is written of 5 3 3 5, that is the second 3.",
    }

    def answer_of(self, source: Rows, present: np.ndarray) -> np.ndarray:
        return source

    def parts(self, source: Rows, prefix: Prefix | None) -> dict[str, Part]:
        found = super().parts(source, prefix)
        width = source.shape[1]
        part = np.zeros_like(found["diagonal"])
        if prefix is not None:
            both = (prefix != self.vocabulary.pad)[:, :, None] & (source != self.vocabulary.pad)[:, None, :]
            part[:, width:, :width] = both & np.eye(prefix.shape[1], width, dtype=bool)
        return found | {"aligned": part}

    def contrasts(self, random: np.random.Generator, n: int) -> list[Contrast]:
        """Sequences of the longest length that differ in one element: the first, the middle or the last."""
        length = self.options.max_length
        found = []
        for place, name in {0: "first", length // 2: "middle", length - 1: "last"}.items():
            one = self.family(random, n, length, self.values)
            other = one.copy()
            other[:, place] = (one[:, place] + random.integers(1, self.values, size=n)) % self.values
            low, high = (
                np.where((one[:, place] < other[:, place])[:, None], *pair) for pair in ((one, other), (other, one))
            )
            sides = (Examples(source, self.answer(source)) for source in (low, high))
            found.append(Contrast.both_ways(f"{name} element", "aligned", place, *sides))
        return found
