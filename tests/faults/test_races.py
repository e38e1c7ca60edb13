"""The row of races: a short version, and a violation that it counts."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from faults.campaign import run
from faults.rows.races import ROW, Races
from faults.victims import Stage


def test_one_of_two_processes_writes(stage: Stage, tmp_path: Path) -> None:
    races = Races(stage, 0, tmp_path)
    assert races.attempt(0) == "train, together: turned away, the writer named"
    assert races.attempt(2) in ("train, after a kill: taken over", "train, after a kill: it had ended")


def test_a_race_without_a_lock_is_counted(stage: Stage, tmp_path: Path) -> None:
    races = Races(stage.broken_by("tests.faults.planted:unlocked_runs"), 0, tmp_path)
    found = run(replace(ROW, attempts=lambda seed, folder: nullcontext(races.attempt)), 1, 0, only=15)
    assert found.outcomes == {"FAILED": 1}
