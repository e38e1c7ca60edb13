"""What a study says of its heads and its health, from the runs' documents alone: records, and its last lines."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from headway.diagnosis.claims import over_seeds
from headway.head_analysis.seeds import VERDICTS, summarise_seeds
from headway.narration import heads as narrated
from headway.narration.head_sets import going, of_movers
from headway.narration.numbers import counted, number, points
from headway.narration.text import text
from headway.results.doctor import Diagnosis, RunHealth, StudyHealth
from headway.results.heads import HeadAnalysis
from headway.results.heads_study import HeadsStudy, MovedCarry, Mover, Removed, RunHeads
from headway.results.patching import Contrast
from headway.statistics import ENOUGH_SEEDS

Document = Mapping[str, Any]
FORM = 1
SHOWN_ERRORS = 5
"""Errors of the doctor that are printed; the report has all."""
MOVERS = 2
"""Heads that are named for each thing that heads were found to bring."""
CARRY = "carry"


# Heads


def heads_record(cells: Sequence[Sequence[HeadAnalysis]]) -> HeadsStudy:
    """What the analyses of heads say, by cells: every run in short, and together the seeds of a study of one cell."""
    there = [cell for cell in cells if cell]
    several = len(there) == 1 and len(there[0]) > 1
    runs = tuple(heads_in_short(one) for cell in there for one in cell)
    return HeadsStudy(runs=runs, together=summarise_seeds(there[0]) if several else None)


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
        cost = narrated.over_seeds(first.drop, points)
        lines.append(
            f"heads of {together.seeds} seeds{few}: {narrated.over_seeds(first.heads)} heads were chosen to go "
            f"together for less than {first.limit:g} point; on other examples they cost {cost}"
        )
    return lines


def run_lines(run: RunHeads, unlearned: str | None = None) -> list[str]:
    """A run's verdicts, what can go together, and who moves the carries; nothing of these where it learned nothing."""
    if unlearned is not None:
        return [f"heads of {run.run} (n = {run.n:,}) say nothing: the doctor finds {unlearned}"]
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in run.verdicts.items())
    start = f"{run.heads} heads of {run.run}, one at a time (n = {run.n:,}): {verdicts}"
    return [start, f"  {going_text(run.removable)}", *map(carry_text, run.carry)]


def going_text(removable: Removed) -> str:
    """What heads cost that were chosen to go together, against those that cost little alone."""
    words = going(removable.limit, removable.heads, removable.drop, removable.drop_interval, n=removable.n)
    if removable.alone:
        cost = number(removable.alone_drop, points)
        words += text("; the {} that cost less alone cost {} points together", number(removable.alone), cost)
    return str(words)


def carry_text(carry: MovedCarry) -> str:
    """The heads that surely move a carry, or that none does."""
    movers = [(one.head, one) for one in carry.heads]
    return f"  {of_movers(carry.name, movers, text('{} pairs', number(carry.n)))}"


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
    examined = counted(len(health.runs), "run")
    lines = [f"the doctor examined {examined}: {counted(len(errors), 'error')}, {counted(warned.total(), 'warning')}"]
    lines += [f"  error in {run}, {one.check}: {one.evidence}" for run, one in errors[:SHOWN_ERRORS]]
    if len(errors) > SHOWN_ERRORS:
        lines.append(f"  and {len(errors) - SHOWN_ERRORS:,} more errors; the report has all of them")
    if warned:
        names = ", ".join(f"{check} ({times})" if times > 1 else check for check, times in warned.items())
        lines.append(f"  warnings: {names}")
    return lines
