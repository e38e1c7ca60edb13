"""What heads are worth together, and what they bring."""

from collections.abc import Mapping
from functools import partial

from markupsafe import Markup

from headway.reports.blocks import Block, Cell, Column, Figure, Listing, Table, paragraph
from headway.reports.elimination import elimination
from headway.reports.evidence import Evidence, listed, percent, points, written
from headway.reports.importance import shapley
from headway.reports.interventions import interventions
from headway.reports.sections.accuracy import figure_name
from headway.results.patching import Contrast, Controls

MOST_NAMED = 3
UNLEARNED = ("no-better-than-guessing", "constant-answer")
"""Findings of the doctor on a model of which no head says anything."""


def together(evidence: Evidence, run: str) -> list[Block]:
    found = evidence.heads(run)
    limits = range(len(found.joint.removable) if unlearned(evidence, run) is None else 0)
    blocks = paragraph(*(removable(evidence, f"{run}/heads/joint/removable/{index}") for index in limits))
    if found.joint.elimination.steps:
        alt = "Accuracy as heads are taken out one after the other, against what adding up single drops promises."
        blocks.append(Figure(figure_name(evidence, run, "elimination"), alt, partial(elimination, found)))
    blocks += paragraph(sufficient(evidence, run), backing(evidence, run))
    if found.joint.shapley:
        alt = (
            "Shapley value of every head with its error: its share of the accuracy over all orders of taking heads out."
        )
        blocks.append(Figure(figure_name(evidence, run, "shapley"), alt, partial(shapley, found)))
    return blocks


def removable(evidence: Evidence, row: str) -> list[Markup]:
    """How many heads can go together for a limit, against how many pass it alone."""
    alone = f"{row}/alone_under_limit"
    return written(
        lambda: Markup("{}.").format(going(evidence, row, named=True)),
        lambda: (
            Markup("One at a time {} heads are under that limit; taken out together those cost {} points ({}).").format(
                evidence.size(f"{alone}/heads"),
                evidence.number(f"{alone}/drop", points),
                evidence.interval(f"{alone}/drop_interval", points),
            )
            if evidence.get(f"{alone}/heads")
            else None
        ),
    )


def going(evidence: Evidence, row: str, *, named: bool = False) -> Markup:
    """What the heads cost that were chosen to go together; that they can go only where the interval shows it.

    `named` begins a sentence with them; else they have been spoken of before.
    """
    limit = Markup("{} {}").format(
        evidence.number(f"{row}/limit"), "point" if evidence.get(f"{row}/limit") == 1 else "points"
    )
    if not evidence.get(f"{row}/heads"):
        return Markup("{} head was found that can go for less than {}").format("No" if named else "no", limit)
    noun = "" if not named else " head" if len(evidence.get(f"{row}/heads")) == 1 else " heads"
    count = evidence.size(f"{row}/heads") + noun
    cost = Markup("on other examples the cost is {} points ({})").format(
        evidence.number(f"{row}/drop", points), evidence.interval(f"{row}/drop_interval", points)
    )
    if evidence.get(f"{row}/drop_interval/1") < evidence.get(f"{row}/limit"):
        return Markup("{} can go together for less than {}: {}").format(count, limit, cost)
    return Markup("{} chosen to go together: {}, not shown to be under {}").format(count, cost, limit)


def unlearned(evidence: Evidence, run: str) -> str | None:
    """Where the doctor's finding stands that the model learned nothing, so that no head of it says anything."""
    findings = evidence.find(f"{run}/doctor/findings", [])
    return next(
        (
            f"{run}/doctor/findings/{index}"
            for index, one in enumerate(findings)
            if one["check"] in UNLEARNED and one["level"] != "fine"
        ),
        None,
    )


def sufficient(evidence: Evidence, run: str) -> list[Markup]:
    path = f"{run}/heads/joint/sufficient/heads"
    return written(
        lambda: (
            Markup(
                "Chosen as enough for all but a point: {} heads, {}; without the others {} points are lost ({})."
            ).format(
                evidence.size(path),
                listed([evidence.text(f"{path}/{index}", "code") for index in range(len(evidence.get(path)))]),
                evidence.number(f"{run}/heads/joint/sufficient/drop", points),
                evidence.interval(f"{run}/heads/joint/sufficient/drop_interval", points),
            )
            if evidence.get(path)
            else None
        )
    )


def backing(evidence: Evidence, run: str) -> list[Markup]:
    """The pairs that back each other up, as far as the corrected test finds them."""
    place = f"{run}/heads/joint/pairs"
    measured = evidence.heads(run).joint.pairs
    found = [measured.pairs.index(pair) for pair in measured.redundant()[:MOST_NAMED]]
    if not measured.pairs:
        return []
    if not found:
        return written(
            lambda: Markup("Of {} pairs of heads none is found to back each other up ({} examples).").format(
                evidence.number(f"{place}/tested"), evidence.number(f"{place}/n")
            )
        )
    return written(
        lambda: Markup("Heads back each other up ({} pairs, {} examples): {}.").format(
            evidence.number(f"{place}/tested"),
            evidence.number(f"{place}/n"),
            Markup("; ").join(pair_words(evidence, f"{place}/pairs/{index}") for index in found),
        )
    )


