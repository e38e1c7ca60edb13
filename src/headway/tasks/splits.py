"""Three splits that cannot overlap.

Every canonical problem belongs to exactly one split, by a hash of (data seed, problem). So a fixed
set of 10,000 and an endless stream of fresh examples are both disjoint from validation and test, for every
seed, without storing what was drawn.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Literal

import numpy as np
from jaxtyping import Int, UInt64

from headway.errors import InputError
from headway.randomness import derive, generator
from headway.tasks.base import Task
from headway.tasks.examples import Examples, Keys, Rows

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")

TENTHS = {"validation": 1, "test": 2}
"""Problems are hashed into ten equal shares: validation has the second, test the third and training the others."""

LARGEST_DRAW = 1 << 25
"""The most tokens that are drawn at once."""

PATIENCE = 20
"""After so many draws without a new example, a split counts as exhausted."""


def split_of(task: Task, source: Rows, data_seed: int) -> Int[np.ndarray, " batch"]:
    """The index in `SPLITS` of the split that each problem belongs to."""
    tenth = fingerprint(task.canonical(source), derive(data_seed, "splits")) % np.uint64(10)
    return np.where(tenth == TENTHS["validation"], 1, np.where(tenth == TENTHS["test"], 2, 0))


def fingerprint(rows: Keys, salt: int) -> UInt64[np.ndarray, " batch"]:
    """A 64-bit hash of each canonical row, without padding (-1)."""
    state = np.full(len(rows), salt, dtype=np.uint64)
    for column in rows.T:
        state = np.where(column >= 0, _scramble(state ^ (column + 1).astype(np.uint64)), state)
    return _scramble(state)


def _scramble(state: np.ndarray) -> np.ndarray:
    """The mixing step of splitmix64."""
    with np.errstate(over="ignore"):
        state = state + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def problem_keys(task: Task, source: Rows) -> list[bytes]:
    """One key per problem; keys are equal exactly if two sources are the same problem."""
    return [row[row >= 0].tobytes() for row in task.canonical(source).astype(np.int32)]


def fixed_split(task: Task, split: Split, n: int, data_seed: int) -> Examples:
    """`n` different examples of the split in random order, equally many of each of the task's groups."""
    groups = task.groups()
    room = {group: n // len(groups) + (place < n % len(groups)) for place, group in enumerate(groups)}
    seen: set[bytes] = set()
    kept: list[Examples] = []
    width = task.draw(generator(data_seed, "width"), 1).source.shape[1]
    candidates_a_draw = min(max(4 * n, 4_096), 65_536, max(64, LARGEST_DRAW // width))
    draw = idle = 0
    while sum(room.values()) and idle < PATIENCE:
        candidates = _candidates(task, split, candidates_a_draw, data_seed, (data_seed, f"data/{split}", draw))
        strata = task.strata(candidates.source).tolist()
        chosen = [row for row, key in enumerate(_row_keys(task, candidates)) if _admit(key, strata[row], seen, room)]
        kept.append(candidates.take(chosen))
        draw, idle = draw + 1, 0 if chosen else idle + 1
    if sum(room.values()):
        shares = f", in equal shares of its {len(groups)} groups" if len(groups) > 1 else ""
        raise InputError(
            f"data.{split} = {n:,}, and task {task.name!r} has only {n - sum(room.values()):,} "
            f"different {split} examples with these options{shares}; ask for fewer"
        )
    examples = Examples.join(kept, task.vocabulary.pad)
    return examples.take(generator(data_seed, f"shuffle/{split}").permutation(n))


def _row_keys(task: Task, examples: Examples) -> list[bytes]:
    return [row[row != task.vocabulary.pad].tobytes() for row in examples.source]


def _admit(key: bytes, group: int, seen: set[bytes], room: dict[int, int]) -> bool:
    """Accept the candidate if its group is not full and its source was not taken before."""
    if not room.get(group) or key in seen:
        return False
    seen.add(key)
    room[group] -= 1
    return True


def fresh_batch(task: Task, n: int, data_seed: int, seed: int, step: int) -> Examples:
    """The `n` online training examples of one step, fixed by the run's seed and the step, all of the training split.

    Every step has the same widths, whatever was drawn.
    """
    kept: list[Examples] = []
    while (missing := n - sum(map(len, kept))) > 0:
        if len(kept) >= PATIENCE:
            raise InputError(f"task {task.name!r} has too few training examples with these options to draw fresh ones")
        found = _candidates(task, "train", missing * 4 // 3 + 64, data_seed, (seed, "fresh", step, len(kept)))
        kept.append(found.take(slice(0, missing)))
    return Examples.join(kept, task.vocabulary.pad).padded_to(task.widths(), task.vocabulary.pad)


def _candidates(task: Task, split: Split, n: int, data_seed: int, stream: tuple[int | str, ...]) -> Examples:
    """The draws of a random stream that belong to the split."""
    seed, purpose, *counters = stream
    drawn = task.draw(generator(int(seed), str(purpose), *map(int, counters)), n)
    return drawn.take(split_of(task, drawn.source, data_seed) == SPLITS.index(split))


def overlaps(task: Task, splits: Mapping[str, Examples]) -> dict[str, int]:
    """For each pair of splits that share problems, how many examples of the second are also in the first.

    >>> overlaps(task, {"train": train, "test": test})   # doctest: +SKIP
    {'train and test': 25}
    """
    keys = {name: problem_keys(task, examples.source) for name, examples in splits.items()}
    counts = {f"{a} and {b}": sum(map(set(keys[a]).__contains__, keys[b])) for a, b in combinations(splits, 2)}
    return {pair: count for pair, count in counts.items() if count}
