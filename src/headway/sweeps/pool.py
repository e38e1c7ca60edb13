"""The worker pool of this machine: processes for jobs of any kind, replaced when they die, ended with their driver.

Trainings and analyses are jobs. A job whose worker died is done again, a training from its last checkpoint.
"""

import signal
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Any

from headway.callbacks import Event, OnEvent
from headway.errors import Interrupted, RunStopped
from headway.processes import Child, counting_signals
from headway.sweeps.deaths import FROM_OUTSIDE, MOST_KILLS, Deaths, count_out_of_memory, describe_end

MOST_FALSE_STARTS = 5
POLL_SECONDS = 0.1
"""Seconds between checks for Ctrl-C."""
SAVING = 60.0
"""Seconds that workers have for saving when the pool is stopped."""


class PoolJob(ABC):
    """A unit of work for a worker; it is pickled on the way."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The job's name in warnings."""

    @abstractmethod
    def do(self, tell: OnEvent) -> Any:
        """Do the job in the worker. Whatever ends all jobs is raised: `Interrupted`, or `RunStopped` such as a full
        disk.
        """

    @abstractmethod
    def failed(self, error: str) -> Any:
        """The result if its workers died too often."""

    @abstractmethod
    def is_failed(self, result: Any) -> bool:
        """Whether a result is a failure."""

    def saved(self) -> tuple[int, ...]:
        """The saved state of the job; when it changes, deaths are counted from 0."""
        return ()

    def begun(self) -> Iterable[Event]:
        """The events to report when the job starts."""
        return ()


def run_in_workers(
    jobs: Sequence[PoolJob],
    workers: int,
    threads: Callable[[int], int],
    done: Callable[[Any, Any], None],
    on_event: OnEvent,
) -> None:
    """Do every job; `done` is called with each job and its result. No process is left behind.

    `threads(n)` is the number of threads of each worker while n workers are busy. Whatever ends all jobs is raised, as
    are errors of `done` and `on_event`; running jobs are then stopped and saved if possible.
    """
    with counting_signals() as signals:
        pool = _WorkerPool(min(workers, len(jobs)), threads, jobs, done, on_event)
        try:
            pool.work(signals)
        except BaseException:
            pool.save(signals)
            raise
        finally:
            pool.end()


class _Worker(Child):
    """A worker process and its current job."""

    def __init__(self, threads: int):
        super().__init__("headway.sweeps.worker", threads)
        self.ready = self.leaving = False
        self.job: PoolJob | None = None
        self.out_of_memory = self.threads = 0

    def use(self, threads: int) -> None:
        if threads != self.threads:
            self.threads = threads
            self.tell(("threads", threads))

    def give(self, job: PoolJob) -> None:
        self.job, self.out_of_memory = job, count_out_of_memory()
        self.tell(("job", job))


class _WorkerPool:
    """The workers and the waiting jobs."""

    def __init__(
        self,
        size: int,
        threads: Callable[[int], int],
        jobs: Sequence[PoolJob],
        done: Callable[[Any, Any], None],
        on_event: OnEvent,
    ):
        self.size, self.threads, self.waiting, self.done, self.on_event = size, threads, deque(jobs), done, on_event
        self.workers: list[_Worker] = []
        self.deaths: dict[int, Deaths] = {}
        self.false_starts = {"killed": 0, "ended": 0}

    def work(self, signals: list[int]) -> None:
        """Run until every job has ended."""
        while self.waiting or self._busy():
            if signals:
                raise Interrupted(signal.Signals(signals[0]).name)
            self._hire()
            self._hand_out()
            self._listen(self._take, self._replace)

    def save(self, signals: list[int]) -> None:
        """Let busy workers save, for a limited time; another Ctrl-C ends the wait."""
        before, end = len(signals), time.monotonic() + SAVING
        for worker in self._busy():
            worker.process.send_signal(signal.SIGINT)
        while self._busy() and len(signals) == before and time.monotonic() < end:
            self._listen(self._take_ending, self._dismiss)

    def end(self) -> None:
        """End all workers."""
        for worker in list(self.workers):
            self._dismiss(worker)

    def _busy(self) -> list[_Worker]:
        return [worker for worker in self.workers if worker.job is not None]

    def _listen(self, take: Callable[[_Worker, str, Any], None], gone: Callable[[_Worker], Any]) -> None:
        """Wait briefly for messages of workers; `gone` is called for workers that ended."""
        ready = wait([worker.pipe for worker in self.workers], POLL_SECONDS)
        for worker in [worker for worker in self.workers if worker.pipe in ready]:
            messages, ended = worker.hear()
            for kind, content in messages:
                take(worker, kind, content)
            if ended:
                gone(worker)

    def _hire(self) -> None:
        """Start workers: as many as there are jobs, up to the pool's size."""
        staying = sum(not worker.leaving for worker in self.workers)
        for _ in range(min(self.size, len(self.waiting) + len(self._busy())) - staying):
            self.workers.append(_Worker(self.threads(self.size)))

    def _hand_out(self) -> None:
        """Give every free worker a waiting job; a job whose worker died waits again."""
        free = [worker for worker in self.workers if worker.ready and not worker.leaving and worker.job is None]
        given = list(zip(free, [self.waiting.popleft() for _ in free[: len(self.waiting)]], strict=False))
        threads = self.threads(max(1, min(self.size, len(self._busy()) + len(given) + len(self.waiting))))
        for worker in [*self._busy(), *(worker for worker, _ in given)]:
            worker.use(threads)
        for worker, job in given:
            worker.give(job)
            for event in job.begun():
                self.on_event(event)

    def _dismiss(self, worker: _Worker) -> int:
        self.workers.remove(worker)
        return worker.end()

    def _take(self, worker: _Worker, kind: str, content: Any) -> None:
        if kind == "event":
            self.on_event(content)
        elif kind == "raised":
            raise content
        elif kind == "ended":
            job, worker.job = worker.job, None
            result, worker.leaving = content
            self.done(job, result)
        else:
            worker.ready, self.false_starts = True, {"killed": 0, "ended": 0}

    def _take_ending(self, worker: _Worker, kind: str, content: Any) -> None:
        """Take the result of a worker that finished its job instead of saving."""
        if kind == "ended":
            with suppress(Exception):  # the reason for stopping is known already, and the others still have to save
                self._take(worker, kind, content)

    def _replace(self, worker: _Worker) -> None:
        """A worker has ended: its job waits again, unless it was tried too often."""
        last_line = worker.last_line()
        code = self._dismiss(worker)
        end = describe_end(code, last_line)
        if not worker.ready:
            self._count_false_start(code, end)
        if worker.job is not None:
            self._try_again(worker.job, code, end, count_out_of_memory() > worker.out_of_memory)

    def _count_false_start(self, code: int, end: str) -> None:
        """Count workers that end before they start, so that they are not replaced for ever."""
        kind, most = ("killed", MOST_KILLS) if -code in FROM_OUTSIDE else ("ended", MOST_FALSE_STARTS)
        self.false_starts[kind] += 1
        if self.false_starts[kind] >= most:
            raise RunStopped(f"{most} workers in a row ended before they started; the last: {end}")

    def _try_again(self, job: PoolJob, code: int, end: str, out_of_memory: bool) -> None:
        error = self.deaths.setdefault(id(job), Deaths()).count(code, end, out_of_memory, job.saved())
        if error is None:
            self.waiting.appendleft(job)
            self.on_event({"event": "warning", "trial": job.name, "text": f"{end}; it is tried again"})
        else:
            self.done(job, job.failed(error))
