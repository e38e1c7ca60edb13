"""Processes that another one started: they are talked to, and end with it."""

import functools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

GLANCE = 0.2
"""Seconds between looks at whether the parent is still there."""
LAST_BYTES = 4096
"""Bytes of what a child printed in which its last line is looked for."""


def available_cores() -> int:
    """Cores this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Child:
    """A process that runs a module of headway; both sides send each other values through a pipe.

    It is not a `multiprocessing` process, which would run the user's script again where that has no main guard.
    """

    def __init__(self, module: str, threads: int, **settings: str):
        self.printed = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the process
        self.pipe, there = Pipe()
        with there:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(there.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self.printed,
                stderr=self.printed,
                pass_fds=[there.fileno()],
                env={**environment(threads), **settings},
                start_new_session=True,  # Ctrl-C at a terminal is for this process, which tells its children to save
            )

    def tell(self, message: Any) -> None:
        with suppress(OSError):  # it died; its end is noticed where it is heard
            self.pipe.send(message)

    def hear(self, patience: float = 0.0) -> tuple[list[Any], bool]:
        """What it said since the last time, and whether it is gone."""
        messages: list[Any] = []
        try:
            while self.pipe.poll(0 if messages else patience):
                messages.append(self.pipe.recv())
        except (EOFError, OSError):
            return messages, True
        return messages, False

    def last_words(self) -> str:
        """The last line it printed."""
        self.printed.seek(max(0, self.printed.seek(0, os.SEEK_END) - LAST_BYTES))
        lines = self.printed.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def end(self) -> int:
        """Its exit code (minus the signal that ended it); a process that still runs is killed."""
        self.process.kill()
        code = self.process.wait()
        self.pipe.close()
        self.printed.close()
        return code


def environment(threads: int) -> dict[str, str]:
    """That of this process; a child finds the same modules, and its libraries take no more threads than they may."""
    modules = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return {**os.environ, "PYTHONPATH": modules, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}


# In a child


def parent_pipe(take: Callable[[Any], None], at_the_end: Callable[[], None] = lambda: None) -> Connection:
    """The pipe to the parent of this process; from now on a thread passes on what the parent says.

    When the parent is gone, by whatever death, `at_the_end` is called and this process ends at once.
    """
    pipe: Connection = Connection(int(sys.argv[1]))
    os.set_inheritable(pipe.fileno(), False)

    def listen() -> None:
        with suppress(EOFError, OSError):
            while True:
                take(pipe.recv())
        at_the_end()
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    return pipe


@functools.cache
def end_with_parent() -> None:
    """From now on this process ends when the one that started it does, killed or not: nobody waits for its work."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(GLANCE)
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()


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
