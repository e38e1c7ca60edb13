"""The processes of a Ray that a session started, found in /proc; where there is none, nothing is found."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

MARK = "HEADWAY_RAY_SESSION"
"""The environment variable that every process of a session's own Ray carries."""


def end_marked(mark: str, sparing: int = 0, patience: float = 10.0) -> None:
    """Kill every process that carries a session's mark, but one. Ray ends them too, some only after a minute."""
    end = time.monotonic() + patience
    while (left := [pid for pid in marked(mark) if pid != sparing]) and time.monotonic() < end:
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def marked(mark: str) -> list[int]:
    """The processes that carry a session's mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def children() -> list[int]:
    """This process's own, where the system lists them in /proc."""
    found = Path("/proc/self/task").glob("*/children")
    return [int(pid) for path in found for pid in path.read_text().split()]


def name_and_state(pid: int) -> tuple[str, str]:
    """A process's name and state letter (Z: ended); empty when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "", ""
    name, _, rest = text.partition("(")[2].rpartition(")")
    return name, rest.split()[0]
