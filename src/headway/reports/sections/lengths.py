"""How far past its training lengths each run holds, and why it fails where it was asked."""

from functools import partial

from markupsafe import Markup

from headway.reports.blocks import Block, Cell, Column, Figure, Listing, Section, Table, paragraph
from headway.reports.evidence import Evidence, Form, listed, percent, whole, written
from headway.reports.length_groups import groups_of, set_name
from headway.reports.lengths import planned
from headway.reports.mechanism import draw_mechanism
from headway.reports.sections.accuracy import figure_name
from headway.results.study import MeasuredRun, StudyCell

MOST_RUNS_IN_WORDS = 4
"""More are told by tables alone."""
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
COLOURED = (
    "lengths-map",
    "lengths-gap",
    "lengths-longest-ripple",
    "lengths-longest-unstarted-ripple",
    "lengths-longest-chain",
    "positions-table",
    "mechanism",
)
"""Figures whose colours are values."""


def section(evidence: Evidence) -> Section | None:
    runs = evidence.those_with("lengths")
    if not runs:
        return None
    blocks: list[Block] = []
    if len(runs) <= MOST_RUNS_IN_WORDS:
        for run in runs:
            blocks += paragraph(sentences(evidence, run))
    blocks += mastery(evidence)
    for name in sets_of(evidence, runs):
        blocks += over_seeds(evidence, name)
        blocks.append(table(evidence, runs, name))
    blocks += figures(evidence, runs)
    parts = [part for run in runs for part in mechanism(evidence, run)]
    return Section("lengths", "Past the training lengths", blocks, parts)


def sets_of(evidence: Evidence, runs: list[str]) -> list[str]:
    """The sets that were measured, in the documents' order."""
    return list(dict.fromkeys(name for run in runs for name in evidence.lengths(run).sets))


def sentences(evidence: Evidence, run: str) -> list[Markup]:
    place, found = f"{run}/lengths", evidence.lengths(run)
    said = range(0 if found.positions is None else len(found.positions.words))
    return written(
        lambda: Markup(
            "{} was trained on {} to {} {}; measured at step {}, chosen by {}, on {} examples a set and length."
        ).format(
            evidence.text(f"{run}/name", "code"),
            evidence.number(f"{place}/training/shortest"),
            evidence.number(f"{place}/training/longest"),
            found.unit,
            evidence.number(f"{place}/checkpoint/step"),
            evidence.text(f"{place}/checkpoint/chosen_on"),
            evidence.number(f"{place}/n"),
        ),
        *(partial(held, evidence, run, name) for name in found.held),
        lambda: constant(evidence, run),
        *(partial(evidence.text, f"{place}/positions/words/{index}") for index in said),
    )


def held(evidence: Evidence, run: str, name: str) -> Markup:
    """How far a run holds on a set, and which shorter lengths it does not hold."""
    place, found = f"{run}/lengths", evidence.lengths(run)
    reached, longest = f"{place}/held/{name}", f"{place}/training/longest"
    words = set_name(name)
    if found.held[name] == 0:
        return Markup("On {} it holds at no length.").format(words)
    times = Markup("")
    if found.held[name] > found.training.longest:
        times = Markup(", {} times the longest training length").format(evidence.ratio(reached, longest))
    limit = ", the longest that was tested" if max(found.of_set(name)) == found.held[name] else ""
    gaps = [f"{place}/not_held/{name}/{index}" for index in range(len(found.not_held.get(name, ())))]
    but = Markup(", but not at {}").format(listed([evidence.number(gap) for gap in gaps])) if gaps else ""
    return Markup("On {} it holds to {}{}{}{}.").format(words, evidence.number(reached), times, limit, but)


def constant(evidence: Evidence, run: str) -> Markup | None:
    place = f"{run}/lengths/constant"
    return Markup(
        "From length {} on it answers {} whatever it sees: its accuracy there is the share of such examples."
    ).format(evidence.number(f"{place}/from"), evidence.setting(f"{place}/answer"))


def table(evidence: Evidence, runs: list[str], name: str) -> Table:
    """Accuracy of every run at the longest training length and past it; `*` marks one answer throughout."""
    indices = {run: index_rows(evidence, run, name) for run in runs}
    longest = min(evidence.lengths(run).training.longest for run in runs)
    there = sorted({length for rows in indices.values() for length in rows if length >= longest})
    rows = []
    for run in runs:
        cells = [Cell(evidence.text(f"{run}/name", "code"))]
        cells += [accuracy_cell(evidence, run, indices[run].get(length)) for length in there]
        cells.append(number_cell(evidence, f"{run}/lengths/held/{name}"))
        rows.append(cells)
    places = {length: f"{run}/lengths/lengths/{index}/length" for run in runs for length, index in indices[run].items()}
    heads = [Column(evidence.number(places[length])) for length in there]
    columns = [Column("run", numeric=False), *heads, Column("length held")]
    return Table(f"Accuracy against length: {set_name(name)} (* always the same answer)", columns, rows)


def number_cell(evidence: Evidence, place: str, form: Form = whole) -> Cell:
    """A number, or a dash where there is none."""
    return Cell(evidence.number(place, form), evidence.get(place)) if evidence.has(place) else Cell(Markup("–"))


def study_cells(evidence: Evidence) -> dict[str, StudyCell]:
    """Where a study's combinations stand, and what they hold."""
    study = evidence.length_study
    return {f"study/lengths/cells/{index}": cell for index, cell in enumerate(() if study is None else study.cells)}


