"""One job of a sweep, wherever it runs: train its trials, measure them, and never let one failure reach another."""

import errno
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.callbacks import Event, OnEvent
from headway.errors import InputError, Interrupted, RunStopped, is_out_of_memory
from headway.results.comparison import Outcome, State
from headway.runs import RunDirectory
from headway.sweeps.plan import Trial
from headway.sweeps.pool import PoolJob

LOCK_PATIENCE = 10.0
"""Seconds for which a run may still be held by a process that is about to end."""


@dataclass(frozen=True)
class JobOptions:
    """What all jobs of a sweep share: device, threads, what is measured at the end, where to stop, what to mirror.

    `stack` is how many seeds of one setting are trained as one job, at most; above 1, a single seed is a stack too,
    since a stack's step is captured on a GPU and takes less of the host. `data` is a folder of files to train on.
    """

    device: str = "auto"
    threads: int = 1
    split: str | None = "test"
    until: int | None = None
    log: str | None = None
    command: tuple[str, ...] = ()
    stack: int = 1
    data: str | None = None

    def training(self) -> dict[str, Any]:
        """The arguments of training, alone or as a stack, that follow from them."""
        return {
            "device": self.device,
            "resume": True,
            "data": None if self.data is None else Path(self.data),
            "command": list(self.command),
            "until": self.until,
        }


@dataclass(frozen=True)
class Job(PoolJob):
    """What is trained at a time: a trial, or several as a stack; `places` are their run directories.

    With `until`, they are trained up to that step. Who runs it says how.
    """

    trials: tuple[Trial, ...]
    places: tuple[Path, ...]
    until: int | None = None
    how: JobOptions = JobOptions()

    @property
    def name(self) -> str:
        return self.trials[0].name

    def do(self, tell: OnEvent = lambda event: None) -> list[Outcome]:
        """Train and measure the trials, once no worker of a driver that was just killed holds their runs."""
        for place in self.places:
            wait_until_free(RunDirectory(place))
        return run_job(self.trials, self.places, replace(self.how, until=self.until), tell)

    def failed(self, error: str) -> list[Outcome]:
        return [Outcome(one.name, one.settings, one.seed, "failed", error=error) for one in self.trials]

    def is_failed(self, result: Sequence[Outcome]) -> bool:
        return any(one.state == "failed" for one in result)

    def saved(self) -> tuple[int, ...]:
        """The newest checkpoint of each trial, -1 where there is none."""
        return tuple(max(RunDirectory(place).checkpoint_steps(), default=-1) for place in self.places)

    def begun(self) -> Iterator[Event]:
        for trial in self.trials:
            total = trial.config.train.total_steps(trial.config.data)
            yield {"event": "started", "trial": trial.name, "total": total}


class DiskFull(RunStopped):
    """There is no room to write; what was written before is whole."""


def run_job(
    trials: Sequence[Trial], places: Sequence[Path], how: JobOptions, on_event: OnEvent = lambda event: None
) -> list[Outcome]:
    """Train and measure the trials of a job (several: the seeds of one setting, as a stack); resumes what is begun.

    A trial that fails is an outcome. What ends the whole sweep is raised: `Interrupted`, `DiskFull`.
    """
    started = time.perf_counter()
    if len(trials) == 1 and how.stack == 1:
        endings = [_ending(lambda: _train_one(trials[0], places[0], how, on_event), places[0])]
    else:
        endings = _train_stack(trials, places, how, on_event)
    share = (time.perf_counter() - started) / len(trials)
    names = {str(place): trial.name for trial, place in zip(trials, places, strict=True)}
    return [
        _finish(trial, place, ending, how, share, names)
        for trial, place, ending in zip(trials, places, endings, strict=True)
    ]


def _finish(
    trial: Trial, place: Path, trained: "Ending", how: JobOptions, seconds: float, names: Mapping[str, str]
) -> Outcome:
    """Measure a trial that was trained to its end, and say how it ended: "stopped" at a step before that."""
    started = time.perf_counter()
    state: State = "stopped" if how.until is not None and not _is_finished(place) else "finished"
    ending = trained
    if not isinstance(trained, Exception) and state == "finished":
        reached = trained
        ending = _ending(lambda: {**reached, **_measure(place, how)}, place)
    seconds += time.perf_counter() - started
    if not isinstance(ending, Exception):
        return Outcome(trial.name, trial.settings, trial.seed, state, ending, None, seconds)
    # Where runs stand is left out, so that the same failure reads the same on every machine.
    error = in_one_line(ending)
    for where in sorted(names, key=len, reverse=True):  # one may be the beginning of another
        error = error.replace(where, names[where])
    return Outcome(trial.name, trial.settings, trial.seed, "failed", {}, error, seconds)


Ending = dict[str, float | int] | Exception
"""What a trial reached, or what stopped it."""


def _ending(do: Callable[[], dict[str, float | int]], place: Path) -> Ending:
    """What `do` found; an error of the trial's own is caught, what ends the sweep is raised."""
    try:
        with stopping_when_full(place):
            return do()
    except (Interrupted, DiskFull):
        raise
    except Exception as problem:
        return problem


def _train_one(trial: Trial, place: Path, how: JobOptions, on_event: OnEvent) -> dict[str, float | int]:
    from headway.training import train
    from headway.training.mirror import mirrored

    with mirrored(how.log, place, _told_of(trial, on_event)) as tell:
        result = train(trial.config, place, **how.training(), on_event=tell)
    return {"steps": result.steps, **result.metrics}


def _train_stack(trials: Sequence[Trial], places: Sequence[Path], how: JobOptions, on_event: OnEvent) -> list[Ending]:
    """Train the trials in one step each; what stops the stack as a whole stops every one of them."""
    from headway.training import train_stack
    from headway.training.mirror import mirrored

    results: list[Any] = []

    def train_all() -> dict[str, float | int]:
        with ExitStack() as opened:
            tellers = [
                opened.enter_context(mirrored(how.log, place, _told_of(trial, on_event)))
                for trial, place in zip(trials, places, strict=True)
            ]
            configs = [trial.config for trial in trials]
            results[:] = train_stack(configs, places, **how.training(), on_events=tellers)
        return {}

    problem = _ending(train_all, places[0])
    if isinstance(problem, Exception):
        return [problem] * len(trials)
    return [one if isinstance(one, Exception) else {"steps": one.steps, **one.metrics} for one in results]


def _is_finished(place: Path) -> bool:
    """Whether a run has taken its last step; `until` may have ended its training before."""
    return bool(RunDirectory(place).newest_state().get("finished"))


def _told_of(trial: Trial, on_event: OnEvent) -> OnEvent:
    return lambda event: on_event({**event, "trial": trial.name})


def _measure(place: Path, how: JobOptions) -> dict[str, float | int]:
    from headway.evaluation import evaluate, load

    if how.split is None:
        return {}
    trained = load(RunDirectory(place), device=how.device)
    found = evaluate(trained, how.split)
    trained.directory.add_to_analysis("evaluation", {how.split: found}, trained.step)
    return {"n": found.n, "wrong": found.wrong, "accuracy": found.accuracy, "loss": found.loss}


def wait_until_free(directory: RunDirectory) -> None:
    """A worker of a driver that was killed a moment ago may still hold the run."""
    end = time.monotonic() + LOCK_PATIENCE
    while directory.path.is_dir() and time.monotonic() < end:
        try:
            with directory.lock():
                return
        except InputError:
            time.sleep(0.05)


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
    if is_out_of_memory(problem):
        return f"out of memory ({text or type(problem).__name__})"
    return f"{type(problem).__name__}: {text}"
