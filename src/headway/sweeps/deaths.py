"""How a worker process ended, and how often its job is retried."""

import re
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM)
MOST_KILLS = 20
"""Kills from outside that a job survives without a new checkpoint between them."""
MOST_CRASHES = 3
MOST_OUT_OF_MEMORY = 2


@dataclass
class Deaths:
    """Counts of worker deaths on a job, and the steps saved at the last one."""

    kills: int = 0
    crashes: int = 0
    out_of_memory: int = 0
    saved: tuple[int, ...] = ()

    def count(self, code: int, end: str, out_of_memory: bool, saved: tuple[int, ...]) -> str | None:
        """Count a worker's death; returns why the job is given up, or None to retry it."""
        if saved != self.saved:
            self.kills, self.saved = 0, saved
        if -code in FROM_OUTSIDE and out_of_memory:
            self.out_of_memory += 1
            if self.out_of_memory >= MOST_OUT_OF_MEMORY:
                return f"out of memory (the system ended its worker {self.out_of_memory} times)"
        elif -code in FROM_OUTSIDE:
            self.kills += 1
            if self.kills >= MOST_KILLS:
                return f"{end}, {self.kills} times without a new checkpoint"
        else:
            self.crashes += 1
            if self.crashes >= MOST_CRASHES:
                return f"{end}, {self.crashes} times"
        return None


def describe_end(code: int, last_line: str) -> str:
    """Describe how a worker ended, from its exit code and the last line that it printed.

    >>> describe_end(-11, "")
    'its worker was ended by SIGSEGV'
    """
    if code >= 0:
        return f"its worker ended with exit code {code} ({last_line or 'it printed nothing'})"
    try:
        return f"its worker was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"its worker was ended by signal {-code}"


def count_out_of_memory() -> int:
    """The number of processes that the system killed for lack of memory, in this control group or overall."""
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