def mastery(evidence: Evidence) -> list[Block]:
    """Which runs of a study passed the gate, from which step on, and what the others reached."""
    rows = [
        [
            Cell(evidence.text(f"{place}/cell")),
            number_cell(evidence, f"{place}/runs/{index}/seed"),
            Cell(Markup("yes") if run.mastery.mastered else Markup("no")),
            number_cell(evidence, f"{place}/runs/{index}/mastery/step"),
            number_cell(evidence, f"{place}/runs/{index}/mastery/accuracy", percent),
        ]
        for place, cell in study_cells(evidence).items()
        for index, run in enumerate(cell.runs)
        if run.mastery is not None
    ]
    if not rows:
        return []
    columns = [Column("combination", numeric=False), Column("seed"), Column("mastered", numeric=False)]
    columns += [Column("steps to mastery"), Column("validation accuracy")]
    return [Table("Mastery of the training lengths (only runs that mastered count past them)", columns, rows)]


def over_seeds(evidence: Evidence, name: str) -> list[Block]:
    """A study's combinations on a set: the median over seeds at each length, and its interval."""
    places = {place: seed_rows(place, cell, name) for place, cell in study_cells(evidence).items()}
    there = sorted({length for rows in places.values() for length in rows})
    if not there:
        return []
    rows = [
        [
            Cell(evidence.text(f"{cell}/cell")),
            number_cell(evidence, f"{cell}/together/n_seeds"),
            *(median_cell(evidence, own.get(length)) for length in there),
            number_cell(evidence, f"{cell}/together/sets/{name}/median"),
        ]
        for cell, own in places.items()
        if own
    ]
    first = {length: path for own in places.values() for length, path in own.items()}
    columns = [Column("combination", numeric=False), Column("seeds")]
    columns += [Column(evidence.number(f"{first[length]}/length")) for length in there]
    return [Table(f"Medians over seeds: {set_name(name)}", [*columns, Column("length held, median")], rows)]


def seed_rows(place: str, cell: StudyCell, name: str) -> dict[int, str]:
    """Length -> where a combination's numbers stand, from the longest training length on."""
    rows = () if cell.together is None else cell.together.rows
    longest = max((row.length for row in rows if row.trained), default=0)
    return {
        row.length: f"{place}/together/lengths/{index}"
        for index, row in enumerate(rows)
        if row.set_name == name and row.length >= longest
    }


def median_cell(evidence: Evidence, place: str | None) -> Cell:
    """A median, with its interval where there are seeds enough; of an earlier version's document the mean alone."""
    if place is None:
        return Cell(Markup("–"))
    if not evidence.has(f"{place}/median"):
        return Cell(Markup("mean {}").format(evidence.number(f"{place}/mean", percent)), evidence.get(f"{place}/mean"))
    text = evidence.number(f"{place}/median", percent)
    if evidence.has(f"{place}/interval"):
        text += Markup(' <span class="aside">({})</span>').format(evidence.interval(f"{place}/interval"))
    return Cell(text, evidence.get(f"{place}/median"))


def index_rows(evidence: Evidence, run: str, name: str) -> dict[int, int]:
    """Length -> where its row of a set stands."""
    return {row.length: index for index, row in enumerate(evidence.lengths(run).rows) if row.set_name == name}


def accuracy_cell(evidence: Evidence, run: str, index: int | None) -> Cell:
    if index is None:
        return Cell(Markup("–"))
    place = f"{run}/lengths/lengths/{index}"
    text = Markup('{}{} <span class="aside">({})</span>').format(
        evidence.number(f"{place}/accuracy", percent),
        "*" if evidence.has(f"{place}/constant") else "",
        evidence.interval(f"{place}/interval"),
    )
    return Cell(text, evidence.get(f"{place}/accuracy"))


def figures(evidence: Evidence, runs: list[str]) -> list[Block]:
    """Every figure of lengths, of all runs at once; runs of one cell of a study are one group."""
    cells = {run.name: (cell.cell, run.mastery) for cell in study_cells(evidence).values() for run in cell.runs}
    known = [cells.get(evidence.get(f"{run}/name"), (None, None)) for run in runs]
    measured = [MeasuredRun.of(evidence.lengths(run), one[1]) for run, one in zip(runs, known, strict=True)]
    names = [name for name, _ in known if name is not None]
    groups = groups_of(measured, names if len(names) == len(runs) else None)
    return [
        Figure(name, alt_of(name), draw, colours=name.startswith(COLOURED))
        for name, draw in planned(groups)
        if not name.startswith("mechanism")
    ]


def alt_of(name: str) -> str:
    return next(
        (text for start, text in ALT.items() if name.startswith(start)), "Accuracy by what makes an example hard."
    )


def mechanism(evidence: Evidence, run: str) -> list[Section]:
    """Why a run fails at some length, in the words of its mechanism."""
    found = evidence.lengths(run).mechanism
    if found is None:
        return []
    words = [evidence.text(f"{run}/lengths/mechanism/words/{index}") for index in range(len(found.words))]
    drawn = Figure(
        figure_name(evidence, run, "mechanism"), ALT["mechanism"], partial(draw_mechanism, found), colours=True
    )
    title = Markup("Heads against length: {}").format(evidence.text(f"{run}/name", "code"))
    return [Section(f"mechanism-{run.replace('/', '-')}", title, [Listing(words), drawn])]
