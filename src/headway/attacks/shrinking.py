"""Makes a failing input shorter and simpler while it stays a valid input that fails."""

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
from jaxtyping import Int

from headway.attacks.scoring import margins
from headway.evaluation import Trained
from headway.tasks import Task

Row = Int[np.ndarray, " width"]
Shorter = Int[np.ndarray, " shorter"]
MOST_PAIRS = 400
"""Largest number of block pairs of one size that are removed together."""
MOST_STEPS = 200


def simplicity(row: Row) -> tuple[int, int, int]:
    """Sort key: length, then the number of changes between neighbouring tokens, then the sum of tokens."""
    return len(row), int((np.diff(row) != 0).sum()), int(row.sum())


def shrink(
    trained: Trained, task: Task, row: Row, shortest: int, feature: str | None, stop: Callable[[], bool]
) -> Shorter:
    """The simplest failing input that single steps reach; `shortest` is the lower limit of the task's length `feature`.

    Each step takes the simplest candidate that still fails.
    """
    for _ in range(MOST_STEPS):
        for candidates in (shorter(row), simpler(row, task)):
            better = _failing(trained, task, candidates, row, shortest, feature)
            if better is not None or stop():
                break
        if better is None or stop():
            return row if better is None else better
        row = better
    return row


def _failing(
    trained: Trained, task: Task, candidates: Iterator[Row], than: Row, shortest: int, feature: str | None
) -> Shorter | None:
    """The simplest failing candidate, if it is simpler than the current row."""
    different = {row.tobytes(): row for row in candidates if len(row) and simplicity(row) < simplicity(than)}
    if not different:
        return None
    rows = sorted(different.values(), key=simplicity)
    pad = task.vocabulary.pad
    wide = np.full((len(rows), len(than)), pad)
    for place, row in enumerate(rows):
        wide[place, : len(row)] = row
    valid = task.is_valid(wide)
    if feature is not None and valid.any():
        valid[valid] = task.features(wide[valid])[feature] >= shortest
    left = np.flatnonzero(valid)
    fails = left[margins(trained, wide[left]) < 0] if len(left) else left
    return rows[int(fails[0])] if len(fails) else None


def shorter(row: Row) -> Iterator[Row]:
    """The row without one block, and without two blocks, such as the same column of both operands."""
    size = len(row) // 2
    while size:
        starts = range(0, len(row) - size + 1, size)
        for start in starts:
            yield np.delete(row, slice(start, start + size))
        pairs = list(combinations(starts, 2))
        for first, second in pairs[:: max(1, len(pairs) // MOST_PAIRS)]:
            yield np.delete(row, [*range(first, first + size), *range(second, second + size)])
        size //= 2


def simpler(row: Row, task: Task) -> Iterator[Row]:
    """Rows of the same length: tokens replaced by a neighbour's, one or a run; a token replaced by a lower one."""
    for place in range(len(row)):
        for other in {max(0, place - 1), min(len(row) - 1, place + 1)} - {place}:
            yield _with(row, slice(place, place + 1), int(row[other]))
        yield _with(row, slice(0, place), int(row[place]))
        yield _with(row, slice(place, len(row)), int(row[place]))
        for lower in {0, 1, int(row[place]) // 2, int(row[place]) - 1}:
            if 0 <= lower < row[place]:
                yield _with(row, slice(place, place + 1), lower)


def _with(row: Row, places: slice, token: int) -> Row:
    changed = row.copy()
    changed[places] = token
    return changed
