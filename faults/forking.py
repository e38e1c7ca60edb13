"""Commands of headway in forked processes that may be killed, interrupted or started together."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (minus the signal that killed it; None: it hung) and what it printed."""

    code: int | None
    seconds: float
    printed: str
    pid: int
    restored: bool | None = None
    """Whether a command in a terminal left it as it was."""


class Commands:
    """Runs `headway` commands in forked processes; forking_server.py describes the faults.

    `plant` names a function "module:function" that breaks something in each of them.
    """

    def __init__(self, process: "subprocess.Popen[str]", plant: str = ""):
        self.process = process
        self.always = {"plant": plant} if plant else {}

    def broken_by(self, plant: str) -> "Commands":
        """The same, with something broken in each command."""
        return Commands(self.process, plant)

    def run(self, folder: Path, *arguments: str, **fault: Any) -> Ended:
        """Run one command; what it prints goes to log.txt in `folder`."""
        return self.run_together([(folder, arguments, fault)])[0]

    def run_together(self, asked: Sequence[tuple[Path, Sequence[str], dict[str, Any]]]) -> list[Ended]:
        """Start several commands at once, and wait for all."""
        logs = [folder / (f"log-{place}.txt" if place else "log.txt") for place, (folder, _, _) in enumerate(asked)]
        requests = [
            {"arguments": list(arguments), "log": str(log.resolve()), **self.always, **fault}
            for (_, arguments, fault), log in zip(asked, logs, strict=True)
        ]
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(requests) + "\n")
        self.process.stdin.flush()
        replies = json.loads(self.process.stdout.readline())
        return [
            Ended(
                reply["code"],
                reply["seconds"],
                log.read_text(errors="replace") if log.exists() else "",
                reply["pid"],
                reply["restored"],
            )
            for reply, log in zip(replies, logs, strict=True)
        ]


@contextmanager
def forking(*under: str) -> Iterator[Commands]:
    """A process that has imported headway, and forks a child for each command; `under` may be strace."""
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with subprocess.Popen(
        [*under, sys.executable, "-m", "faults.forking_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            yield Commands(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(timeout=60) == 0
