"""The jobs of a sweep in the pool of this machine."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.results.comparison import Outcome
from headway.runs import RunDirectory
from headway.sweeps.pool import PoolJob, Report, run_in_workers
from headway.sweeps.trial import Circumstances, Job


@dataclass(frozen=True)
class Training(PoolJob):
    """A job of a sweep in its circumstances."""

    job: Job
    how: Circumstances

    @property
    def name(self) -> str:
        return self.job.trials[0].name

    def do(self, tell: Report) -> list[Outcome]:
        return self.job.do(self.how, tell)

    def failed(self, error: str) -> list[Outcome]:
        return self.job.failed(error)

    def is_failed(self, result: Sequence[Outcome]) -> bool:
        return any(one.state == "failed" for one in result)

    def saved(self) -> tuple[int, ...]:
        """The newest checkpoint of each trial, -1 where there is none."""
        return tuple(max(RunDirectory(place).checkpoint_steps(), default=-1) for place in self.job.places)

    def begun(self) -> Iterator[Mapping[str, Any]]:
        yield from self.job.begun()


class LocalExecutor:
    """Runs jobs in `workers` processes, each with `how.threads` threads."""

    def __init__(self, workers: int, how: Circumstances):
        self.workers, self.how = workers, how

    def run(self, jobs: Sequence[Job], done: Callable[[Sequence[Outcome]], None], report: Report) -> None:
        """Run every job; a job whose worker died is done again from its last checkpoint."""
        trainings = [Training(job, self.how) for job in jobs]
        run_in_workers(
            trainings, self.workers, lambda busy: self.how.threads, lambda job, outcomes: done(outcomes), report
        )
