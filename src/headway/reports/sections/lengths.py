"""The section on length generalization, and the mechanism of failures."""

from collections.abc import Iterable
from functools import partial

from headway.narration.lengths import constant, held, mastery_table, measured, table_of_cells, table_of_runs
from headway.narration.tables import Table
from headway.narration.text import Words, code, quote, text
from headway.reports.blocks import Block, Figure, Listing, Section, paragraph
from headway.reports.documents import Documents, RunDocuments
from headway.reports.length_groups import Group, groups_of
from headway.reports.length_overview import overview_of_lengths
from headway.reports.lengths import length_figures
from headway.reports.mechanism import draw_mechanism
from headway.reports.sections.accuracy import figure_name
from headway.results.lengths import Lengths
from headway.results.study import MeasuredRun

MOST_RUNS_IN_WORDS = 4
"""With more runs, only tables are shown."""
ALT = {
    "lengths-map": "Heat map of accuracy, combinations against lengths, a panel for each set.",
    "lengths-curves": "Accuracy against length with its interval, the training lengths shaded.",
    "lengths-answers": "Share of each answer against length.",
    "lengths-bars": "Bars of accuracy at each length past training.",
    "lengths-held": "Length held of every seed.",
    "positions-table": "Heat map of the learned positions.",
    "positions-bias": "The bias that each head adds to its scores, against distance.",
    "positions-identities": "The two identities of the sinusoid.",
    "mechanism": "What changes in each head as sequences grow.",
}
OTHER = "Accuracy by what makes an example hard."


def section(documents: Documents) -> Section | None:
    runs = documents.with_lengths
    if not runs:
        return None
    blocks: list[Block] = []
    if len(runs) <= MOST_RUNS_IN_WORDS:
        blocks = [block for run, found in runs for block in paragraph(sentences(run, found))]
    named = [(run.name, found) for run, found in runs]
    tables: list[Table | None] = [mastery_table(documents.cells)]
    for name in dict.fromkeys(name for _, found in runs for name in found.sets):
        tables += [table_of_cells(documents.cells, name), table_of_runs(named, name)]
    blocks += [table for table in tables if table is not None]
    parts = [mechanism(documents, run, found) for run, found in runs if found.mechanism is not None]
    return Section("lengths", "Past the training lengths", [*blocks, *figures(documents)], parts)


def sentences(run: RunDocuments, found: Lengths) -> Iterable[Words | None]:
    learned = () if found.positions is None else found.positions.words
    return [
        measured(found, run.name),
        *(held(found, name) for name in found.held),
        constant(found),
        *map(quote, learned),
    ]


def groups(documents: Documents) -> list[Group]:
    """All runs; those of one cell of a study are one group."""
    runs = documents.with_lengths
    cells = {run.name: (cell.cell, run.mastery) for cell in documents.cells for run in cell.runs}
    known = [cells.get(run.name, (None, None)) for run, _ in runs]
    judged = [MeasuredRun.of(found, one[1]) for (_, found), one in zip(runs, known, strict=True)]
    names = [name for name, _ in known if name is not None]
    return groups_of(judged, names if len(names) == len(runs) else None)


def leading_figure(documents: Documents) -> Figure:
    """The figure of the first screen."""
    draw = partial(overview_of_lengths, groups(documents))
    return Figure("overview", ALT["lengths-curves"], draw, narrow=partial(draw, narrow=True))


def figures(documents: Documents) -> list[Block]:
    """Every figure of lengths, of all runs at once; those after the first are closed."""
    named = [one for one in length_figures(groups(documents)) if not one[0].startswith("mechanism")]
    return [Figure(name, alt_of(name), draw, folded=place > 0) for place, (name, draw) in enumerate(named)]


def alt_of(name: str) -> str:
    return next((words for start, words in ALT.items() if name.startswith(start)), OTHER)


def mechanism(documents: Documents, run: RunDocuments, found: Lengths) -> Section:
    """The mechanism of a run's failure, in sentences."""
    assert found.mechanism is not None
    name = figure_name(documents, run, "mechanism")
    drawn = Figure(name, ALT["mechanism"], partial(draw_mechanism, found.mechanism), run=run.place)
    title = text("Heads against length: {}", code(run.name))
    return Section(f"mechanism-{run.anchor}", title, [Listing([quote(one) for one in found.mechanism.words]), drawn])
