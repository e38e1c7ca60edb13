"""An analysis is made once: it is read while its settings and checkpoint stay, and made again when either changes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.results.evaluation import Evaluations
from headway.results.study import Mastery, MeasuredRun
from headway.runs import RunDirectory
from headway.studies.jobs import Accuracy, Attack, Diagnosis, Heads, Lengths, RunAnalysis, Why
from headway.studies.plan import Arm, HeadsOf, Study
from headway.studies.runner import worth_attacking
from headway.training import train
from tests.tiny import ADDITION, SORTEDNESS, config

STUDY = Study(arms=(Arm(name="tiny", recipe="nowhere.toml"),), seeds=(0,), at=(7,), n=24, heads=HeadsOf(examples=20))
DATA = {"train": 64, "validation": 10, "test": 24}


def quiet(share: float) -> None:
    assert 0 <= share <= 1


def make(analysis: RunAnalysis[Any]) -> None:
    analysis.do(device="cpu", tell=quiet)


@pytest.fixture(scope="module")
def sorted_run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    run = RunDirectory(tmp_path_factory.mktemp("pieces") / "seed0")
    train(config(SORTEDNESS, 0, train={"steps": 2}, data=DATA), run.path, device="cpu")
    return run


def test_other_lengths_another_n_or_checkpoint_are_measured_again(sorted_run: RunDirectory) -> None:
    analysis = Lengths(sorted_run, STUDY)
    assert analysis.known() is None
    found = analysis.do(device="cpu", tell=quiet)
    assert analysis.known() == found
    for change in ({"at": (7, 9)}, {"n": 10}):
        assert Lengths(sorted_run, replace(STUDY, **change)).known() is None
    # More lengths were asked for by hand; a document of several runs.
    document = found.to_json()
    for other in ({**document, "at": [3, 7]}, {"runs": [document], "together": None}):
        sorted_run.replace_analysis("lengths", other)
        assert analysis.known() is None
    (sorted_run.path / "analysis" / "lengths.json").write_text('{"form": 1, "che')  # a file that a kill cut off
    assert analysis.known() is None
    sorted_run.replace_analysis("lengths", {**document, "checkpoint": {"step": 999, "chosen_on": ""}})
    assert analysis.known() is None
    assert analysis.do(device="cpu", tell=quiet) == found


def test_a_mechanism_is_kept_with_the_lengths_and_not_asked_again(sorted_run: RunDirectory) -> None:
    make(Lengths(sorted_run, STUDY))
    analysis = Why(sorted_run, STUDY)
    assert analysis.known() is None
    found = analysis.do(device="cpu", tell=quiet)
    assert found.mechanism is not None and found.mechanism.words
    kept = analysis.known()
    assert kept is not None
    assert kept.mechanism == found.mechanism
    assert Lengths(sorted_run, STUDY).known() == kept


def test_heads_and_accuracy_are_read_while_their_settings_stay(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "sum")
    train(config(ADDITION, 0, task={"digits": 2}, train={"steps": 2}, data={"test": 24}), run.path, device="cpu")
    heads, accuracy = Heads(run, STUDY), Accuracy(run, STUDY)
    for analysis in (heads, accuracy):
        assert analysis.known() is None
        make(analysis)
        assert analysis.known() is not None
    kept = run.read_result(Evaluations, "evaluation")
    assert kept is not None and kept.whole is not None and kept.whole == accuracy.known()
    assert Heads(run, replace(STUDY, heads=HeadsOf(examples=22))).known() is None
    found = heads.known()
    assert found is not None
    assert found.n == 20
    assert found.settings is not None
    run.replace_analysis("heads", replace(found, settings=replace(found.settings, step=999)).to_json())
    run.add_to_analysis("evaluation", {"all": replace(kept.whole, step=999).to_json()})
    assert heads.known() is None
    assert accuracy.known() is None
    # JSON, but not of this form: it is made anew, and so is a file that was cut off.
    run.replace_analysis("heads", {key: found.to_json()[key] for key in ("form", "settings")})
    assert heads.known() is None
    place = run.path / "analysis" / "evaluation.json"
    for content in ('{"all": 5}', '{"all": {"step": 2}}', "[1]", '{"all": {"exa'):
        place.write_text(content)
        assert accuracy.known() is None
    make(accuracy)
    assert accuracy.known() is not None


def test_the_doctor_looks_again_when_other_findings_changed(sorted_run: RunDirectory) -> None:
    make(Lengths(sorted_run, STUDY))
    analysis = Diagnosis(sorted_run, STUDY)
    make(analysis)
    found = analysis.known()
    assert found is not None
    assert "too-few-seeds" not in {finding.check for finding in found.findings}
    sorted_run.add_to_analysis("lengths", {"n": 25})
    assert analysis.known() is None
    (sorted_run.path / "analysis" / "heads.json").write_text("{")  # which the doctor does without
    make(analysis)
    assert analysis.known() is not None


def test_a_run_that_is_not_there_was_not_analysed(tmp_path: Path) -> None:
    for kind in (Accuracy, Lengths, Why, Heads, Diagnosis):
        assert kind(RunDirectory(tmp_path / "nowhere"), STUDY).known() is None


def test_an_attack_is_made_again_for_longer_at_other_lengths_or_when_it_was_interrupted(
    sorted_run: RunDirectory,
) -> None:
    study = replace(STUDY, attack=0.2)
    make(Lengths(sorted_run, study))
    analysis = Attack(sorted_run, study)
    found = analysis.do(device="cpu", tell=quiet)
    assert found.lengths == (3, 4, 5)
    assert analysis.known() == found
    assert Attack(sorted_run, replace(study, attack=0.1)).known() == found
    assert Attack(sorted_run, replace(study, attack=5)).known() is None
    sorted_run.replace_analysis("attack", replace(found, ended="interrupted").to_json())
    assert analysis.known() is None
    sorted_run.replace_analysis("attack", found.to_json())
    measured = Lengths(sorted_run, study).known()
    assert measured is not None
    sorted_run.replace_analysis("lengths", replace(measured, length_held=7).to_json())
    assert analysis.known() is None  # 7 is said to be held now, and was not attacked


def test_a_diagnosis_is_made_again_when_the_run_was_attacked(sorted_run: RunDirectory) -> None:
    (sorted_run.path / "analysis" / "attack.json").unlink(missing_ok=True)
    analysis = Diagnosis(sorted_run, STUDY)
    make(analysis)
    assert analysis.known() is not None
    make(Attack(sorted_run, replace(STUDY, attack=0.1)))
    assert analysis.known() is None


def test_runs_that_hold_past_training_are_worth_an_attack(sorted_run: RunDirectory) -> None:
    make(Lengths(sorted_run, STUDY))
    measured = Lengths(sorted_run, STUDY).known()
    assert measured is not None
    longest = measured.training.longest
    mastered, failed = (
        Mastery(gate=0.999, stops=False, mastered=one, step=None, accuracy=0.5) for one in (True, False)
    )
    runs = {
        "holds": MeasuredRun.of(replace(measured, length_held=longest + 2), mastered),
        "inside": MeasuredRun.of(replace(measured, length_held=longest), mastered),
        "unlearned": MeasuredRun.of(replace(measured, length_held=longest + 2), failed),
    }
    assert worth_attacking(runs) == ["holds"]
