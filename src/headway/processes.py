"""Child processes that exchange messages with this one and end with it."""

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
from typing import Any, NoReturn

POLL_SECONDS = 0.2
"""Seconds between checks whether the parent is alive."""
LAST_BYTES = 4096
"""Bytes at the end of a child's output that are searched for its last line."""


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Child:
    """A child process that runs a module of headway; both sides send values through a pipe.

    It is not a `multiprocessing` process, which would run a user's script again if that has no main guard.
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
                start_new_session=True,  # Ctrl-C goes to this process only, which makes its children save
            )

    def tell(self, message: Any) -> None:
        with suppress(OSError):  # it died; `hear` reports that
            self.pipe.send(message)

    def hear(self, patience: float = 0.0) -> tuple[list[Any], bool]:
        """The messages since the last call, and whether the process has ended."""
        messages: list[Any] = []
        try:
            while self.pipe.poll(0 if messages else patience):
                messages.append(self.pipe.recv())
        except (EOFError, OSError):
            return messages, True
        return messages, False

    def last_line(self) -> str:
        """The last line it printed."""
        self.printed.seek(max(0, self.printed.seek(0, os.SEEK_END) - LAST_BYTES))
        lines = self.printed.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def end(self) -> int:
        """Kill the process if it still runs; returns its exit code (minus the signal that ended it)."""
        self.process.kill()
        code = self.process.wait()
        self.pipe.close()
        self.printed.close()
        return code


def environment(threads: int) -> dict[str, str]:
    """The environment of a child: the same module path, and a limit on the threads of its libraries."""
    modules = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return {**os.environ, "PYTHONPATH": modules, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}


# In a child


def parent_pipe(take: Callable[[Any], None], at_the_end: Callable[[], None] = lambda: None) -> Connection:
    """The pipe to this process's parent; a thread calls `take` with the parent's messages.

    When the parent ends in any way, `at_the_end` is called and this process ends at once.
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
    """Make this process end when its parent ends, in any way."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_SECONDS)
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()


# Signals that ask a process to end

ENDING = (signal.SIGINT, signal.SIGTERM)
received: list[int] = []
"""The signals of `ENDING` that this process has handled."""


def exit_code() -> int:
    """The exit code of a process that a signal ended: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + (received[-1] if received else signal.SIGINT)


@contextmanager
def handling_signals(note: Callable[[], None]) -> Iterator[None]:
    """Call `note` at SIGINT (Ctrl-C) and SIGTERM, in place of what happened before; only in the main thread.

    A signal that is ignored, as SIGINT is in a script's background jobs, stays ignored. An exception that `note` raises
    while an object is deleted is lost; the signal comes again a moment later.
    """
    unraisable = sys.unraisablehook

    def take(number: int, frame: FrameType | None) -> None:
        received.append(number)
        note()

    def lost(what: "sys.UnraisableHookArgs") -> None:
        if not issubclass(what.exc_type, KeyboardInterrupt) or not received:
            unraisable(what)
            return
        again = threading.Timer(POLL_SECONDS, os.kill, (os.getpid(), received[-1]))
        again.daemon = True
        again.start()

    try:
        heard = [ending for ending in ENDING if signal.getsignal(ending) is not signal.SIG_IGN]
        before = {ending: signal.signal(ending, take) for ending in heard}
    except ValueError:  # not the main thread: signals cannot be handled here
        yield
        return
    sys.unraisablehook = lost
    try:
        yield
    finally:
        sys.unraisablehook = unraisable
        for ending, handler in before.items():
            signal.signal(ending, handler)


@contextmanager
def counting_signals() -> Iterator[list[int]]:
    """The received signals, which are collected instead of raised."""
    came: list[int] = []
    with handling_signals(lambda: came.append(received[-1])):
        yield came


def interrupt() -> None:
    """End like Ctrl-C does."""
    raise KeyboardInterrupt


def end_as_received() -> NoReturn:
    """End this process as the signal that it handled would have, so that its parent sees it."""
    sys.stdout.flush()
    if received and received[-1] == signal.SIGTERM:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    os._exit(exit_code())
