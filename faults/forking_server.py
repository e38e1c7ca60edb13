"""Runs commands in child processes that can be killed, without importing PyTorch again for each.

It imports headway once and forks a child for each request (a JSON line on stdin); the reply (a JSON line on
stdout) comes when the child has ended. A request holds the command's `arguments` (or a `call` of "module:function"
with them), the folder `cwd`, the `log` for what the child prints, and at most one fault:

- `signal_after`: the signal `number` from outside after so many seconds (SIGKILL if it names none);
- `kill_at`: the child kills itself at its n-th file operation `inside` a "checkpoint" write, while "created" (a run),
  or "anywhere"; a file that is being written is left half written;
- `terminal`: the child has a terminal of its own, whose Ctrl-C is pressed instead of sending SIGINT;
- `environment`: variables for it and for the processes that it starts;
- `largest`: no file may become larger than so many bytes (RLIMIT_FSIZE);
- `user`: it runs as this user, by number;
- `delete`: this folder is deleted after `delete_after` seconds;
- `delay`: it begins so many seconds later;
- `worker_fuse`: the same for the first process that the child starts which gets there ("POINT:FILE that notes it");
- `interrupt_at`: SIGINT from outside once metrics.jsonl of the run `watched` has so many lines, sent `times` times.

With `count`, nothing happens, and that file gets the number of points at which a fuse could burn. `plant` names a
function "module:function" that breaks something in the child first, so that tests see a row fail.

A list of requests is served at once: the children start together.
"""

import contextlib
import importlib
import importlib.readers  # before another user's process needs it
import io
import json
import os
import pathlib
import pkgutil
import resource
import shutil
import signal
import sys
import termios
import threading
import time
import traceback
from typing import Any

import safetensors.torch  # noqa: F401  imported here, so that no child has to
import torch

import headway
from faults import fuse
from headway.cli.main import main, run
from headway.runs import RunDirectory
from headway.training import loop

INSIDE = {"checkpoint": ("write_checkpoint", "keep_checkpoints"), "created": ("create",)}
PLANTED = pathlib.Path(__file__).parent / "planted"
LONGEST = 120.0
"""Seconds after which a child counts as hanging."""


def plant(request: dict[str, Any]) -> None:
    """Make this process kill itself at the chosen file operation."""
    inside = request.get("inside", "anywhere")
    planted = fuse.plant(request["kill_at"], depth=int(inside == "anywhere"))
    for name in INSIDE.get(inside, ()):
        setattr(RunDirectory, name, planted.inside(getattr(RunDirectory, name)))


def linger(lines: int) -> None:
    """Make the step that records the metrics' `lines`-th line last two seconds more, so that signals meet it."""
    update = loop._Loop._update

    def slow(self: Any, step: int) -> None:
        update(self, step)
        if self.seed_run.state.step == lines - 1:
            time.sleep(2)

    loop._Loop._update = slow  # type: ignore[method-assign]


def named(text: str) -> Any:
    """The function that "module:function" names."""
    module, _, name = text.partition(":")
    return getattr(importlib.import_module(module), name)


def work(request: dict[str, Any]) -> None:
    """The child: do the command and end with its exit code."""
    if "terminal" not in request:
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(log, stream)
    for number in (signal.SIGINT, signal.SIGTERM):  # as at the start of a process
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    os.environ.update(request.get("environment", {}))
    os.chdir(request.get("cwd", "."))
    time.sleep(request.get("delay", 0.0))
    if "plant" in request:
        named(request["plant"])()
    counting = fuse.plant(sys.maxsize) if "count" in request else None
    if "kill_at" in request:
        plant(request)
    if "worker_fuse" in request:
        os.environ["HEADWAY_FAULT_FUSE"] = str(request["worker_fuse"])
        sys.path.insert(0, str(PLANTED))
    if "largest" in request:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest"], request["largest"]))
    if "user" in request:
        os.setgid(request["user"])
        os.setuid(request["user"])
    if "interrupt_at" in request:
        linger(request["interrupt_at"])
    code = named(request["call"])(*request["arguments"]) if "call" in request else command_line(request["arguments"])
    if counting is not None:
        pathlib.Path(request["count"]).write_text(str(counting.burned))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def command_line(words: list[str]) -> int:
    """The exit code of `headway` with these words."""
    sys.argv = ["headway", *words]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


