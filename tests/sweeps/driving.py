"""A driver in a process of its own, which tests may kill: `python -m tests.sweeps.driving RECIPE OUT`."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from headway.callbacks import OnEvent
from headway.errors import Interrupted
from headway.results.comparison import Outcome
from headway.runs import SweepDirectory
from headway.sweeps.driver import run_sweep
from headway.sweeps.local import LocalExecutor
from headway.sweeps.plan import SweepPlan, plan_grid
from headway.sweeps.trial import Job, JobOptions, run_job

ROOT = Path(__file__).parents[2]
HOW = JobOptions(device="cpu", command=("test",))


class Here:
    """An executor that runs jobs in this process, one after another; with `most`, it is interrupted after so many."""

    def __init__(self, most: int | None = None, on_event: OnEvent = lambda event: None):
        self.most, self.on_event, self.ran = most, on_event, 0

    def run(self, jobs: Sequence[Job], done: Callable[[Sequence[Outcome]], None], on_event: OnEvent) -> None:
        torch.set_num_threads(HOW.threads)  # more of them add up sums in another order
        for job in jobs:
            if self.ran == self.most:
                raise Interrupted("SIGINT")
            self.ran += 1
            done(run_job(job.trials, job.places, replace(HOW, split=None, until=job.until), self.on_event))


HERE = Here()


def long_plan(recipe: Path) -> SweepPlan:
    """Four trials that are long enough to be killed in the middle."""
    settings = [("train.steps", 100), ("train.validate_every", 20)]
    return plan_grid(recipe, settings, ["train.lr=0.01,0.02"], [0, 1])


def start_driver(recipe: Path, out: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.sweeps.driving", str(recipe), str(out)]
    return subprocess.Popen(command, cwd=ROOT, text=True, stderr=subprocess.PIPE, start_new_session=True)


def run_here(plan: SweepPlan, out: Path) -> SweepDirectory:
    """The same trials one after another in this process."""
    directory = SweepDirectory(out)
    directory.begin(plan.to_json())
    for trial in plan.trials:
        for outcome in run_job([trial], [directory.trial(trial.name).path], HOW):
            directory.append_result(outcome)
    return directory


def lines_without_times(directory: SweepDirectory) -> list[str]:
    """results.jsonl, with nothing left out but how long each trial took."""
    lines = []
    for line in directory.results_path.read_text().splitlines():
        record = json.loads(line)
        assert line == json.dumps(record), "a line is as the driver writes it"
        assert record.pop("seconds") >= 0
        del record["sha256"]  # it covers the time
        lines.append(json.dumps(record))
    return lines


def workers_of(driver: int) -> list[int]:
    """The worker processes that a driver has."""
    try:
        found = Path(f"/proc/{driver}/task/{driver}/children").read_text().split()
    except OSError:
        return []
    return [int(pid) for pid in found if b"headway.sweeps.worker" in command_line(int(pid))]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def is_running(pid: int) -> bool:
    """Whether a process has files open; one that has ended but was not waited for has none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def wait_until(true: Callable[[], Any], what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"waited {seconds} s for this: {what}"
        time.sleep(0.005)


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process that may be gone by now."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


if __name__ == "__main__":
    run_sweep(long_plan(Path(sys.argv[1])), SweepDirectory(sys.argv[2]), LocalExecutor(2, HOW))
