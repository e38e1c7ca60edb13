"""A sweep from its plan to its results: what is finished is skipped, the rest is run, each ending is written down."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from headway.errors import Interrupted
from headway.runs import SweepDirectory
from headway.sweeps.plan import Plan, Trial
from headway.sweeps.trial import DiskFull, Outcome, Report, stopping_when_full


@dataclass(frozen=True)
class Job:
    """What a worker does at a time: a trial, or seeds of one setting as a stack; `places` are their run directories."""

    trials: tuple[Trial, ...]
    places: tuple[Path, ...]


@runtime_checkable
class Executor(Protocol):
    """Runs jobs somewhere; leaves no process behind, however it ends."""

    def run(self, jobs: Sequence[Job], done: Callable[[Sequence[Outcome]], None], report: Report) -> None:
        """Run every job; call `done` in this process as each ends, `report` with what happens meanwhile.

        A trial that fails is an outcome. What ends the sweep is raised: `Interrupted`, `DiskFull`, or whatever `done`
        raised; then the jobs that run are stopped, saved where that can be done.
        """
        ...


@dataclass(frozen=True)
class SweepResult:
    """Where a sweep stands: how many trials there are, how many finished, and why the others failed, by name."""

    sweep: str
    results: str
    planned: int
    finished: int
    failed: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "failed": dict(self.failed)}


def run_sweep(
    plan: Plan, directory: SweepDirectory, executor: Executor, report: Report = lambda event: None, *, stack: int = 1
) -> SweepResult:
    """Run the trials that are not finished yet; afterwards results.jsonl has one line a trial, in the plan's order.

    Up to `stack` seeds of one setting are one job.
    """
    names = [trial.name for trial in plan.trials]
    directory.check_same(plan.to_json())
    with stopping_when_full(directory.path), directory.lock():
        directory.begin(plan.to_json())
        directory.mend_results()
        finished = {name for name, record in directory.results().items() if record.get("state") == "finished"}
        report({"event": "planned", "total": len(names), "finished": len(finished.intersection(names))})
        jobs = make_jobs([trial for trial in plan.trials if trial.name not in finished], directory, stack)
        with _tidied(directory, names):
            if jobs:
                executor.run(jobs, lambda outcomes: _record(outcomes, directory, report), report)
        return summarise(plan, directory)


def make_jobs(trials: Sequence[Trial], directory: SweepDirectory, stack: int = 1) -> list[Job]:
    """Jobs in the trials' order: one each, or up to `stack` seeds of one setting together."""
    jobs = []
    for _, seeds in groupby(trials, key=lambda trial: trial.settings):
        group = list(seeds)
        for start in range(0, len(group), stack):
            part = group[start : start + stack]
            jobs.append(Job(tuple(part), tuple(directory.trial(trial.name).path for trial in part)))
    return jobs


def summarise(plan: Plan, directory: SweepDirectory) -> SweepResult:
    """What results.jsonl says of a plan's trials."""
    records = directory.results()
    states = {trial.name: records[trial.name] for trial in plan.trials if trial.name in records}
    failed = {name: str(record.get("error")) for name, record in states.items() if record["state"] != "finished"}
    finished = len(states) - len(failed)
    return SweepResult(str(directory.path), str(directory.results_path), len(plan.trials), finished, failed)


def _record(outcomes: Sequence[Outcome], directory: SweepDirectory, report: Report) -> None:
    for outcome in outcomes:
        with stopping_when_full(directory.path):
            directory.append_result(outcome.to_json())
        report({"event": "ended", "trial": outcome.name, "state": outcome.state, "error": outcome.error})


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
    finished = sum(records.get(name, {}).get("state") == "finished" for name in names)
    return f"{directory.path}: {finished:,} of {len(names):,} trials finished"
