"""Finds the processes of a local Ray in /proc; finds none without /proc."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A process in /proc; `session` is the id of the process that started its session."""

    pid: int
    name: str
    state: str
    session: int

    @property
    def ended(self) -> bool:
        return self.state in ("Z", "X", "")


def process_state(pid: int) -> Process:
    """The current state of a process; an ended one has no name and no state."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return Process(pid, "", "", 0)
    name, _, rest = text.partition("(")[2].rpartition(")")
    words = rest.split()
    return Process(pid, name, words[0], int(words[3]))


def in_session(session: int) -> list[Process]:
    """The running processes of a session. Ray's processes stay in the session in which they were started."""
    everything = (process_state(int(path.name)) for path in Path("/proc").glob("[0-9]*"))
    return [process for process in everything if process.session == session and not process.ended]


def end_session(session: int, sparing: int = 0, patience: float = 10.0) -> None:
    """Kill every process of a session except `sparing`. Ray ends its own too, but some only after a minute."""
    end = time.monotonic() + patience
    while (left := [p.pid for p in in_session(session) if p.pid != sparing]) and time.monotonic() < end:
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def children_of(pid: int) -> list[int]:
    """The children of a process."""
    with suppress(OSError):
        found = list(Path(f"/proc/{pid}/task").glob("*/children"))  # an error while it is read would leave it open
        return [int(child) for path in found for child in path.read_text().split()]
    return []
