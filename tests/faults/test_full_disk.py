"""The row of full disks: a short version, and a violation that it counts."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from faults.campaign import run
from faults.rows.full_disk import COMMANDS, ROW, FullDisk
from faults.victims import Stage

NAMES = [victim.name for victim in COMMANDS]
COMPLETE = ("exit 1, a file named, complete with room", "there was room")


@pytest.mark.parametrize("name", ["train", "prune", "data", "evaluate"])
def test_a_limit_on_files_costs_nothing(stage: Stage, tmp_path: Path, name: str) -> None:
    attack = FullDisk(stage, 0, tmp_path)
    kind, _, outcome = attack.attempt(len(NAMES) + NAMES.index(name)).partition(": ")
    assert kind == "a limit on files"
    assert outcome in COMPLETE


def test_a_full_disk_costs_nothing(stage: Stage, small_disk: Path, tmp_path: Path) -> None:
    (tmp_path / "cases").mkdir()
    attack = FullDisk(stage, 0, tmp_path / "cases")
    try:
        assert attack.attempt(NAMES.index("new")) == f"a full disk: {COMPLETE[0]}"
    finally:
        attack.close()


def test_a_file_that_is_cut_where_it_stands_is_counted(stage: Stage, tmp_path: Path) -> None:
    attack = FullDisk(stage.broken_by("tests.faults.planted:non_atomic_writes"), 0, tmp_path)
    planted = replace(ROW, attempts=lambda seed, folder: nullcontext(attack.attempt))
    found = run(planted, 1, 0, only=len(NAMES) + NAMES.index("evaluate"))
    assert found.outcomes == {"FAILED": 1}
