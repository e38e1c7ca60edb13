"""Runs `headway` commands in child processes that can be killed, without importing PyTorch again for each.

It imports headway once and forks a child for each request (a JSON line on stdin); the reply (a JSON line on
stdout) comes when the child has ended. A request holds the command's `arguments`, the `log` for what the child
prints, and at most one fault:

- `kill_after`: SIGKILL from outside after so many seconds;
- `kill_at`: the child kills itself at its n-th file operation `inside` a "checkpoint" write, or while the run is
  "created"; a file that is being written is left half written;
- `interrupt_at`: SIGINT from outside once metrics.jsonl of the run `watched` has so many lines, sent `times` times.
"""

import contextlib
import io
import json
import os
import pathlib
import signal
import sys
import time
from typing import Any

import safetensors.torch  # noqa: F401  imported here, so that no child has to
import torch

from headway.cli.main import run
from headway.runs import RunDirectory
from headway.training import loop

INSIDE = {"checkpoint": ("write_checkpoint", "keep_checkpoints"), "created": ("create",)}
OPERATIONS = ("fsync", "rename", "replace", "unlink", "rmdir", "mkdir")


class Fuse:
    """Burns down by two at each file operation inside the chosen methods: one before it, one after it."""

    def __init__(self, length: int):
        self.left = length
        self.depth = 0

    def burn(self) -> None:
        if self.depth:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, operation: Any) -> Any:
        def burning(*arguments: Any, **options: Any) -> Any:
            self.burn()
            result = operation(*arguments, **options)
            self.burn()
            return result

        return burning

    def inside(self, method: Any) -> Any:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.depth += 1
            try:
                return method(*arguments, **options)
            finally:
                self.depth -= 1

        return counted

    def open(self, path: pathlib.Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        handle = plain_open(path, mode, *arguments, **options)
        return SlowFile(handle, self) if "w" in mode and self.depth else handle


class SlowFile:
    """A file that is written in two halves, so that a kill can fall between them."""

    def __init__(self, handle: Any, fuse: Fuse):
        self.handle, self.fuse = handle, fuse

    def write(self, content: bytes) -> None:
        middle = len(content) // 2
        for part in (content[:middle], content[middle:]):
            self.fuse.burn()
            self.handle.write(part)
            self.handle.flush()

    def __enter__(self) -> "SlowFile":
        return self

    def __exit__(self, *problem: Any) -> None:
        self.handle.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.handle, name)


plain_open = pathlib.Path.open


def plant(length: int, inside: str) -> None:
    """Make this process kill itself at the chosen file operation."""
    fuse = Fuse(length)
    for name in INSIDE[inside]:
        setattr(RunDirectory, name, fuse.inside(getattr(RunDirectory, name)))
    for name in OPERATIONS:
        setattr(os, name, fuse.around(getattr(os, name)))
    pathlib.Path.open = lambda *arguments, **options: fuse.open(*arguments, **options)  # type: ignore[method-assign]


def linger(lines: int) -> None:
    """Make the step that records the metrics' `lines`-th line last two seconds more, so that signals meet it."""
    update = loop._Loop._update

    def slow(self: Any, step: int) -> None:
        update(self, step)
        if self.seed_run.state.step == lines - 1:
            time.sleep(2)

    loop._Loop._update = slow  # type: ignore[method-assign]


def work(request: dict[str, Any]) -> None:
    """The child: do the command and end with its exit code."""
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    if "kill_at" in request:
        plant(request["kill_at"], request["inside"])
    if "interrupt_at" in request:
        linger(request["interrupt_at"])
    code = run(request["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def wait(child: int, *, seconds: float) -> int | None:
    """The child's exit code (minus the signal that ended it), or None if it still runs after so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    return None


def interrupt(child: int, request: dict[str, Any]) -> None:
    """SIGINT as soon as the run has recorded enough; more of them a moment later."""
    metrics = pathlib.Path(request["watched"]) / "metrics.jsonl"
    while not metrics.exists() or metrics.read_bytes().count(b"\n") < request["interrupt_at"]:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(0.001)
    for _ in range(request["times"]):
        time.sleep(0.02)
        os.kill(child, signal.SIGINT)


def serve(request: dict[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    child = os.fork()
    if not child:
        try:
            work(request)
        finally:
            os._exit(70)
    code = None
    if "interrupt_at" in request:
        interrupt(child, request)
    if "kill_after" in request:
        code = wait(child, seconds=request["kill_after"])
        if code is None:
            os.kill(child, signal.SIGKILL)
    code = wait(child, seconds=60) if code is None else code
    if code is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return {"code": code, "seconds": time.monotonic() - started}


if __name__ == "__main__":
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(io.StringIO()):
        run(["train", "quick-addition", "--dry-run"])  # imports all the rest that a training needs
    for line in sys.stdin:
        print(json.dumps(serve(json.loads(line))), flush=True)
