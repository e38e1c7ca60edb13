"""What tasks are made of: vocabularies, examples, contrasts, simpler rules and plans of lengths."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Int

from headway.errors import InputError, suggestion

Rows = Int[np.ndarray, "batch width"]
Keys = Int[np.ndarray, "batch key"]
Answer = Any
"""One target: an array of an answer's tokens, or a class."""
PositionKind = Literal["index", "coupled", "abacus"]
Prefix = Int[np.ndarray, "batch prefix"]
"""BOS, then the answer so far."""
Part = Bool[np.ndarray, "batch token token"]
"""[example, query, key]: whether the key belongs to the part, for that query."""


@dataclass(frozen=True)
class Vocabulary:
    """Tokens and their ids. Padding, start and end are separate tokens, never symbols of the task."""

    tokens: tuple[str, ...]
    pad: int
    bos: int | None = None
    eos: int | None = None

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Examples:
    """Token rows, padded on the right. `target` holds the tokens of an answer (EOS last), or one class per row."""

    source: Rows
    target: Int[np.ndarray, "batch *answer"]

    def __len__(self) -> int:
        return len(self.source)

    def take(self, index: Any) -> "Examples":
        return Examples(self.source[index], self.target[index])

    def padded_to(self, widths: tuple[int, ...], pad: int) -> "Examples":
        """The same examples padded to these widths of source and answer."""
        found = [
            np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=pad)
            for rows, width in zip((self.source, self.target), widths, strict=False)
        ]
        return Examples(found[0], found[1] if len(found) == 2 else self.target)

    @staticmethod
    def join(parts: list["Examples"], pad: int) -> "Examples":
        """Concatenate parts, padded to the widest."""
        sources = pad_to_widest([part.source for part in parts], pad)
        targets = [part.target for part in parts]
        return Examples(sources, np.concatenate(targets) if targets[0].ndim == 1 else pad_to_widest(targets, pad))


@dataclass(frozen=True)
class Control:
    """Control sources for the bases of a contrast: they change the input in the same place, but not the contrasted
    feature.

    For the base 121 + 137 of a carry out of the units, with 126 + 137 as the contrast's own source, a control source is
    122 + 137: another digit in the same place, and still no carry. The contrast's answer token is the same in both, so
    a patch that changes it does more than move the carry. `there` is false where a row has no such source; its row of
    `source` is then the base itself. `token` is the answer token at which base and control source do differ.
    """

    source: Examples
    there: Bool[np.ndarray, " batch"]
    token: int


@dataclass(frozen=True)
class Contrast:
    """Pairs of examples, row by row, that differ in one feature: 126 + 137 and 121 + 137 differ in the carry of the
    units.

    Activation patching replaces a head's output for a row of `base` by its output for that row of `patch_source`.
    `token` is the index of the answer token at which the difference is measured; 0 for a class.
    """

    name: str
    about: str
    token: int
    base: Examples
    patch_source: Examples
    control: Control | None = None

    @staticmethod
    def both_ways(name: str, about: str, token: int, one: Examples, other: Examples) -> "Contrast":
        """In rows 0, 2, 4, ... `one` is the base and `other` the source; in rows 1, 3, 5, ... it is the reverse."""
        n = len(one)
        pool = Examples(np.concatenate([one.source, other.source]), np.concatenate([one.target, other.target]))
        row, turned = np.arange(n), n * (np.arange(n) % 2)
        return Contrast(name, about, token, base=pool.take(row + turned), patch_source=pool.take(row + n - turned))


@dataclass(frozen=True)
class SimpleRule:
    """A rule simpler than the task that a model may follow instead: it `adds without carrying`.

    `answer` gives its answers to sources in the form of targets, with padding at tokens that the rule does not
    determine. A rule that determines only a `part` of an answer, such as the last digit, is a finding if only that part
    is right. `keys` names the shares in a finding: of each class, or of the part and of the rest.
    """

    does: str
    answer: Callable[[Rows], Int[np.ndarray, "batch *answer"]]
    fix: str
    part: str | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class LengthPlan:
    """The lengths at which a task is measured, and the kinds of test set at each length.

    `feature` is the task's feature that is the length; `trained` are the tested lengths within training (`shortest` to
    `longest`), `longer` those beyond it.
    """

    feature: str
    unit: str
    sets: tuple[str, ...]
    shortest: int
    longest: int
    trained: tuple[int, ...]
    longer: tuple[int, ...]


def pad_to_widest(parts: list[np.ndarray], pad: int) -> np.ndarray:
    width = max(part.shape[1] for part in parts)
    return np.concatenate([np.pad(p, ((0, 0), (0, width - p.shape[1])), constant_values=pad) for p in parts])


def joined(source: Rows, prefix: Prefix | None) -> Int[np.ndarray, "batch token"]:
    """The tokens of source and prefix concatenated; `parts` indexes queries and keys in this order."""
    return source if prefix is None else np.concatenate([source, prefix], axis=1)


def seen_by_all(present: Bool[np.ndarray, "batch token"], chosen: Bool[np.ndarray, "batch token"]) -> Part:
    """A part that is the same for every query: the chosen tokens, without padding.

    >>> seen_by_all(np.array([[True, True, False]]), np.array([[False, True, True]])).astype(int).tolist()
    [[[0, 1, 0], [0, 1, 0], [0, 0, 0]]]
    """
    return present[:, :, None] & (chosen & present)[:, None, :]


def check_set(task: str, name: str, plan: LengthPlan) -> None:
    """Raise unless the plan has a set of this name."""
    if name not in plan.sets:
        raise InputError(f"{task} has no set {name!r} of a length; {suggestion(name, plan.sets)}")
