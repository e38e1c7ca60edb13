"""Every run in one row: seed, accuracy, heads, lengths and findings side by side, and what the spread allows to say."""

from collections.abc import Callable
from typing import Any

from markupsafe import Markup

from headway.reports.blocks import Block, Cell, Column, Listing, Section, Table, paragraph
from headway.reports.evidence import Evidence, Missing, percent, points, written
from headway.reports.failed import failures
from headway.reports.sections.accuracy import accuracy_path, best_split
from headway.reports.sections.head_sets import unlearned
from headway.reports.sections.setup import differing

Write = Callable[[Evidence, str], tuple[Markup, Any]]
"""A cell of a run, and what it is sorted by; `Missing` where the run has no such thing."""


def section(evidence: Evidence) -> Section | None:
    if len(evidence.runs) < 2 and not evidence.has("study"):
        return None
    blocks: list[Block] = []
    if len(evidence.runs) > 1:
        blocks = [*paragraph(sentences(evidence)), table(evidence)]
    failed = failures(evidence)
    blocks += [Listing(failed)] * bool(failed)
    study = evidence.length_study
    spoken = range(0 if study is None else len(study.answer))
    blocks += [Listing([evidence.text(f"study/lengths/answer/{index}/text") for index in spoken])] * bool(spoken)
    return Section("seeds", "Every run", blocks)


def sentences(evidence: Evidence) -> list[Markup]:
    """Whether the runs are seeds of one recipe, and what few of them can tell."""
    alike = not differing(evidence)
    few = len(evidence.runs) < evidence.get("method/enough_seeds")
    return written(
        lambda: (
            Markup("{} runs of one recipe that differ in their seed alone.").format(evidence.size("runs"))
            if alike
            else Markup("{} runs of several recipes; the setup says where they differ.").format(evidence.size("runs"))
        ),
        lambda: (
            Markup("Fewer than {} seeds describe themselves and allow no test of what other seeds would do.").format(
                evidence.number("method/enough_seeds")
            )
            if alike and few
            else None
        ),
    )


def table(evidence: Evidence) -> Table:
    """A column for everything that at least one run has."""
    cells = {title: [cell(evidence, run, write) for run in evidence.runs] for title, write in COLUMNS.items()}
    there = [title for title, column in cells.items() if any(one.key is not None for one in column)]
    names = [Cell(evidence.text(f"{run}/name", "code")) for run in evidence.runs]
    rows = [[name, *(cells[title][index] for title in there)] for index, name in enumerate(names)]
    return Table("Every run", [Column("run", numeric=False), *(Column(title) for title in there)], rows)


def cell(evidence: Evidence, run: str, write: Write) -> Cell:
    try:
        text, key = write(evidence, run)
    except Missing:
        return Cell(Markup("–"))
    return Cell(text, float(key))


def plain(path: str, form: Callable[[float], str] | None = None) -> Write:
    def write(evidence: Evidence, run: str) -> tuple[Markup, Any]:
        place = f"{run}/{path}"
        return (evidence.number(place, form) if form else evidence.number(place)), evidence.get(place)

    return write


def of_accuracy(key: str) -> Write:
    def write(evidence: Evidence, run: str) -> tuple[Markup, Any]:
        split = best_split(evidence, run)
        if split is None:
            raise Missing(f"{run}/evaluation")
        if key == "accuracy":
            path = accuracy_path(evidence, run, split)
            return evidence.number(path, percent), evidence.get(path)
        path = f"{run}/evaluation/{split}/{key}"
        return evidence.number(path), evidence.get(path)

    return write


def verdict(name: str) -> Write:
    def write(evidence: Evidence, run: str) -> tuple[Markup, Any]:
        path = f"{run}/heads/heads"
        return evidence.count(path, "verdict", name), evidence.how_many(path, "verdict", name)

    return write


def level(name: str) -> Write:
    def write(evidence: Evidence, run: str) -> tuple[Markup, Any]:
        path = f"{run}/doctor/findings"
        return evidence.count(path, "level", name), evidence.how_many(path, "level", name)

    return write


def go_together(evidence: Evidence, run: str) -> tuple[Markup, Any]:
    path = f"{run}/heads/joint/removable/0/heads"
    if unlearned(evidence, run) is not None:
        raise Missing(path)
    return evidence.size(path), len(evidence.get(path))


def cost_together(evidence: Evidence, run: str) -> tuple[Markup, Any]:
    """What those heads cost, with the interval."""
    row = f"{run}/heads/joint/removable/0"
    if unlearned(evidence, run) is not None:
        raise Missing(row)
    cost = Markup('{} <span class="aside">({})</span>').format(
        evidence.number(f"{row}/drop", points), evidence.interval(f"{row}/drop_interval", points)
    )
    return cost, evidence.get(f"{row}/drop")


COLUMNS: dict[str, Write] = {
    "seed": plain("config/seed"),
    "examples": of_accuracy("n"),
    "wrong": of_accuracy("wrong"),
    "accuracy": of_accuracy("accuracy"),
    "critical heads": verdict("critical"),
    "redundant heads": verdict("redundant"),
    "heads chosen to go together": go_together,
    "their cost on other examples": cost_together,
    "cost together of all heads under the limit alone": plain("heads/joint/removable/0/alone_under_limit/drop", points),
    "length held": plain("lengths/length_held"),
    "doctor: errors": level("error"),
    "doctor: warnings": level("warning"),
}
