"""Trains several runs in the fastest way: stacks of seeds and rates on a GPU, one process each on a CPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headway.batches import pick_device
from headway.callbacks import OnEvent
from headway.config import RunConfig
from headway.errors import Interrupted
from headway.processes import available_cores
from headway.results.comparison import Outcome
from headway.runs import RunDirectory
from headway.sweeps.driver import make_jobs
from headway.sweeps.executors import LARGEST_STACK
from headway.sweeps.local import LocalExecutor
from headway.sweeps.plan import Trial
from headway.sweeps.trial import JobOptions
from headway.tasks import make_task
from headway.training.mirror import check_log
from headway.training.preparation import plan_run

GPU_STACKS = 4
"""Stacks that share a GPU: while one compiles or writes checkpoints, the others compute."""


@dataclass(frozen=True)
class SeedsResult:
    """The outcome of each seed's training, in the order of seeds; `failed` has the errors by run."""

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
    on_event: OnEvent = lambda event: None,
) -> SeedsResult:
    """Train every config into its own run directory; neighbours that differ only in seed and rate can form a stack.

    A run that fails does not stop the others. All inputs are checked before any training starts.
    """
    check_log(log)
    where = pick_device(device).type
    for config, place in zip(configs, places, strict=True):
        plan_run(RunDirectory(place), config, make_task(config.task), resume=resume, data=data)
    trials = [Trial(place.name, {}, config) for config, place in zip(configs, places, strict=True)]
    on_event({"event": "planned", "total": len(trials), "finished": 0})
    ended: dict[str, Outcome] = {}

    def done(outcomes: Sequence[Outcome]) -> None:
        for one in outcomes:
            ended[one.name] = one
            on_event({"event": "ended", "trial": one.name, "state": one.state, "error": one.error})

    stack = LARGEST_STACK if where == "cuda" else 1
    jobs = make_jobs(trials, places, stack)
    workers = min(GPU_STACKS if where == "cuda" else available_cores(), len(jobs))
    threads = max(1, available_cores() // workers)
    files = None if data is None else str(data)
    how = JobOptions(where, threads, None, log=log, command=tuple(command), stack=stack, data=files)
    try:
        LocalExecutor(workers, how).run(jobs, done, on_event)
    except Interrupted:
        raise Interrupted(f"{len(ended):,} of {len(trials):,} seeds finished; --resume continues") from None
    outcomes = [ended[trial.name] for trial in trials]
    failed = {str(place): str(one.error) for place, one in zip(places, outcomes, strict=True) if one.error}
    return SeedsResult(outcomes, failed)
