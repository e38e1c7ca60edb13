"""Violations for a campaign to count; each breaks something in a forked process that then runs a command."""

from pathlib import Path
from typing import Any

from headway import storage
from headway.runs import RunDirectory
from headway.training.adamw import AdamW


def write_in_place(path: Path, content: bytes) -> None:
    """A file that is overwritten where it stands."""
    with path.open("wb") as handle:
        handle.write(content)


def non_atomic_writes() -> None:
    storage.replace_file = write_in_place


def forgotten_optimiser() -> None:
    """A checkpoint whose optimiser state is not read."""

    def restore(self: AdamW, tensors: Any) -> None:
        pass

    AdamW.restore = restore  # type: ignore[method-assign]


def unlocked_runs() -> None:
    """Directories that several processes write at once."""
    from contextlib import nullcontext

    RunDirectory.lock = lambda self: nullcontext()  # type: ignore[method-assign,assignment,misc,return-value]


def deaf_processes() -> None:
    """Signals that nobody handles."""
    import signal

    signal.signal = lambda number, handler: None  # type: ignore[assignment,misc]


def outliving_sessions() -> None:
    """A connection to Ray that does not end with its driver, even if it has something to tell it."""
    import os
    import sys
    import time
    from contextlib import suppress
    from multiprocessing.connection import Connection

    send = Connection.send

    def send_if_heard(self: "Connection", message: Any) -> None:
        with suppress(OSError):
            send(self, message)

    if "headway.sweeps.ray_session" in sys.orig_argv:
        os._exit = lambda code: time.sleep(600)  # type: ignore[assignment]
        Connection.send = send_if_heard  # type: ignore[method-assign]


def unhandled_errors() -> None:
    """Errors of a path that end in a traceback."""
    from headway.cli import main

    def fail(error: object, code: int) -> int:
        raise RuntimeError(str(error))

    main._fail = fail


def done_too_early() -> None:
    """A command that says its work was done whenever it is interrupted."""
    from headway.cli import main

    fail = main._fail
    main._fail = lambda error, code: fail("interrupted when all was done", code)


def interrupted_bar() -> None:
    """Ctrl-C when a progress bar has hidden the cursor and is not yet there to show it again."""
    import os
    import signal

    from rich.live import Live

    start = Live.start

    def started(self: Live, refresh: bool = False) -> None:
        start(self, refresh)
        os.kill(os.getpid(), signal.SIGINT)

    Live.start = started  # type: ignore[method-assign]
