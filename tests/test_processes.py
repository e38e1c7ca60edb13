"""A process ends with the one that started it, even when that one is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headway.processes import exit_code, handling_signals, interrupt, received

SCRIPT = """
import multiprocessing, os, signal, sys, time
from headway.processes import end_with_parent

def work(line):
    end_with_parent()
    line.send(os.getpid())
    time.sleep(60)

if __name__ == "__main__":
    mine, line = multiprocessing.Pipe()
    multiprocessing.get_context("spawn").Process(target=work, args=(line,)).start()
    print(mine.recv(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_process_does_not_outlive_its_parent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(SCRIPT)
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    child = int(ended.stdout)
    until = time.monotonic() + 10
    while is_alive(child) and time.monotonic() < until:
        time.sleep(0.05)
    if is_alive(child):
        os.kill(child, signal.SIGKILL)
        raise AssertionError("the child went on")


def test_an_interrupt_that_a_deletion_swallows_comes_again() -> None:
    class Deleted:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    def wait() -> None:
        with handling_signals(interrupt):
            Deleted()
            time.sleep(30)

    before = len(received)
    with pytest.raises(KeyboardInterrupt):
        wait()
    assert received[before:] == [signal.SIGTERM] * 2
    assert exit_code() == 143
    del received[before:]
