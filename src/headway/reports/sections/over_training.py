"""The section on heads over training, for runs that kept weights and were analysed."""

from functools import partial

from headway.narration import over_training as narrated
from headway.narration.text import code, text
from headway.reports.blocks import Figure, Section, paragraph
from headway.reports.documents import Documents, RunDocuments
from headway.reports.over_training_figure import over_training
from headway.results.over_training import OverTraining

ALT = "Accuracy against the training step above; below, the drop of every head at every kept step as a heat map."
METHOD = (
    "A drop cannot exceed the accuracy, and a flip needs a right answer token; the share of the logit difference "
    "that a patch moves needs neither."
)


def section(documents: Documents) -> Section | None:
    """One part for each analysed run."""
    parts = [of_run(run, run.over_training) for run in documents.runs if run.over_training is not None]
    return Section("over-training", "Heads over training", paragraph([text(METHOD)]), parts) if parts else None


def of_run(run: RunDocuments, found: OverTraining) -> Section:
    draw = partial(over_training, found)
    name = f"over-training-{run.anchor}"
    figure = Figure(name, ALT, draw, narrow=partial(draw, narrow=True))
    return Section(
        name, text("Over the training of {}", code(run.name)), [*paragraph([*narrated.over_training(found)]), figure]
    )
