"""Accuracy of a user's model against length: `headway lengths my_model.py:build`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headway.attached_analysis.course_run import CannotRead, CourseRun, task_of_length
from headway.batches import make_batch
from headway.callbacks import OnProgress
from headway.errors import InputError
from headway.length_analysis.held import THRESHOLD, fewest_examples
from headway.length_analysis.measure import (
    CONFIDENCE,
    SetAtLength,
    Summary,
    check_sizes,
    measure_set,
    measure_sets,
    summarised,
)
from headway.length_analysis.sets import plan_lengths
from headway.results.lengths import GIVEN, Checkpoint, LengthRow, Lengths, TrainingRange
from headway.tasks import Examples, Task
from headway.tasks.addition import Addition
from headway.tasks.examples import LengthPlan

FILES = "files"
"""The set of the test files."""
FOREIGN = "of another program"
"""In place of the name of an encoding."""


@dataclass(frozen=True)
class FileSet(SetAtLength):
    """The examples of the test files at one length."""

    examples: Examples

    @property
    def listed(self) -> int | None:
        return None

    def chunks(self) -> tuple[Iterator[Examples], int]:
        return iter([self.examples]), len(self.examples)


def measure_course(
    run: CourseRun,
    *,
    at: Sequence[int] | None = None,
    n: int,
    whole: int,
    progress: OnProgress = lambda done, total: None,
) -> Lengths:
    """Accuracy on the test files by length and, for sortedness, on headway's sets; lengths that fail are left out."""
    check_sizes(n, whole)
    plan = _plan(run, at)
    readable, unreadable = _tried(run, plan)
    if not readable.trained:
        length = plan.trained[0]
        _ask(run, length)
        raise InputError(f"--at: {run.directory.path} cannot read any of the lengths")
    rows = [] if isinstance(run.task, Addition) else measure_sets(run, readable, n, whole, progress)
    rows += _of_files(run, readable, n, alone=not rows)
    return Lengths(
        task=run.task.name,
        run=str(run.directory.path),
        seed=run.config.seed,
        encoding=FOREIGN,
        checkpoint=Checkpoint(step=run.step, chosen_on=GIVEN),
        unit=plan.unit,
        training=TrainingRange(shortest=plan.shortest, longest=plan.longest),
        asked=None if at is None else tuple(sorted(set(at))),
        n=n if plan.sets != (FILES,) else max(row.n for row in rows),
        whole=whole,
        threshold=THRESHOLD,
        confidence=CONFIDENCE,
        unreadable=unreadable,
        **_summarised(rows),
    )


def _summarised(rows: list[LengthRow]) -> Summary:
    """The lengths held; the smallest is over headway's sets, because files may have few examples of a length."""
    found = summarised(rows)
    found["length_held"] = _smallest(found["held"])
    found["certified_length"] = _smallest(found["certified"])
    return found


def _smallest(held: dict[str, int]) -> int:
    own = {name: length for name, length in held.items() if name != FILES}
    return min((own or held).values())


def _plan(run: CourseRun, at: Sequence[int] | None) -> LengthPlan:
    """The lengths of the files, and for sortedness those of the task; `at` chooses."""
    if not isinstance(run.task, Addition):
        plan = plan_lengths(run, at)
        return plan if at is not None else replace(plan, longer=tuple(sorted({*plan.longer, *_longer(run, plan)})))
    digits = run.task.digits
    wanted = tuple(length for length in sorted(run.tests) if at is None or length in at)
    missing = sorted(set(at or ()) - set(wanted))
    if missing:
        raise InputError(f"--at {missing[0]}: the test files have no sums of {missing[0]} digits; {_known(run)}")
    inside = tuple(length for length in wanted if length <= digits)
    longer = tuple(length for length in wanted if length > digits)
    return LengthPlan("digits", "digits", (FILES,), digits, digits, inside or (digits,), longer)


def _known(run: CourseRun) -> str:
    return f"they have {', '.join(map(str, sorted(run.tests)))}"


def _longer(run: CourseRun, plan: LengthPlan) -> list[int]:
    return [length for length in run.tests if length > plan.longest]


def _tried(run: CourseRun, plan: LengthPlan) -> tuple[LengthPlan, tuple[int, ...]]:
    """The plan without the lengths at which the model raises an error, and those lengths."""
    failing = []
    for length in (*plan.trained, *plan.longer):
        try:
            _ask(run, length)
        except CannotRead:
            failing.append(length)
    trained, longer = (tuple(x for x in lengths if x not in failing) for lengths in (plan.trained, plan.longer))
    return replace(plan, trained=trained, longer=longer), tuple(failing)


def _ask(run: CourseRun, length: int) -> None:
    """One input of a length; an error of the model is raised."""
    task = task_of_length(run.task, length)
    row = np.zeros((1, length), dtype=np.int64)
    if isinstance(task, Addition):
        row = np.ones((1, 2 * length + 1), dtype=np.int64)
        row[:, length] = task.plus
    here = run if task is run.task else run.with_task(task)
    here.model(make_batch(task, here.model, Examples(row, task.answer(row)), here.device).inputs)


def check_readable(run: CourseRun, at: Sequence[int] | None) -> None:
    """Raise unless the model can read inputs of the lengths."""
    for length in at or ():
        if not isinstance(run.task, Addition):
            _ask(run, length)


def _of_files(run: CourseRun, plan: LengthPlan, n: int, *, alone: bool) -> list[LengthRow]:
    """The test files by length; beside other sets, only lengths with enough examples to show that one is held."""
    rows = []
    for length, examples in run.tests.items():
        if length not in (*plan.trained, *plan.longer) or (len(examples) < fewest_examples() and not alone):
            continue
        task: Task = task_of_length(run.task, length)
        here = run if task is run.task else run.with_task(task)
        some = examples.take(slice(0, n))
        asked = FileSet(here, FILES, length, len(some), 0, some)
        row = measure_set(here, asked, plan.shortest <= length <= plan.longest, lambda done, total: None)
        rows.append(_without_end(row, length) if isinstance(task, Addition) else row)
    if alone and not rows:
        raise InputError("the test files have no example of the lengths that were asked for")
    return rows


def _without_end(row: LengthRow, digits: int) -> LengthRow:
    """The loss over the digits alone; the end token, which headway adds, costs nothing."""
    return replace(row, loss=None if row.loss is None else row.loss * (digits + 2) / (digits + 1))
