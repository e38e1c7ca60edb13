"""evaluation.json and a study's summary.json: what is written is read back, and so is what earlier versions wrote."""

import dataclasses
import json
from pathlib import Path

import pytest

from headway.errors import InputError
from headway.results.evaluation import ClassEvaluation, Evaluations, SequenceEvaluation
from headway.results.schema import read, write
from headway.results.study import AccuracyStudy, FailedTraining, Training

SEQUENCES = {
    "exact_match": 0.75,
    "split": "all",
    "step": 400,
    "n": 8,
    "wrong": 2,
    "interval": [0.41, 0.93],
    "loss": 0.5,
    "wrong_examples": [{"example": "1+1= -> 2", "answered": "3"}],
    "decoded_n": 8,
    "decoded_wrong": 2,
    "disagreements": 1,
    "real_disagreements": 0,
    "disagreement_examples": [{"example": "1+1= -> 2", "token": 0, "gap": 0.0004}],
}
CLASSES = {
    "split": "test",
    "step": 400,
    "n": 8,
    "wrong": 2,
    "accuracy": 0.75,
    "interval": [0.41, 0.93],
    "loss": 0.5,
    "wrong_examples": [],
    "balanced_accuracy": 0.7,
    "answer_shares": {"0": 0.5, "1": 0.5},
}


def test_whole_answers_and_classes_have_one_attribute_for_accuracy_and_keep_their_names_in_json() -> None:
    found = read(Evaluations, {"all": SEQUENCES, "test": CLASSES}, "evaluation.json")
    whole, test = found.of("all"), found.of("test")
    assert isinstance(whole, SequenceEvaluation) and isinstance(test, ClassEvaluation)
    assert (whole.accuracy, test.accuracy) == (0.75, 0.75)
    assert found.of("validation") is None
    assert json.loads(json.dumps(write(found))) == {"all": SEQUENCES, "test": CLASSES}


def test_documents_from_before_disagreements_were_told_apart_still_load() -> None:
    early = {key: value for key, value in SEQUENCES.items() if "disagreement" not in key}
    found = read(Evaluations, {"all": early}, "evaluation.json").whole
    assert isinstance(found, SequenceEvaluation) and (found.decoded_n, found.real_disagreements) == (8, 0)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"all": {**SEQUENCES, "exact_match": "x"}}, 'evaluation.json: all.exact_match is "x"; a number needed'),
        ({"test": {**CLASSES, "accuracy": None}}, "evaluation.json: test.accuracy is null; a number needed"),
        ({"all": {**SEQUENCES, "n": 1.5}}, "evaluation.json: all.n is 1.5; a whole number needed"),
        ({"test": 3}, "evaluation.json: test is 3; an object needed"),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(document: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as problem:
        read(Evaluations, document, "evaluation.json")
    assert str(problem.value) == message


def test_a_summary_tells_trained_runs_from_those_that_failed() -> None:
    trained = {"run": "studies/a/runs/seed0", "steps": 400, "seconds": 3.5}
    failed = {"run": "studies/a/runs/seed1", "error": "out of memory"}
    rows = [{"training": trained, "evaluation": SEQUENCES}, {"training": failed, "evaluation": None}]
    document = {"form": 1, "experiment": "addition", "preset": "quick", "runs": rows}
    found = read(AccuracyStudy, document, "summary.json")
    first, second = found.runs
    assert isinstance(first.training, Training) and first.evaluation is not None and first.evaluation.accuracy == 0.75
    assert isinstance(second.training, FailedTraining) and second.evaluation is None


def test_committed_evaluations_are_read_and_written_back_number_for_number() -> None:
    page = Path(__file__).parents[2] / "docs" / "results" / "addition-fast.json"
    for run in json.loads(page.read_text())["runs"]:
        fields = {f.metadata["key"] or f.name for f in dataclasses.fields(SequenceEvaluation)}
        document = {"split": "all", **{key: value for key, value in run.items() if key in fields}}
        found = read(Evaluations, {"all": document}, page.name).whole
        assert found is not None and found.accuracy == run["exact_match"]
        assert {**found.to_json(), **document} == json.loads(json.dumps(found.to_json()))
