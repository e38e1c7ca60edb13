"""One job of a sweep, wherever it runs: train its trials, measure them, and never let one failure reach another."""

import errno
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headway.errors import InputError, Interrupted, RunStopped
from headway.sweeps.plan import Trial

Report = Callable[[Mapping[str, Any]], None]
"""Told of what happens in a job: training's events, each with the name of its `trial`."""


@dataclass(frozen=True)
class Circumstances:
    """What all jobs of a sweep share: device, threads, what is measured at the end, where to stop, what to mirror."""

    device: str = "auto"
    threads: int = 1
    split: str | None = "test"
    until: int | None = None
    log: str | None = None
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """How a trial ended: what it reached, or why it failed. Only `seconds` depends on the machine's speed."""

    name: str
    settings: Mapping[str, Any]
    seed: int
    state: str
    metrics: dict[str, float | int] = field(default_factory=dict)
    error: str | None = None
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "settings": dict(self.settings)}


class DiskFull(RunStopped):
    """There is no room to write; what was written before is whole."""


def run_job(
    trials: Sequence[Trial], places: Sequence[Path], how: Circumstances, report: Report = lambda event: None
) -> list[Outcome]:
    """Train and measure the trials of a job (several: the seeds of one setting, as a stack); resumes what is begun.

    A trial that fails is an outcome. What ends the whole sweep is raised: `Interrupted`, `DiskFull`.
    """
    return [_run_one(trial, place, how, report) for trial, place in zip(trials, places, strict=True)]


def _run_one(trial: Trial, place: Path, how: Circumstances, report: Report) -> Outcome:
    started = time.perf_counter()
    metrics: dict[str, float | int] = {}
    state, error = "finished", None
    try:
        with stopping_when_full(place):
            metrics = _train_and_measure(trial, place, how, report)
    except (Interrupted, DiskFull):
        raise
    except Exception as problem:
        # Where the run stands is left out, so that the same failure reads the same on every machine.
        state, error = "failed", in_one_line(problem).replace(str(place), trial.name)
    seconds = time.perf_counter() - started
    return Outcome(trial.name, trial.settings, trial.seed, state, metrics, error, seconds)


def _train_and_measure(trial: Trial, place: Path, how: Circumstances, report: Report) -> dict[str, float | int]:
    from headway.training import train
    from headway.training.mirror import mirrored

    with mirrored(how.log, place, lambda event: report({**event, "trial": trial.name})) as tell:
        result = train(
            trial.config,
            place,
            device=how.device,
            resume=True,
            command=list(how.command),
            report=tell,
            until=how.until,
        )
    return {"steps": result.steps, **result.metrics, **_measure(place, how)}


def _measure(place: Path, how: Circumstances) -> dict[str, float | int]:
    from headway.evaluation import evaluate, load
    from headway.runs import RunDirectory

    if how.split is None:
        return {}
    trained = load(RunDirectory(place), device=how.device)
    found = evaluate(trained, how.split)
    trained.directory.add_to_analysis("evaluation", {how.split: found.to_json()})
    return {"n": found.n, "wrong": found.wrong, "accuracy": found.accuracy, "loss": found.loss}


@contextmanager
def stopping_when_full(place: Path) -> Iterator[None]:
    """A full disk becomes `DiskFull`, which ends the sweep: every trial after it would fail for the same reason."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFull(f"no room to write {problem.filename or place} ({problem.strerror})") from None


def in_one_line(problem: BaseException) -> str:
    """The error as a person should read it; an unexpected one with its type."""
    text = " ".join(str(problem).split())
    if isinstance(problem, (InputError, RunStopped)):
        return text
    if isinstance(problem, MemoryError) or "memory" in text:
        return f"out of memory ({text or type(problem).__name__})"
    return f"{type(problem).__name__}: {text}"
