"""A process that has imported slow packages, and forks one child for each test run.

Its arguments are the packages. It reads one request per line, {"tests": [...], "limit": seconds}, and answers each with
one line. It is started in a copy of the repository and never imports headway itself, so that every child imports what
the copy holds at that time.
"""

import json
import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

IMPORTED = "ignore::pytest.PytestAssertRewriteWarning"
"""pytest warns of plugins that were imported before it; their assertions are not the tests'."""
OPTIONS = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", IMPORTED, "--tb=short", "--color=no"]
running: list[int] = []
"""The children so far."""
TAIL = 1_500
"""Characters of pytest's output that an answer carries."""


def run_tests(tests: list[str], limit: float) -> dict[str, object]:
    """The exit status of pytest in a child, or None if it had not ended within the limit."""
    output = Path("mutants-output.txt")
    begun = time.monotonic()
    child = os.fork()
    running.append(child)
    if child == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os._exit(in_child(tests, output))
    status = None
    while status is None and time.monotonic() - begun < limit:
        time.sleep(0.02)
        ended, waited = os.waitpid(child, os.WNOHANG)
        status = os.waitstatus_to_exitcode(waited) if ended else None
    seconds = time.monotonic() - begun
    end(child)  # what a test left running, or the child itself
    if status is None:
        os.waitpid(child, 0)
    return {"status": status, "seconds": round(seconds, 2), "output": output.read_text(errors="replace")[-TAIL:]}


def end(child: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def stop(number: int, frame: object) -> None:
    """No child outlives the server."""
    for child in running[-1:]:
        end(child)
    sys.exit(128 + number)


def in_child(tests: list[str], output: Path) -> int:
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    import pytest

    scratch = Path("mutants-scratch")
    shutil.rmtree(scratch, ignore_errors=True)
    code = int(pytest.main([*OPTIONS, f"--basetemp={scratch}", *tests]))
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def main() -> None:
    signal.signal(signal.SIGTERM, stop)
    sys.path[0] = str(Path.cwd())
    for name in sys.argv[1:]:
        __import__(name)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(run_tests(request["tests"], request["limit"])), flush=True)


if __name__ == "__main__":
    main()
