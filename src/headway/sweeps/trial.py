"""One job of a sweep: trains and evaluates its trials, and keeps their failures apart."""

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

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a full disk, a quota and a limit on the size of files."""
LOCK_PATIENCE = 10.0
"""Seconds to wait for a run that a dying process still holds."""


@dataclass(frozen=True)
class JobOptions:
    """Options that all jobs of a sweep share: device, threads, evaluated split, last step, mirror.

    `stack` is the largest number of seeds of one setting in one job. Above 1, a single seed is a stack too, because a
    stack's step is captured as a CUDA graph and needs less of the host. `data` is a folder of training files.
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
        """The arguments of training that follow from these options."""
        return {
            "device": self.device,
            "resume": True,
            "data": None if self.data is None else Path(self.data),
            "command": list(self.command),
            "until": self.until,
        }


@dataclass(frozen=True)
class Job(PoolJob):
    """One trial, or several as a stack; `places` are their run directories.

    With `until`, they are trained up to that step. The executor sets `how`.
    """

    trials: tuple[Trial, ...]
    places: tuple[Path, ...]
    until: int | None = None
    how: JobOptions = JobOptions()

    @property
    def name(self) -> str:
        return self.trials[0].name

    def do(self, tell: OnEvent = lambda event: None) -> list[Outcome]:
        """Train and evaluate the trials, after any dying worker has released their runs."""
        for place in self.places:
            wait_until_free(RunDirectory(place))
        return run_job(self.trials, self.places, replace(self.how, until=self.until), tell)

    def failed(self, error: str) -> list[Outcome]:
        return [Outcome(one.name, one.settings, one.seed, "failed", error=error) for one in self.trials]

    def is_failed(self, result: Sequence[Outcome]) -> bool:
        return any(one.state == "failed" for one in result)

    def saved(self) -> tuple[int, ...]:
        """The newest checkpoint of each trial, -1 if there is none."""
        return tuple(max(RunDirectory(place).checkpoint_steps(), default=-1) for place in self.places)

    def begun(self) -> Iterator[Event]:
        for trial in self.trials:
            total = trial.config.train.total_steps(trial.config.data)
            yield {"event": "started", "trial": trial.name, "total": total}


class DiskFull(RunStopped):
    """The disk is full; everything written before is complete."""


def run_job(
    trials: Sequence[Trial], places: Sequence[Path], how: JobOptions, on_event: OnEvent = lambda event: None
) -> list[Outcome]:
    """Train and evaluate the trials of a job (several: the seeds of one setting, as a stack); resumes existing runs.

    A trial that fails is an outcome. Whatever ends the whole sweep is raised: `Interrupted`, `DiskFull`.
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
    """Evaluate a fully trained trial, and return its outcome; "stopped" if `until` ended it earlier."""
    started = time.perf_counter()
    state: State = "stopped" if how.until is not None and not _is_finished(place) else "finished"
    ending = trained
    if not isinstance(trained, Exception) and state == "finished":
        reached = trained
        ending = _ending(lambda: {**reached, **_measure(place, how)}, place)
    seconds += time.perf_counter() - started
    if not isinstance(ending, Exception):
        return Outcome(trial.name, trial.settings, trial.seed, state, ending, None, seconds)
    # Paths of runs are removed, so that a failure has the same text on every machine.
    error = in_one_line(ending)
    for where in sorted(names, key=len, reverse=True):  # one may be a prefix of another
        error = error.replace(where, names[where])
    return Outcome(trial.name, trial.settings, trial.seed, "failed", {}, error, seconds)


Ending = dict[str, float | int] | Exception
"""The metrics of a trial, or the error that stopped it."""


def _ending(do: Callable[[], dict[str, float | int]], place: Path) -> Ending:
    """The result of `do`, or the trial's own error; errors that end the sweep are raised."""
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
    """Train the trials as one stack; an error of the whole stack is the error of each."""
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
    """Whether a run has taken its last step; `until` may have ended it before."""
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
    """Wait while a dying worker of a killed driver still holds the run."""
    end = time.monotonic() + LOCK_PATIENCE
    while directory.path.is_dir() and time.monotonic() < end:
        try:
            with directory.lock():
                return
        except InputError:
            time.sleep(0.05)


@contextmanager
def stopping_when_full(place: Path) -> Iterator[None]:
    """Turn a full disk into `DiskFull`, which ends the sweep, because every later trial would fail as well."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in NO_ROOM:
            raise
        raise DiskFull(f"no room to write {problem.filename or place} ({problem.strerror})") from None


def in_one_line(problem: BaseException) -> str:
    """The error in one line; an unexpected one with its type."""
    text = " ".join(str(problem).split())
    if isinstance(problem, (InputError, RunStopped)):
        return text
    if is_out_of_memory(problem):
        return f"out of memory ({text or type(problem).__name__})"
    return f"{type(problem).__name__}: {text}"
