"""How far past its training lengths each run holds, and why it fails where it was asked."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from markupsafe import Markup

from headway.reports.blocks import Block, Cell, Column, Figure, Listing, Section, Table, paragraph
from headway.reports.evidence import Evidence, listed, percent, written
from headway.reports.length_groups import groups_of, set_name
from headway.reports.lengths import planned
from headway.reports.mechanism import draw_mechanism
from headway.reports.sections.accuracy import figure_name

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
    return list(dict.fromkeys(row["negatives"] for run in runs for row in evidence.get(f"{run}/lengths/lengths")))


def sentences(evidence: Evidence, run: str) -> list[Markup]:
    place = f"{run}/lengths"
    return written(
        lambda: Markup(
            "{} was trained on {} to {} {}; measured at step {}, chosen by {}, on {} examples a set and length."
        ).format(
            evidence.text(f"{run}/name", "code"),
            evidence.number(f"{place}/training/shortest"),
            evidence.number(f"{place}/training/longest"),
            evidence.get(f"{place}/unit"),
            evidence.number(f"{place}/checkpoint/step"),
            evidence.text(f"{place}/checkpoint/chosen_on"),
            evidence.number(f"{place}/n"),
        ),
        *(partial(held, evidence, run, name) for name in evidence.find(f"{place}/held", {})),
        lambda: constant(evidence, run),
        *(
            partial(evidence.text, f"{place}/positions/words/{i}")
            for i in range(len(evidence.find(f"{place}/positions/words", [])))
        ),
    )


def held(evidence: Evidence, run: str, name: str) -> Markup:
    """How far a run holds on a set, and which shorter lengths it does not hold."""
    place = f"{run}/lengths"
    reached, longest = f"{place}/held/{name}", f"{place}/training/longest"
    words = set_name(name)
    if evidence.get(reached) == 0:
        return Markup("On {} it holds at no length.").format(words)
    times = Markup("")
    if evidence.get(reached) > evidence.get(longest):
        times = Markup(", {} times the longest training length").format(evidence.ratio(reached, longest))
    tested = max(row["length"] for row in evidence.get(f"{place}/lengths") if row["negatives"] == name)
    limit = ", the longest that was tested" if tested == evidence.get(reached) else ""
    gaps = [f"{place}/not_held/{name}/{index}" for index in range(len(evidence.find(f"{place}/not_held/{name}", [])))]
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
    longest = min(evidence.get(f"{run}/lengths/training/longest") for run in runs)
    there = sorted({length for rows in indices.values() for length in rows if length >= longest})
    rows = []
    for run in runs:
        cells = [Cell(evidence.text(f"{run}/name", "code"))]
        cells += [accuracy_cell(evidence, run, indices[run].get(length)) for length in there]
        reached = f"{run}/lengths/held/{name}"
        known = evidence.has(reached)
        cells.append(Cell(evidence.number(reached), evidence.get(reached)) if known else Cell(Markup("–")))
        rows.append(cells)
    places = {length: f"{run}/lengths/lengths/{index}/length" for run in runs for length, index in indices[run].items()}
    heads = [Column(evidence.number(places[length])) for length in there]
    columns = [Column("run", numeric=False), *heads, Column("length held")]
    return Table(f"Accuracy against length: {set_name(name)} (* always the same answer)", columns, rows)


def mastery(evidence: Evidence) -> list[Block]:
    """Which runs of a study passed the gate, from which step on, and what the others reached."""
    rows = []
    for cell in (f"study/lengths/cells/{index}" for index in range(len(evidence.find("study/lengths/cells", [])))):
        for place in (f"{cell}/runs/{index}" for index in range(len(evidence.find(f"{cell}/runs", [])))):
            found: Any = evidence.find(f"{place}/mastery")
            if not found:
                continue
            known = found["step"] is not None
            rows.append(
                [
                    Cell(evidence.text(f"{cell}/cell")),
                    Cell(evidence.number(f"{place}/seed"), evidence.get(f"{place}/seed")),
                    Cell(Markup("yes") if found["mastered"] else Markup("no")),
                    Cell(evidence.number(f"{place}/mastery/step"), found["step"]) if known else Cell(Markup("–")),
                    Cell(evidence.number(f"{place}/mastery/accuracy", percent), found["accuracy"]),
                ]
            )
    if not rows:
        return []
    columns = [Column("combination", numeric=False), Column("seed"), Column("mastered", numeric=False)]
    columns += [Column("steps to mastery"), Column("validation accuracy")]
    return [Table("Mastery of the training lengths (only runs that mastered count past them)", columns, rows)]


def over_seeds(evidence: Evidence, name: str) -> list[Block]:
    """A study's combinations on a set: the median over seeds at each length, and its interval."""
    cells = [f"study/lengths/cells/{index}" for index in range(len(evidence.find("study/lengths/cells", [])))]
    places = {cell: seed_rows(evidence, cell, name) for cell in cells}
    there = sorted({length for rows in places.values() for length in rows})
    if not there:
        return []
    rows = [
        [
            Cell(evidence.text(f"{cell}/cell")),
            Cell(evidence.number(f"{cell}/together/n_seeds"), evidence.get(f"{cell}/together/n_seeds")),
            *(median_cell(evidence, places[cell].get(length)) for length in there),
            Cell(
                evidence.number(f"{cell}/together/sets/{name}/median"),
                evidence.get(f"{cell}/together/sets/{name}/median"),
            ),
        ]
        for cell in cells
        if places[cell]
    ]
    first = {length: path for places_of in places.values() for length, path in places_of.items()}
    columns = [Column("combination", numeric=False), Column("seeds")]
    columns += [Column(evidence.number(f"{first[length]}/length")) for length in there]
    return [Table(f"Medians over seeds: {set_name(name)}", [*columns, Column("length held, median")], rows)]


