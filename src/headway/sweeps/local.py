"""Jobs on this machine: worker processes that are replaced when they die, and never outlive their driver."""

import json
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from headway.errors import Interrupted, RunStopped
from headway.results.comparison import Outcome
from headway.runs import RunDirectory
from headway.sweeps.driver import Job
from headway.sweeps.trial import Circumstances, DiskFull, Report
from headway.sweeps.worker import decode_outcomes, encode_circumstances, encode_job

FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM)
MOST_KILLS = 20
"""Kills from outside that a job survives without a new checkpoint between them."""
MOST_CRASHES = 3
MOST_OUT_OF_MEMORY = 2
MOST_FALSE_STARTS = 5
GLANCE = 0.1
"""Seconds between looks at whether somebody pressed Ctrl-C."""
SAVING = 60.0
"""Seconds that workers have for saving when the sweep is stopped."""


def available_cores() -> int:
    """Cores this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class LocalExecutor:
    """Runs jobs in `workers` processes, each with `how.threads` threads."""

    def __init__(self, workers: int, how: Circumstances):
        self.workers, self.how = workers, how

    def run(self, jobs: Sequence[Job], done: Callable[[Sequence[Outcome]], None], report: Report) -> None:
        """Run every job; a job whose worker died is done again from its last checkpoint."""
        with counting_signals() as signals:
            crew = _Crew(min(self.workers, len(jobs)), self.how, jobs, done, report)
            try:
                crew.work(signals)
            except BaseException:
                crew.save(signals)
                raise
            finally:
                crew.end()


class _Worker:
    """A worker process, what it is doing, and what it has said."""

    def __init__(self, how: Circumstances):
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "headway.sweeps.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=environment(how.threads),
            start_new_session=True,  # Ctrl-C at a terminal is for the driver, which tells its workers to save
        )
        assert self.process.stdout is not None
        self.replies = self.process.stdout.fileno()
        os.set_blocking(self.replies, False)
        self.ready = False
        self.leaving = False
        self.job: Job | None = None
        self.out_of_memory = 0
        self.unfinished = b""
        self.tell(encode_circumstances(how))

    def tell(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it died; its end is noticed where it is waited for
            self.process.stdin.write((json.dumps(message) + "\n").encode())
            self.process.stdin.flush()

    def give(self, job: Job) -> None:
        self.job, self.out_of_memory = job, count_out_of_memory()
        self.tell(encode_job(job))

    def hear(self) -> tuple[list[dict[str, Any]], bool]:
        """What it said since the last time, and whether it is gone."""
        try:
            content = os.read(self.replies, 1 << 20)
        except BlockingIOError:
            return [], False
        *lines, self.unfinished = (self.unfinished + content).split(b"\n")
        return [json.loads(line) for line in lines], not content

    def last_words(self) -> str:
        """The last line it wrote to standard error."""
        self.errors.seek(max(0, self.errors.seek(0, os.SEEK_END) - 4096))
        lines = self.errors.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def end(self) -> int:
        """Its exit code (minus the signal that ended it); a process that still runs is killed."""
        self.process.kill()
        code = self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        return code


@dataclass
class _Deaths:
    """How often workers died on a job, and the steps it had saved by then."""

    kills: int = 0
    crashes: int = 0
    out_of_memory: int = 0
    saved: tuple[int, ...] = ()


class _Crew:
    """The workers of one sweep and the jobs that wait for them."""

    def __init__(
        self,
        size: int,
        how: Circumstances,
        jobs: Sequence[Job],
        done: Callable[[Sequence[Outcome]], None],
        report: Report,
    ):
        self.size, self.how, self.waiting, self.done, self.report = size, how, deque(jobs), done, report
        self.workers: dict[int, _Worker] = {}
        self.deaths: dict[str, _Deaths] = {}
        self.false_starts = {"killed": 0, "ended": 0}
        self.selector = selectors.DefaultSelector()

    def work(self, signals: list[int]) -> None:
        """Until every job has ended."""
        while self.waiting or self._busy():
            if signals:
                raise Interrupted(signal.Signals(signals[0]).name)
            self._hire()
            self._hand_out()
            for worker in self._heard():
                messages, gone = worker.hear()
                for message in messages:
                    self._take(worker, message)
                if gone:
                    self._replace(worker)

    def save(self, signals: list[int]) -> None:
        """Let busy workers save what they do, for a while; another Ctrl-C ends the wait."""
        before, end = len(signals), time.monotonic() + SAVING
        for worker in self._busy():
            worker.process.send_signal(signal.SIGINT)
        while self._busy() and len(signals) == before and time.monotonic() < end:
            for worker in self._heard():
                messages, gone = worker.hear()
                for message in messages:
                    self._take_ending(worker, message)
                if gone:
                    self._dismiss(worker)

    def _take_ending(self, worker: _Worker, message: dict[str, Any]) -> None:
        """A worker that had taken its last step came to its end instead of saving."""
        if "outcomes" in message:
            with suppress(Exception):  # why the sweep stops is known already, and the others still have to save
                self._take(worker, message)

    def end(self) -> None:
        """No worker is left."""
        for worker in list(self.workers.values()):
            self._dismiss(worker)
        self.selector.close()

    def _busy(self) -> list[_Worker]:
        return [worker for worker in self.workers.values() if worker.job is not None]

    def _heard(self) -> list[_Worker]:
        return [self.workers[int(key.fd)] for key, _ in self.selector.select(GLANCE)]

    def _hire(self) -> None:
        """As many workers as there are jobs to do, and no more than the crew's size."""
        staying = sum(not worker.leaving for worker in self.workers.values())
        for _ in range(min(self.size, len(self.waiting) + len(self._busy())) - staying):
            worker = _Worker(self.how)
            self.workers[worker.replies] = worker
            self.selector.register(worker.replies, selectors.EVENT_READ)

    def _hand_out(self) -> None:
        """A job for every worker that can take one; also one that came back when its worker died."""
        for worker in self.workers.values():
            if worker.ready and not worker.leaving and worker.job is None and self.waiting:
                job = self.waiting.popleft()
                worker.give(job)
                for trial in job.trials:
                    total = trial.config.train.total_steps(trial.config.data)
                    self.report({"event": "started", "trial": trial.name, "total": total})

    def _dismiss(self, worker: _Worker) -> int:
        del self.workers[worker.replies]
        self.selector.unregister(worker.replies)
        return worker.end()

    def _take(self, worker: _Worker, message: dict[str, Any]) -> None:
        if "event" in message:
            self.report(message["event"])
        elif "disk_full" in message:
            raise DiskFull(message["disk_full"])
        elif "outcomes" in message:
            worker.job, worker.leaving = None, message["last"]
            self.done(decode_outcomes(message["outcomes"]))
        else:
            worker.ready, self.false_starts = True, {"killed": 0, "ended": 0}

    def _replace(self, worker: _Worker) -> None:
        """A worker is gone: what it was doing waits again, unless that was tried too often."""
        last_words = worker.last_words()
        code = self._dismiss(worker)
        end = describe_end(code, last_words)
        if not worker.ready:
            self._count_false_start(code, end)
        if worker.job is not None:
            self._try_again(worker.job, code, end, count_out_of_memory() > worker.out_of_memory)

    def _count_false_start(self, code: int, end: str) -> None:
        """Workers that cannot start would be replaced for ever."""
        kind, most = ("killed", MOST_KILLS) if -code in FROM_OUTSIDE else ("ended", MOST_FALSE_STARTS)
        self.false_starts[kind] += 1
        if self.false_starts[kind] >= most:
            raise RunStopped(f"{most} workers ended before they could work, none started between; the last: {end}")

    def _try_again(self, job: Job, code: int, end: str, out_of_memory: bool) -> None:
        name = job.trials[0].name
        deaths = self.deaths.setdefault(name, _Deaths())
        error = count_death(deaths, code, end, out_of_memory, saved_steps(job))
        if error is None:
            self.waiting.appendleft(job)
            self.report({"event": "warning", "trial": name, "text": f"{end}; it is tried again"})
        else:
            self.done([Outcome(t.name, t.settings, t.seed, "failed", error=error) for t in job.trials])


