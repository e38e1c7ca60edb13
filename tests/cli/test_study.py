"""A study trains, evaluates and sums up every seed, and goes on where it stopped."""

import json
from pathlib import Path

import pytest

from headway.api import read_recipe
from headway.cli.main import run
from headway.cli.study import PRESETS
from headway.runs import list_runs
from tests.tiny import poison
from tests.tiny_recipes import write_recipe


@pytest.fixture
def tiny_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more preset of each experiment, small enough for a test."""
    monkeypatch.chdir(tmp_path)
    for task in ("addition", "sortedness"):
        write_recipe(tmp_path, task, task)
        monkeypatch.setitem(PRESETS[task], "tiny", (f"{task}.toml", "0-1"))


@pytest.mark.parametrize(("experiment", "split", "n"), [("addition", "all", 8_100), ("sortedness", "test", 16)])
@pytest.mark.usefixtures("tiny_preset")
def test_a_study_evaluates_every_seed_and_says_where_it_is(experiment, split, n, capsys) -> None:
    assert run(["study", experiment, "--preset", "tiny", "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert f"{n:,}" in printed
    assert f"the study is in studies/{experiment}-tiny" in printed
    folder = Path(f"studies/{experiment}-tiny")
    assert [found.name for found in list_runs(folder / "runs")] == [f"{experiment}-seed0", f"{experiment}-seed1"]
    summary = json.loads((folder / "analysis" / "summary.json").read_text())
    assert [row["evaluation"]["n"] for row in summary["runs"]] == [n, n]
    for found in list_runs(folder / "runs"):
        assert split in (found.read_analysis("evaluation") or {})


@pytest.mark.usefixtures("tiny_preset")
def test_a_study_continues_and_refuses_another_plan(capsys) -> None:
    command = ["study", "sortedness", "--preset", "tiny", "--out", "mine", "--quiet"]
    assert run([*command, "--seeds", "0"]) == 0
    first = {path: path.stat().st_mtime_ns for path in Path("mine/runs").rglob("*.*")}
    assert run([*command, "--seeds", "0"]) == 0
    again = {path: path.stat().st_mtime_ns for path in Path("mine/runs").rglob("*.*")}
    assert first == again  # nothing of a finished seed is done twice
    capsys.readouterr()
    assert run([*command, "--seeds", "0-1"]) == 2
    assert capsys.readouterr().err == "headway: mine holds another study; choose another --out\n"


@pytest.mark.usefixtures("tiny_preset")
def test_a_study_goes_on_when_a_seed_fails(capsys) -> None:
    poison(read_recipe("sortedness.toml", seed=0)[1], Path("studies/sortedness-tiny/runs/sortedness-seed0"))
    assert run(["study", "sortedness", "--preset", "tiny", "--quiet"]) == 1
    printed = capsys.readouterr().out
    assert "seed 0: failed, the loss is not finite at step 3" in printed
    assert "seed 1: trained 4 steps" in printed
    summary = json.loads(Path("studies/sortedness-tiny/analysis/summary.json").read_text())
    assert [row["evaluation"] is None for row in summary["runs"]] == [True, False]
