"""What a study says of its heads and its health, from the runs' documents alone: records, and its last lines."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from headway.diagnosis.claims import over_seeds
from headway.head_analysis.seeds import VERDICTS, put_together
from headway.results.doctor import Diagnosis, RunHealth, StudyHealth
from headway.results.heads import HeadAnalysis
from headway.results.heads_study import HeadsStudy, MovedCarry, Mover, OverSeeds, Removed, RunHeads
from headway.results.patching import Contrast
from headway.statistics import ENOUGH_SEEDS

Document = Mapping[str, Any]
FORM = 1
SHOWN_ERRORS = 5
"""Errors of the doctor that are printed; the report has all."""
MOVERS = 2
"""Heads that are named for each thing that heads were found to bring."""
CARRY = "carry"
MOVED = 0.05
"""A head moves something if the interval of how often it does lies above this share."""


# Heads


def heads_record(cells: Sequence[Sequence[HeadAnalysis]]) -> HeadsStudy:
    """What the analyses of heads say, by cells: every run in short, and together the seeds of a study of one cell."""
    there = [cell for cell in cells if cell]
    several = len(there) == 1 and len(there[0]) > 1
    runs = tuple(heads_in_short(one) for cell in there for one in cell)
    return HeadsStudy(runs=runs, together=put_together(there[0]) if several else None)


def heads_in_short(found: HeadAnalysis) -> RunHeads:
    """How many heads of each verdict, how many can go together, and which bring the carry."""
    first, counts = found.joint.removable[0], Counter(found.verdicts.values())
    return RunHeads(
        run=PurePath(found.run).name,
        n=found.n,
        accuracy=found.baseline.accuracy,
        heads=len(found.heads),
        verdicts={verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]},
        removable=Removed(
            limit=first.limit,
            n=found.joint.elimination.n_reported_on,
            heads=first.heads,
            drop=first.drop,
            drop_interval=first.drop_interval,
            alone=len(first.alone_under_limit.heads),
            alone_drop=first.alone_under_limit.drop,
        ),
        sufficient=found.joint.sufficient.heads,
        carry=tuple(moved_by(one) for one in found.interventions.contrasts if one.about == CARRY and one.usable),
        real_disagreements=found.checks.real_disagreements,
        failed_checks=tuple(found.doubts()),
    )


def moved_by(contrast: Contrast) -> MovedCarry:
    """The single heads that move a carry most often when their output is patched in from a sum with the other one.

    Each is the strongest of its kind of attention, chosen on one half of the pairs; its rate is that on the other.
    Without such halves (few pairs, or an earlier version's document) they are the best of all heads on all pairs.
    """
    ranked = contrast.ranked()[:MOVERS]
    if not ranked:
        best = contrast.best_single(MOVERS)
        movers = tuple(Mover(head=row.who, rate=row.rate, interval=row.interval) for row in best)
        return MovedCarry(name=contrast.name, n=contrast.usable, heads=movers)
    return MovedCarry(
        name=contrast.name,
        n=ranked[0].n,
        chosen_on_n=ranked[0].chosen_on_n,
        heads=tuple(Mover(head=one.head, rate=one.rate, interval=one.interval, control=one.control) for one in ranked),
    )


def heads_lines(record: HeadsStudy, health: StudyHealth | None = None) -> list[str]:
    """The record of heads as a person reads it; of a model that learned nothing the doctor's record says so."""
    unlearned = {} if health is None else health.unlearned
    lines = [line for run in record.runs for line in run_lines(run, unlearned.get(run.run))]
    together = record.together
    if together is not None and not unlearned:
        few = f", fewer than {ENOUGH_SEEDS}: descriptive" if together.descriptive else ""
        first = together.removable[0]
        cost = over_seeds_text(first.drop, 2)
        lines.append(
            f"heads of {together.seeds} seeds{few}: {over_seeds_text(first.heads, 0)} heads were chosen to go "
            f"together for less than {first.limit:g} point; on other examples they cost {cost}"
        )
    return lines


def over_seeds_text(found: OverSeeds, decimals: int) -> str:
    """Every seed's value, and the interval of their median where there are seeds enough."""
    every = ", ".join(f"{value:.{decimals}f}" for value in found.values)
    if found.interval is None or found.median is None:
        return every
    low, high = found.interval
    middle = f"{found.median:.{max(decimals, 1)}f}"
    return f"{every} (median {middle}, 95 % interval {low:.{decimals}f} to {high:.{decimals}f})"


def run_lines(run: RunHeads, unlearned: str | None = None) -> list[str]:
    """A run's verdicts, what can go together, and who moves the carries; nothing of these where it learned nothing."""
    if unlearned is not None:
        return [f"heads of {run.run} (n = {run.n:,}) say nothing: the doctor finds {unlearned}"]
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in run.verdicts.items())
    start = f"heads of {run.run}, one at a time (n = {run.n:,}): of {run.heads} {verdicts}"
    return [start, f"  {going_text(run.removable)}", *map(carry_text, run.carry)]


