"""Successive halving: every setting gets a few steps, the best third continue, until the last are trained fully.

All trials of a rung end before the next rung starts, and the survivors are chosen from results.jsonl alone. So a search
gives the same results for any order in which trials end, and after any interruption.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from headway.errors import InputError
from headway.results.comparison import Outcome
from headway.sweeps.plan import Rung, SweepPlan, Trial

ETA = 3
"""One setting in so many continues to the next rung."""
CUTS = 2
"""Number of cuts without a budget."""

Records = Mapping[str, Outcome]
"""Lines of results.jsonl by trial name."""


# Before the search runs


def plan_rungs(settings: int, seeds: int, total: int, every: int, budget: int | None) -> tuple[Rung, ...]:
    """The rungs of a search; with a budget, those with the longest first rung within it."""
    if budget is None:
        return make_rungs(settings, total, every, CUTS)
    cuts = 1
    while True:
        rungs = make_rungs(settings, total, every, cuts)
        if (steps := count_steps(rungs, seeds)) <= budget:
            return rungs
        if rungs[0].until <= every or len(rungs) == 1:
            break
        cuts += 1
    raise InputError(
        f"--budget {budget:,}: {settings:,} setting{'s' * (settings > 1)} x {seeds:,} seed{'s' * (seeds > 1)} "
        f"need at least {steps:,} steps "
        f"(the first rung ends with the first validation, step {rungs[0].until:,}); fewer --trials or a larger --budget"
    )


def make_rungs(settings: int, total: int, every: int, cuts: int) -> tuple[Rung, ...]:
    """Rungs that end at regular validations, so that a trial is the same run as without a search.

    >>> make_rungs(40, 900, 50, 2)
    (Rung(settings=40, until=100), Rung(settings=13, until=300), Rung(settings=4, until=900))
    """
    ends = sorted({min(total, every * math.ceil(total / ETA**cut / every)) for cut in range(cuts + 1)})
    rungs = [Rung(max(1, settings // ETA**number), end) for number, end in enumerate(ends)]
    # A rung that keeps all settings is dropped.
    return tuple(one for one, after in zip(rungs, [*rungs[1:], None], strict=True) if _leaves(one, after))


def _leaves(rung: Rung, after: Rung | None) -> bool:
    return after is None or after.settings < rung.settings


def count_steps(rungs: Sequence[Rung], seeds: int) -> int:
    """Optimiser steps of all trials together."""
    begins = [0, *(rung.until for rung in rungs)]
    return sum(seeds * rung.settings * (rung.until - begin) for rung, begin in zip(rungs, begins, strict=False))


# While it runs


def trials_of_rung(plan: SweepPlan, records: Records, number: int) -> list[Trial]:
    """The trials of a rung, once all earlier rungs have ended."""
    assert plan.search is not None
    settings = settings_of(plan)
    for before in range(number):
        values = [mean_value(setting, records, before) for setting in settings]
        settings = [settings[place] for place in lowest(values, plan.search.rungs[before + 1].settings)]
    return [trial for setting in settings for trial in setting]


def waiting(plan: SweepPlan, records: Records, number: int) -> list[Trial]:
    """The trials that still have to be trained in a rung.

    A failed trial is retried until some trial ends in a later rung; from then on its failure counts.
    """
    begun = max(map(_rung_of, records.values()), default=0)

    def is_done(ended: Outcome | None) -> bool:
        if ended is None:
            return False
        if ended.state == "finished" or len(ended.rungs or ()) > number:
            return True
        return ended.state == "failed" and _rung_of(ended) < begun

    return [trial for trial in trials_of_rung(plan, records, number) if not is_done(records.get(trial.name))]


def _rung_of(ended: Outcome) -> int:
    """The rung in which a trial last ended or failed."""
    return max(0, len(ended.rungs or ()) - (ended.state != "failed"))


def settings_of(plan: SweepPlan) -> list[tuple[Trial, ...]]:
    """The trials of each setting, in the plan's order."""
    each = len(plan.seeds)
    return [plan.trials[start : start + each] for start in range(0, len(plan.trials), each)]


def mean_value(setting: Sequence[Trial], records: Records, number: int) -> float:
    """The mean validation loss over seeds at the end of a rung; infinite if a seed failed before."""
    return fmean(_value(records.get(trial.name), number) for trial in setting)


def _value(ended: Outcome | None, number: int) -> float:
    if ended is None or not ended.rungs:
        return math.inf
    if len(ended.rungs) > number:
        return ended.rungs[number]
    # A run that stopped early keeps its last loss in every later rung.
    return ended.rungs[-1] if ended.state == "finished" else math.inf


def lowest(values: Sequence[float], count: int) -> list[int]:
    """The sorted indices of the `count` lowest finite values; ties go to the first.

    >>> lowest([0.3, 0.1, float("inf"), 0.1], 2)
    [1, 3]
    """
    finite = [place for place, value in enumerate(values) if math.isfinite(value)]
    return sorted(sorted(finite, key=lambda place: values[place])[:count])


def with_rungs(ended: Outcome, before: Outcome | None) -> Outcome:
    """An outcome with the losses and the time of earlier rungs added."""
    earlier, seconds = ((), 0.0) if before is None else (before.rungs or (), before.seconds)
    reached = () if ended.state == "failed" else (ended.metrics["validation_loss"],)
    return replace(ended, rungs=(*earlier, *reached), seconds=seconds + ended.seconds)
