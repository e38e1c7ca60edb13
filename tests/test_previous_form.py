"""Runs that an earlier version wrote are still read, and the numbers of their seeds are still what they were.

tests/previous_form holds two runs of commit 82d0da2, from before results had types: two-digit addition and sortedness,
with their evaluation.json, heads.json, lengths.json and doctor.json as that version wrote them.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup

import headway as hw
from headway.evaluation import Trained, load
from headway.reports.documents import gather
from headway.reports.page import Picture, figures_of, render
from headway.reports.writing import compose
from headway.results.doctor import Diagnosis
from headway.results.heads import HeadAnalysis
from headway.results.lengths import Lengths
from headway.results.schema import read
from headway.runs import RunDirectory
from headway.training import train

RUNS = Path(__file__).parent / "previous_form"
CLOSE = 1e-4
"""Other processors add up sums in another order; a changed example or weight would move a loss by more than this."""


@pytest.fixture(params=["addition", "sortedness"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Trained:
    shutil.copytree(RUNS / request.param, tmp_path / request.param)
    return load(tmp_path / request.param, device="cpu")


def document(run: Trained, name: str) -> Any:
    return json.loads((RUNS / run.directory.name / "analysis" / name).read_text())


def test_its_accuracy_is_what_it_was(run: Trained) -> None:
    before, found = document(run, "evaluation.json")["test"], hw.evaluate(run)
    assert (found.n, found.wrong, found.step) == (before["n"], before["wrong"], before["step"])
    assert found.loss == pytest.approx(before["loss"], rel=CLOSE)
    shown = [(one.example, one.answered) for one in found.wrong_examples]
    assert shown == [(one["example"], one["answered"]) for one in before["wrong_examples"]]


def test_its_seed_trains_as_it_did(run: Trained, tmp_path: Path) -> None:
    before = [one for one in run.directory.metrics() if "loss" in one][:10]
    train(run.config, tmp_path / "again", device="cpu", until=10)
    found = [one for one in RunDirectory(tmp_path / "again").metrics() if "loss" in one]
    assert [one["step"] for one in found] == list(range(1, 11))
    assert [one["loss"] for one in found] == pytest.approx([one["loss"] for one in before], rel=CLOSE)


def test_its_heads_are_what_they_were(run: Trained) -> None:
    before = HeadAnalysis.from_json(document(run, "heads.json"))
    found = hw.heads(run, examples=30)
    assert [head.name for head in found.heads] == [head.name for head in before.heads]
    for old, new in zip(before.heads, found.heads, strict=True):
        for kind, ablated in old.ablation.items():
            assert new.ablation[kind].drop == pytest.approx(ablated.drop), f"{new.name} {kind}"
            if ablated.loss_change is not None:
                assert new.ablation[kind].loss_change == pytest.approx(ablated.loss_change, rel=1e-3), new.name
        for name, score in old.scores.items():
            assert new.scores[name] == (None if score is None else pytest.approx(score, rel=1e-3, abs=1e-6)), name
    orders = [[step.removed for step in one.joint.elimination.steps] for one in (before, found)]
    assert orders[0] == orders[1]


def test_its_documents_are_read_and_reported(run: Trained, tmp_path: Path) -> None:
    found = gather([run.directory.path])
    told = compose(found.documents, found.name)
    text = render(told, {figure.name: Picture(Markup(""), 1) for figure in figures_of(told)})
    assert all(head.name in text for head in HeadAnalysis.from_json(document(run, "heads.json")).heads)
    assert {section.title for section in told.sections} >= {"Setup", "Training", "Heads"}
    assert hw.explore(run, out=tmp_path / "page.html").page
    assert hw.doctor(run).findings


def test_lengths_and_a_diagnosis_of_then_are_read() -> None:
    lengths = read(Lengths, json.loads((RUNS / "sortedness/analysis/lengths.json").read_text()), "lengths.json")
    assert [(row.length, row.n) for row in lengths.rows][:2] == [(4, 20), (5, 20)]
    diagnosis = Diagnosis.from_json(json.loads((RUNS / "addition/analysis/doctor.json").read_text()))
    assert diagnosis.findings
