"""One worker process of a pool: `python -m headway.sweeps.worker`, which ends with its driver.

Its input is ("threads", 2) and ("job", job). It answers through the same pipe:

    ("ready", None)               once, when it can take a job
    ("event", {...})              progress of a job, at most a few times a second
    ("ended", (result, False))    the result of a job; True: this process takes no more jobs
    ("raised", problem)           an error that ends all jobs, such as a full disk
"""

import os
import queue
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from headway.callbacks import Event
from headway.errors import Interrupted, RunStopped
from headway.processes import end_as_received, parent_pipe
from headway.sweeps.pool import PoolJob

EVENT_EVERY = 0.5
"""Seconds between two progress events of a job."""


class Worker:
    """This process: its queue of jobs and its number of threads."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[PoolJob] = queue.SimpleQueue()
        self.threads = 1
        self.told = -EVENT_EVERY
        self.pipe: Connection = parent_pipe(self._take)

    def _take(self, message: tuple[str, Any]) -> None:
        kind, content = message
        if kind == "threads":
            self.threads = content
        else:
            self.jobs.put(content)

    def serve(self) -> None:
        """Do jobs until the driver is gone or sends SIGINT, or this process may be in a bad state."""
        import torch

        import headway.evaluation
        import headway.training  # noqa: F401  slow to import, so it is done before the first job

        self.pipe.send(("ready", None))
        while True:
            job = self.jobs.get()
            self._use_threads()
            try:
                result = job.do(self._tell)
            except RunStopped as problem:
                self.pipe.send(("raised", problem))
                return
            # After an error on a GPU, every later call of the process may fail.
            last = torch.cuda.is_initialized() and job.is_failed(result)
            self.pipe.send(("ended", (result, last)))
            if last:
                return

    def _use_threads(self) -> None:
        import torch

        if self.threads != torch.get_num_threads():
            torch.set_num_threads(self.threads)

    def _tell(self, event: Event) -> None:
        """Send every event, but progress at most every half second."""
        self._use_threads()
        if event["event"] in ("step", "validation", "share"):
            if time.monotonic() - self.told < EVENT_EVERY:
                return
            self.told = time.monotonic()
        self.pipe.send(("event", dict(event)))


def main(serve: Callable[[], None]) -> None:
    """Serve, and exit without PyTorch's slow teardown."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        serve()
    except (Interrupted, KeyboardInterrupt):
        end_as_received()
    except BrokenPipeError:
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(Worker().serve)
