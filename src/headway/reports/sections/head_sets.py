"""The part on joint ablation and activation patching."""

from functools import partial

from headway.narration.head_sets import control_table, moves, redundant_pairs, removable, sufficient
from headway.reports.blocks import Block, Figure, Listing, paragraph
from headway.reports.documents import Documents, RunDocuments
from headway.reports.elimination import elimination
from headway.reports.figures import patching_figure
from headway.reports.importance import shapley
from headway.reports.interventions import interventions
from headway.reports.sections.accuracy import figure_name
from headway.results.heads import HeadAnalysis

ELIMINATION = "Accuracy as heads are removed one after the other, compared with the sum of single drops."
SHAPLEY = (
    "Shapley value of every head with its error: its mean contribution to the accuracy over all orders of removal."
)


def together(documents: Documents, run: RunDocuments, found: HeadAnalysis) -> list[Block]:
    rows = found.joint.removable if run.unlearned is None else ()
    blocks = paragraph(*map(removable, rows))
    if found.joint.elimination.steps:
        name = figure_name(documents, run, "elimination")
        drawn = partial(elimination, found)
        blocks.append(Figure(name, ELIMINATION, drawn, narrow=partial(drawn, narrow=True), run=run.place))
    blocks += paragraph([sufficient(found.joint), redundant_pairs(found.joint.pairs)])
    if found.joint.shapley:
        name = figure_name(documents, run, "shapley")
        blocks.append(Figure(name, SHAPLEY, partial(shapley, found), run=run.place, folded=True))
    return blocks


def brings(documents: Documents, run: RunDocuments, found: HeadAnalysis) -> list[Block]:
    """Carries and digits: heads whose patching flips the answer."""
    contrasts = [one for one in found.interventions.contrasts if one.usable]
    lines = [line for one in contrasts if (line := moves(one))]
    blocks: list[Block] = [Listing(lines)] if lines else []
    controls = control_table(contrasts)
    blocks += [controls] if controls else []
    for about in found.interventions.subjects:
        alt = f"How often patching a head's output from another example flips the answer ({about})."
        name = figure_name(documents, run, patching_figure(about))
        draw = partial(interventions, found, about, moving=True)
        blocks.append(Figure(name, alt, draw, run=run.place, folded=about != found.interventions.subjects[0]))
    return blocks