class Terminal:
    """A pseudo-terminal for a child, whose output is read into a log."""

    def __init__(self, log: str):
        self.ours, self.theirs = os.openpty()
        self.log = pathlib.Path(log)
        self.before = termios.tcgetattr(self.theirs)
        self.reader = threading.Thread(target=self._read)

    def _read(self) -> None:
        with self.log.open("wb") as log, contextlib.suppress(OSError):  # the end of a terminal is an error
            while content := os.read(self.ours, 65536):
                log.write(content)

    def press(self, number: int, child: int) -> None:
        """Ctrl-C as a key; another signal as a signal."""
        if number == signal.SIGINT:
            os.write(self.ours, b"\x03")
        else:
            os.kill(child, number)

    def close(self) -> bool:
        """Whether the child left the terminal's modes as they were, and its cursor visible."""
        same = termios.tcgetattr(self.theirs) == self.before
        os.close(self.theirs)
        self.reader.join()
        os.close(self.ours)
        printed = self.log.read_bytes()
        return same and printed.rfind(b"\x1b[?25l") <= printed.rfind(b"\x1b[?25h")


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


def start(request: dict[str, Any], gate: int) -> tuple[int, Terminal | None]:
    """Fork a child, which begins when the gate is opened."""
    terminal = Terminal(request["log"]) if "terminal" in request else None
    child = os.fork()
    if not child:
        try:
            if terminal is not None:
                os.close(terminal.ours)
                os.login_tty(terminal.theirs)
            os.read(gate, 1)
            work(request)
        except KeyboardInterrupt:  # before headway handles signals: Python ends so, too
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(70)
    if terminal is not None:
        terminal.reader.start()
    return child, terminal


def attend(child: int, terminal: Terminal | None, request: dict[str, Any], started: float) -> dict[str, Any]:
    """Do the fault to a child, and wait until it has ended."""
    code = None
    if "interrupt_at" in request:
        interrupt(child, request)
    if "signal_after" in request:
        code = wait(child, seconds=request["signal_after"])
        number = request.get("number", signal.SIGKILL)
        if code is None and terminal is not None:
            terminal.press(number, child)
        elif code is None:
            os.kill(child, number)
    if "delete" in request:
        code = wait(child, seconds=request["delete_after"])
        shutil.rmtree(request["delete"], ignore_errors=True)
    code = wait(child, seconds=LONGEST) if code is None else code
    if code is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    restored = None if terminal is None else terminal.close()
    return {"code": code, "seconds": time.monotonic() - started, "pid": child, "restored": restored}


def serve(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    gate, opening = os.pipe()
    os.set_inheritable(opening, False)
    children = [start(request, gate) for request in requests]
    started = time.monotonic()
    os.write(opening, b"." * len(children))
    replies = [attend(*child, request, started) for child, request in zip(children, requests, strict=True)]
    os.close(gate)
    os.close(opening)
    return replies


def plant_study() -> None:
    """Make the toy study a preset that `headway study addition` knows, with its analyses in the command's process."""
    from faults.victims import STUDY
    from headway.studies import pool
    from headway.studies.presets import PRESETS

    PRESETS["addition"]["toy"] = STUDY
    pool.FEWEST_TOKENS = 10**12  # processes take longer to start than a toy


def import_headway() -> None:
    """Import every module that a command may need, except those of optional packages."""
    for module in pkgutil.walk_packages(headway.__path__, "headway."):
        if ".student" not in module.name and not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(io.StringIO()):
        import_headway()
        run(["train", "quick-addition", "--dry-run"])
    plant_study()
    for line in sys.stdin:
        asked = json.loads(line)
        answers = serve(asked if isinstance(asked, list) else [asked])
        print(json.dumps(answers if isinstance(asked, list) else answers[0]), flush=True)
