"""The row of SIGKILLs: a short version, and violations that it counts."""

import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from faults.campaign import run
from faults.rows.kills import ORDER, ROW, Kills
from faults.victims import Stage


@pytest.mark.parametrize("number", [0, 1, 2, 9])
def test_a_killed_command_that_is_continued_leaves_what_an_undisturbed_one_leaves(
    stage: Stage, tmp_path: Path, number: int
) -> None:
    where = "inside a write" if number % 2 else "at a random moment"
    assert Kills(stage, 0, tmp_path).attempt(number) == f"{ORDER[number % 20]}, {where}: equal"


@pytest.mark.parametrize(
    ("plant", "number", "seen"),
    [
        ("tests.faults.planted:non_atomic_writes", 241, "heads after .*heads.json cannot be read"),
        ("tests.faults.planted:forgotten_optimiser", 60, "train after .*model.safetensors is different"),
    ],
)
def test_a_violation_is_counted(stage: Stage, tmp_path: Path, plant: str, number: int, seen: str) -> None:
    kills = Kills(stage.broken_by(plant), 0, tmp_path)
    planted = replace(ROW, attempts=lambda seed, folder: nullcontext(kills.attempt))
    found = run(planted, 1, 0, only=number)
    assert found.outcomes == {"FAILED": 1}
    assert re.match(seen, found.failures[0].seen)
