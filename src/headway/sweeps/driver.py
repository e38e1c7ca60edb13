"""A sweep from its plan to its results: what is finished is skipped, the rest is run, each ending is written down."""

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
    """Runs jobs somewhere; leaves no process behind, however it ends."""

    def run(self, jobs: Sequence[Job], done: Callable[[Sequence[Outcome]], None], on_event: OnEvent) -> None:
        """Run every job; call `done` in this process as each ends, `report` with what happens meanwhile.

        A trial that fails is an outcome. What ends the sweep is raised: `Interrupted`, `DiskFull`, or whatever `done`
        raised; then the jobs that run are stopped, saved where that can be done.
        """
        ...


@dataclass(frozen=True)
class SweepResult(Document):
    """Where a sweep stands: how many trials there are, how many finished, and why others failed, by name.

    `search` is there for a search alone.
    """

    sweep: str
    results: str
    planned: int
    finished: int
    failed: Mapping[str, str]
    search: SearchResult | None = fact("how a search stands", optional=True)


@dataclass(frozen=True)
class Stage:
    """Trials that are run together: all of a grid, or those of a rung. `left` are those that have not ended in it."""

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
    """Run the trials that are not finished yet; afterwards results.jsonl has one line a trial, in the plan's order.

    Up to `stack` neighbours that differ in seed and learning rate alone are one job.
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
    """What there is to do, part after part; which trials a rung has is known when the rung before it has ended."""
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
    """The first stage in which something is left to do, or the last."""
    stage = Stage((), ())
    for stage in stages(plan, directory):
        if stage.left:
            break
    return stage


def _run_stage(stage: Stage, directory: SweepDirectory, executor: Executor, on_event: OnEvent, stack: int) -> None:
    total, left = len(stage.trials), len(stage.left)
    planned: Event = {"event": "planned", "total": total, "finished": total - left}
    on_event({**planned, "stage": stage.name} if stage.name else planned)
    places = [directory.trial(trial.name).path for trial in stage.left]
    jobs = [replace(job, until=stage.until) for job in make_jobs(stage.left, places, stack)]
    before = directory.results() if stage.until else None
    if jobs:
        executor.run(jobs, lambda outcomes: _record(outcomes, directory, on_event, before), on_event)


def make_jobs(trials: Sequence[Trial], places: Sequence[Path], stack: int = 1) -> list[Job]:
    """Jobs in the trials' order: one each, or up to `stack` neighbours that differ in seed and rate alone together."""
    jobs = []
    for _, alike in groupby(zip(trials, places, strict=True), key=lambda pair: stackable(pair[0].config)):
        group = list(alike)
        for start in range(0, len(group), stack):
            part = group[start : start + stack]
            jobs.append(Job(tuple(trial for trial, _ in part), tuple(place for _, place in part)))
    return jobs


def summarise(plan: SweepPlan, directory: SweepDirectory) -> SweepResult:
    """What results.jsonl says of a plan's trials."""
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
    """Write down how trials ended; in a rung (there are results `before`), with what they reached in those before."""
    for outcome in outcomes:
        told = outcome if before is None else with_rungs(outcome, before.get(outcome.name))
        with stopping_when_full(directory.path):
            directory.append_result(told)
        on_event({"event": "ended", "trial": outcome.name, "state": outcome.state, "error": outcome.error})


@contextmanager
def _tidied(directory: SweepDirectory, names: Sequence[str]) -> Iterator[None]:
    """Put the results in the plan's order whatever happens, and say how far the sweep came when it was stopped."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt):
        raise Interrupted(f"{_standing(directory, names)}; the same command continues") from None
    except DiskFull as problem:
        raise DiskFull(f"{problem}; {_standing(directory, names)}; with room, the same command continues") from None
    finally:
        # Without room they stay as they are: every line is there.
        with suppress(DiskFull), stopping_when_full(directory.path):
            directory.tidy_results(names)


def _standing(directory: SweepDirectory, names: Sequence[str]) -> str:
    records = directory.results()
    states = [records[name].state for name in names if name in records]
    stopped = f", {states.count('stopped'):,} trained up to a rung" if "stopped" in states else ""
    return f"{directory.path}: {trials(states.count('finished'), len(names))}{stopped}"
