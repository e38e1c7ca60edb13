"""doctor.json as types: earlier documents are read, counts follow from findings, damage is named by its path."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.errors import InputError
from headway.narration.doctor import of_study
from headway.results.doctor import Diagnoses, Diagnosis, Finding, RunHealth, Seen, SpecimenDiagnosis, StudyHealth
from headway.results.schema import read, write
from headway.runs import StudyDirectory

OVERLAP: dict[str, Any] = {
    "check": "split-overlap",
    "level": "error",
    "about": "data",
    "evidence": "25 are shared.",
    "numbers": {"train and test": 25},
    "fix": "Remove them.",
}
FINE = {**OVERLAP, "check": "duplicate-examples", "level": "fine", "evidence": "None.", "numbers": {}, "fix": ""}
SEEN = {"checks": ["split-overlap", "duplicate-examples"], "heads": "0123456789abcdef", "lengths": None}
RUN = {"form": 1, "run": "runs/a", "task": "addition", "step": 48, "findings": [OVERLAP, FINE], "checked": 2}


@pytest.mark.parametrize("document", [RUN, {**RUN, "step": None}, {**RUN, "seen": SEEN}])
def test_what_the_command_and_a_study_wrote_before_is_read_and_written_as_it_was(document: dict[str, Any]) -> None:
    found = Diagnosis.from_json(document)
    assert found.to_json() == document
    assert list(found.to_json()) == list(document)
    assert [one.check for one in found.errors] == ["split-overlap"]
    assert found.errors[0].numbers["train and test"] == 25


def test_several_runs_and_a_study_are_read_and_written_as_they_were(tmp_path: Path) -> None:
    several = {"runs": [RUN, RUN], "together": [FINE]}
    assert Diagnoses.from_json(several).to_json() == several
    short = {"run": "a", "error": 1, "warning": 0, "fine": 1, "findings": [OVERLAP]}
    study = {"form": 1, "runs": [short], "together": [FINE]}
    StudyDirectory(tmp_path / "study").begin({})
    StudyDirectory(tmp_path / "study").write_analysis("doctor", study)
    found = StudyDirectory(tmp_path / "study").read_result(StudyHealth, "doctor")
    assert write(found) == study
    assert found == StudyHealth(runs=(RunHealth.of(Diagnosis.from_json(RUN)),), together=(read(Finding, FINE, ""),))


def test_counts_and_judgements_follow_from_the_findings() -> None:
    found = Diagnosis.from_json({**RUN, "checked": 7})
    assert found.checked == 2
    assert replace(found, findings=()).checked == 0
    specimen = SpecimenDiagnosis(
        name="a", wrong="Overlap.", expected="split-overlap", follows=(), findings=found.findings
    )
    assert specimen.right
    assert not replace(specimen, expected="memorised").right
    unread = Finding("not-examined", "warning", "data", "test.pkl is not read.")
    assert Diagnoses(runs=(replace(found, findings=(unread,)),), together=()).unexamined == [unread]


def test_errors_of_a_study_name_their_run() -> None:
    guessing = Finding("constant-answer", "error", "model", "One answer.")
    run = RunHealth(run="seed0", error=1, warning=0, fine=3, findings=(guessing,))
    health = StudyHealth(runs=(run,), together=(guessing,))
    assert [where for where, _ in health.at("error")] == ["seed0", "all runs together"]
    assert health.unlearned == {"seed0": "constant-answer"}


@pytest.mark.parametrize(("errors", "more"), [(5, None), (6, "1 more errors"), (8, "3 more errors")])
def test_errors_that_are_not_printed_are_counted(errors: int, more: str | None) -> None:
    guessing = Finding("constant-answer", "error", "model", "One answer.")
    runs = tuple(
        RunHealth(run=f"seed{seed}", error=1, warning=0, fine=3, findings=(guessing,)) for seed in range(errors)
    )
    first, *lines = of_study(StudyHealth(runs=runs, together=()))
    assert f"examined {errors} runs: {errors} errors, 0 warnings" in first
    assert [line for line in lines if "more errors" in line] == (
        [] if more is None else [f"  and {more}; the report has all of them"]
    )
    assert sum("error in seed" in line for line in lines) == 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"findings": [{**OVERLAP, "level": "bad"}]}, r'findings\[0\].level is "bad"; "error" or "warning" or "fine"'),
        ({"findings": [{**OVERLAP, "evidence": 5}]}, r"findings\[0\].evidence is 5; a text needed"),
        ({"findings": {}}, r"findings is \{\}; a list needed"),
        ({"form": 9}, "form is 9; 1 needed"),
        ({"seen": {**SEEN, "heads": 5}}, "seen.heads is 5; a text needed"),
    ],
)
def test_damage_is_named_by_file_and_path(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=f"^runs/a/analysis/doctor.json: {said}"):
        Diagnosis.from_json({**RUN, **change}, "runs/a/analysis/doctor.json")


def test_a_diagnosis_rests_on_what_its_digests_say() -> None:
    assert Diagnosis.from_json({**RUN, "seen": SEEN}).seen == read(Seen, SEEN, "")
