"""Describes what a sweep would do."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.json_values import JsonObject
from headway.narration.numbers import counted, duration
from headway.results.schema import Document, fact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headway.runs import SweepDirectory
    from headway.sweeps.driver import Stage
    from headway.sweeps.plan import Search, SweepPlan
    from headway.sweeps.trial import JobOptions


@dataclass(frozen=True)
class UnfinishedTrial:
    """A trial that is left to run, with its estimated time."""

    name: str
    steps: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class PlannedSweep(Document):
    """The work of a sweep; `lines` say it to a person and are not printed as JSON."""

    sweep: str
    device: str
    workers: int | None
    search: "Search | None" = fact("how settings are drawn", optional=True)
    trials: list[UnfinishedTrial]
    seconds: float
    lines: list[str]

    def to_json(self) -> JsonObject:
        return {key: value for key, value in super().to_json().items() if key != "lines"}


def describe(plan: "SweepPlan", place: "SweepDirectory", how: "JobOptions", at_once: int) -> PlannedSweep:
    """The unfinished trials (of a search: those of its current rung), and the estimated total time."""
    from headway.sweeps.driver import next_stage
    from headway.sweeps.estimate import estimate

    stage = next_stage(plan, place)
    seconds = estimate(plan, how)
    steps = {trial.name: stage.until or trial.config.train.total_steps(trial.config.data) for trial in stage.left}
    total = _seconds_left(plan, stage, seconds) / max(at_once, 1)
    done = len(stage.trials) - len(stage.left)
    lines = [f"{name}: {f'to step {count:,}' if stage.name else f'{count:,} steps'}" for name, count in steps.items()]
    lines += [text for text in (drawn_twice(plan), *rung_lines(plan)) if text]
    standing = f"{len(stage.left):,} trials to run, {done:,} already finished"
    lines.append(f"{place.path}: {f'{stage.name}: ' if stage.name else ''}{standing}")
    lines.append(f"about {duration(total)} {_by(how, at_once)} if none stops early")
    return PlannedSweep(
        sweep=str(place.path),
        device=how.device,
        workers=at_once or None,
        search=plan.search,
        trials=[UnfinishedTrial(name, steps[name], round(seconds[name], 3)) for name in steps],
        seconds=round(total, 3),
        lines=lines,
    )


def _seconds_left(plan: "SweepPlan", stage: "Stage", seconds: "Mapping[str, float]") -> float:
    """The estimated seconds of the remaining trials; in a search, of this rung and of the later rungs."""
    left = sum(seconds[trial.name] for trial in stage.left)
    rungs = () if plan.search is None else plan.search.rungs
    parts, begin = {}, 0
    for rung in rungs:
        parts[rung.until] = rung.settings * len(plan.seeds), (rung.until - begin) / rungs[-1].until
        begin = rung.until
    if stage.until is None:
        return left
    mean = sum(seconds.values()) / len(seconds)
    later = sum(trials * part * mean for until, (trials, part) in parts.items() if until > stage.until)
    return left * parts[stage.until][1] + later


def drawn_twice(plan: "SweepPlan") -> str:
    """A note if settings were drawn repeatedly; otherwise empty."""
    distinct = len(plan.trials) // max(len(plan.seeds), 1)
    if plan.search is None or plan.search.drawn == distinct:
        return ""
    return f"{distinct:,} distinct settings in {plan.search.drawn:,} draws; each is trained once"


def rung_lines(plan: "SweepPlan") -> list[str]:
    """The rungs of successive halving, and their total steps."""
    from headway.sweeps.halving import count_steps

    rungs = () if plan.search is None else plan.search.rungs
    if not rungs:
        return []
    seeds = counted(len(plan.seeds), "seed")
    lines = [
        f"rung {number}: {counted(rung.settings, 'setting')} x {seeds} to step {rung.until:,}"
        for number, rung in enumerate(rungs, 1)
    ]
    return [*lines, f"{count_steps(rungs, len(plan.seeds)):,} steps in all"]


def _by(how: "JobOptions", at_once: int) -> str:
    if not at_once:
        return "of work for one worker as fast as this machine"
    return f"with {counted(at_once, 'worker')} of {counted(how.threads, 'thread')} on {how.device}"
