"""An analysis of heads as lines for a person: one run, its definitions, or several seeds."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headway.narration import head_sets, heads
from headway.narration.accuracy import hardest, of_baseline
from headway.narration.numbers import counted, duration, number, percent, points
from headway.narration.text import Text, Words, text, told

if TYPE_CHECKING:
    from headway.results.heads import HeadAnalysis
    from headway.results.heads_study import ContrastOverSeeds, HeadsTogether, RatesOverSeeds

MOST_WRONG = 3


def summary(found: "HeadAnalysis") -> list[str]:
    """An analysis for a person: the table of heads, then what is said of them together."""
    first: list[Words] = [
        text("{} (step {}): {}", found.run, number(found.step), of_baseline(found)),
        *(f"warning: {warning}" for warning in found.warnings),
        *told(lambda: heads.margin(found)),
    ]
    table = heads.ablation_table(found).lines()
    return [*map(str, first), "", *table, "", *(str(line) for line in findings(found) if line)]


def findings(found: "HeadAnalysis") -> Iterator[Words | None]:
    """Everything that is said below the table."""
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
    """Every score of every head, and what each means."""
    meanings = [f"{name}: {' '.join(meaning.split())}" for name, meaning in found.definitions.items()]
    return [*heads.score_table(found).lines(), "", *meanings, ""]


# Several seeds


def summary_of_seeds(together: "HeadsTogether") -> list[str]:
    """What several seeds say together: every seed, then the median and its interval; flip rates seed by seed."""
    few = ", fewer than 6: descriptive only" if together.descriptive else ""
    shown = "every seed (median)" if together.descriptive else "every seed (median and its 95 % interval)"
    lines = [f"{together.seeds} seeds together{few}; {shown}"]
    for verdict, counts in together.verdicts["overall"].items():
        lines.append(f"  heads whose verdict is {verdict}: {heads.over_seeds(counts)}")
    if shares := together.prunable.get("zero"):
        cost = heads.over_seeds(shares.under_1_point, percent)
        lines.append(f"  share of heads that cost under 1 point alone (zero): {cost}")
    for row in together.removable:
        alone = row.alone_under_limit
        lines.append(
            f"  removable together for less than {counted(row.limit, 'point')}: {heads.over_seeds(row.heads)}; "
            f"under it one at a time: {heads.over_seeds(alone.heads)}, "
            f"which together cost {heads.over_seeds(alone.drop_together, points)} points"
        )
    for contrast in together.interventions:
        rates = "; ".join(f"{kind} {rates_text(value)}" for kind, value in contrast.strongest.items())
        some = f" ({contrast.seeds} seeds)" if contrast.seeds < together.seeds else ""
        lines.append(f"  {contrast.name}, flips by the strongest head{some}: {rates or 'no pair is right'}")
        lines += readings(contrast)
    return lines


def rates_text(found: "RatesOverSeeds") -> str:
    """Every seed's rate and how many are high, low and between."""
    low, high = map(percent, found.limits)
    shown = ", ".join(map(percent, found.values))
    return f"{shown} ({found.above} above {high}, {found.between} between, {found.below} below {low})"


def readings(contrast: "ContrastOverSeeds") -> list[str]:
    """How many seeds have each reading, of all heads of a kind patched at once."""
    control = contrast.control
    if control is None:
        return []
    kinds = {who: found.readings for who, found in control.together.items() if who.startswith("all ")}
    shown = "; ".join(
        f"{who} " + ", ".join(f"{reading} in {count}" for reading, count in found.items())
        for who, found in kinds.items()
    )
    return [f"    against controls with the same carry ({control.seeds} seeds): {shown}"]
