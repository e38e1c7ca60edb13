"""headway train --seeds: what is printed, what fails, what is continued."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headway.api import read_recipe
from headway.cli.main import run
from headway.runs import RunDirectory
from headway.training import train
from tests.sweeps.driving import wait_until
from tests.tiny import poison
from tests.tiny_recipes import write_recipe

RUNS = ["runs/tiny-seed0", "runs/tiny-seed1"]


@pytest.fixture(autouse=True)
def _recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("headway.sweeps.seeds.available_cores", lambda: 1)  # a worker starts for longer than it trains
    write_recipe(tmp_path)


def seeds(*arguments: str, which: str = "0-1") -> list[str]:
    return ["train", "tiny.toml", "--device", "cpu", "--seeds", which, *arguments]


def test_each_seed_is_a_run_like_one_trained_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(seeds("--json", "--log", "tensorboard")) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found.keys() == {"runs"}
    for seed, (place, record) in enumerate(zip(RUNS, found["runs"], strict=True)):
        assert run(["train", "tiny.toml", "--device", "cpu", "--seed", str(seed), "--out", "alone", "--json"]) == 0
        alone = json.loads(capsys.readouterr().out)
        assert record.keys() == alone.keys()
        assert (record["run"], record["steps"], record["stopped_early"]) == (place, 4, False)
        assert record["metrics"] == alone["metrics"]
        assert record["seconds"] > 0
        assert list(Path(place, "tensorboard").glob("events.*"))
        assert RunDirectory(place).provenance()["seed"] == seed
        for step in RunDirectory("alone").checkpoint_steps():
            one, other = (RunDirectory(run).checkpoint_path(step) / "model.safetensors" for run in (place, "alone"))
            assert one.read_bytes() == other.read_bytes()
        Path("alone").rename(f"alone{seed}")


def test_a_seed_that_fails_is_named_and_the_others_finish(capsys: pytest.CaptureFixture[str]) -> None:
    poison(read_recipe("tiny.toml", seed=0)[1], Path(RUNS[0]))
    assert run(seeds("--resume", "--json", "--quiet")) == 1
    printed = capsys.readouterr()
    why = "the loss is not finite at step 3; nothing was updated, the last good checkpoint is step 2 of tiny-seed0"
    assert printed.err == f"headway: tiny-seed0 failed: {why}\n"
    failed, other = json.loads(printed.out)["runs"]
    assert failed == {"run": RUNS[0], "error": why}
    assert (other["run"], other["steps"]) == (RUNS[1], 4)
    # For a person, and with nothing left to do for the other seed.
    before = {path: path.stat().st_mtime_ns for path in Path(RUNS[1]).rglob("*.*")}
    assert run(seeds("--resume", "--quiet")) == 1
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0] == f"{RUNS[0]}: failed"
    assert lines[1].startswith(f"{RUNS[1]}: 4 steps in ")
    assert {path: path.stat().st_mtime_ns for path in Path(RUNS[1]).rglob("*.*")} == before


def test_seeds_are_trained_on_files(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--set", "data.train=40", "--set", "data.validation=8", "--set", "data.test=8", "--set", "task.digits=2"]
    assert run(["data", "addition", "--out", "data", *sizes]) == 0
    assert run(seeds("--data", "data", "--out", "mine", "--quiet")) == 0
    for seed in (0, 1):
        settings = RunDirectory(f"mine/tiny-seed{seed}").config()
        assert (settings.seed, settings.data.files, settings.data.train) == (seed, True, 40)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--log", "tensorbord"], "--log 'tensorbord'; did you mean tensorboard?"),
        (["--seed", "1"], "--seed and --seeds: use one"),
        (["--out", "there"], "there/tiny-seed1 holds a run already; --resume continues it"),
        (["--data", "nowhere"], "nowhere"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_written(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    train(read_recipe("tiny.toml", seed=1)[1], "there/tiny-seed1", device="cpu", until=0)
    before = set(tmp_path.rglob("*"))
    assert run(seeds(*arguments)) == 2
    assert line in capsys.readouterr().err
    assert set(tmp_path.rglob("*")) == before


def test_a_dry_run_describes_every_seed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    before = set(tmp_path.rglob("*"))
    assert run(seeds("--dry-run")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[::2] == [f"{place}: addition, seed {seed}, on cpu" for seed, place in enumerate(RUNS)]
    assert run(seeds("--dry-run", "--json", which="3,5")) == 0
    found = json.loads(capsys.readouterr().out)["runs"]
    assert [(one["run"], one["config"]["seed"]) for one in found] == [("runs/tiny-seed3", 3), ("runs/tiny-seed5", 5)]
    assert set(tmp_path.rglob("*")) == before


def test_one_seed_of_several_is_trained_like_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(seeds("--json", which="7")) == 0
    (found,) = json.loads(capsys.readouterr().out)["runs"]
    assert (found["run"], found["steps"]) == ("runs/tiny-seed7", 4)


def test_ctrl_c_saves_every_seed_and_says_how_many_are_finished() -> None:
    long = ["--set", "train.steps=2000", "--set", "train.validate_every=2000", "--quiet"]
    command = [sys.executable, "-m", "headway", *seeds(*long)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: all(len(RunDirectory(place).metrics()) > 3 for place in RUNS), "both seeds take steps")
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=120)
    assert process.returncode == 130
    assert printed == "headway: 0 of 2 seeds finished; --resume continues\n"
    for place in RUNS:
        assert RunDirectory(place).checkpoint_steps()[-1] > 2
