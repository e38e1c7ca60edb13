"""The heads of every run that was analysed: what each looks at, what it is worth alone, and what they do together."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from markupsafe import Markup

from headway.report.blocks import Block, Cell, Column, Figure, HeatMap, HeatMaps, Listing, Section, Table, paragraph
from headway.report.elimination import elimination
from headway.report.evidence import Evidence, listed, percent, points, thousandths, written
from headway.report.importance import importance, shapley
from headway.report.interventions import interventions
from headway.report.sections.accuracy import SPLITS, figure_name, percent_short
from headway.report.style import KINDS, VERDICTS, kinds_of, part, sentence
from headway.report.weights import captured, example_text, head_grid, make_panel

SURE = 0.05
"""A corrected p-value below this is called found."""
MOST_NAMED = 3
MOST_CELLS = 400_000
"""Cells of heat maps that one page carries; about 3 MB."""


def section(evidence: Evidence) -> Section | None:
    runs = evidence.those_with("heads/heads")
    if not runs:
        return None
    blocks: list[Block] = []
    if len(runs) > 1:
        blocks = [*paragraph(of_seeds(evidence, runs)), verdict_table(evidence, runs)]
    parts = [part_of(evidence, run, folded=index > 0) for index, run in enumerate(runs)]
    if len(runs) == 1:
        return Section("heads", "Heads", parts[0].blocks, parts[0].parts)
    return Section("heads", "Heads", blocks, parts)


def part_of(evidence: Evidence, run: str, *, folded: bool) -> Section:
    """One run's heads."""
    found = evidence.get(f"{run}/heads")
    title = Markup("Heads of {}").format(evidence.text(f"{run}/name", "code"))
    kinds = dict.fromkeys(kind for head in found["heads"] for kind in head.get("ablation", {}))
    blocks = paragraph(verdicts(evidence, run), caveats(evidence, run))
    if kinds:
        kind = next(iter(kinds))
        alt = f"Bars of the accuracy lost without each head ({kind} ablation), with intervals, by kind of attention."
        blocks.append(Figure(figure_name(evidence, run, f"importance-{kind}"), alt, partial(importance, found, kind)))
        blocks.append(ablation_table(evidence, run, list(kinds)))
    parts = [
        Section(f"{anchor}-{run.replace('/', '-')}", title, own)
        for anchor, title, own in (
            ("look", "What each head looks at", looks(evidence, run)),
            ("together", "Heads together", together(evidence, run)),
            ("brings", "What heads bring", brings(evidence, run)),
        )
        if own
    ]
    return Section(f"heads-{run.replace('/', '-')}", title, blocks, parts, folded=folded)


# Verdicts


def tally(evidence: Evidence, run: str) -> Markup:
    """`5 are critical, 12 are redundant and 7 are undecided`."""
    path = f"{run}/heads/heads"
    names = [*VERDICTS, *{head["verdict"] for head in evidence.get(path)} - set(VERDICTS)]
    return listed(
        [
            Markup("{} {}").format(
                evidence.count(path, "verdict", name), in_words(name, evidence.how_many(path, "verdict", name))
            )
            for name in names
            if evidence.how_many(path, "verdict", name)
        ]
    )


def in_words(verdict: str, heads: int) -> str:
    """`are redundant`; what depends on the ablation has no verdict of its own."""
    if verdict == "depends on the ablation":
        return "depends on the ablation" if heads == 1 else "depend on the ablation"
    return f"{'is' if heads == 1 else 'are'} {verdict}"


def verdicts(evidence: Evidence, run: str) -> list[Markup]:
    return written(
        lambda: Markup("Of {} heads, one at a time, {}.").format(
            evidence.size(f"{run}/heads/heads"), tally(evidence, run)
        ),
        lambda: costliest(evidence, run),
        lambda: Markup(
            "All drops are in points of accuracy on {} examples of {}, where the whole model has {}."
        ).format(
            evidence.number(f"{run}/heads/n"),
            SPLITS[evidence.get(f"{run}/heads/split")],
            evidence.number(f"{run}/heads/baseline/exact_match", percent),
        ),
    )


