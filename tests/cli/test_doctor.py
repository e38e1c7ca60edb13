"""`headway doctor`: exit codes, the table, the document, and what is written into the run."""

import json
from pathlib import Path

import pytest

from headway.cli.main import run as headway
from headway.doctor.findings import Diagnosis
from headway.doctor.visit import Diagnoses
from headway.runs import Checkpoint, RunDirectory
from headway.training import train
from tests.tiny import SORTEDNESS, config

SOUND = {"data": {"train": 300, "validation": 30, "test": 30}, "train": {"steps": 40, "batch_size": 32}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two seeds that have learned a little."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        train(config(SORTEDNESS, seed=seed, **SOUND), folder / f"seed{seed}", device="cpu")
    return [str(folder / f"seed{seed}") for seed in (0, 1)]


def test_a_healthy_run_ends_with_0_and_its_diagnosis_is_kept(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert headway(["doctor", runs[0], "--quiet", "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert "0 errors" in shown
    assert "  fine     special-token-is-symbol, " in shown
    kept = RunDirectory(runs[0]).read_analysis("doctor")
    assert kept is not None
    assert kept["checked"] == len(kept["findings"]) >= 15
    assert Diagnosis.from_json(kept).to_json() == kept


def test_all_shows_what_is_fine_with_its_evidence(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert headway(["doctor", runs[0], "--quiet", "--device", "cpu", "--all"]) == 0
    assert "split-overlap: No problem is in two of train (300)" in capsys.readouterr().out


def test_several_seeds_are_one_document_with_what_they_say_together(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert headway(["doctor", *runs, "--json", "--device", "cpu"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["run"] for one in document["runs"]] == runs
    assert [(one["check"], one["level"]) for one in document["together"]] == [("too-few-seeds", "warning")]
    assert Diagnoses.from_json(document).to_json() == document
    assert headway(["doctor", *runs, "--quiet", "--device", "cpu"]) == 0
    assert "2 seeds together" in capsys.readouterr().out


def test_an_error_ends_with_1(runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(config(SORTEDNESS, seed=3, train={"steps": 4, "validate_every": 4}), tmp_path / "run", device="cpu")
    directory = RunDirectory(tmp_path / "run")
    last = directory.read_checkpoint(4)
    last.model["readout.bias"][1] += 50
    state = {**last.state, "best": {**last.state["best"], "step": 4}}
    directory.write_checkpoint(Checkpoint(4, last.model, last.trainer, state))
    assert headway(["doctor", str(tmp_path / "run"), "--quiet", "--device", "cpu"]) == 1
    shown = capsys.readouterr().out
    assert "  error    checkpoint-mismatch: This checkpoint has validation loss" in shown
    assert "-> Find the checkpoint that the metrics speak of" in shown
    assert headway(["doctor", runs[0], str(tmp_path / "run"), "--quiet", "--device", "cpu"]) == 1
    assert "the runs are not seeds of one recipe" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "RUN is missing: give a run directory, or the name of one under ./runs"),
        (["nowhere"], "no run at nowhere or runs/nowhere"),
    ],
)
def test_what_is_missing_is_said_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert headway(["doctor", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_run_named_twice_is_refused(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert headway(["doctor", runs[0], runs[0], "--quiet", "--device", "cpu"]) == 2
    assert "a run is named twice; every seed counts once" in capsys.readouterr().err
