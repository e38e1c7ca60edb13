"""The row of places: a short version, and a violation that it counts."""

import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from faults.campaign import run
from faults.rows.places import ROW, Places
from faults.victims import Stage


@pytest.mark.parametrize(
    ("number", "outcomes"),
    [
        (2, ["clock going back: plain success"]),
        (16, ["strange name: plain success", "strange name: refused in one line"]),
    ],
)
def test_a_place_costs_a_line_at_most(stage: Stage, tmp_path: Path, number: int, outcomes: list[str]) -> None:
    assert Places(stage, 0, tmp_path).attempt(number) in outcomes


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_error_that_is_not_one_line_is_counted(stage: Stage, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert Places(stage, 0, tmp_path).attempt(13).startswith("missing permission: one line")
    places = Places(stage.broken_by("tests.faults.planted:unhandled_errors"), 0, tmp_path)
    found = run(replace(ROW, attempts=lambda seed, folder: nullcontext(places.attempt)), 1, 0, only=13)
    assert found.outcomes == {"FAILED": 1}