def going_text(removable: Removed) -> str:
    """What heads cost that were chosen to go together; that they can go only where the interval shows it."""
    count, limit = len(removable.heads), f"{removable.limit:g} point{'s' * (removable.limit != 1)}"
    low, high = removable.drop_interval
    cost = f"{removable.drop:.2f} ({low:.2f} to {high:.2f}, n = {removable.n:,})"
    if count == 0:
        text = f"none was found that can go for less than {limit}"
    elif high < removable.limit:
        text = f"{count} can go together for less than {limit}: on other examples they cost {cost}"
    else:
        text = f"{count} chosen to go together: on other examples they cost {cost}, not shown to be under {limit}"
    if not removable.alone:
        return text
    return f"{text}; the {removable.alone} that cost less alone cost {removable.alone_drop:.2f} together"


def carry_text(carry: MovedCarry) -> str:
    """The heads that surely move a carry, each with its control, or that none does."""
    moving = [one for one in carry.heads if one.interval[0] > MOVED]
    shown = ", ".join(f"{one.head} in {one.rate:.0%} ({span(one.interval)}{control_text(one)})" for one in moving)
    if not moving:
        most = max(carry.heads, key=lambda one: one.rate, default=None)
        shown = "no single head surely" + (f" (at most in {most.rate:.0%}, {span(most.interval)})" if most else "")
    return f"  {carry.name} (n = {carry.n:,}) is moved by {shown}"


def control_text(mover: Mover) -> str:
    """How often the same digit changes when a head is patched from a sum with the same carry."""
    control = mover.control
    return "" if control is None else f"; same carry: {control.rate:.0%}, {span(control.interval)}"


def span(interval: Sequence[float]) -> str:
    return f"{interval[0]:.0%} to {interval[1]:.0%}"


# The doctor


def doctor_record(cells: Mapping[str, Sequence[tuple[Diagnosis, HeadAnalysis | None]]]) -> StudyHealth:
    """Every run's findings that are not fine, and what the seeds of each cell can carry together.

    A cell's runs are pairs: the diagnosis, and the analysis of heads where there is one.
    """
    together = []
    for name, pairs in cells.items():
        for one in over_seeds([heads for _, heads in pairs], len(pairs)) if pairs else ():
            together.append(replace(one, evidence=f"{name}: {one.evidence}") if len(cells) > 1 else one)
    runs = tuple(RunHealth.of(found) for pairs in cells.values() for found, _ in pairs)
    return StudyHealth(runs=runs, together=tuple(together))


def is_unsound(health: StudyHealth, *, comparing: bool) -> bool:
    """Whether the doctor found an error that spoils the study.

    What is wrong with a model is an error where it is the only one. Where combinations are compared, that one of them
    gives one answer to everything is a result; what is wrong with data, harness or instruments never is.
    """
    return any(not comparing or one.about != "model" for _, one in health.at("error"))


def doctor_lines(health: StudyHealth) -> list[str]:
    """How many errors and warnings there are, the first errors in full, and the names of the warnings."""
    errors, warned = health.at("error"), Counter(one.check for _, one in health.at("warning"))
    examined = f"{len(health.runs):,} run{'s' * (len(health.runs) != 1)}"
    lines = [f"the doctor examined {examined}: {counted(len(errors), 'error')}, {counted(warned.total(), 'warning')}"]
    lines += [f"  error in {run}, {one.check}: {one.evidence}" for run, one in errors[:SHOWN_ERRORS]]
    if len(errors) > SHOWN_ERRORS:
        lines.append(f"  and {len(errors) - SHOWN_ERRORS:,} more errors; the report has all of them")
    if warned:
        names = ", ".join(f"{check} ({times})" if times > 1 else check for check, times in warned.items())
        lines.append(f"  warnings: {names}")
    return lines


def counted(n: int, word: str) -> str:
    """A number and its word, in the plural where it must be.

    >>> counted(1, "error"), counted(0, "error")
    ('1 error', '0 errors')
    """
    return f"{n:,} {word}{'s' * (n != 1)}"
