"""headway prove: its exit code says whether the run is proved."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headway.cli.main import run
from headway.config import RunConfig, build
from headway.evaluation import Trained
from headway.runs import RunDirectory
from headway.training import train
from tests.proofs.planted import SETTINGS, planted


def saved(trained: Trained, place: Path) -> RunDirectory:
    """A run directory whose only good checkpoint has these weights."""
    directory = RunDirectory(place)
    train(build(RunConfig, {**SETTINGS, "train": {"steps": 1, "validate_every": 1}}, ""), place, device="cpu")
    for step in directory.checkpoint_steps():
        found = directory.read_checkpoint(step)
        directory.write_checkpoint(replace(found, model=trained.model.state_dict()))
    return directory


@pytest.mark.parametrize(
    ("answer", "bad", "more", "code"),
    [("proved", None, 0.0, 0), ("counterexample", (0, 2, 1), 0.0, 1), ("undecided", None, 3e7, 1)],
)
def test_a_run_that_is_not_proved_ends_with_1(
    answer: str,
    bad: tuple[int, int, int] | None,
    more: float,
    code: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Undecided: both logits are larger by 30 million, where fp32 has steps of 2 and margins are 15."""
    trained = planted(tmp_path, bad=bad)
    with torch.no_grad():
        trained.model.readout.bias += more
    directory = saved(trained, tmp_path / "run")
    assert run(["prove", str(directory.path), "--quiet", "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    assert (found["answer"], found["lengths"]) == (answer, "every")
    assert (found["margin"] is None) == (answer != "proved")
    assert found["contexts"] == 5 * 5 * 4 * 3 // 2 + 4 * 5 * 6 // 6 + 4 * 5 + 4
    one = found["counterexample"]
    assert (one and (one["input"], one["expected"], one["answered"])) == (bad and ("0 2 1", "not sorted", "sorted"))
    stored = directory.read_analysis("proof")
    assert stored is not None and stored["counterexample"] == one


def test_a_proof_that_cannot_be_written_is_shown_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = saved(planted(tmp_path), tmp_path / "run")
    (directory.path / "analysis").write_text("a file in the way")
    assert run(["prove", str(directory.path), "--quiet", "--json"]) != 0
    told = capsys.readouterr()
    assert json.loads(told.out)["answer"] == "proved"
    assert "analysis" in told.err


def test_a_certificate_of_null_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "proof.json").write_text("null")
    assert run(["prove", "--check", str(tmp_path / "proof.json"), "--quiet"]) == 2
    assert "is not a document" in capsys.readouterr().err
