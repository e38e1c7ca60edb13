"""A task whose words, rules and names of parts are chosen by the one who attacks the pages."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from headway.config import setting
from headway.tasks.copy import Copy
from headway.tasks.examples import Answer, Vocabulary
from headway.tasks.sequences import SequenceOptions


@dataclass(frozen=True, kw_only=True)
class HostileOptions(SequenceOptions):
    words: str = setting("x", "put into every word of the vocabulary that is not a number, and around every example")


class HostileCopy(Copy):
    """Copies sequences; its words, and the descriptions of what its heads look at, are those of an attacker."""

    Options: ClassVar[type] = HostileOptions
    PARTS: ClassVar[Mapping[str, str]] = Copy.PARTS

    def __init__(self, options: Any, family: str | None = None):
        super().__init__(options, family)
        names = tuple(f"{word}{options.words}" for word in ("BOS", "EOS", "PAD"))
        self.vocabulary = replace(self.vocabulary, tokens=(*self.vocabulary.tokens[: self.values], *names))
        assert isinstance(self.vocabulary, Vocabulary)

    def show(self, source: np.ndarray, target: Answer | None = None) -> str:
        return f"{self.options.words} {super().show(source, target)}"
