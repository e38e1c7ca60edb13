"""The gate: only a run that mastered its training lengths counts in results about length.

A run has mastered them if at least 99.9 % of its validation set is right. A run that is trained with a gate
(`train.stop_accuracy`) masters at the first of `stop_for` validations in a row that reach it, and stops. Any other run
is judged by its chosen checkpoint, on the same set.
"""

from collections.abc import Sequence

from headway.callbacks import MetricsRow
from headway.results.study import Mastery
from headway.runs import RunDirectory

GATE = 0.999
"""Validation accuracy, at training lengths, from which a run has mastered them."""


def mastery_of(run: RunDirectory) -> Mastery:
    """Whether a finished run passed the gate, at which step, and the accuracy of the chosen checkpoint."""
    settings, state = run.config().train, run.newest_state()
    gate, accuracy = settings.stop_accuracy, state["best"]["accuracy"]
    if gate is not None:
        step = state.get("mastered_at")
        return Mastery(gate=gate, stops=True, mastered=step is not None, step=step, accuracy=accuracy)
    step = first_reaching(run.metrics(), GATE) if accuracy >= GATE else None
    return Mastery(gate=GATE, stops=False, mastered=accuracy >= GATE, step=step, accuracy=accuracy)


def first_reaching(metrics: Sequence[MetricsRow], gate: float) -> int | None:
    """The first step whose validation accuracy reached the gate."""
    steps = (row["step"] for row in metrics if "validation" in row and row["validation"]["accuracy"] >= gate)
    return next(steps, None)
