"""The sets on which lengths are measured: one for each length, shared by all seeds, never trained on.

A set depends on `data.seed`, its name and its length, so all seeds and recipes of a task are tested on the same
examples. Lengths beyond the training range cannot have been trained on; inside it, only problems of the test split are
used.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from headway.errors import InputError
from headway.evaluation import Trained
from headway.randomness import generator
from headway.tasks import Examples, Task
from headway.tasks.examples import LengthPlan
from headway.tasks.splits import LARGEST_DRAW, SPLITS, fingerprint, problem_keys, split_of

LONGEST = 65_536
PATIENCE = 20
"""A set counts as exhausted after this many draws without a new example."""
MOST_AT_ONCE = 65_536
"""Largest number of examples in one draw; long examples are also limited by tokens."""
REMEMBERED = 64
"""Sets cached in a process, so that the seeds of an experiment do not draw them again."""


def plan_lengths(trained: Trained, at: Sequence[int] | None = None) -> LengthPlan:
    """The task's lengths for this run; `at` replaces those beyond the training range and adds to those inside it."""
    plan = _known_plan(trained)
    if at is None:
        return plan
    for length in at:
        if not 2 <= length <= LONGEST:
            raise InputError(f"--at {length}; a length from 2 to {LONGEST:,} needed")
        for name in plan.sets:
            trained.task.for_lengths(name, length)
    inside = {length for length in at if length <= plan.longest}
    longer = sorted(set(at) - inside)
    return replace(plan, trained=tuple(sorted({*plan.trained, *inside})), longer=tuple(longer))


def _known_plan(trained: Trained) -> LengthPlan:
    plan = trained.task.length_plan()
    if not trained.config.data.files:
        return plan
    # Files may hold other lengths than the recipe; the trained lengths are those of the files.
    lengths = trained.task.features(trained.examples("train").source)[plan.feature]
    shortest, longest = int(lengths.min()), int(lengths.max())
    inside = tuple(length for length in plan.trained if shortest <= length <= longest) or (longest,)
    longer = tuple(length for length in plan.longer if length > longest)
    return replace(plan, shortest=shortest, longest=longest, trained=inside, longer=longer)


def length_set(trained: Trained, name: str, length: int, n: int) -> Examples:
    """`n` different examples of the named set at exactly this length; the same for every seed, never trained on."""
    if trained.config.data.files:
        splits = [trained.examples("train"), trained.examples("validation")]
        known = frozenset(key for examples in splits for key in problem_keys(trained.task, examples.source))
        return _draw(trained.task, name, length, n, trained.config.data.seed, known)
    return _remembered(type(trained.task), trained.task.options, name, length, n, trained.config.data.seed)


@lru_cache(maxsize=REMEMBERED)
def _remembered(task: type[Task], options: Any, name: str, length: int, n: int, data_seed: int) -> Examples:
    return _draw(task(options), name, length, n, data_seed, None)


def _draw(task: Task, name: str, length: int, n: int, data_seed: int, known: frozenset[bytes] | None) -> Examples:
    """Draw until each group has its share of different examples or is exhausted; a small set has fewer than `n`."""
    at_length = task.for_lengths(name, length)
    groups = at_length.groups()
    room = {group: n // len(groups) + (i < n % len(groups)) for i, group in enumerate(groups)}
    tenfold = known is None and length <= task.length_plan().longest  # one problem in ten is in the test split
    size = min(n * (12 if tenfold else 1) + 16, MOST_AT_ONCE, max(64, LARGEST_DRAW // length))
    seen: set[int] = set()
    kept: list[Examples] = []
    draw = idle = 0
    while sum(room.values()) and idle < PATIENCE:
        drawn = at_length.draw(generator(data_seed, f"lengths/{name}/{length}", draw), size)
        if tenfold:
            drawn = drawn.take(split_of(task, drawn.source, data_seed) == SPLITS.index("test"))
        elif known is not None:
            drawn = drawn.take([key not in known for key in problem_keys(task, drawn.source)])
        chosen = _new_rows(at_length, drawn, seen, room)
        kept.append(drawn.take(chosen))
        draw, idle = draw + 1, 0 if chosen else idle + 1
    found = n - sum(room.values())
    if not found:
        raise InputError(
            f"task {task.name!r} has no example at length {length} that training did not see (set {name!r}); "
            "ask for other lengths"
        )
    examples = Examples.join(kept, task.vocabulary.pad)
    return examples.take(generator(data_seed, f"lengths/{name}/{length}/order").permutation(found))


def _new_rows(task: Task, drawn: Examples, seen: set[int], room: dict[int, int]) -> list[int]:
    """Rows that are new and whose group has room; updates `seen` and `room`."""
    chosen = []
    source = np.where(drawn.source == task.vocabulary.pad, -1, drawn.source)
    for row, (key, group) in enumerate(zip(fingerprint(source, 0).tolist(), task.strata(drawn.source), strict=True)):
        if room.get(int(group)) and key not in seen:
            seen.add(key)
            room[int(group)] -= 1
            chosen.append(row)
    return chosen
