"""The section on training: curves, the chosen checkpoint, and the largest rise of accuracy."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from headway.callbacks import CurvePoint
from headway.narration.numbers import NONE, Form, decimal, duration, number, percent, whole
from headway.narration.tables import Column, Table, words
from headway.narration.text import Code, Text, Words, code, text, told
from headway.reports.blocks import Block, Figure, Section, paragraph
from headway.reports.documents import Documents, RunDocuments
from headway.reports.training_curves import training_curves

ALT = "Two curves against the training step: loss in training and validation, and validation accuracy."


def section(documents: Documents) -> Section | None:
    runs = [run for run in documents.runs if run.metrics.validation]
    if not runs:
        return None
    blocks: list[Block] = paragraph(sentences(runs[0])) if len(runs) == 1 else [table(runs)]
    draw = partial(training_curves, [run.name for run in runs], [run.metrics for run in runs])
    return Section("training", "Training", [*blocks, Figure("training", ALT, draw, narrow=partial(draw, narrow=True))])


def sentences(run: RunDocuments) -> list[Text]:
    state = run.training
    early = "Training stopped early, at step {}: validation reached its stopping criterion."
    unfinished = "Training is not finished: it can be continued with {}."
    return told(
        lambda: text(early, number(state["step"])) if state["stopped_early"] else None,
        lambda: text(
            "The chosen checkpoint is step {}, with the lowest validation loss ({}) and an accuracy of {}.",
            number(state["best"]["step"]),
            number(state["best"]["loss"], decimal),
            number(state["best"]["accuracy"], percent),
        ),
        lambda: jump(run.metrics.validation),
        lambda: None if state["finished"] else text(unfinished, Code("--resume")),
    )


def jump(validations: Sequence[CurvePoint]) -> Text | None:
    """The two validations between which accuracy rose most; None if it never rose."""
    rises = [
        (after.get("accuracy") or 0.0) - (before.get("accuracy") or 0.0) for before, after in pairwise(validations)
    ]
    if not rises or max(rises) <= 0:
        return None
    place = rises.index(max(rises))
    two = validations[place : place + 2]
    steps = (number(one["step"]) for one in two)
    shares = (number(one["accuracy"], percent) for one in two)
    return text("Validation accuracy rose most between steps {} and {}: from {} to {}.", *steps, *shares)


def table(runs: Sequence[RunDocuments]) -> Table:
    rows = []
    for run in runs:
        best = run.training.get("best") or {}
        facts = [run.config.get("seed"), run.training.get("step"), run.training.get("seconds")]
        facts += [best.get(key) for key in ("step", "loss", "accuracy")]
        rows.append([code(run.name), *map(cell, facts, (whole, whole, duration, whole, decimal, percent))])
    titles = ("seed", "steps", "time", "best step", "validation loss", "validation accuracy")
    return Table("Training of every run", [*words("run"), *map(Column, titles)], rows)


def cell(value: float | None, form: Form) -> Words:
    return NONE if value is None else number(value, form)
