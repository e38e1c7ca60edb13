"""The part on what each head attends to: heat maps and scores."""

from functools import partial

from headway.narration.heads import score_table
from headway.reports.blocks import Block, Figure, HeatMap, HeatMaps
from headway.reports.documents import Documents, RunDocuments
from headway.reports.sections.accuracy import figure_name
from headway.reports.style import KINDS, sentence
from headway.reports.weights import captured, example_line, head_sheet, make_panel, worth
from headway.results.heads import HeadAnalysis

ALT = "Heat maps of the attention weights of every head, by kind of attention: queries downwards, keys across."


def looks(documents: Documents, run: RunDocuments, found: HeadAnalysis) -> list[Block]:
    """Interactive heat maps, and the scores."""
    blocks: list[Block] = []
    if found.capture.examples or found.capture.mean:
        blocks.append(heat_maps(documents, run, found))
    if found.definitions:
        blocks.append(score_table(found))
    return blocks


def heat_maps(documents: Documents, run: RunDocuments, found: HeadAnalysis) -> HeatMaps:
    """Every head on the mean and on each captured example."""
    chosen: list[int | None] = [None] if found.capture.mean else []
    chosen += range(len(found.capture.examples))
    examples = [(example_name(found, example), maps_of(found, example)) for example in chosen]
    first = chosen[0]
    name = figure_name(documents, run, "heads-mean" if first is None else f"heads-example-{first}")
    return HeatMaps(run.name, examples, [Figure(name, ALT, partial(head_sheet, found, first))])


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
