"""Runs are measured in processes as they would be here, and one that fails or dies is named."""

import os
from pathlib import Path
from typing import Any

import pytest

from headway.errors import RunStopped
from headway.runs import RunDirectory
from headway.studies import runner
from headway.studies.plan import Arm, Study
from headway.studies.runner import explain, known_lengths, lengths_of, measure_all
from headway.training import train
from tests.tiny import SORTEDNESS, config

STUDY = Study(arms=(Arm(name="tiny", recipe="nowhere.toml"),), seeds=(0,), at=(7,), n=8)


@pytest.fixture
def runs(tmp_path: Path) -> list[RunDirectory]:
    made = [RunDirectory(tmp_path / f"seed{seed}") for seed in range(3)]
    for seed, run in enumerate(made):
        train(config(SORTEDNESS, seed, train={"steps": 2}), run.path, device="cpu")
    return made


def die(run: RunDirectory, study: Study, *, device: str) -> dict[str, Any]:
    os._exit(3)


def test_processes_measure_what_this_process_would(runs: list[RunDirectory], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [lengths_of(run, STUDY, device="cpu") for run in runs]
    for path in runs[0].path.glob("checkpoints/*/model.safetensors"):
        path.write_bytes(b"")
    for run in runs[:2]:
        (run.path / "analysis" / "lengths.json").unlink()
    monkeypatch.setattr(runner, "FEWEST_TOKENS", 1)
    monkeypatch.setattr(runner, "available_cores", lambda: 2)
    ended = list(measure_all(runs, STUDY, device="cpu"))
    assert ended[0] == ("seed2", None)  # it was measured before
    errors = dict(ended)
    assert errors["seed1"] is None
    assert errors["seed0"] is not None
    assert "has no checkpoint to read" in errors["seed0"]
    assert known_lengths(runs[1], STUDY) == expected[1]
    assert known_lengths(runs[0], STUDY) is None


@pytest.mark.long
def test_a_process_that_dies_stops_the_measuring(runs: list[RunDirectory], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "FEWEST_TOKENS", 1)
    monkeypatch.setattr(runner, "available_cores", lambda: 2)
    monkeypatch.setattr(runner, "lengths_of", die)
    with pytest.raises(RunStopped, match="a process that measured was ended from outside; the same command continues"):
        list(measure_all(runs, STUDY, device="cpu"))


def test_other_lengths_another_n_or_checkpoint_are_measured_again(runs: list[RunDirectory]) -> None:
    run = runs[0]
    found = lengths_of(run, STUDY, device="cpu")
    assert known_lengths(run, STUDY) == found
    for at, n in (((7, 9), 8), ((7,), 10)):
        assert known_lengths(run, Study(arms=STUDY.arms, seeds=(0,), at=at, n=n)) is None
    # More lengths were asked for by hand; a document of several runs; a file that a kill cut off.
    for other in ({**found, "at": [3, 7]}, {"runs": [found], "together": None}):
        run.replace_analysis("lengths", other)
        assert known_lengths(run, STUDY) is None
    (run.path / "analysis" / "lengths.json").write_text('{"form": 1, "che')
    assert known_lengths(run, STUDY) is None
    run.replace_analysis("lengths", {**found, "checkpoint": {"step": 999, "chosen_on": ""}})
    assert known_lengths(run, STUDY) is None
    assert lengths_of(run, STUDY, device="cpu") == found


def test_a_mechanism_is_kept_with_the_run_and_not_asked_again(runs: list[RunDirectory]) -> None:
    found = explain(
        runs[0], lengths_of(runs[0], Study(arms=STUDY.arms, seeds=(0,), at=(7,), n=24), device="cpu"), device="cpu"
    )
    assert found["mechanism"]["words"]
    kept = runs[0].read_analysis("lengths")
    assert kept is not None
    assert kept["mechanism"]["words"] == found["mechanism"]["words"]
    assert explain(runs[0], kept, device="nowhere") is kept
