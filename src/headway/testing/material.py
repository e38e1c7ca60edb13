"""Shared parts of the task checks: their list, examples, and expected errors."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from headway.errors import InputError
from headway.json_values import JsonObject
from headway.tasks.base import Task
from headway.tasks.examples import Examples

Check = Callable[[Task], None]
TASK_CHECKS: list[Check] = []
"""All checks of a task."""


def task_check(check: Check) -> Check:
    TASK_CHECKS.append(check)
    return check


@contextmanager
def refused(words: str) -> Iterator[None]:
    """The block must raise an `InputError` whose message matches this regular expression."""
    said = ""
    try:
        yield
    except InputError as error:
        said = str(error)
    assert re.search(words, said), f"the error was {said!r}; expected one like {words!r}"


def drawn(task: Task, n: int = 40, seed: int = 12) -> Examples:
    return task.draw(np.random.default_rng(seed), n)


def records(task: Task, examples: Examples) -> list[JsonObject]:
    return [task.to_record(s, t) for s, t in zip(examples.source, examples.target, strict=True)]


def all_right(task: Task, examples: Examples) -> bool:
    """Whether every target is the oracle's answer, ignoring padding."""
    return records(task, examples) == records(task, Examples(examples.source, task.answer(examples.source)))


def cut(task: Task, row: np.ndarray) -> np.ndarray:
    """One row as a batch without padding."""
    return row[row != task.vocabulary.pad][None]


def as_tensors(task: Task, n: int = 6) -> tuple[Tensor, Tensor | None]:
    """Sources, and prefixes that start with BOS; None for a task without a written answer."""
    examples = drawn(task, n)
    source = torch.from_numpy(np.ascontiguousarray(examples.source))
    if task.kind == "class":
        return source, None
    target = torch.from_numpy(np.ascontiguousarray(examples.target))
    return source, torch.cat([torch.full((n, 1), task.vocabulary.bos or 0), target], dim=1)


def same_rows(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two tensors are equal (a single row may stand for all), or both None."""
    if one is None or other is None:
        return one is other
    return bool((one == other).all())


def start_of(positions: Tensor | None, length: int) -> Tensor | None:
    """The first `length` positions of a prefix."""
    return None if positions is None else positions[:, :length]


def with_prefix(task: Task, n: int = 9) -> tuple[np.ndarray, np.ndarray | None]:
    """Sources and prefixes as arrays, both with two extra columns of padding."""
    source, prefix = as_tensors(task, n)
    more = ((0, 0), (0, 2))
    wider = [np.pad(r.numpy(), more, constant_values=task.vocabulary.pad) for r in (source, prefix) if r is not None]
    return wider[0], None if prefix is None else wider[1]
