"""The gate: a run says something about length only if it mastered the lengths that it was trained on.

A run has mastered them if it has at least 99.9 % of its validation set right. One that is trained with a gate
(`train.stop_accuracy`) masters at the first of `stop_for` validations in a row that reach it, and stops. Any other is
judged by the checkpoint that counts, on the same set.
"""

from collections.abc import Sequence

from headway.callbacks import MetricsRow
from headway.results.study import Mastery
from headway.runs import RunDirectory

GATE = 0.999
"""Share of the validation set, which has training lengths, from which on a run has mastered them."""


def mastery_of(run: RunDirectory) -> Mastery:
    """Whether a finished run passed the gate, from which step on, and the accuracy of the checkpoint that counts."""
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