def seed_rows(evidence: Evidence, cell: str, name: str) -> dict[int, str]:
    """Length -> where a combination's numbers stand, from the longest training length on."""
    rows = evidence.find(f"{cell}/together/lengths", [])
    own = {row["length"]: f"{cell}/together/lengths/{i}" for i, row in enumerate(rows) if row["negatives"] == name}
    trained = [row["length"] for row in rows if row["trained"]]
    return {length: path for length, path in own.items() if length >= max(trained, default=0)}


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
    rows = evidence.get(f"{run}/lengths/lengths")
    return {row["length"]: index for index, row in enumerate(rows) if row["negatives"] == name}


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
    judged = mastery_by_run(evidence)
    documents = [{**evidence.get(f"{run}/lengths"), **judged.get(evidence.get(f"{run}/name"), {})} for run in runs]
    cells = cells_of(evidence)
    names = [cells.get(evidence.get(f"{run}/name")) for run in runs]
    groups = groups_of(documents, None if None in names else [str(name) for name in names])
    return [
        Figure(name, alt_of(name), draw, colours=name.startswith(COLOURED))
        for name, draw in planned(groups)
        if not name.startswith("mechanism")
    ]


def mastery_by_run(evidence: Evidence) -> dict[str, dict[str, Any]]:
    """What a study's document says of each run's mastery, by the run's name."""
    found = {}
    for run in (run for cell in evidence.find("study/lengths/cells", []) for run in cell["runs"]):
        if run.get("mastery"):
            found[run["run"].rstrip("/").rpartition("/")[2]] = {"mastery": run["mastery"]}
    return found


def cells_of(evidence: Evidence) -> Mapping[str, str]:
    """The cell of a study that each run belongs to, by the run's name."""
    found = {}
    for cell in evidence.find("study/lengths/cells", []):
        for run in cell["runs"]:
            found[run["run"].rstrip("/").rpartition("/")[2]] = cell["cell"]
    return found


def alt_of(name: str) -> str:
    return next(
        (text for start, text in ALT.items() if name.startswith(start)), "Accuracy by what makes an example hard."
    )


def mechanism(evidence: Evidence, run: str) -> list[Section]:
    """Why a run fails at some length, in the words of its mechanism."""
    found: Any = evidence.find(f"{run}/lengths/mechanism")
    if not found:
        return []
    words = [evidence.text(f"{run}/lengths/mechanism/words/{index}") for index in range(len(found["words"]))]
    drawn = Figure(
        figure_name(evidence, run, "mechanism"), ALT["mechanism"], partial(draw_mechanism, found), colours=True
    )
    title = Markup("Heads against length: {}").format(evidence.text(f"{run}/name", "code"))
    return [Section(f"mechanism-{run.replace('/', '-')}", title, [Listing(words), drawn])]
