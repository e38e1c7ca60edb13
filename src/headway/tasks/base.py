"""The interface of a task; `tests/contracts/test_tasks.py` checks every registered task."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headway.errors import InputError
from headway.json_values import JsonObject
from headway.tasks.attack_families import Families, default_families, readable
from headway.tasks.descriptions import PageDescription, PositionRule
from headway.tasks.examples import (
    Answer,
    Contrast,
    Examples,
    Keys,
    LengthPlan,
    Part,
    PositionKind,
    Prefix,
    Rows,
    SimpleRule,
    Vocabulary,
    check_set,
    joined,
    seen_by_all,
)


class Task(ABC):
    """A task on tokens: it draws examples, computes the exact answer, and prints and parses examples."""

    name: ClassVar[str]
    Options: ClassVar[type]
    kind: ClassVar[Literal["sequence", "class"]]
    n_classes: ClassVar[int] = 0
    PARTS: ClassVar[Mapping[str, str]] = {
        "diagonal": "the token itself, at the same place. For the 7 of 2 7 31 that is the 7.",
        "boundary": "the first and the last token of the source, and BOS. In 2 7 31 these are the 2 and the 31.",
    }
    """Each name in `parts` with its description, which completes "share of a query's attention on ..."."""
    vocabulary: Vocabulary
    options: Any

    def __init__(self, options: Any):
        self.options = options

    @abstractmethod
    def draw(self, random: np.random.Generator, n: int) -> Examples:
        """`n` examples, independent of each other and of any split; repeats are possible."""

    @abstractmethod
    def answer(self, source: Rows) -> Int[np.ndarray, "batch *answer"]:
        """The oracle: the right target of each source row."""

    @abstractmethod
    def canonical(self, source: Rows) -> Keys:
        """Rows that are equal exactly if two sources are the same problem (a + b and b + a are).

        Unused positions of a row are -1 and ignored, so the width of a batch does not matter.
        """

    @abstractmethod
    def features(self, source: Rows) -> dict[str, Int[np.ndarray, " batch"]]:
        """Named integers that make an example easy or hard, such as the number of carries."""

    def augmentations(self) -> Int[np.ndarray, "writing width"]:
        """Permutations of the source's columns that give the same problem; the first is the identity.

        Training shows each example in one of them, chosen at random. Addition may write b + a for a + b.
        """
        return np.zeros((1, 0), dtype=np.int64)

    def strata(self, source: Rows) -> Int[np.ndarray, " batch"]:
        """The group of each example; a fixed split has equally many examples of each group in `groups`."""
        return np.zeros(len(source), dtype=np.int64)

    def groups(self) -> tuple[int, ...]:
        return (0,)

    def domain_size(self) -> int | None:
        """The number of examples in the domain, or None if they cannot be listed."""
        return None

    def domain(self, chunk: int = 8_192) -> Iterator[Examples]:
        """The whole domain, in chunks."""
        raise InputError(f"the domain of {self.name} is too large to list; choose train, validation or test")

    def at_length(self, length: int) -> "Task":
        """The same task, in which every example has exactly this length."""
        raise InputError(f"{self.name} has one length; it cannot be set to {length}")

    def length_plan(self) -> LengthPlan:
        """The lengths and sets of `headway lengths`."""
        raise InputError(f"task {self.name!r} has one length; there is nothing to measure against it")

    def for_lengths(self, name: str, length: int) -> "Task":
        """The same task, which draws this set of the length plan at exactly this length."""
        check_set(self.name, name, self.length_plan())
        return self.at_length(length)

    def set_size(self, name: str, length: int) -> int | None:
        """The number of members of a set at a length, if `list_set` can list them; otherwise None."""
        return None

    def list_set(self, name: str, length: int) -> Iterator[Examples]:
        """Every member of a set that has a `set_size`, in chunks."""
        raise InputError(f"set {name!r} of {self.name} cannot be listed")

    def attack_families(self, length: int | None) -> Families:
        """The families of inputs that `headway attack` tries at a length, by name; the length is None for tasks of one
        length.
        """
        return default_families(self, length)

    def is_valid(self, source: Rows) -> Bool[np.ndarray, " batch"]:
        """Whether each row, padded on the right, is a valid input; attacks that edit tokens use this."""
        return readable(self, source)

    def difficulty(self, source: Rows) -> dict[str, Int[np.ndarray, " batch"]]:
        """Features that confound length with difficulty; -1 where a row has no value, such as no inverted pair."""
        return {}

    def pieces(self, random: np.random.Generator, source: Rows, length: int) -> Int[np.ndarray, "batch piece"] | None:
        """A crop of each source, `length` tokens long, with the same answer; None if a crop is not an example of the
        task.

        A behaviour on a long source that does not occur on its crops is due to length, not to content.
        """
        return None

    def test_lengths(self) -> tuple[int, ...]:
        """The lengths for which `headway data` writes separate test files."""
        return ()

    def widths(self) -> tuple[int, ...]:
        """The width of the widest source, and of the widest answer if answers are generated."""
        one = self.draw(np.random.default_rng(0), 1)
        return one.source.shape[1], *one.target.shape[1:]

    def longest_answer(self, source_width: int) -> int:
        """The most tokens (EOS counted) that an answer to a source of this width can have."""
        return 0

    def position_kinds(self) -> tuple[PositionKind, ...]:
        return ("index",)

    def positions(
        self, kind: PositionKind, source: Int[Tensor, "batch position"], prefix: Int[Tensor, "batch prefix"] | None
    ) -> tuple[Int[Tensor, "#batch position"], Int[Tensor, "#batch prefix"] | None]:
        """Positions of source and prefix tokens, computed from these tokens; a single row if all rows are equal."""
        self.check_positions(kind)
        across = torch.arange(source.shape[1], device=source.device)[None]
        return across, None if prefix is None else torch.arange(prefix.shape[1], device=source.device)[None]

    def check_positions(self, kind: PositionKind) -> None:
        """Raise unless the task can supply positions of this kind."""
        if kind not in self.position_kinds():
            raise InputError(
                f"task {self.name!r} has no {kind} positions{self.no_positions_because(kind)}; "
                f"it has: {', '.join(self.position_kinds())}"
            )

    def no_positions_because(self, kind: PositionKind) -> str:
        return ""

    def parts(self, source: Rows, prefix: Prefix | None) -> dict[str, Part]:
        """For each name in `PARTS`, the keys that belong to the part, for each query; padding is in no part.

        Tokens are indexed through source and prefix. As a query, a prefix token stands for the answer token to be
        written next; as a key, for itself. Causal masks are applied by the model, not here.

            source 2 7 31, no prefix:  boundary is 1 0 1 in each of its three rows, diagonal the unit matrix

        """
        present = joined(source, prefix) != self.vocabulary.pad
        index = np.arange(present.shape[1])
        inside = present & (index < source.shape[1])
        last = inside.shape[1] - 1 - np.argmax(inside[:, ::-1], axis=1)
        boundary = (index == np.argmax(inside, axis=1)[:, None]) | (index == last[:, None])
        if prefix is not None:
            boundary |= index == source.shape[1]
        return {
            "diagonal": seen_by_all(present, present) & np.eye(len(index), dtype=bool),
            "boundary": seen_by_all(present, boundary),
        }

    def answer_names(self, width: int) -> list[str]:
        """A name for each of the first `width` tokens of an answer: `token 0`, `token 1`, ...; a class has one."""
        return ["class"] if self.kind == "class" else [f"token {index}" for index in range(width)]

    def token_names(self, width: int) -> list[str]:
        """A name for each of the first `width` source positions: `0`, `1`, ..."""
        return [str(index) for index in range(width)]

    def class_names(self) -> tuple[str, ...]:
        """The names of the classes, such as `not sorted` and `sorted`; by default their numbers."""
        return tuple(map(str, range(self.n_classes)))

    def page(self) -> PageDescription:
        """How the explorer shows the task, as plain values.

        `view` is how an example is drawn: its `tokens`; `bars` of the elements' values, which can be dragged; or a
        written `sum`. With `values`, a person may type sequences of 0 to values - 1. `rule` is how the page computes
        the right answer to a typed input: `same`, `ascending` (the elements in order), `is ascending` or `odd ones`
        (both classes). Without `rule`, only answers to the stored examples are judged, by the stored oracle; without
        `values`, only stored examples can be used.
        """
        return {"view": "tokens"}

    def position_rule(self, kind: PositionKind) -> PositionRule:
        """How the page finds positions of this kind: by the `index`, from a fixed row (`place`), or by `digits`."""
        return {"by": "index" if kind == "index" else "place"}

    def contrasts(self, random: np.random.Generator, n: int) -> list[Contrast]:
        """Contrasts with `n` pairs each, half of them in each direction; within a contrast all lengths are equal.

        A contrast that no pair can show, such as a carry between leading ones in base 2, is left out.
        """
        return []

    def simple_rules(self) -> tuple[SimpleRule, ...]:
        """Rules by which a model can be right without having learned the task; the doctor checks each."""
        return ()

    def with_other_parts(self, source: Rows) -> dict[str, Rows]:
        """Sources with one part changed, by name (`first operand`); a model whose answer stays the same did not read
        it.
        """
        return {}

    def correct(
        self, predicted: Int[Tensor, "batch *answer"], target: Int[Tensor, "batch *answer"]
    ) -> Bool[Tensor, " batch"]:
        """Whether each whole answer is right, EOS included; tokens after EOS do not count."""
        wrong = predicted != target
        if self.kind == "sequence":
            wrong = (wrong & (target != self.vocabulary.pad)).any(-1)
        return ~wrong

    def written(self, answer: Answer) -> list[str]:
        """The tokens of an answer before its end; a missing end is marked."""
        tokens = [self.vocabulary.tokens[token] for token in answer if token != self.vocabulary.pad]
        end = self.vocabulary.tokens[self.vocabulary.eos or 0]
        return tokens[: tokens.index(end)] if end in tokens else [*tokens, "(no end)"]

    def check_source(self, source: list[int]) -> None:
        """Raise unless the tokens can be a source of the task, at any length."""
        for token in source:
            if not 0 <= token < len(self.vocabulary):
                raise InputError(f"input holds {token}; tokens lie in 0..{len(self.vocabulary) - 1}")

    def completed(self, answer: list[int]) -> list[int]:
        """Another program's answer with the tokens that it omits, such as the leading zeros of a sum."""
        return answer

    @abstractmethod
    def show(self, source: np.ndarray, target: Answer | None = None) -> str:
        """One example as text."""

    @abstractmethod
    def to_record(self, source: np.ndarray, target: Answer) -> JsonObject:
        """One example as a JSON record."""

    @abstractmethod
    def from_record(self, record: JsonObject) -> tuple[list[int], list[int] | int]:
        """Source and target tokens of a JSON record; raises `InputError` if it is invalid."""
