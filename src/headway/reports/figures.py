"""Every figure of one run, drawn from its heads.json alone."""

import re
from functools import partial
from pathlib import Path

from headway.reports.bars import bars
from headway.reports.elimination import elimination
from headway.reports.error_figure import anatomy
from headway.reports.importance import importance, shapley
from headway.reports.interventions import interventions
from headway.reports.loss import has_losses, loss_changes
from headway.reports.style import NamedFigures, kinds_of, save
from headway.reports.weights import first_drop, head_over_examples, head_sheet
from headway.results.heads import HeadAnalysis

__all__ = [
    "anatomy",
    "draw_all",
    "elimination",
    "head_over_examples",
    "head_sheet",
    "importance",
    "interventions",
    "loss_changes",
    "shapley",
]


def draw_all(found: HeadAnalysis, folder: Path) -> list[Path]:
    """Write every figure for which the document has data, as PNG and SVG; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return [path for name, draw in head_figures(found) for path in save(draw(), folder, name)]


def head_figures(found: HeadAnalysis) -> NamedFigures:
    yield from weight_figures(found)
    for ablation in dict.fromkeys(kind for head in found.heads for kind in head.ablation):
        yield f"importance-{ablation}", partial(importance, found, ablation)
        if has_losses(found, ablation):
            yield f"loss-{ablation}", partial(loss_changes, found, ablation)
    if found.joint.elimination.steps:
        yield "elimination", partial(elimination, found)
    if found.joint.shapley:
        yield "shapley", partial(shapley, found)
    for about in found.interventions.subjects:
        yield patching_figure(about), partial(interventions, found, about)
    if any(found.error_analysis.groups.values()):
        yield "anatomy", partial(anatomy, found)
    for name, part in found.parts.items():
        if shown := part.figure():
            yield name, partial(bars, shown)


def patching_figure(about: str) -> str:
    """The file name of the figure of a subject of activation patching: no spaces, which end a link in Markdown."""
    return f"interventions-{re.sub(r'[^a-z0-9]+', '-', about.lower()).strip('-')}"


def weight_figures(found: HeadAnalysis) -> NamedFigures:
    """All heads on the mean and on every captured example, and the most important head of each kind."""
    examples = found.capture.examples
    if found.capture.mean:
        yield "heads-mean", partial(head_sheet, found, None)
    for example in range(len(examples)):
        yield f"heads-example-{example}", partial(head_sheet, found, example)
    if examples:
        for head in (most_important(found, kind) for kind in kinds_of(found)):
            yield f"head-{head}-examples", partial(head_over_examples, found, head)


def most_important(found: HeadAnalysis, kind: str) -> str:
    """The head of one kind with the largest drop in the first ablation; the first head without ablations."""
    heads = [head for head in found.heads if head.kind == kind]
    drops = [first_drop(head) or 0.0 for head in heads]
    return heads[drops.index(max(drops))].name
