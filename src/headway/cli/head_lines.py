"""The head analysis of one run in lines of text, and its definitions."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headway.cli.terminal import Item, Piece
from headway.narration import head_sets, heads
from headway.narration.accuracy import hardest, of_baseline
from headway.narration.numbers import duration, number
from headway.narration.text import Text, Words, text, told

if TYPE_CHECKING:
    from headway.results.heads import HeadAnalysis

MOST_WRONG = 3


def summary(found: "HeadAnalysis") -> list[str]:
    """An analysis in lines of text: the table of heads, then the joint results."""
    first: list[Words] = [
        start_of(found),
        *(f"warning: {warning}" for warning in found.warnings),
        *told(lambda: heads.margin(found)),
    ]
    table = heads.ablation_table(found).lines()
    return [*map(str, first), "", *table, "", *(str(line) for line in findings(found) if line)]


def start_of(found: "HeadAnalysis") -> Text:
    """The model and its accuracy; a model of another program has no step."""
    of_a_run = found.settings is not None or found.step
    step = text(" (step {})", number(found.step)) if of_a_run else ""
    return text("{}{}: {}", found.run, step, of_baseline(found))


def screen(found: "HeadAnalysis") -> list[Piece]:
    """The same at a terminal: the heads that cost something, and the findings in a few sentences."""
    table = heads.short_table(found)
    first, *_ = heads.one_at_a_time(found)
    told_of: list[Words | None] = [first, heads.costliest(found)]
    for row in found.joint.removable[:1]:
        told_of += head_sets.removable(row)
    told_of += head_sets.flips_in_short([one for one in found.interventions.contrasts if one.usable])
    pieces: list[Piece] = [str(start_of(found)), *(f"warning: {warning}" for warning in found.warnings)]
    pieces += [table] if table.rows else [str(table.others)]
    pieces += [Item(words) for words in told_of if words]
    return [*pieces, "", "--wide prints every ablation and every finding, --json all numbers."]


def findings(found: "HeadAnalysis") -> Iterator[Words | None]:
    """The sentences below the table."""
    joint, contrasts = found.joint, found.interventions.contrasts
    yield from heads.one_at_a_time(found)
    yield heads.under_limits(found)
    yield from told(lambda: heads.by_loss(found, "zero"))
    for row in joint.removable:
        yield from head_sets.removable(row)
        yield head_sets.adding_up(row)
    yield head_sets.sufficient(joint)
    for kind, values in joint.shapley.items():
        yield head_sets.shapley(kind, values)
    yield head_sets.redundant_pairs(joint.pairs)
    yield from map(head_sets.moves, contrasts)
    if controls := head_sets.control_table(contrasts):
        yield from [f"{controls.caption}:", *controls.lines()]
    for part in found.parts.values():
        yield from (str(sentence) for sentence in part.sentences())
    if found.metric is None:
        yield from hardest(found.error_analysis, found.run)
    wrong = [row for row in found.error_analysis.worst if not row.right][:MOST_WRONG]
    yield from (f"  wrong: {row.example}, answered {row.answered}" for row in wrong)
    yield heads.checked(found)
    yield used(found)


def used(found: "HeadAnalysis") -> Text:
    """Examples and time of the parts."""
    sizes = found.sizes
    more = "" if found.settings and found.settings.thorough else "; --thorough takes more"
    return text(
        "Examples of each part: elimination {}, Shapley values {}, over all heads {}, pairs {}, interventions {}; {}{}",
        *map(number, (sizes.elimination, sizes.shapley, sizes.all_heads, sizes.pairs, sizes.interventions)),
        duration(sum(found.seconds.values())),
        more,
    )


def definitions_of(found: "HeadAnalysis") -> list[str]:
    """Every score of every head, and its definition."""
    meanings = [f"{name}: {' '.join(meaning.split())}" for name, meaning in found.definitions.items()]
    return [*heads.score_table(found).lines(), "", *meanings, ""]
