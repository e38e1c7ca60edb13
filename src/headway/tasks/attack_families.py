"""Families of inputs that `headway attack` tries, and the test for valid inputs.

A task defines its own families (`Task.attack_families`). The default families are made here: its random examples, its
sets for `headway lengths`, and edits of its examples (constant runs, repeats, lowest and highest tokens).

    class Reverse(Task):
        def attack_families(self, length):
            return {
                **super().attack_families(length),
                "palindromes": AttackFamily("the same read from both ends", self._palindromes),
            }

A family need not be exact: rows that are not valid (`Task.is_valid`) are dropped before the model runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Int

from headway.errors import InputError

if TYPE_CHECKING:
    from headway.tasks.base import Task

Rows = Int[np.ndarray, "batch width"]
Draw = Callable[[np.random.Generator, int], Rows]
"""(random, n) -> n sources, padded on the right; repeats are possible."""
Pick = Callable[[Int[np.ndarray, " batch"]], Rows]
"""Numbers from 0 to size - 1 -> the inputs of a family with these numbers."""


@dataclass(frozen=True)
class AttackFamily:
    """Inputs of one kind; `about` describes them: `one descent between two constant runs`."""

    about: str
    draw: Draw


@dataclass(frozen=True)
class ListedFamily:
    """A family whose inputs are numbered: an attack tries each of them once, in a scattered order."""

    about: str
    size: int
    pick: Pick


Family = AttackFamily | ListedFamily
Families = Mapping[str, Family]


def default_families(task: "Task", length: int | None) -> Families:
    """The default families of a task: its random examples, its sets of `headway lengths`, and edits of its examples."""
    at = task if length is None else task.at_length(length)
    drawn = sources_of(at)
    return {
        "random": AttackFamily("drawn as for training, of this length", drawn),
        **sets_of_lengths(task, length),
        "constant-runs": AttackFamily("a drawn input in which one token fills a run of places", filled(drawn, at)),
        "repeats": AttackFamily("a drawn input of which only two or three tokens remain", few_tokens(drawn, at)),
        "extremes": AttackFamily("a drawn input with the lowest and highest tokens of each place", extreme(drawn, at)),
    }


def sets_of_lengths(task: "Task", length: int | None) -> Families:
    """A task's sets for `headway lengths`, as families; empty if it has a single length."""
    if length is None:
        return {}
    try:
        names = task.length_plan().sets
    except InputError:
        return {}
    return {
        name: AttackFamily(f"the set {name!r} of headway lengths", sources_of(task.for_lengths(name, length)))
        for name in names
    }


def sources_of(task: "Task") -> Draw:
    """A task's random sources, without answers."""
    return lambda random, n: task.draw(random, n).source


def filled(drawn: Draw, task: "Task") -> Draw:
    """A random span, up to the whole input, filled with its first token."""

    def draw(random: np.random.Generator, n: int) -> Rows:
        source = drawn(random, n)
        length = (source != task.vocabulary.pad).sum(1)
        start = (random.random(n) * length).astype(np.int64)
        end = start + 1 + (random.random(n) * (length - start)).astype(np.int64)
        place = np.arange(source.shape[1])
        inside = (place >= start[:, None]) & (place < end[:, None])
        return np.where(inside, source[np.arange(n), start][:, None], source)

    return draw


def few_tokens(drawn: Draw, task: "Task") -> Draw:
    """Half of the rows keep two of their tokens, half three; every other token is replaced by one of these."""

    def draw(random: np.random.Generator, n: int) -> Rows:
        source = drawn(random, n)
        present = source != task.vocabulary.pad
        kept = (random.random((n, 3)) * present.sum(1, keepdims=True)).astype(np.int64)
        kept[: n // 2, 2] = kept[: n // 2, 1]
        which = np.take_along_axis(kept, random.integers(0, 3, size=source.shape), axis=1)
        changed = np.take_along_axis(source, which, axis=1)
        # A place whose token is rare among all rows, such as a + sign, is a frame rather than a value.
        return np.where(present & ~_fixed(source, task.vocabulary.pad), changed, source)

    return draw


def extreme(drawn: Draw, task: "Task") -> Draw:
    """Each position has the lowest or the highest token drawn there; a tenth of the positions keep their own."""

    def draw(random: np.random.Generator, n: int) -> Rows:
        source = drawn(random, max(n, 64))
        present = source != task.vocabulary.pad
        low = np.where(present, source, source.max()).min(0)
        high = np.where(present, source, source.min()).max(0)
        source, present = source[:n], present[:n]
        ends = np.where(random.random(source.shape) < 0.5, low, high)
        return np.where(present & (random.random(source.shape) < 0.9), ends, source)

    return draw


def _fixed(source: Rows, pad: int) -> Bool[np.ndarray, " width"]:
    """Positions at which all rows have the same token, such as the + of sums of one width."""
    present = source != pad
    low = np.where(present, source, source.max(initial=0)).min(0, initial=source.max(initial=0))
    return (np.where(present, source, low).max(0, initial=0) == low) & (len(source) > 1)


def readable(task: "Task", source: Rows) -> Bool[np.ndarray, " batch"]:
    """Rows that are valid for any task: padding on the right, and a record that the task reads back unchanged."""
    return np.array([_is_readable(task, row) for row in source], dtype=bool)


def _is_readable(task: "Task", row: np.ndarray) -> bool:
    length = int((row != task.vocabulary.pad).sum())
    alone = row[None, :length]
    if not length or (alone == task.vocabulary.pad).any():
        return False
    try:
        found, _ = task.from_record(task.to_record(alone[0], task.answer(alone)[0]))
    except Exception:  # a task may fail in any way on a row that is no input of it
        return False
    return list(found) == alone[0].tolist()


def holds_values(source: Rows, values: int, pad: int) -> Bool[np.ndarray, " batch"]:
    """Rows of one or more elements 0 to values - 1, then padding."""
    inside = (source >= 0) & (source < values)
    ended = np.cumsum(source == pad, axis=1) > 0
    return np.asarray((inside != ended).all(1) & inside[:, 0])
