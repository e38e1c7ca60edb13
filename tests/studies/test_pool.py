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

from headway.runs import RunDirectory
from headway.studies import pool
from headway.studies.pieces import Lengths, Piece, Tell
from headway.studies.plan import Arm, Study
from headway.training import train
from tests.tiny import SORTEDNESS, config

STUDY = Study(arms=(Arm(name="tiny", recipe="nowhere.toml"),), seeds=(0,), at=(7,), n=8)


@dataclass(frozen=True)
class Sleep(Piece[dict[str, Any]]):
    """Takes long, and leaves a mark when it was done to the end."""

    what: ClassVar[str] = "sleep"
    file: ClassVar[str] = "sleep"

    def read(self) -> dict[str, Any] | None:
        return self.run.read_analysis(self.file)

    def fitting(self, found: dict[str, Any]) -> dict[str, Any] | None:
        return found

    def do(self, *, device: str, tell: Tell) -> dict[str, Any]:
        for step in range(1_000):
            tell(step / 1_000)
            time.sleep(0.05)
        self.run.replace_analysis(self.file, {"done": True})
        return {}

    def passes(self) -> int:
        return 1_000_000


class LastAlone(Sleep):
    """Seed 0's ends once the other has begun; that one waits for more threads. Both note how many they had."""

    def do(self, *, device: str, tell: Tell) -> dict[str, Any]:
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
    def do(self, *, device: str, tell: Tell) -> dict[str, Any]:
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


def work_off(pieces: Sequence[Piece], note: pool.Note = lambda piece, share: None) -> list[tuple[Piece, str | None]]:
    """The pieces in the order in which they end, and why they failed."""
    ended: list[tuple[Piece, str | None]] = []
    pool.work_off(pieces, device="cpu", note=note, done=lambda piece, error: ended.append((piece, error)))
    return ended


@pytest.mark.usefixtures("two_processes")
def test_processes_measure_what_this_process_would(runs: list[RunDirectory]) -> None:
    pieces = [Lengths(run, STUDY) for run in runs]
    expected = [piece.do(device="cpu", tell=lambda share: None) for piece in pieces]
    for path in runs[0].path.glob("checkpoints/*/model.safetensors"):
        path.write_bytes(b"")
    for run in runs[:2]:
        (run.path / "analysis" / "lengths.json").unlink()
    heard: dict[str, float] = {}
    ended = work_off(pieces, note=lambda piece, share: heard.update({piece.run.name: share}))
    assert ended[0] == (pieces[2], None)  # it was measured before
    errors = {piece.run.name: error for piece, error in ended}
    assert errors["seed1"] is None
    assert errors["seed0"] is not None
    assert "has no checkpoint to read" in errors["seed0"]
    assert pieces[1].known() == expected[1]
    assert pieces[0].known() is None


@pytest.mark.usefixtures("two_processes")
def test_the_last_piece_gets_all_cores(runs: list[RunDirectory]) -> None:
    pieces = [LastAlone(run, STUDY) for run in runs[:2]]
    assert {error for _, error in work_off(pieces)} == {None}
    assert [piece.known() for piece in pieces] == [{"threads": [1]}, {"threads": [1, 2]}]


@pytest.mark.usefixtures("two_processes")
def test_what_is_stopped_is_given_up_at_once(runs: list[RunDirectory]) -> None:
    pieces = [Sleep(run, STUDY) for run in runs[:2]]
    heard = []

    def stop(piece: Piece, share: float) -> None:
        heard.append(share)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work_off(pieces, note=stop)
    assert heard[0] < 0.5
    assert [piece.known() for piece in pieces] == [None, None]  # nobody waited for their end


@pytest.mark.long
@pytest.mark.usefixtures("two_processes")
def test_a_piece_whose_process_dies_is_tried_again_and_costs_no_other(runs: list[RunDirectory]) -> None:
    pieces: list[Piece] = [Death(runs[0], STUDY), Lengths(runs[1], STUDY)]
    errors = {piece.run.name: error for piece, error in work_off(pieces)}
    assert errors == {"seed0": "its worker ended with exit code 3 (it printed nothing), 3 times", "seed1": None}


def test_the_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(pool).failed == 0


def test_one_piece_needs_no_process(runs: list[RunDirectory], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(pool, "in_processes", refuse)
    piece = Lengths(runs[0], STUDY)
    assert work_off([piece]) == [(piece, None)]
    assert piece.known() is not None
