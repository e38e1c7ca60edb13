"""Sentences about heads over several seeds, and over the runs of a study."""

from collections.abc import Iterator

from headway.narration.head_sets import going, of_movers
from headway.narration.heads import over_seeds, tally_of
from headway.narration.numbers import counted, number, percent, points
from headway.narration.text import text
from headway.results.doctor import StudyHealth
from headway.results.heads_study import (
    ContrastOverSeeds,
    HeadsStudy,
    HeadsTogether,
    MovedCarry,
    RatesOverSeeds,
    RemovableOverSeeds,
    Removed,
    RunHeads,
)
from headway.statistics import ENOUGH_SEEDS

# Several seeds


def together(found: HeadsTogether) -> list[str]:
    """The heads of several seeds: every seed, then the median and its interval; flip rates by seed."""
    shown = "every seed (median)" if found.descriptive else "every seed (median and its 95 % interval)"
    lines = [f"{found.seeds} seeds together{few(found)}; {shown}"]
    for verdict, counts in found.verdicts["overall"].items():
        lines.append(f"  heads whose verdict is {verdict}: {over_seeds(counts)}")
    if shares := found.prunable.get("zero"):
        cost = over_seeds(shares.under_1_point, percent)
        lines.append(f"  share of heads that cost under 1 point alone (zero): {cost}")
    for row in found.removable:
        alone = row.alone_under_limit
        lines.append(
            f"  {removable(row)}; under that limit one at a time: {over_seeds(alone.heads)}, "
            f"which together cost {over_seeds(alone.drop_together, points)} points"
        )
    return [*lines, *(line for contrast in found.interventions for line in flips(contrast, found.seeds))]


def few(found: HeadsTogether) -> str:
    return f", fewer than {ENOUGH_SEEDS}: descriptive only" if found.descriptive else ""


def removable(row: RemovableOverSeeds) -> str:
    """The heads that were chosen for removal, and their cost."""
    return (
        f"{over_seeds(row.heads)} heads were chosen for removal together for less than {counted(row.limit, 'point')}; "
        f"on other examples they cost {over_seeds(row.drop, points)} points"
    )


def flips(contrast: ContrastOverSeeds, seeds: int) -> Iterator[str]:
    """The flip rate of the strongest head, and the controls of all heads of a kind."""
    rates = "; ".join(f"{kind} {rates_text(value)}" for kind, value in contrast.strongest.items())
    some = f" ({contrast.seeds} seeds)" if contrast.seeds < seeds else ""
    yield f"  {contrast.name}, flips by the strongest head{some}: {rates or 'no pair is right'}"
    if contrast.control is not None:
        kinds = {who: one.readings for who, one in contrast.control.together.items() if who.startswith("all ")}
        shown = "; ".join(
            f"{who} " + ", ".join(f"{reading} in {count}" for reading, count in found.items())
            for who, found in kinds.items()
        )
        yield f"    against controls with the same carry ({contrast.control.seeds} seeds): {shown}"


def rates_text(found: RatesOverSeeds) -> str:
    """Every seed's rate, and how many are high, low and between."""
    low, high = map(percent, found.limits)
    shown = ", ".join(map(percent, found.values))
    return f"{shown} ({found.above} above {high}, {found.between} between, {found.below} below {low})"


# A study


def of_study(record: HeadsStudy, health: StudyHealth | None = None) -> list[str]:
    """Every run in short, and all seeds; for a model that learned nothing, only the doctor's finding."""
    unlearned = {} if health is None else health.unlearned
    lines = [line for run in record.runs for line in of_run(run, unlearned.get(run.run))]
    if record.together is not None and not unlearned:
        seeds = f"{record.together.seeds} seeds{few(record.together)}"
        lines.append(f"heads of {seeds}: {removable(record.together.removable[0])}")
    return lines


def of_run(run: RunHeads, unlearned: str | None = None) -> list[str]:
    """A run's verdicts, its removable set, and the heads that flip carries; for an unlearned model only the finding."""
    if unlearned is not None:
        return [f"heads of {run.run} (n = {run.n:,}) are not analysed further: the doctor finds {unlearned}"]
    verdicts = tally_of({verdict: number(count) for verdict, count in run.verdicts.items()})
    start = f"Of {run.heads} heads of {run.run}, one at a time (n = {run.n:,}), {verdicts}"
    return [start, f"  {going_text(run.removable)}", *map(carry_text, run.carry)]


def going_text(removed: Removed) -> str:
    """The cost of the heads chosen for removal, and of those that cost little alone."""
    words = going(removed.limit, removed.heads, removed.drop, removed.drop_interval, n=removed.n)
    if removed.alone:
        cost = number(removed.alone_drop, points)
        words += text("; the {} that cost less alone cost {} points together", number(removed.alone), cost)
    return str(words)


def carry_text(carry: MovedCarry) -> str:
    """The heads that surely flip a carry, or that none does."""
    movers = [(one.head, one) for one in carry.heads]
    return f"  {of_movers(carry.name, movers, text('{} pairs', number(carry.n)))}"
