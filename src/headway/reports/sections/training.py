"""How training went: curves, the checkpoint that was chosen, and where accuracy jumped."""

from functools import partial
from itertools import pairwise

from markupsafe import Markup

from headway.reports.blocks import Block, Cell, Column, Figure, Section, Table, paragraph
from headway.reports.evidence import Evidence, decimal, minutes, percent, written
from headway.reports.training_curves import training_curves


def section(evidence: Evidence) -> Section | None:
    runs = [run for run in evidence.runs if evidence.find(f"{run}/metrics/validation")]
    if not runs:
        return None
    blocks: list[Block] = paragraph(sentences(evidence, runs[0])) if len(runs) == 1 else [table(evidence, runs)]
    names = [evidence.get(f"{run}/name") for run in runs]
    draw = partial(training_curves, names, [evidence.get(f"{run}/metrics") for run in runs])
    alt = "Two curves against the training step: loss in training and validation, and validation accuracy."
    return Section("training", "Training", [*blocks, Figure("training", alt, draw)])


def sentences(evidence: Evidence, run: str) -> list[Markup]:
    best = f"{run}/training/best"
    return written(
        lambda: (
            Markup("Training stopped early, at step {}: validation had nothing left to learn.").format(
                evidence.number(f"{run}/training/step")
            )
            if evidence.get(f"{run}/training/stopped_early")
            else None
        ),
        lambda: Markup(
            "The checkpoint that counts is step {}, with the lowest validation loss ({}); its accuracy there is {}."
        ).format(
            evidence.number(f"{best}/step"),
            evidence.number(f"{best}/loss", decimal),
            evidence.number(f"{best}/accuracy", percent),
        ),
        lambda: jump(evidence, run),
        lambda: (
            None
            if evidence.get(f"{run}/training/finished")
            else Markup("Training is not finished: it can be continued with <code>--resume</code>.")
        ),
    )


def jump(evidence: Evidence, run: str) -> Markup | None:
    """Between which two validations accuracy rose most; nothing where it never did."""
    path = f"{run}/metrics/validation"
    values = [row.get("accuracy") or 0.0 for row in evidence.get(path)]
    rises = [after - before for before, after in pairwise(values)]
    if not rises or max(rises) <= 0:
        return None
    place = rises.index(max(rises))
    return Markup("Validation accuracy rose most between steps {} and {}: from {} to {}.").format(
        *(evidence.number(f"{path}/{index}/step") for index in (place, place + 1)),
        *(evidence.number(f"{path}/{index}/accuracy", percent) for index in (place, place + 1)),
    )


def table(evidence: Evidence, runs: list[str]) -> Table:
    keys = (
        ("seed", "config/seed", None),
        ("steps", "training/step", None),
        ("time", "training/seconds", minutes),
        ("best step", "training/best/step", None),
        ("validation loss", "training/best/loss", decimal),
        ("validation accuracy", "training/best/accuracy", percent),
    )
    rows = []
    for run in runs:
        cells = [Cell(evidence.text(f"{run}/name", "code"))]
        for _, key, form in keys:
            path = f"{run}/{key}"
            there = evidence.has(path)
            text = Markup("–") if not there else evidence.number(path, form) if form else evidence.number(path)
            cells.append(Cell(text, float(evidence.get(path)) if there else None))
        rows.append(cells)
    return Table("Training of every run", [Column("run", numeric=False), *(Column(name) for name, _, _ in keys)], rows)