def count_death(deaths: _Deaths, code: int, end: str, out_of_memory: bool, saved: tuple[int, ...]) -> str | None:
    """Note that a worker died on a job; says why the job is given up, or None if it should be tried again."""
    if saved != deaths.saved:
        deaths.kills, deaths.saved = 0, saved
    if -code in FROM_OUTSIDE and out_of_memory:
        deaths.out_of_memory += 1
        if deaths.out_of_memory >= MOST_OUT_OF_MEMORY:
            return f"out of memory (the system ended its worker {deaths.out_of_memory} times)"
    elif -code in FROM_OUTSIDE:
        deaths.kills += 1
        if deaths.kills >= MOST_KILLS:
            return f"{end}, {deaths.kills} times without a new checkpoint"
    else:
        deaths.crashes += 1
        if deaths.crashes >= MOST_CRASHES:
            return f"{end}, {deaths.crashes} times"
    return None


def describe_end(code: int, last_words: str) -> str:
    """How a worker ended, from its exit code and the last line it printed.

    >>> describe_end(-11, "")
    'its worker was ended by SIGSEGV'
    """
    if code >= 0:
        return f"its worker ended with exit code {code} ({last_words or 'it printed nothing'})"
    try:
        return f"its worker was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"its worker was ended by signal {-code}"


def saved_steps(job: Job) -> tuple[int, ...]:
    """The newest checkpoint of each trial, -1 where there is none."""
    return tuple(max(RunDirectory(place).checkpoint_steps(), default=-1) for place in job.places)


def count_out_of_memory() -> int:
    """How many processes the system has killed for want of memory, in this control group or else at all."""
    for path in (*_control_group(), Path("/proc/vmstat")):
        with suppress(OSError):
            match = re.search(r"^oom_kill (\d+)$", path.read_text(), re.MULTILINE)
            if match:
                return int(match[1])
    return 0


def _control_group() -> list[Path]:
    with suppress(OSError):
        match = re.search(r"^0::(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
        if match:
            return [Path(f"/sys/fs/cgroup{match[1]}") / "memory.events"]
    return []


def environment(threads: int) -> dict[str, str]:
    """That of this process; a worker finds the same modules, and its libraries take no more threads than they may."""
    modules = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return {**os.environ, "PYTHONPATH": modules, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}


@contextmanager
def counting_signals() -> Iterator[list[int]]:
    """The requests to end (Ctrl-C, SIGTERM) that came, instead of an exception anywhere."""
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: nobody can press Ctrl-C here
        yield came
        return
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
