"""The section with every run in one row: seed, accuracy, heads, lengths and findings."""

from collections.abc import Callable

from headway.narration.method import METHOD
from headway.narration.numbers import NONE, count, number, percent, points, size, with_interval
from headway.narration.tables import Column, Table, words
from headway.narration.text import Text, Words, as_text, code, quote, text
from headway.reports.blocks import Block, Listing, Section, paragraph
from headway.reports.documents import Documents, RunDocuments
from headway.reports.failed import failures
from headway.reports.sections.setup import differing
from headway.results.evaluation import SplitEvaluation
from headway.results.heads import HeadAnalysis
from headway.results.joint_ablation import Removable

Write = Callable[[RunDocuments], Words | None]
"""A cell of a run; None if the run lacks it."""


def section(documents: Documents) -> Section | None:
    if len(documents.runs) < 2 and documents.study is None:
        return None
    blocks: list[Block] = []
    if len(documents.runs) > 1:
        blocks = [*paragraph(sentences(documents)), table(documents)]
    failed = failures(documents)
    blocks += [Listing(failed)] * bool(failed)
    study = None if documents.study is None else documents.study.lengths
    if study is not None and study.answer:
        blocks.append(Listing([quote(one.text) for one in study.answer]))
    return Section("seeds", "Every run", blocks)


def sentences(documents: Documents) -> list[Text]:
    """Whether the runs are seeds of one recipe, and what few seeds allow."""
    if differing(documents):
        return [text("{} runs of several recipes; the setup says where they differ.", documents.n_runs)]
    lines = [text("{} runs of one recipe that differ in their seed alone.", documents.n_runs)]
    if len(documents.runs) < METHOD.enough_seeds:
        few = "Fewer than {} seeds are descriptive and allow no test about other seeds."
        lines.append(text(few, number(METHOD.enough_seeds)))
    return lines


def table(documents: Documents) -> Table:
    """A column for everything that at least one run has."""
    cells = {title: [write(run) for run in documents.runs] for title, write in COLUMNS.items()}
    there = {title: column for title, column in cells.items() if any(one is not None for one in column)}
    rows = [
        [
            code(run.name),
            *(NONE if column[place] is None else as_text(column[place] or "") for column in there.values()),
        ]
        for place, run in enumerate(documents.runs)
    ]
    columns = [Column(title, detail=title in DETAILS) for title in there]
    return Table("Every run", [*words("run"), *columns], rows)


def evaluated(write: Callable[[SplitEvaluation], Words]) -> Write:
    return lambda run: None if run.best_evaluation is None else write(run.best_evaluation)


def analysed(write: Callable[[HeadAnalysis], Words]) -> Write:
    return lambda run: None if run.heads is None or not run.heads.heads else write(run.heads)


def removable(write: Callable[[Removable], Words]) -> Write:
    """A cell about the removable set, for a model that learned something."""

    def cell(run: RunDocuments) -> Words | None:
        rows = run.heads.joint.removable if run.heads is not None and run.unlearned is None else ()
        return write(rows[0]) if rows else None

    return cell


def level(name: str) -> Write:
    return lambda run: None if run.doctor is None else count(run.findings, "level", name)


DETAILS = ("seed", "examples", "their cost on other examples", "cost together of all heads under the limit alone")
"""Columns that are shown when a reader asks for all."""
COLUMNS: dict[str, Write] = {
    "seed": lambda run: number(run.config["seed"]) if "seed" in run.config else None,
    "examples": evaluated(lambda found: number(found.n)),
    "wrong": evaluated(lambda found: number(found.wrong)),
    "accuracy": evaluated(lambda found: number(found.accuracy, percent)),
    "critical heads": analysed(lambda found: count(found.heads, "verdict", "critical")),
    "redundant heads": analysed(lambda found: count(found.heads, "verdict", "redundant")),
    "heads chosen for removal": removable(lambda row: size(row.heads)),
    "their cost on other examples": removable(lambda row: with_interval(row.drop, row.drop_interval, points)),
    "joint cost of all heads under the limit alone": removable(lambda row: number(row.alone_under_limit.drop, points)),
    "length held": lambda run: None if run.lengths is None else number(run.lengths.length_held),
    "doctor: errors": level("error"),
    "doctor: warnings": level("warning"),
}