def costliest(evidence: Evidence, run: str) -> Markup | None:
    """The head that costs most, if it costs anything that is certain."""
    heads = evidence.get(f"{run}/heads/heads")
    kind = next(iter(heads[0].get("ablation", {})), None)
    if kind is None:
        return None
    best = max(range(len(heads)), key=lambda index: float(heads[index]["ablation"][kind]["drop"]))
    place = f"{run}/heads/heads/{best}"
    drop = f"{place}/ablation/{kind}"
    if evidence.get(f"{drop}/interval/0") <= 0:
        return Markup("No single head costs anything that could be told from nothing ({} ablation).").format(kind)
    return Markup("Without {} accuracy falls most, by {} points ({} interval {}; {} ablation).").format(
        evidence.text(f"{place}/head", "code"),
        evidence.number(f"{drop}/drop", points),
        evidence.number("method/confidence", percent_short),
        evidence.interval(f"{drop}/interval", points),
        kind,
    )


def caveats(evidence: Evidence, run: str) -> list[Markup]:
    path = f"{run}/heads/warnings"
    return [evidence.text(f"{path}/{index}") for index in range(len(evidence.find(path, [])))]


def ablation_table(evidence: Evidence, run: str, kinds: list[str]) -> Table:
    """A row a head: verdict, the drop of each kind of ablation with its interval, and the role."""
    columns = [Column("head", numeric=False), Column("verdict", numeric=False), Column("looks at", numeric=False)]
    columns += [Column(f"drop, {kind}") for kind in kinds]
    rows = []
    for index, head in enumerate(evidence.get(f"{run}/heads/heads")):
        place = f"{run}/heads/heads/{index}"
        cells = [Cell(evidence.text(f"{place}/{key}", tag)) if head.get(key) else Cell(Markup("–"))
                 for key, tag in (("head", "code"), ("verdict", "q"), ("role", "q"))]  # fmt: skip
        cells += [drop_cell(evidence, f"{place}/ablation/{kind}") for kind in kinds]
        rows.append(cells)
    return Table("Every head by itself: points of accuracy lost without it, and the interval", columns, rows)


def drop_cell(evidence: Evidence, place: str) -> Cell:
    if not evidence.has(f"{place}/drop"):
        return Cell(Markup("–"))
    text = Markup('{} <span class="aside">({})</span>').format(
        evidence.number(f"{place}/drop", points), evidence.interval(f"{place}/interval", points)
    )
    return Cell(text, evidence.get(f"{place}/drop"))


def of_seeds(evidence: Evidence, runs: list[str]) -> list[Markup]:
    """What all seeds show, and that head indices do not correspond across them."""
    few = len(runs) < evidence.get("method/enough_seeds")
    return written(
        lambda: Markup(
            "A head of one run has no counterpart in another: runs are compared by how many heads of a kind they have."
        ),
        lambda: (
            Markup("With fewer than {} seeds this describes these runs and no others.").format(
                evidence.number("method/enough_seeds")
            )
            if few
            else None
        ),
    )


def verdict_table(evidence: Evidence, runs: list[str]) -> Table:
    """Every run: how many heads of each verdict, and how many can go together."""
    columns = [
        Column("run", numeric=False),
        Column("heads"),
        *(Column(name) for name in VERDICTS),
        Column("can go together"),
    ]
    rows = []
    for run in runs:
        path = f"{run}/heads/heads"
        cells = [Cell(evidence.text(f"{run}/name", "code")), Cell(evidence.size(path), len(evidence.get(path)))]
        cells += [
            Cell(evidence.count(path, "verdict", name), evidence.how_many(path, "verdict", name)) for name in VERDICTS
        ]
        removable = f"{run}/heads/joint/removable/0/heads"
        there = evidence.has(removable)
        cells.append(Cell(evidence.size(removable), len(evidence.get(removable))) if there else Cell(Markup("–")))
        rows.append(cells)
    return Table("Heads of every run, by verdict", columns, rows)


# What they look at


def looks(evidence: Evidence, run: str) -> list[Block]:
    """Heat maps to look through, and the scores."""
    found = evidence.get(f"{run}/heads")
    blocks: list[Block] = []
    if part(found, "capture", "examples") or part(found, "capture", "mean"):
        blocks.append(heat_maps(evidence, run))
    if part(found, "definitions"):
        blocks.append(score_table(evidence, run))
    return blocks


