"""headway sweep from the command line: exit codes, what is printed, failures by name, the dry run."""

import json
import os
import pty
import resource
import shlex
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

import headway as hw
from headway.cli.grid import Standing, grid_progress
from headway.cli.main import run
from headway.processes import available_cores
from headway.runs import RunDirectory, SweepDirectory, list_runs
from headway.sweeps.executors import make_executor
from headway.sweeps.local import LocalExecutor
from headway.sweeps.plan import plan_grid
from tests.sweeps.driving import is_running, run_here, wait_until, workers_of
from tests.tiny_recipes import write_recipe

ROOM = 450_000_000
"""Bytes for training beside what PyTorch takes: enough for 8 columns, not for a matrix of 12,288 x 12,288."""


def address_space_of_pytorch() -> int:
    """Bytes that a worker has taken before its first job."""
    code = "import headway.training, headway.evaluation; print(open('/proc/self/status').read())"
    status = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmPeak")))


@pytest.fixture(autouse=True)
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_recipe(tmp_path)


def sweep(*arguments: str) -> list[str]:
    return ["sweep", "tiny.toml", "--device", "cpu", *arguments]


def test_a_sweep_is_run_once_and_then_only_read(capsys: pytest.CaptureFixture[str]) -> None:
    command = sweep("--vary", "train.lr=0.01,0.02", "--seeds", "0-1", "--workers", "1", "--set", "train.steps=1")
    assert run(command) == 0
    printed = capsys.readouterr()
    assert "lr 0.01: mean accuracy" in printed.out
    assert "over 2 of 2 seeds" in printed.out
    assert "4 of 4 trials finished; the sweep is in sweeps/tiny" in printed.out
    assert "headway compare sweeps/tiny" in printed.out
    names = ["lr=0.01,seed=0", "lr=0.01,seed=1", "lr=0.02,seed=0", "lr=0.02,seed=1"]
    assert [found.name for found in list_runs(Path("sweeps/tiny/trials"))] == names
    before = {path: path.stat().st_mtime_ns for path in Path("sweeps/tiny/trials").rglob("*")}
    assert run([*command, "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {
        "sweep": "sweeps/tiny",
        "results": "sweeps/tiny/results.jsonl",
        "planned": 4,
        "finished": 4,
        "failed": {},
    }
    assert printed.err == "sweep tiny: 4 of 4 trials are finished already\n"
    assert {path: path.stat().st_mtime_ns for path in Path("sweeps/tiny/trials").rglob("*")} == before
    found = hw.sweep("tiny.toml", vary={"train.lr": [0.01, 0.02]}, seeds=[0, 1], set={"train.steps": 1}, device="cpu")
    assert found.finished == 4
    other = ["0-2" if word == "0-1" else word for word in command]
    assert run(other) == 2
    assert capsys.readouterr().err == "headway: sweeps/tiny holds another sweep; choose another --out\n"


def test_the_line_that_says_how_to_see_the_table_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    out = "my sweeps/it's $HOME"
    run_here(plan_grid(Path("tiny.toml"), ["train.steps=1"], [], [0]), Path(out))
    assert run(sweep("--set", "train.steps=1", "--seeds", "0", "--quiet", "--out", out)) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    command = shlex.split(line.removesuffix(" shows it as a table"))
    assert command == ["headway", "compare", "my sweeps/it's $HOME"]
    assert run(command[1:]) == 0


def test_trials_that_fail_are_named_and_the_others_finish(tmp_path: Path) -> None:
    """One raises (its place is a file), one runs out of memory, one has a loss that is not finite."""
    trials = tmp_path / "sweeps" / "tiny" / "trials"
    trials.mkdir(parents=True)
    raising, wide = (f"d_model=12288,weight_decay={decay},seed=0" for decay in ("0.0", "10.0"))
    steep = "d_model=8,weight_decay=10.0,seed=0"
    (trials / raising).write_text("not a run")
    diverging = ("--set", "train.lr=10.0", "--set", "train.steps=40", "--set", "train.schedule=constant")
    vary = ("--vary", "model.d_model=8,12288", "--vary", "train.weight_decay=0.0,10.0", "--seeds", "0")
    command = [sys.executable, "-m", "headway", *sweep(*vary, *diverging, "--quiet", "--workers", "1")]
    memory = address_space_of_pytorch() + ROOM
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory)),
    )
    assert ended.returncode == 1, ended.stderr
    found = dict(line.removeprefix("headway: ").split(" failed: ", 1) for line in ended.stderr.splitlines())
    assert set(found) == {raising, wide, steep}
    assert found[raising] == f"--out {raising} is a file; a directory needed"
    assert found[wide].startswith("out of memory (")
    assert "is not finite at step" in found[steep]
    assert "1 of 4 trials finished, 3 failed" in ended.stdout
    results = SweepDirectory("sweeps/tiny").results()
    assert results["d_model=8,weight_decay=0.0,seed=0"].metrics["steps"] == 40
    assert {name: results[name].error for name in found} == found


