"""What each head looks at: heat maps to look through, and scores."""

from functools import partial
from typing import Any

from markupsafe import Markup

from headway.reports.blocks import Block, Cell, Column, Figure, HeatMap, HeatMaps, Table
from headway.reports.evidence import Evidence, thousandths
from headway.reports.sections.accuracy import figure_name
from headway.reports.style import KINDS, part, sentence
from headway.reports.weights import captured, example_line, head_sheet, make_panel, worth


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
    examples = [(example_name(found, example), maps_of(found, example)) for example in chosen]
    first = chosen[0]
    still = Figure(
        figure_name(evidence, run, "heads-mean" if first is None else f"heads-example-{first}"),
        "Heat maps of the attention weights of every head, by kind of attention: queries downwards, keys across.",
        partial(head_sheet, found, first),
        colours=True,
    )
    return HeatMaps(evidence.get(f"{run}/name"), examples, [still])


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
            " · ".join(filter(None, [worth(head), head.get("role")])),
        )
        for head, panel in panels
    ]


def example_name(found: Any, example: int | None) -> str:
    if example is None:
        return "mean over the split"
    return example_line(found, captured(found, example))


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