def heat_maps(evidence: Evidence, run: str) -> HeatMaps:
    """Every head on the mean and on each captured example."""
    found = evidence.get(f"{run}/heads")
    chosen: list[int | None] = [None] if part(found, "capture", "mean") else []
    chosen += range(len(part(found, "capture", "examples") or []))
    examples: list[tuple[str, list[HeatMap]]] = []
    cells = 0
    for example in chosen:
        maps = maps_of(found, example)
        cells += sum(len(one.queries) * len(one.keys) for one in maps)
        if cells <= MOST_CELLS or not examples:
            examples.append((example_name(found, example), maps))
    first = chosen[0]
    still = [
        Figure(
            figure_name(evidence, run, f"heads-{kind}-{'mean' if first is None else f'example-{first}'}"),
            f"Heat maps of the attention weights of every head ({KINDS[kind]}): queries downwards, keys across.",
            partial(head_grid, found, kind, first),
            colours=True,
        )
        for kind in kinds_of(found)
    ]
    return HeatMaps(evidence.get(f"{run}/name"), examples, still)


def maps_of(found: Any, example: int | None) -> list[HeatMap]:
    seen = captured(found, example)
    panels = [
        (head, make_panel(found, head, seen, head["head"], "", 0, 0))
        for head in found["heads"]
        if head["head"] in seen["weights"]
    ]
    return [
        HeatMap(
            head["head"],
            panel.queries,
            panel.keys,
            [[None if cell is None else round(float(cell), 3) for cell in row] for row in panel.weights.tolist()],
            sentence(KINDS[head["kind"]]),
            " · ".join(str(head[key]) for key in ("verdict", "role") if head.get(key)),
        )
        for head, panel in panels
    ]


def example_name(found: Any, example: int | None) -> str:
    if example is None:
        return "mean over the split"
    return " ".join(example_text(captured(found, example)))


def score_table(evidence: Evidence, run: str) -> Table:
    names = list(evidence.get(f"{run}/heads/definitions"))
    rows = []
    for index, head in enumerate(evidence.get(f"{run}/heads/heads")):
        place = f"{run}/heads/heads/{index}"
        cells = [Cell(evidence.text(f"{place}/head", "code"))]
        for name in names:
            path = f"{place}/scores/{name}"
            there = evidence.has(path)
            cells.append(Cell(evidence.number(path, thousandths), head["scores"][name]) if there else Cell(Markup("–")))
        rows.append(cells)
    columns = [Column("head", numeric=False), *(Column(name.replace("_", " ")) for name in names)]
    return Table("Scores of every head; the methods below say what each means", columns, rows)


# Together


def together(evidence: Evidence, run: str) -> list[Block]:
    found = evidence.get(f"{run}/heads")
    limits = range(len(part(found, "joint", "removable") or []))
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
        lambda: Markup(
            "For less than {} {}, {} heads can go together: a drop of {} points ({}) on other examples."
        ).format(
            evidence.number(f"{row}/limit"),
            "point" if evidence.get(f"{row}/limit") == 1 else "points",
            evidence.size(f"{row}/heads"),
            evidence.number(f"{row}/drop", points),
            evidence.interval(f"{row}/drop_interval", points),
        ),
        lambda: Markup(
            "One at a time {} heads are under that limit; taken out together those cost {} points ({})."
        ).format(
            evidence.size(f"{alone}/heads"),
            evidence.number(f"{alone}/drop", points),
            evidence.interval(f"{alone}/drop_interval", points),
        ),
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
    """The head that moves one thing most."""
    rows = evidence.get(f"{place}/rows")
    single = [index for index, row in enumerate(rows) if row["heads"] == [row["who"]]]
    if not evidence.get(f"{place}/usable") or not single:
        return None
    best = f"{place}/rows/{max(single, key=lambda index: float(rows[index]['rate']))}"
    return Markup("The {} is moved most by {}: in {} of {} pairs ({}).").format(
        evidence.text(f"{place}/name"),
        evidence.text(f"{best}/who", "code"),
        evidence.number(f"{best}/rate", percent),
        evidence.number(f"{place}/usable"),
        evidence.interval(f"{best}/interval"),
    )
