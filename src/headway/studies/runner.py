"""From a plan to its findings: runs left to train, runs whose failure is analysed, and the record of each cell."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headway.results.lengths import Lengths
from headway.results.study import BestValidation, MeasuredRun, StudyCell, Training
from headway.runs import RunDirectory, StudyDirectory
from headway.studies.gate import mastery_of
from headway.studies.plan import Cell, StudyPlan

if TYPE_CHECKING:
    from headway.sweeps.plan import Trial

RIGHT = 0.99
"""A run with a lower accuracy at the longest training length has not learned the task."""
LOST = 0.1
"""Loss of accuracy beyond training from which the mechanism is analysed."""


def left_to_train(cells: Sequence[Cell], directory: StudyDirectory) -> "list[Trial]":
    """The unfinished runs; raises for a run that was started with other settings."""
    from headway.tasks import make_task
    from headway.training.preparation import plan_run

    found = []
    for trial in (trial for cell in cells for trial in cell.trials):
        run = directory.run(trial.name)
        plan_run(run, trial.config, make_task(trial.config.task), resume=True, data=None)
        if not run.newest_state().get("finished"):
            found.append(trial)
    return found


def training_of(run: RunDirectory) -> Training:
    """The training record of a finished run. The seeds of a stack share their seconds."""
    state, circumstances = run.newest_state(), run.provenance()
    best = state["best"]
    return Training(
        run=str(run.path),
        steps=state["step"],
        seconds=state["seconds"],
        metrics=BestValidation(
            validation_loss=best["loss"], validation_accuracy=best["accuracy"], best_step=best["step"]
        ),
        stopped_early=state["stopped_early"],
        mastery=mastery_of(run),
        device=circumstances.get("gpu") or circumstances.get("device"),
    )


def judged(found: Lengths, run: RunDirectory) -> MeasuredRun:
    """The measurements of a run, and whether it passed the gate."""
    return MeasuredRun.of(found, mastery_of(run))


# Which runs get a mechanism analysis


def main_set(found: Lengths) -> str:
    """The set with the negatives of training; the strictest set if training had both kinds."""
    sets, trained = found.sets, found.negatives_trained
    return trained if trained in sets else "adjacent" if "adjacent" in sets else sets[0]


def accuracies(found: Lengths, name: str) -> dict[int, float]:
    """Length -> accuracy on a set."""
    return {length: row.accuracy for length, row in found.of_set(name).items()}


def loss_of(run: MeasuredRun) -> float:
    """Accuracy lost from the longest training length to the worst longer one; 0 if the task was not learned."""
    if not run.passed:
        return 0.0
    found, longest = accuracies(run, main_set(run)), run.training.longest
    inside = [length for length in found if length <= longest]
    before = found[max(inside)] if inside else 0.0
    past = [share for length, share in found.items() if length > longest]
    return before - min(past) if past and before >= RIGHT else 0.0


def asked_why(cells: Sequence[Sequence[str]], measured: Mapping[str, MeasuredRun], how: str) -> list[str]:
    """The runs whose failure is analysed: the one that loses most, one per cell, or every one that loses `LOST`."""
    lost = {name: loss_of(run) for name, run in measured.items()}
    if how == "every":
        return [name for names in cells for name in names if lost[name] >= LOST]
    losing = [max(names, key=lost.__getitem__) for names in cells if names]
    losing = [name for name in losing if lost[name] >= LOST]
    if how == "worst":
        return [max(losing, key=lost.__getitem__)] if losing else []
    return losing if how == "failing" else []


def worth_attacking(measured: Mapping[str, MeasuredRun]) -> list[str]:
    """The runs that hold a length beyond training, which a failing input would contradict."""
    return [name for name, run in measured.items() if run.passed and run.length_held > run.training.longest]


# The study's records


def findings(
    plan: StudyPlan, directory: StudyDirectory, measured: Mapping[str, MeasuredRun], failed: Mapping[str, str]
) -> list[StudyCell]:
    """One record per cell: its runs' documents, their summary, the cost of training, and failures."""
    from headway.length_analysis.seed_summary import together

    found = []
    for cell in plan.cells:
        names = [trial.name for trial in cell.trials]
        there = [name for name in names if name in measured]
        runs = tuple(measured[name] for name in there)
        found.append(
            StudyCell(
                cell=cell.name,
                label=cell.label,
                arm=cell.arm,
                settings=dict(cell.settings),
                encoding=cell.config.model.encoding.name,
                pooling=None if cell.config.model.pooling is None else cell.config.model.pooling.name,
                planned=len(names),
                failed={name: failed[name] for name in names if name in failed},
                training=tuple(training_of(directory.run(name)) for name in there),
                together=together(runs) if runs else None,
                runs=runs,
            )
        )
    return found
