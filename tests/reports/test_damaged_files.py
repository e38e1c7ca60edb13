"""A file that cannot be read is named in the place of its section, and costs nothing else."""

import itertools
import json
from pathlib import Path

import pytest

from headway.reports.documents import gather
from headway.reports.writing import compose
from tests.reports.made_up_runs import make_run

SECTIONS = {"evaluation": "accuracy", "heads": "heads", "lengths": "lengths", "doctor": "doctor"}


def test_every_damaged_analysis_of_a_run_is_named_in_its_section(tmp_path: Path) -> None:
    whole = make_run(tmp_path / "whole", analyses=())
    for name in SECTIONS:
        whole.replace_analysis(name, {})
    for name, section in SECTIONS.items():
        path = whole.path / "analysis" / f"{name}.json"
        for content, said in (('{"form": 1, "che', "cannot be read"), ("[5]", "[5] is not a document")):
            path.write_text(content)
            found = gather([whole])
            report = compose(found.documents, found.name)
            told = {one.name: one for one in report.sections}
            assert [one for one, part in told.items() if part.problem] == [section]
            assert f"{name}.json" in told[section].problem
            assert said in told[section].problem
            assert "A file cannot be read" in str(told[section].blocks[0])
            assert {"setup", "training", "methods", "provenance"} <= set(told)
        assert ("The doctor was not run" in str(told["doctor"].blocks)) == (name != "doctor")
        assert ("the doctor's findings cannot be read" in str(report.answer[-1])) == (name == "doctor")
        path.write_text("{}")


def test_a_damaged_file_of_a_study_is_named_too(tmp_path: Path) -> None:
    study = tmp_path / "study"
    make_run(study / "runs" / "arm-seed0", analyses=())
    (study / "study.json").write_text(json.dumps({"experiment": "addition", "preset": "quick"}))
    (study / "analysis").mkdir()
    (study / "analysis" / "summary.json").write_text("{")
    found = gather([study])
    told = {one.name: one.problem for one in compose(found.documents, found.name).sections if one.problem}
    assert list(told) == ["accuracy"]
    assert "summary.json cannot be read" in told["accuracy"]


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", SECTIONS)
def test_a_document_that_is_not_as_headway_writes_it_costs_only_sections_that_read_it(
    name: str, every: int, tmp_path: Path
) -> None:
    """Each part of it taken away, or something else in its place: the report is there, and nothing else is lost.

    The short version takes every fifth pair of a part and what stands in its place.
    """
    whole = make_run(tmp_path / "whole")
    document = whole.read_analysis(name)
    assert document
    for key, value in list(itertools.product(document, [None, 3, "x", [], {}, [3], {"x": 3}]))[::every]:
        whole.replace_analysis(name, {**document, key: value})
        found = gather([whole])
        report = compose(found.documents, found.name)
        told = {one.name for one in report.sections if not one.problem}
        assert {"setup", "training", "provenance"} <= told, (key, value)
        assert len(report.answer) >= 2


def test_a_value_that_does_not_fit_is_named_by_its_path(tmp_path: Path) -> None:
    whole = make_run(tmp_path / "whole", analyses=("evaluation", "heads"))
    document = whole.read_analysis("heads")
    whole.replace_analysis("heads", {**document, "heads": 3})
    found = gather([whole])
    report = compose(found.documents, found.name)
    accuracy, sure = map(str, report.answer)
    assert "wrong" in accuracy
    assert "This is one run" in sure
    (problem,) = (one.problem for one in report.sections if one.problem)
    assert problem.endswith("heads.json: heads is 3; a list needed")


def test_instruments_that_failed_are_said_first_and_no_verdict_is_told(tmp_path: Path) -> None:
    whole = make_run(tmp_path / "whole")
    document = whole.read_analysis("heads")
    assert document
    checks = {"identity": 0.0, "decoded": 800, "disagreements": 198, "real_disagreements": 198, "weights_off_one": 0.0}
    whole.replace_analysis("heads", {**document, "checks": checks})
    found = gather([whole])
    report = compose(found.documents, found.name)
    told = {one.name: one for one in report.sections}
    assert [one for one, part in told.items() if part.problem] == ["heads"]
    assert "198 of 800 ablated answers" in told["heads"].problem
    assert "The instruments failed their own checks" in str(told["heads"].blocks[0])
    assert "Its heads cannot be analysed: the instruments failed their self-checks." in map(str, report.answer)
