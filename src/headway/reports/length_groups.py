"""Groups of runs that differ only in their seed, measured against length, and their remarks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headway.errors import InputError
from headway.narration.lengths import SETS
from headway.narration.lengths import set_name as set_name
from headway.results.lengths import LengthRow, Lengths
from headway.results.study import MeasuredRun
from headway.statistics import ENOUGH_SEEDS, median_interval

MOST_IN_A_PANEL = 6
"""Largest number of groups that can be distinguished in one panel."""


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed. `panel` and `line` are its name, split at the last comma."""

    name: str
    runs: tuple[Lengths, ...]

    @property
    def panel(self) -> str:
        return self.name.rpartition(", ")[0] or self.name

    @property
    def line(self) -> str:
        return self.name.rpartition(", ")[2]

    @property
    def seeds(self) -> int:
        return len(self.runs)

    @property
    def masters(self) -> int | None:
        """The number of runs that passed their study's gate; None without a gate."""
        judged = [run.mastery.mastered for run in self.runs if isinstance(run, MeasuredRun) and run.mastery is not None]
        return sum(judged) if judged else None


@dataclass(frozen=True)
class Point:
    """One number of a group at one length: every seed's value, the median, and its 95 % interval if there is one.

    For a single seed the interval is over its examples, for six or more over seeds.
    """

    length: int
    values: tuple[float, ...]
    interval: tuple[float, float] | None
    constant: bool

    @property
    def median(self) -> float:
        return float(np.median(self.values))


def groups_of(runs: Sequence[Lengths], names: Sequence[str] | None = None) -> list[Group]:
    """The runs by name, in order of first occurrence; the default name is encoding and pooling."""
    if not runs:
        raise InputError("no lengths were measured: there is nothing to draw")
    names = [default_name(run) for run in runs] if names is None else names
    pairs = list(zip(names, runs, strict=True))
    return [Group(name, tuple(run for own, run in pairs if own == name)) for name in dict.fromkeys(names)]


def default_name(run: Lengths) -> str:
    """Encoding and pooling, if the run has them."""
    return ", ".join(filter(None, (run.encoding, run.pooling)))


def rows_of(groups: Sequence[Group], name: str | None = None) -> list[LengthRow]:
    """The rows of all runs, or those of one set."""
    return [row for group in groups for run in group.runs for row in run.rows if name is None or row.set_name == name]


def sets_of(groups: Sequence[Group]) -> list[str]:
    """The measured sets, known ones first in their order."""
    there = dict.fromkeys(row.set_name for row in rows_of(groups))
    return [name for name in SETS if name in there] + [name for name in there if name not in SETS]


def lengths_of(groups: Sequence[Group], name: str) -> list[int]:
    """All lengths at which a set was measured."""
    return sorted({row.length for row in rows_of(groups, name)})


def trained_range(groups: Sequence[Group]) -> tuple[int, int]:
    """The shortest and the longest training length of all runs."""
    trained = [run.training for group in groups for run in group.runs]
    return min(one.shortest for one in trained), max(one.longest for one in trained)


def accuracy(row: LengthRow) -> float | None:
    return row.accuracy


Number = Callable[[LengthRow], float | None]
"""A number of a row; None if it was not measured."""


def points(group: Group, name: str, number: Number = accuracy) -> list[Point]:
    """A group's points at all measured lengths of a set."""
    found = (point(group, name, length, number) for length in lengths_of([group], name))
    return [one for one in found if one is not None]


def point(group: Group, name: str, length: int, number: Number = accuracy) -> Point | None:
    rows = [row for row in rows_of([group], name) if row.length == length and number(row) is not None]
    values = tuple(value for row in rows if (value := number(row)) is not None)
    if not rows:
        return None
    own = [row.interval for row in rows] if number is accuracy else None
    constant = all(row.constant is not None for row in rows)
    if len(rows) == 1:
        return Point(length, values, own[0] if own else None, constant)
    return Point(length, values, median_interval(values, own=own), constant)


def lengths_held_by(group: Group, name: str) -> list[int]:
    """The length held by each seed on a set, in ascending order."""
    return sorted(run.held[name] for run in group.runs if name in run.held)


def threshold_of(groups: Sequence[Group]) -> float:
    """The lower bound of accuracy from which a length is held."""
    return groups[0].runs[0].threshold


def is_class(groups: Sequence[Group]) -> bool:
    """Whether answers are classes."""
    return any(run.is_class for group in groups for run in group.runs)


def unit(groups: Sequence[Group]) -> str:
    """The unit of lengths."""
    return groups[0].runs[0].unit


def seeds_remark(groups: Sequence[Group]) -> str:
    """The group if there is only one, its number of seeds, and whether they are only descriptive."""
    counts = sorted({group.seeds for group in groups})
    alone = f"{groups[0].name}; " if len(groups) == 1 else ""
    if counts == [1]:
        return f"{alone}one seed" if alone else "one seed each"
    several = f"{counts[0]} seeds" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
    return alone + several + (" (fewer than 6: descriptive)" if counts[0] < ENOUGH_SEEDS else "")


def band_remark(groups: Sequence[Group]) -> str:
    """The meaning of the intervals of these groups."""
    counts = {group.seeds for group in groups}
    over = "95 % interval of the median seed" if max(counts) >= ENOUGH_SEEDS else ""
    single = "95 % interval over examples" if 1 in counts else ""
    return " or ".join(filter(None, (over, f"{single} of a single seed" if over and single else single)))


def constant_words(groups: Sequence[Group]) -> list[str]:
    """The groups with constant answers, in words: `rotary, mean: 2 of 5 seeds answer 1 from 32 on`."""
    words = []
    for group in groups:
        found = [run.constant for run in group.runs if run.constant is not None]
        for answer in dict.fromkeys(one.answer for one in found):
            starts = [one.start for one in found if one.answer == answer]
            who = f"{len(starts)} of {group.seeds} seeds answer" if group.seeds > 1 else "always answers"
            start = f"{min(starts)}" if len(set(starts)) == 1 else f"{min(starts)} to {max(starts)}"
            words.append(f"{group.name}: {who} {answer} from {start} on")
    return words
