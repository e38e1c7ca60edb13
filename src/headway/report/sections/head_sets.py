"""What heads are worth together, and what they bring."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from markupsafe import Markup

from headway.report.blocks import Block, Figure, Listing, paragraph
from headway.report.elimination import elimination
from headway.report.evidence import Evidence, listed, percent, points, written
from headway.report.importance import shapley
from headway.report.interventions import interventions
from headway.report.sections.accuracy import figure_name
from headway.report.style import part

SURE = 0.05
"""A corrected p-value below this is called found."""
MOST_NAMED = 3
UNLEARNED = ("no-better-than-guessing", "constant-answer")
"""Findings of the doctor on a model of which no head says anything."""


def together(evidence: Evidence, run: str) -> list[Block]:
    found = evidence.get(f"{run}/heads")
    limits = range(len(part(found, "joint", "removable") or []) if unlearned(evidence, run) is None else 0)
    blocks = paragraph(*(removable(evidence, f"{run}/heads/joint/removable/{index}") for index in limits))
    if part(found, "joint", "elimination"):
        alt = "Accuracy as heads are taken out one after the other, against what adding up single drops promises."
        blocks.append(Figure(figure_name(evidence, run, "elimination"), alt, partial(elimination, found)))
    blocks += paragraph(sufficient(evidence, run), backing(evidence, run))
    if part(found, "joint", "shapley"):
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
            Markup("Enough by themselves for all but a point: {} heads, {}.").format(
                evidence.size(path),
                listed([evidence.text(f"{path}/{index}", "code") for index in range(len(evidence.get(path)))]),
            )
            if evidence.get(path)
            else None
        )
    )


def backing(evidence: Evidence, run: str) -> list[Markup]:
    """The pairs that back each other up, as far as the corrected test finds them."""
    place = f"{run}/heads/joint/pairs"
    pairs = evidence.find(f"{place}/pairs", [])
    found = [i for i, pair in enumerate(pairs) if pair["interaction"] > 0 and pair["p_holm"] < SURE][:MOST_NAMED]
    if not pairs:
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
    found = evidence.get(f"{run}/heads")
    contrasts: Sequence[Any] = part(found, "interventions", "contrasts") or []
    places = [f"{run}/heads/interventions/contrasts/{index}" for index in range(len(contrasts))]
    lines = written(*(partial(contrast, evidence, place) for place in places))
    blocks: list[Block] = [Listing(lines)] if lines else []
    for about in dict.fromkeys(one["about"] for one in contrasts):
        alt = f"How often a head's output from one example, put into another, flips the answer ({about})."
        name = figure_name(evidence, run, f"interventions-{about}")
        blocks.append(Figure(name, alt, partial(interventions, found, about), colours=True))
    return blocks


def contrast(evidence: Evidence, place: str) -> Markup | None:
    """The head that moves one thing most, or that none surely does."""
    rows = evidence.get(f"{place}/rows")
    single = [index for index, row in enumerate(rows) if row["heads"] == [row["who"]]]
    if not evidence.get(f"{place}/usable") or not single:
        return None
    best = f"{place}/rows/{max(single, key=lambda index: float(rows[index]['rate']))}"
    if evidence.get(f"{best}/interval/0") <= evidence.get("method/moves_above"):
        return Markup("No single head moves the {}: at most {} of {} pairs ({}).").format(
            evidence.text(f"{place}/name"),
            evidence.number(f"{best}/rate", percent),
            evidence.number(f"{place}/usable"),
            evidence.interval(f"{best}/interval"),
        )
    return Markup("Of single heads, {} moves the {} most: in {} of {} pairs ({}).").format(
        evidence.text(f"{best}/who", "code"),
        evidence.text(f"{place}/name"),
        evidence.number(f"{best}/rate", percent),
        evidence.number(f"{place}/usable"),
        evidence.interval(f"{best}/interval"),
    )