def test_ctrl_c_at_a_terminal_is_one_line_and_exit_code_130(tmp_path: Path) -> None:
    """SIGINT reaches the whole process group, as a terminal sends it."""
    endless = ("--set", "train.steps=100000", "--seeds", "0-1", "--workers", "1", "--quiet")
    command = [sys.executable, "-m", "headway", *sweep(*endless)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as driver:
        metrics = tmp_path / "sweeps" / "tiny" / "trials" / "seed=0" / "metrics.jsonl"
        wait_until(lambda: metrics.exists() and metrics.read_bytes().count(b"\n") > 3, "a trial runs")
        workers = workers_of(driver.pid)
        os.killpg(driver.pid, signal.SIGINT)
        printed = driver.communicate(timeout=60)[1]
    assert driver.returncode == 130
    assert printed == "headway: sweeps/tiny: 0 of 2 trials finished; the same command continues\n"
    assert len(workers) == 1
    assert not is_running(workers[0])
    assert RunDirectory(metrics.parent).checkpoint_steps()[-1] > 0


def test_the_dry_run_lists_the_trials_with_a_time_and_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    command = sweep("--vary", "train.steps=6,60", "--seeds", "0-1", "--workers", "2", "--dry-run")
    assert run(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["steps=6,seed=0: 6 steps", "steps=6,seed=1: 6 steps"]
    assert lines[4] == "sweeps/tiny: 4 trials to run, 0 already finished"
    assert lines[5].startswith("about ")
    assert "with 2 workers of 1 thread on cpu if none stops early" in lines[5]
    assert not Path("sweeps").exists()
    assert run([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    seconds = {trial["name"]: trial["seconds"] for trial in found["trials"]}
    assert 0 < seconds["steps=6,seed=0"] < seconds["steps=60,seed=0"]
    assert found["seconds"] == pytest.approx(sum(seconds.values()) / 2, abs=0.01)  # each is rounded to a millisecond
    assert found["workers"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--on", "rya"], "--on 'rya'; did you mean ray? known: local, ray"),
        (["--workers", "0"], "--workers 0; at least 1 needed"),
        (["--on", "ray", "--workers", "2"], "--workers is for --on local; with --on ray, --cpus decides"),
        (["--cpus", "2"], "--cpus is for --on ray"),
        (["--gpus", "0.5"], "--gpus is for --on ray"),
        (["--address", "auto"], "--address is for --on ray"),
        (["--split", "tets"], "--split 'tets'; did you mean test?"),
        (["--split", "all", "--set", "task.digits=6"], "--split all: the domain of addition is too large to list"),
        (["--log", "wandb"], "--log 'wandb'; known: tensorboard"),
        (["--seeds", "x"], "--seeds 'x': write them as 0-4 or 0,3,7"),
        (["--vary", "train.lr"], "--vary 'train.lr': write it as key.key=value,value"),
        (["--vary", "model.encoding.name=rotry"], "unknown encoding 'rotry'; did you mean rotary?"),
        (["--out", "tiny.toml"], "--out tiny.toml is a file; a directory needed"),
    ],
)
def test_wrong_options_are_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(sweep(*arguments)) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert not Path("sweeps").exists()


def test_workers_share_the_cores() -> None:
    executor, how, at_once = make_executor(workers=10_000, device="cpu")
    assert isinstance(executor, LocalExecutor)
    assert (executor.workers, at_once, how.threads) == (10_000, 10_000, 1)
    _, how, at_once = make_executor(device="cpu")
    assert (at_once, how.threads) == (available_cores(), 1)
    _, how, at_once = make_executor(workers=1, device="cpu")
    assert (at_once, how.threads) == (1, available_cores())


def test_the_standing_counts_trials_and_parts_of_them() -> None:
    standing = Standing()
    assert standing.seconds_left is None
    for event in (
        {"event": "planned", "total": 10, "finished": 4},
        {"event": "started", "trial": "a", "total": 8},
        {"event": "started", "trial": "b", "total": 8},
        {"event": "step", "trial": "a", "step": 2, "total": 8},
        {"event": "resumed", "trial": "b", "step": 4},
        {"event": "warning", "trial": "b", "text": "x"},
    ):
        standing.take(event)
    assert standing.done == 0.75
    standing.take({"event": "ended", "trial": "a", "state": "failed", "error": "x"})
    assert standing.done == 1.5
    assert str(standing).startswith("5 of 10 trials, 1 failed, about ")
    assert str(standing).endswith(" left")
    standing.began = time.monotonic() - 30  # for one and a half trials
    assert standing.seconds_left == pytest.approx(30 * (10 - 4 - 1.5) / 1.5, rel=0.01)
    done = Standing(total=1, finished=1)
    assert str(done) == "1 of 1 trials"


@pytest.mark.parametrize(("seconds", "text"), [(0.42, "0.4 s"), (42, "42 s"), (600, "10 min"), (10_000, "2 h 47 min")])
def test_durations_are_said_as_people_say_them(seconds: float, text: str) -> None:
    from headway.narration.numbers import duration

    assert duration(seconds) == text


EVENTS = [
    {"event": "planned", "total": 3, "finished": 1},
    {"event": "started", "trial": "lr=1,seed=0", "total": 8},
    {"event": "step", "trial": "lr=1,seed=0", "step": 2, "total": 8},
    {"event": "warning", "trial": "lr=1,seed=0", "text": "[careful]"},
    {"event": "ended", "trial": "lr=1,seed=0", "state": "failed", "error": "x"},
]


def test_quiet_shows_warnings_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with grid_progress("sweep x", quiet=True) as show:
        for event in EVENTS:
            show(event)
    assert capsys.readouterr().err == "headway: warning: lr=1,seed=0: [careful]\n"


def test_a_terminal_shows_the_whole_and_each_running_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        with suppress(OSError):  # the other end is closed
            while content := os.read(reader, 4096):
                shown.append(content)

    watching = threading.Thread(target=read)
    watching.start()
    with os.fdopen(writer, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setenv("TERM", "xterm")
        with grid_progress("sweep x", quiet=False) as show:
            for event in EVENTS:
                show(event)
                if event["event"] == "step":
                    wait_until(lambda: b"step 2 of 8" in b"".join(shown), "the trial's line is drawn")
    watching.join(timeout=60)
    os.close(reader)
    whole = b"".join(shown).decode()
    assert "headway: warning: lr=1,seed=0: [careful]" in whole
    assert "2 of 3 trials, 1 failed" in whole
