"""Runs a sweep from its plan: finished trials are skipped, the others run, and every outcome is recorded."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Protocol, runtime_checkable

from headway.callbacks import Event, OnEvent
from headway.config import stackable
from headway.errors import Interrupted
from headway.narration.sweep import trials
from headway.results.comparison import Outcome
from headway.results.schema import Document, fact
from headway.runs import SweepDirectory
from headway.sweeps.halving import Records, trials_of_rung, waiting, with_rungs
from headway.sweeps.plan import SweepPlan, Trial
from headway.sweeps.search import SearchResult, find_best
from headway.sweeps.trial import DiskFull, Job, stopping_when_full


@runtime_checkable
class Executor(Protocol):
    """Runs jobs somewhere; leaves no process behind."""

    def run(self, jobs: Sequence[Job], done: Callable[[Sequence[Outcome]], None], on_event: OnEvent) -> None:
        """Run every job; call `done` in this process when one ends, and `on_event` with events.

        A trial that fails is an outcome. Whatever ends the sweep is raised: `Interrupted`, `DiskFull`, or an error of
        `done`; running jobs are then stopped and saved if possible.
        """
        ...


@dataclass(frozen=True)
class SweepResult(Document):
    """The state of a sweep: planned and finished trials, and the errors of failed trials by name.

    `search` is set only for a search.
    """

    sweep: str
    results: str
    planned: int
    finished: int
    failed: Mapping[str, str]
    search: SearchResult | None = fact("how a search stands", optional=True)


@dataclass(frozen=True)
class Stage:
    """Trials that run together: all of a grid, or those of one rung; `left` are those that have not ended."""

    trials: Sequence[Trial]
    left: Sequence[Trial]
    until: int | None = None
    name: str = ""


def run_sweep(
    plan: SweepPlan,
    directory: SweepDirectory,
    executor: Executor,
    on_event: OnEvent = lambda event: None,
    *,
    stack: int = 1,
) -> SweepResult:
    """Run the unfinished trials; afterwards results.jsonl has one line per trial, in the plan's order.

    Up to `stack` neighbouring trials that differ only in seed and learning rate run as one job.
    """
    names = [trial.name for trial in plan.trials]
    directory.check_same(plan.to_json())
    with stopping_when_full(directory.path), directory.lock():
        directory.begin(plan.to_json())
        directory.mend_results()
        with _tidied(directory, names):
            for stage in stages(plan, directory):
                _run_stage(stage, directory, executor, on_event, stack)
        return summarise(plan, directory)


def stages(plan: SweepPlan, directory: SweepDirectory) -> Iterator[Stage]:
    """The stages of a sweep in order; the trials of a rung are known when the previous rung has ended."""
    rungs = () if plan.search is None else plan.search.rungs
    for number, rung in enumerate(rungs):
        records = directory.results()
        trials, left = trials_of_rung(plan, records, number), waiting(plan, records, number)
        yield Stage(trials, left, rung.until, f"rung {number + 1} of {len(rungs)}")
    if not rungs:
        finished = {name for name, ended in directory.results().items() if ended.state == "finished"}
        left = [trial for trial in plan.trials if trial.name not in finished]
        yield Stage(plan.trials, left)


def next_stage(plan: SweepPlan, directory: SweepDirectory) -> Stage:
    """The first stage with trials left to run, or the last stage."""
    stage = Stage((), ())
    for stage in stages(plan, directory):
        if stage.left:
            break
    return stage


def _run_stage(stage: Stage, directory: SweepDirectory, executor: Executor, on_event: OnEvent, stack: int) -> None:
    total, left = len(stage.trials), len(stage.left)
    planned: Event = {"event": "planned", "total": total, "finished": total - left}
    on_event({**planned, "stage": stage.name} if stage.name else planned)
    runs = [directory.trial(trial.name) for trial in stage.left]
    for run in runs:
        run.mend_arrival()
    places = [run.path for run in runs]
    jobs = [replace(job, until=stage.until) for job in make_jobs(stage.left, places, stack)]
    before = directory.results() if stage.until else None
    if jobs:
        executor.run(jobs, lambda outcomes: _record(outcomes, directory, on_event, before), on_event)


def make_jobs(trials: Sequence[Trial], places: Sequence[Path], stack: int = 1) -> list[Job]:
    """Jobs in the trials' order: one per trial, or up to `stack` neighbours that differ only in seed and rate."""
    jobs = []
    for _, alike in groupby(zip(trials, places, strict=True), key=lambda pair: stackable(pair[0].config)):
        group = list(alike)
        size = 1 if group[0][0].config.train.guided else stack  # guided training proves each seed by itself
        for start in range(0, len(group), size):
            part = group[start : start + size]
            jobs.append(Job(tuple(trial for trial, _ in part), tuple(place for _, place in part)))
    return jobs


def summarise(plan: SweepPlan, directory: SweepDirectory) -> SweepResult:
    """The state of a plan's trials in results.jsonl."""
    records = directory.results()
    states = {trial.name: records[trial.name] for trial in plan.trials if trial.name in records}
    failed = {name: str(ended.error) for name, ended in states.items() if ended.state == "failed"}
    finished = sum(ended.state == "finished" for ended in states.values())
    search = None if plan.search is None else find_best(plan, records)
    return SweepResult(str(directory.path), str(directory.results_path), len(plan.trials), finished, failed, search)


def _record(
    outcomes: Sequence[Outcome],
    directory: SweepDirectory,
    on_event: OnEvent,
    before: Records | None,
) -> None:
    """Record outcomes; in a rung (with results `before`), together with those of earlier rungs."""
    for outcome in outcomes:
        told = outcome if before is None else with_rungs(outcome, before.get(outcome.name))
        with stopping_when_full(directory.path):
            directory.append_result(told)
        on_event({"event": "ended", "trial": outcome.name, "state": outcome.state, "error": outcome.error})


@contextmanager
def _tidied(directory: SweepDirectory, names: Sequence[str]) -> Iterator[None]:
    """Sort the results into the plan's order at the end, and report the progress when the sweep is stopped."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt):
        raise Interrupted(f"{_standing(directory, names)}; the same command continues") from None
    except DiskFull as problem:
        raise DiskFull(f"{problem}; {_standing(directory, names)}; with room, the same command continues") from None
    finally:
        # On a full disk the order stays as it is; every line is there.
        with suppress(DiskFull), stopping_when_full(directory.path):
            directory.tidy_results(names)


def _standing(directory: SweepDirectory, names: Sequence[str]) -> str:
    records = directory.results()
    states = [records[name].state for name in names if name in records]
    stopped = f", {states.count('stopped'):,} trained up to a rung" if "stopped" in states else ""
    return f"{directory.path}: {trials(states.count('finished'), len(names))}{stopped}"