def pair_words(evidence: Evidence, pair: str) -> Markup:
    return Markup("{} and {} cost {} and {} points alone, {} together").format(
        *(evidence.text(f"{pair}/heads/{side}", "code") for side in (0, 1)),
        *(evidence.number(f"{pair}/alone/{side}", points) for side in (0, 1)),
        evidence.number(f"{pair}/together", points),
    )


# What they bring


def brings(evidence: Evidence, run: str) -> list[Block]:
    """Carries and digits: whose replacement flips the answer."""
    found = evidence.heads(run)
    places = {
        f"{run}/heads/interventions/contrasts/{index}": one for index, one in enumerate(found.interventions.contrasts)
    }
    lines = written(*(partial(contrast, evidence, place, one) for place, one in places.items()))
    blocks: list[Block] = [Listing(lines)] if lines else []
    blocks += controls(evidence, places)
    for about in found.interventions.subjects:
        alt = f"How often a head's output from one example, put into another, flips the answer ({about})."
        name = figure_name(evidence, run, f"interventions-{about}")
        blocks.append(Figure(name, alt, partial(interventions, found, about), colours=True))
    return blocks


def contrast(evidence: Evidence, place: str, found: Contrast) -> Markup | None:
    """The head that moves one thing most, or that none surely does; on pairs that it was not chosen on."""
    if not found.usable:
        return None
    if strongest := found.strongest:
        best = f"{place}/strongest/{max(strongest, key=lambda kind: strongest[kind].chosen_on_rate)}"
        name = f"{best}/head"
        pairs = Markup("{} pairs that it was not chosen on").format(evidence.number(f"{best}/n"))
    else:  # few pairs, or written by an earlier version: chosen and measured on the same pairs
        single = found.best_single(1)
        if not single:
            return None
        best = f"{place}/rows/{found.rows.index(single[0])}"
        name, pairs = f"{best}/who", Markup("{} pairs").format(evidence.number(f"{place}/usable"))
    if evidence.get(f"{best}/interval/0") <= evidence.get("method/moves_above"):
        return Markup("No single head moves the {}: at most {} of {} ({}).").format(
            evidence.text(f"{place}/name"),
            evidence.number(f"{best}/rate", percent),
            pairs,
            evidence.interval(f"{best}/interval"),
        )
    return Markup("Of single heads, {} moves the {} most: in {} of {} ({}){}.").format(
        evidence.text(name, "code"),
        evidence.text(f"{place}/name"),
        evidence.number(f"{best}/rate", percent),
        pairs,
        evidence.interval(f"{best}/interval"),
        against_control(evidence, f"{best}/control"),
    )


def against_control(evidence: Evidence, place: str) -> Markup:
    """How often the same digit of the answer changes when the source has the same carry."""
    if not evidence.has(f"{place}/rate"):
        return Markup("")
    return Markup("; patched from a sum with another digit and the same carry, that digit changes in {} ({})").format(
        evidence.number(f"{place}/rate", percent), evidence.interval(f"{place}/interval")
    )


def controls(evidence: Evidence, places: Mapping[str, Contrast]) -> list[Block]:
    """All heads of a kind patched at once: do they move the carry, do they change the digit anyway, do they move it?"""
    columns = [
        Column("contrast", numeric=False),
        Column("patched", numeric=False),
        Column("carry moved"),
        Column("digit changed, same carry"),
        Column("digits of the column moved"),
        Column("reading", numeric=False),
    ]
    rows = [
        row
        for place, one in places.items()
        if one.control and one.control.usable
        for row in kind_rows(evidence, place, one, one.control)
    ]
    title = "Heads of one kind patched together, against controls that leave the carry as it is"
    return [Table(title, columns, rows)] if rows else []


def kind_rows(evidence: Evidence, place: str, patched: Contrast, controls: Controls) -> list[list[Cell]]:
    index_of = {row.who: index for index, row in enumerate(patched.rows)}
    found = []
    for index, control in enumerate(controls.rows):
        if not control.who.startswith("all ") or control.who not in index_of:
            continue
        row = f"{place}/control/rows/{index}"
        cells = [Cell(evidence.text(f"{place}/name")), Cell(evidence.text(f"{row}/who"))]
        rates = (f"{place}/rows/{index_of[control.who]}", row, f"{row}/digits")
        cells += [rate_cell(evidence, one) for one in rates]
        found.append([*cells, Cell(evidence.text(f"{row}/reading"))])
    return found


def rate_cell(evidence: Evidence, place: str) -> Cell:
    text = Markup('{} <span class="aside">({})</span>').format(
        evidence.number(f"{place}/rate", percent), evidence.interval(f"{place}/interval")
    )
    return Cell(text, evidence.get(f"{place}/rate"))
