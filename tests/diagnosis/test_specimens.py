"""Every specimen gets its own diagnosis as the first error, and no wrong one; the runs they are made from have none.

The exhibit is that of the command, in a process of its own: with shapes checked at each call it would take much longer.
"""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.diagnosis.examine import CHECKS
from headway.diagnosis.specimens import SPECIMENS
from headway.results.doctor import Diagnosis, Exhibit, Finding

NAMES = [specimen.name for specimen in SPECIMENS]
REPORTS = ["no-start-token", "padding-is-a-digit", "constant-answer", "overlapping-splits", "untrained-positions"]


@cache
def command() -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-m", "headway", "doctor", "--specimens", "--json", "--quiet"]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(arguments, capture_output=True, text=True, check=False, env=one_thread)


@cache
def shown() -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(command().stdout)["specimens"]}


@pytest.mark.parametrize("name", NAMES)
def test_its_own_diagnosis_is_the_first_error_and_no_other_is_beside_the_point(name: str) -> None:
    one = shown()[name]
    errors = [finding["check"] for finding in one["findings"] if finding["level"] == "error"]
    assert errors[:1] == [one["expected"]]
    assert one["findings"][0]["check"] == one["expected"]
    assert set(errors) <= {one["expected"], *one["follows"]}
    assert one["right"]


def test_there_is_no_error_in_the_runs_that_the_faults_are_planted_in() -> None:
    controls = json.loads(command().stdout)["controls"]
    assert [control["run"] for control in controls] == [
        "healthy-sums",
        "healthy-sequences",
        "healthy-deep",
        "healthy-short",
    ]
    assert [f["check"] for control in controls for f in control["findings"] if f["level"] == "error"] == []


def test_the_command_says_that_all_is_right_and_nothing_else() -> None:
    assert (command().returncode, command().stderr) == (0, "")
    assert json.loads(command().stdout)["right"] is True


def test_the_five_defects_of_the_reports_come_first_and_many_more_follow() -> None:
    assert list(shown())[:5] == REPORTS
    assert len(set(NAMES)) == len(NAMES) >= 45
    assert {specimen.expected for specimen in SPECIMENS} <= {check.name for check in CHECKS}
    assert [specimen.name for specimen in SPECIMENS if specimen.expected in specimen.follows] == []


def judged(*checks: str, control: tuple[str, ...] = ()) -> bool:
    """Whether an exhibit counts as right in which overlapping splits, and a healthy run, get these errors."""
    specimen = next(specimen for specimen in SPECIMENS if specimen.name == "padding-is-a-digit")
    found, healthy = (tuple(Finding(check, "error", "data", "") for check in names) for names in (checks, control))
    diagnosis = Diagnosis(run="healthy", task="addition", step=1, findings=healthy)
    return Exhibit(controls=(diagnosis,), specimens=(specimen.diagnosed(found),)).right


def test_a_missing_first_error_or_one_beside_the_point_is_not_right() -> None:
    assert judged("special-token-is-symbol")
    assert judged("special-token-is-symbol", "never-emits")
    assert not judged()
    assert not judged("never-emits", "special-token-is-symbol")
    assert not judged("special-token-is-symbol", "split-overlap")
    assert not judged("special-token-is-symbol", control=("split-overlap",))


def test_the_evidence_of_the_reports_defects_has_their_numbers() -> None:
    first = {name: one["findings"][0] for name, one in shown().items()}
    assert "loss ignores column 2" in first["no-start-token"]["evidence"]
    assert "padding id 0 is also the symbol '0'" in first["padding-is-a-digit"]["evidence"]
    constant = first["constant-answer"]["numbers"]
    assert constant["accuracy"] == constant["target_share"]
    assert first["overlapping-splits"]["numbers"]["train and test"] == 25
    assert first["untrained-positions"]["numbers"]["unmoved"] == ["encoding.table.weight"]
    assert "30 training" in first["memorised"]["evidence"]


def test_the_docs_list_every_specimen_in_the_words_of_the_code() -> None:
    page = (Path(headway.__file__).parents[2] / "docs" / "doctor.md").read_text()
    rows = [f"| `{one.name}` | {one.wrong} | `{one.expected}` |" for one in SPECIMENS]
    assert [row for row in rows if row not in page] == []
