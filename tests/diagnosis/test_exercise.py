"""Exercises: a student's project with planted mistakes, which the doctor diagnoses as the key says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli.main import run
from headway.diagnosis.exercise import chosen, exercise
from headway.diagnosis.mistakes import MISTAKES
from headway.diagnosis.predictions import examine_predictions
from headway.errors import InputError

SEEDS = {one.name: next(seed for seed in range(500) if chosen(seed) == [one]) for one in MISTAKES}
"""For each mistake a seed that plants it alone."""
TWO = [seed for seed in range(40) if len(chosen(seed)) == 2][:2]


@pytest.mark.parametrize("seed", [*SEEDS.values(), *TWO])
def test_the_doctor_finds_what_the_key_says_and_nothing_else(tmp_path: Path, seed: int) -> None:
    key = exercise(tmp_path / "e", seed=seed)
    project = tmp_path / "e" / "project"
    found = examine_predictions(project / "predictions.json", project / "data")
    errors = {one.check for one in found.errors}
    assert set(key.checks) <= errors
    assert errors - set(key.checks) <= set(key.follows)
    assert [one.name for one in chosen(seed)] == key.mistakes


def test_a_project_without_a_mistake_is_healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.diagnosis.exercise.chosen", lambda seed: [])
    key = exercise(tmp_path / "e", seed=3)
    project = tmp_path / "e" / "project"
    assert examine_predictions(project / "predictions.json", project / "data").errors == []
    assert key.reported_accuracy == key.honest_accuracy > 0.9


def test_students_get_the_project_and_the_key_stands_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seed = SEEDS["padding-is-zero"]
    assert run(["exercise", str(tmp_path / "e"), "--seed", str(seed), "--json"]) == 0
    key = json.loads(capsys.readouterr().out)
    assert key == json.loads((tmp_path / "e" / "answer-key" / "key.json").read_text())
    assert key["reported_accuracy"] > 0.9 > key["honest_accuracy"]
    files = {str(path.relative_to(tmp_path / "e")) for path in (tmp_path / "e").rglob("*") if path.is_file()}
    data = {f"project/data/{name}.json" for name in ("train", "val", "test")}
    project = {f"project/{name}" for name in ("generate_data.py", "train.py", "predictions.json", "report.md")}
    assert files == data | project | {"assignment.md", "answer-key/key.json", "answer-key/answer-key.md"}
    told = "".join((tmp_path / "e" / name).read_text() for name in files if not name.startswith("answer-key"))
    assert key["mistakes"][0] not in told and key["checks"][0] not in told, "nothing gives it away"
    words = (tmp_path / "e" / "answer-key" / "answer-key.md").read_text()
    assert "ignore_index=PAD" in words and "| total | 10 |" in words
    assert "ignore_index=PAD" in (tmp_path / "e" / "project" / "train.py").read_text()


def test_the_same_seed_writes_the_same_exercise(tmp_path: Path) -> None:
    for name in ("a", "b"):
        exercise(tmp_path / name, seed=11)
    for path in (tmp_path / "a").rglob("*.*"):
        assert path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes()


@pytest.mark.parametrize("name", ["no-start-token", "one-position-off"])
def test_the_students_program_runs(tmp_path: Path, name: str) -> None:
    exercise(tmp_path / "e", seed=SEEDS[name])
    project = tmp_path / "e" / "project"
    before = json.loads((project / "predictions.json").read_text())
    for split in ("train", "test"):
        rows = json.loads((project / "data" / f"{split}.json").read_text())
        (project / "data" / f"{split}.json").write_text(json.dumps(rows[:64]))
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "train.py", "1"], cwd=project, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "test accuracy" in ended.stdout
    after = json.loads((project / "predictions.json").read_text())
    assert [row["input"] for row in after] == [row["input"] for row in before[:64]]
    assert all(len(row["prediction"]) == 3 for row in after)
    if name == "no-start-token":
        assert all(row["prediction"][0] == 0 for row in after), "the program makes the mistake that is planted"


def test_where_something_stands_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="exists and is not an empty directory"):
        exercise(tmp_path)
    with pytest.raises(InputError, match=r"--seed -1; a seed from 0 to 2,147,483,647 needed"):
        exercise(tmp_path / "e", seed=-1)
