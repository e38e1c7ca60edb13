"""What each head looks at: heat maps to look through, and scores."""

from functools import partial

from markupsafe import Markup

from headway.reports.blocks import Block, Cell, Column, Figure, HeatMap, HeatMaps, Table
from headway.reports.evidence import Evidence, thousandths
from headway.reports.sections.accuracy import figure_name
from headway.reports.style import KINDS, sentence
from headway.reports.weights import captured, example_line, head_sheet, make_panel, worth
from headway.results.heads import HeadAnalysis


def looks(evidence: Evidence, run: str) -> list[Block]:
    """Heat maps to look through, and the scores."""
    found = evidence.heads(run)
    blocks: list[Block] = []
    if found.capture.examples or found.capture.mean:
        blocks.append(heat_maps(evidence, run))
    if found.definitions:
        blocks.append(score_table(evidence, run))
    return blocks


def heat_maps(evidence: Evidence, run: str) -> HeatMaps:
    """Every head on the mean and on each captured example."""
    found = evidence.heads(run)
    chosen: list[int | None] = [None] if found.capture.mean else []
    chosen += range(len(found.capture.examples))
    examples = [(example_name(found, example), maps_of(found, example)) for example in chosen]
    first = chosen[0]
    still = Figure(
        figure_name(evidence, run, "heads-mean" if first is None else f"heads-example-{first}"),
        "Heat maps of the attention weights of every head, by kind of attention: queries downwards, keys across.",
        partial(head_sheet, found, first),
        colours=True,
    )
    return HeatMaps(evidence.get(f"{run}/name"), examples, [still])


def maps_of(found: HeadAnalysis, example: int | None) -> list[HeatMap]:
    seen = captured(found, example)
    panels = [
        (head, make_panel(found, head, seen, head.name, "", 0, 0)) for head in found.heads if head.name in seen.weights
    ]
    return [
        HeatMap(
            head.name,
            panel.queries,
            panel.keys,
            [[None if cell is None else round(float(cell), 3) for cell in row] for row in panel.weights.tolist()],
            sentence(KINDS[head.kind]),
            " · ".join(filter(None, [worth(head), head.role])),
        )
        for head, panel in panels
    ]


def example_name(found: HeadAnalysis, example: int | None) -> str:
    return "mean over the split" if example is None else example_line(found, found.capture.examples[example])


def score_table(evidence: Evidence, run: str) -> Table:
    names = list(evidence.heads(run).definitions)
    rows = []
    for index, head in enumerate(evidence.heads(run).heads):
        place = f"{run}/heads/heads/{index}"
        cells = [Cell(evidence.text(f"{place}/head", "code"))]
        for name in names:
            path = f"{place}/scores/{name}"
            there = evidence.has(path)
            cells.append(Cell(evidence.number(path, thousandths), head.scores[name]) if there else Cell(Markup("–")))
        rows.append(cells)
    columns = [Column("head", numeric=False), *(Column(name.replace("_", " ")) for name in names)]
    return Table("Scores of every head; the methods below say what each means", columns, rows)
