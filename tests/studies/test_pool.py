"""Pieces are made in processes as they would be here; one that fails or dies is named; told to stop, they stop."""

import doctest
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from headway.callbacks import OnShare
from headway.runs import RunDirectory
from headway.studies import pool
from headway.studies.jobs import Lengths, RunAnalysis
from headway.studies.plan import Arm, Study
from headway.training import train
from tests.tiny import SORTEDNESS, config

STUDY = Study(arms=(Arm(name="tiny", recipe="nowhere.toml"),), seeds=(0,), at=(7,), n=8)


@dataclass(frozen=True)
class Sleep(RunAnalysis[dict[str, Any]]):
    """Takes long, and leaves a mark when it was done to the end."""

    what: ClassVar[str] = "sleep"
    file: ClassVar[str] = "sleep"

    def read(self) -> dict[str, Any] | None:
        return self.run.read_analysis(self.file)

    def fitting(self, found: dict[str, Any]) -> dict[str, Any] | None:
        return found

    def do(self, *, device: str, tell: OnShare) -> dict[str, Any]:
        for step in range(1_000):
            tell(step / 1_000)
            time.sleep(0.05)
        self.run.replace_analysis(self.file, {"done": True})
        return {}

    def passes(self) -> int:
        return 1_000_000


class LastAlone(Sleep):
    """Seed 0's ends once the other has begun; that one waits for more threads. Both note how many they had."""

    def do(self, *, device: str, tell: OnShare) -> dict[str, Any]:
        begun, threads = self.run.path.parent / "begun", set()
        for _ in range(400):
            tell(0.5)
            threads.add(torch.get_num_threads())
            if begun.exists() if self.run.name == "seed0" else max(threads) > 1:
                break
            if self.run.name != "seed0":
                begun.touch()
            time.sleep(0.05)
        self.run.replace_analysis(self.file, {"threads": sorted(threads)})
        return {}


class Death(Sleep):
    def do(self, *, device: str, tell: OnShare) -> dict[str, Any]:
        os._exit(3)


@pytest.fixture
def runs(tmp_path: Path) -> list[RunDirectory]:
    made = [RunDirectory(tmp_path / f"seed{seed}") for seed in range(3)]
    for seed, run in enumerate(made):
        train(config(SORTEDNESS, seed, train={"steps": 2}), run.path, device="cpu")
    return made


@pytest.fixture
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "FEWEST_TOKENS", 1)
    monkeypatch.setattr(pool, "available_cores", lambda: 2)


def run_analyses(
    analyses: Sequence[RunAnalysis], note: pool.Note = lambda analysis, share: None
) -> list[tuple[RunAnalysis, str | None]]:
    """The analyses in the order in which they end, and why they failed."""
    ended: list[tuple[RunAnalysis, str | None]] = []
    pool.run_analyses(analyses, device="cpu", note=note, done=lambda analysis, error: ended.append((analysis, error)))
    return ended


@pytest.mark.usefixtures("two_processes")
def test_processes_measure_what_this_process_would(runs: list[RunDirectory]) -> None:
    analyses = [Lengths(run, STUDY) for run in runs]
    expected = [analysis.do(device="cpu", tell=lambda share: None) for analysis in analyses]
    for path in runs[0].path.glob("checkpoints/*/model.safetensors"):
        path.write_bytes(b"")
    for run in runs[:2]:
        (run.path / "analysis" / "lengths.json").unlink()
    heard: dict[str, float] = {}
    ended = run_analyses(analyses, note=lambda analysis, share: heard.update({analysis.run.name: share}))
    assert ended[0] == (analyses[2], None)  # it was measured before
    errors = {analysis.run.name: error for analysis, error in ended}
    assert errors["seed1"] is None
    assert errors["seed0"] is not None
    assert "has no checkpoint to read" in errors["seed0"]
    assert analyses[1].known() == expected[1]
    assert analyses[0].known() is None


@pytest.mark.usefixtures("two_processes")
def test_the_last_piece_gets_all_cores(runs: list[RunDirectory]) -> None:
    analyses = [LastAlone(run, STUDY) for run in runs[:2]]
    assert {error for _, error in run_analyses(analyses)} == {None}
    assert [analysis.known() for analysis in analyses] == [{"threads": [1]}, {"threads": [1, 2]}]


@pytest.mark.usefixtures("two_processes")
def test_what_is_stopped_is_given_up_at_once(runs: list[RunDirectory]) -> None:
    analyses = [Sleep(run, STUDY) for run in runs[:2]]
    heard = []

    def stop(analysis: RunAnalysis, share: float) -> None:
        heard.append(share)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_analyses(analyses, note=stop)
    assert heard[0] < 0.5
    assert [analysis.known() for analysis in analyses] == [None, None]  # nobody waited for their end


@pytest.mark.long
@pytest.mark.usefixtures("two_processes")
def test_a_piece_whose_process_dies_is_tried_again_and_costs_no_other(runs: list[RunDirectory]) -> None:
    analyses: list[RunAnalysis] = [Death(runs[0], STUDY), Lengths(runs[1], STUDY)]
    errors = {analysis.run.name: error for analysis, error in run_analyses(analyses)}
    assert errors == {"seed0": "its worker ended with exit code 3 (it printed nothing), 3 times", "seed1": None}


def test_the_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(pool).failed == 0


def test_one_piece_needs_no_process(runs: list[RunDirectory], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(pool, "in_processes", refuse)
    analysis = Lengths(runs[0], STUDY)
    assert run_analyses([analysis]) == [(analysis, None)]
    assert analysis.known() is not None
