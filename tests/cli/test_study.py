"""A study trains, measures and sums up every run of its arms, and goes on where it stopped."""

import json
from pathlib import Path
from typing import Any

import pytest

from headway.cli.main import run
from headway.errors import Interrupted
from headway.runs import list_runs
from headway.studies.plan import ENCODING, POOLING, Arm, Study, plan_study
from headway.studies.presets import PRESETS
from tests.tiny import poison
from tests.tiny_recipes import write_recipe

GRID = Study(
    arms=(
        Arm(
            name="grid",
            recipe="sortedness.toml",
            vary={ENCODING: ("none", "learned"), POOLING: ("mean", "max")},
        ),
        Arm(name="hard", recipe="sortedness.toml", set={"task.negatives": "adjacent"}, seeds=(3,)),
    ),
    seeds=(0,),
    at=(8,),
    n=12,
)
STUDIES = {
    "addition": Study(
        arms=(Arm(name="addition", recipe="addition.toml"),),
        seeds=(0, 1),
        measured="accuracy",
    ),
    "sortedness": GRID,
    "long-addition": Study(
        arms=(Arm(name="text", recipe="addition-text.toml", set={"task.max_characters": 20}),),
        seeds=(0,),
        at=(24,),
        n=12,
    ),
}


@pytest.fixture(autouse=True)
def _tiny_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more preset of each experiment, small enough for a test."""
    monkeypatch.chdir(tmp_path)
    for task in ("addition", "sortedness", "addition-text"):
        write_recipe(tmp_path, task, task)
    for experiment, study in STUDIES.items():
        monkeypatch.setitem(PRESETS[experiment], "tiny", study)


def read(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(path).read_text())
    return found


def stamps(folder: str) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in Path(folder).rglob("*.*")}


def test_a_study_of_accuracy_evaluates_every_seed_and_goes_on_when_one_fails(
    capsys: pytest.CaptureFixture[str],
) -> None:
    poison(plan_study(STUDIES["addition"]).cells[0].trials[0].config, Path("studies/addition-tiny/runs/addition-seed0"))
    assert run(["study", "addition", "--preset", "tiny", "--quiet"]) == 1
    printed = capsys.readouterr().out
    assert "seed 0: failed, the loss is not finite at step 3" in printed
    assert "seed 1: trained 4 steps in " in printed
    assert (
        "the study is in studies/addition-tiny, its summary in studies/addition-tiny/analysis/summary.json" in printed
    )
    runs = list_runs(Path("studies/addition-tiny/runs"))
    assert [found.name for found in runs] == ["addition-seed0", "addition-seed1"]
    failed, other = read("studies/addition-tiny/analysis/summary.json")["runs"]
    assert failed["evaluation"] is None
    assert other["evaluation"]["n"] == 8_100
    assert runs[1].read_analysis("evaluation") == {"all": other["evaluation"]}


def test_a_study_of_lengths_goes_on_when_a_run_fails_and_does_nothing_twice(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["study", "sortedness", "--preset", "tiny", "--quiet", "--no-figures"]
    broken = plan_study(GRID).cells[1].trials[0]
    place = Path("studies/sortedness-tiny/runs") / broken.name
    poison(broken.config, place)
    assert run([*command, "--arms", "grid"]) == 1
    printed = capsys.readouterr()
    assert "grid-none-max-seed0: failed, the loss is not finite at step 3" in printed.out
    assert "hard" not in printed.out
    part = read("studies/sortedness-tiny/analysis/lengths.json")["cells"]
    assert [len(cell["runs"]) for cell in part] == [1, 0, 1, 1, 0]
    assert [list(cell["failed"]) for cell in part] == [[], [broken.name], [], [], []]
    first = stamps("studies/sortedness-tiny/runs")
    assert run([*command, "--arms", "hard", "--json"]) == 0
    again = stamps("studies/sortedness-tiny/runs")
    assert all(again[path] == when for path, when in first.items())  # what was trained and measured is left alone
    found = json.loads(capsys.readouterr().out)
    written = read("studies/sortedness-tiny/analysis/lengths.json")
    assert {**written, "study": found["study"]} == {**found, "form": 1, "experiment": "sortedness", "preset": "tiny"}
    cells = {cell["cell"]: cell for cell in found["cells"]}
    names = ["grid: none, mean", "grid: none, max", "grid: learned, mean", "grid: learned, max", "hard"]
    assert list(cells) == names
    assert [len(cell["runs"]) for cell in cells.values()] == [1, 0, 1, 1, 1]
    (hard,) = cells["hard"]["runs"]
    assert (hard["seed"], hard["negatives_trained"], hard["n"]) == (3, "adjacent", 12)
    assert {row["length"] for row in hard["lengths"]} == {3, 4, 5, 8}
    assert cells["grid: none, mean"]["together"]["n_seeds"] == 1
    assert [cost["runs"] for cost in found["costs"]] == [3, 1]
    assert found["answer"][-1] == "with 1 seed of a combination all of this is descriptive"


def test_long_addition_is_told_by_run_and_by_carries(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "long-addition", "--preset", "tiny"]) == 0
    printed = capsys.readouterr()
    assert "measure long-addition-tiny: 1 of 1" in printed.err
    assert "exact match, by the characters of the question:" in printed.out
    assert "longest chain of carries" in printed.out
    assert "text: 1 run, 4 steps of training in " in printed.out
    assert "figures are in studies/long-addition-tiny/report/figures" in printed.out
    assert list(Path("studies/long-addition-tiny/report/figures").glob("*.png"))
    assert run(["study", "long-addition", "--preset", "tiny", "--seeds", "0-1"]) == 2
    refused = "headway: studies/long-addition-tiny holds another study; choose another --out\n"
    assert capsys.readouterr().err == refused


def test_a_run_that_cannot_be_measured_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["study", "sortedness", "--preset", "tiny", "--quiet", "--arms", "hard", "--no-figures"]
    assert run(command) == 0
    place = Path("studies/sortedness-tiny/runs/hard-seed3")
    (place / "analysis" / "lengths.json").unlink()
    for path in place.glob("checkpoints/*/model.safetensors"):
        path.write_bytes(b"")
    capsys.readouterr()
    assert run(command) == 1
    assert f"hard-seed3: failed, {place} has no checkpoint to read" in capsys.readouterr().out


def test_an_unknown_arm_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "sortedness", "--preset", "tiny", "--arms", "hart"]) == 2
    assert capsys.readouterr().err == "headway: --arms 'hart'; did you mean hard? known: grid, hard\n"
    assert not Path("studies").exists()


@pytest.mark.parametrize(
    ("where", "stop", "said"),
    [
        ("headway.cli.study.train_all", Interrupted("stopped"), "0 of 1 runs are trained; the same command continues"),
        (
            "headway.studies.runner.lengths_of",
            KeyboardInterrupt(),
            "stopped while measuring; the same command continues",
        ),
    ],
)
def test_ctrl_c_leaves_a_study_that_goes_on(
    where: str, stop: BaseException, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*arguments: object, **options: object) -> None:
        raise stop

    command = ["study", "sortedness", "--preset", "tiny", "--quiet", "--arms", "hard", "--no-figures"]
    with monkeypatch.context() as patched:
        patched.setattr(where, interrupt)
        assert run(command) == 130
    assert said in capsys.readouterr().err
    assert run(command) == 0
