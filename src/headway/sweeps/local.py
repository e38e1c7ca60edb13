"""Runs the jobs of a sweep in this machine's worker pool."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from headway.callbacks import OnEvent
from headway.results.comparison import Outcome
from headway.sweeps.pool import run_in_workers
from headway.sweeps.trial import Job, JobOptions


class LocalExecutor:
    """Runs jobs in `workers` processes, each with `how.threads` threads."""

    def __init__(self, workers: int, how: JobOptions):
        self.workers, self.how = workers, how

    def run(self, jobs: Sequence[Job], done: Callable[[Sequence[Outcome]], None], on_event: OnEvent) -> None:
        """Run every job; a job whose worker died resumes from its last checkpoint."""
        there = [replace(job, how=self.how) for job in jobs]
        run_in_workers(there, self.workers, lambda busy: self.how.threads, lambda job, ended: done(ended), on_event)
