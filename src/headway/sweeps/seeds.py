"""Several runs in the way that is fastest here: as stacks of seeds and rates on a GPU, a process each on a CPU."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from headway.batches import pick_device
from headway.config import RunConfig, stackable
from headway.errors import Interrupted
from headway.runs import RunDirectory
from headway.sweeps.driver import Job
from headway.sweeps.executors import LARGEST_STACK
from headway.sweeps.local import LocalExecutor, available_cores
from headway.sweeps.plan import Trial
from headway.sweeps.trial import Circumstances, Outcome, Report, run_job
from headway.tasks import make_task
from headway.training.mirror import check_log
from headway.training.preparation import plan_run


@dataclass(frozen=True)
class SeedsResult:
    """How each seed's training ended, in the order of the seeds; `failed` says why some did not finish, by run."""

    outcomes: Sequence[Outcome]
    failed: Mapping[str, str] = field(default_factory=dict)


def train_seeds(
    configs: Sequence[RunConfig],
    places: Sequence[Path],
    *,
    device: str = "auto",
    resume: bool = False,
    data: Path | None = None,
    log: str | None = None,
    command: Sequence[str] = (),
    report: Report = lambda event: None,
) -> SeedsResult:
    """Train every config into a run directory of its own; neighbours that differ in seed and rate alone can be a stack.

    A run that fails does not stop the others. What would be refused is refused before any training begins.
    """
    check_log(log)
    where = pick_device(device).type
    for config, place in zip(configs, places, strict=True):
        plan_run(RunDirectory(place), config, make_task(config.task), resume=resume, data=data)
    trials = [Trial(place.name, {}, config) for config, place in zip(configs, places, strict=True)]
    report({"event": "planned", "total": len(trials), "finished": 0})
    ended: dict[str, Outcome] = {}

    def done(outcomes: Sequence[Outcome]) -> None:
        for one in outcomes:
            ended[one.name] = one
            report({"event": "ended", "trial": one.name, "state": one.state, "error": one.error})

    workers = min(available_cores(), len(trials))
    threads = available_cores() // workers
    files = None if data is None else str(data)
    how = Circumstances(where, threads, None, log=log, command=tuple(command), data=files)
    try:
        if where == "cuda":
            _in_stacks(trials, places, how, done, report)
        else:
            jobs = [Job((trial,), (place,)) for trial, place in zip(trials, places, strict=True)]
            LocalExecutor(workers, how).run(jobs, done, report)
    except Interrupted:
        raise Interrupted(f"{len(ended):,} of {len(trials):,} seeds finished; --resume continues") from None
    outcomes = [ended[trial.name] for trial in trials]
    failed = {str(place): str(one.error) for place, one in zip(places, outcomes, strict=True) if one.error}
    return SeedsResult(outcomes, failed)


def _in_stacks(
    trials: Sequence[Trial],
    places: Sequence[Path],
    how: Circumstances,
    done: Callable[[Sequence[Outcome]], None],
    report: Report,
) -> None:
    for part in stacks(trials):
        for trial in trials[part]:
            total = trial.config.train.total_steps(trial.config.data)
            report({"event": "started", "trial": trial.name, "total": total})
        done(run_job(trials[part], places[part], how, report))


def stacks(trials: Sequence[Trial]) -> Iterator[slice]:
    """Where each stack begins and ends: neighbours that can be trained in one step, up to the largest stack."""
    start = 0
    for _, alike in groupby(trials, key=lambda trial: stackable(trial.config)):
        end = start + len(list(alike))
        yield from (slice(at, min(at + LARGEST_STACK, end)) for at in range(start, end, LARGEST_STACK))
        start = end
