"""Runs jobs on a Ray cluster: a local one that lives as long as the sweep, or one of many machines.

A child process is connected to Ray (`ray_session`). When Ray fails the child is replaced, and unfinished jobs are
submitted again. On a local cluster a trial is trained in the sweep directory; on any other, in a folder of the worker's
machine, and sent back.
"""

import re
import secrets
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from textwrap import shorten
from typing import Any

from headway.callbacks import OnEvent
from headway.errors import InputError, Interrupted, RunStopped
from headway.processes import Child, available_cores, counting_signals
from headway.results.comparison import Outcome
from headway.sweeps.ray_processes import end_session
from headway.sweeps.ray_session import Request
from headway.sweeps.trial import Job, JobOptions

MOST_LOSSES = 5
"""Sessions that may be lost in a row without a finished trial."""
CONNECTING = 90.0
"""Seconds for Ray to start; on a busy machine it takes ten."""
SAVING = 60.0
"""Seconds for a session to save its jobs and end."""
POLL_SECONDS = 0.1
"""Seconds between checks for Ctrl-C."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""Terminal colour codes in Ray's output."""


class RayExecutor:
    """Runs each job as a Ray task with `cpus` cores and `gpus` GPUs, on the cluster at `address` or on its own."""

    def __init__(self, how: JobOptions, *, cpus: float = 1, gpus: float = 0, address: str | None = None):
        if find_spec("ray") is None:
            raise InputError("--on ray needs the extra: pip install 'headway[ray]'")
        _check(cpus, gpus, how.device)
        device = "cpu" if how.device == "auto" and not gpus else how.device
        self.how = replace(how, threads=max(1, int(cpus)), device=device)
        self.cpus, self.gpus, self.address = cpus, gpus, address

    def run(self, jobs: Sequence[Job], done: Callable[[Sequence[Outcome]], None], on_event: OnEvent) -> None:
        """Run every job; if Ray fails, it is started (or joined) again for the unfinished jobs."""
        left = dict(enumerate(jobs))
        mark = secrets.token_hex(8)
        losses, connected = 0, False
        with counting_signals() as signals:
            while left:
                before = len(left)
                session = _Session(self._request(left, mark), self.how.threads)
                follower = _Follower(session, left, done, on_event, again=connected)
                try:
                    lost = follower.follow(signals)
                finally:
                    session.end()
                connected = connected or follower.connected
                losses = 0 if len(left) < before else losses + 1
                if left and losses >= MOST_LOSSES:
                    raise RunStopped(f"Ray was lost {losses} times in a row without a finished trial ({lost})")
                if left:
                    on_event({"event": "warning", "text": f"Ray was lost ({lost}); trying again"})
                    _pause(losses, signals)

    def _request(self, jobs: dict[int, Job], mark: str) -> Request:
        # A worker may run in another directory.
        places = {number: tuple(place.absolute() for place in job.places) for number, job in jobs.items()}
        there = {number: replace(job, places=places[number], how=self.how) for number, job in jobs.items()}
        return Request(there, self.cpus, self.gpus, self.address, available_cores(), mark)


def _check(cpus: float, gpus: float, device: str) -> None:
    if not 0 < cpus < float("inf"):
        raise InputError(f"--cpus {cpus:g}; a finite number above 0 needed")
    if not 0 <= gpus < float("inf") or (gpus > 1 and gpus != int(gpus)):
        raise InputError(f"--gpus {gpus:g}; a fraction such as 0.25, or a whole number")
    if device == "cuda" and not gpus:
        raise InputError("--device cuda with --on ray needs --gpus, the share of a GPU per trial, such as 0.25 or 1")


def _pause(losses: int, signals: list[int]) -> None:
    """Wait longer after each loss, for clusters that fail at once."""
    end = time.monotonic() + losses
    while time.monotonic() < end and not signals:
        time.sleep(POLL_SECONDS)


class _Session(Child):
    """The process that is connected to Ray, with the Ray that it may have started."""

    def __init__(self, request: Request, threads: int):
        settings = {"RAY_USAGE_STATS_ENABLED": "0"}
        if request.address is None:  # nobody else may use this sweep's own Ray
            settings |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        super().__init__("headway.sweeps.ray_session", threads, **settings)
        self.tell(request)

    def last_line(self) -> str:
        """The last line that it printed, without Ray's time, thread and source line."""
        last = COLOUR.sub("", super().last_line()) or "it printed nothing"
        return shorten(re.sub(r"^\[.*?\] \S+: ", "", last), 160)

    def save(self, signals: list[int]) -> None:
        """Let its jobs save, for a limited time; another Ctrl-C ends the wait."""
        before, end = len(signals), time.monotonic() + SAVING
        self.tell("stop")
        while len(signals) == before and time.monotonic() < end:
            if self.hear(POLL_SECONDS)[1]:
                return

    def end(self) -> int:
        """End all its processes on this machine."""
        end_session(self.process.pid)
        return super().end()


class _Follower:
    """Forwards the messages of a session and removes each finished job from the list."""

    def __init__(
        self,
        session: _Session,
        left: dict[int, Job],
        done: Callable[[Sequence[Outcome]], None],
        on_event: OnEvent,
        *,
        again: bool,
    ):
        self.session, self.left, self.done, self.on_event, self.again = session, left, done, on_event, again
        self.connected = False
        self.lost: str | None = None

    def follow(self, signals: list[int]) -> str:
        """Follow the session until it ends; the reason if it ended before the last job."""
        try:
            return self._follow(signals)
        except BaseException:
            if self.connected:
                self.session.save(signals)
            raise

    def _follow(self, signals: list[int]) -> str:
        deadline = time.monotonic() + CONNECTING
        while self.left and self.lost is None:
            if signals:
                raise Interrupted(signal.Signals(signals[0]).name)
            messages, gone = self.session.hear(POLL_SECONDS)
            for kind, content in messages:
                self._take(kind, content)
            if gone:
                self.lost = self.lost or self.session.last_line()
            elif not self.connected and time.monotonic() > deadline:
                self.lost = f"it did not start within {CONNECTING:g} seconds: {self.session.last_line()}"
        return self.lost or ""

    def _take(self, kind: str, content: Any) -> None:
        if kind == "connected":
            self.connected = True
        elif kind == "raised":
            self._fail(content)
        elif kind == "ended":
            number, outcomes = content
            del self.left[number]
            self.done(outcomes)
        elif kind == "started":
            for event in self.left[content].begun():
                self.on_event(event)
        else:
            number, text = content
            for trial in self.left[number].trials:
                self.on_event({"event": "warning", "trial": trial.name, "text": text})

    def _fail(self, problem: Exception) -> None:
        if isinstance(problem, InputError) and self.again:  # a cluster that was reachable may come back
            self.lost = str(problem)
            return
        raise problem
