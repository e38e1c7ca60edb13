"""Who counts for statements about length: runs that mastered their training lengths, by one rule."""

from dataclasses import replace
from pathlib import Path

import pytest

from headway.narration import study_tables
from headway.narration.study import furthest
from headway.narration.study_tables import mastery_table, seed_table
from headway.results.study import Mastery
from headway.runs import RunDirectory
from headway.studies.answer import answer, mastered
from headway.studies.gate import GATE, first_reaching, mastery_of
from headway.studies.runner import loss_of
from headway.training import train
from tests.studies.test_answer import cell, held_to, run, shown
from tests.tiny import ADDITION, config

YES = Mastery(gate=GATE, stops=True, mastered=True, step=1_250, accuracy=0.9995)
NO = Mastery(gate=GATE, stops=True, mastered=False, step=None, accuracy=0.312)


@pytest.mark.parametrize("gate", [0.0001, 1.0])
def test_a_run_with_a_gate_is_judged_by_it(tmp_path: Path, gate: float) -> None:
    settings = {"stop_accuracy": gate, "stop_for": 2, "validate_every": 2, "steps": 40, "lr": 0.02}
    done = train(config(ADDITION, train=settings), tmp_path / "run", device="cpu")
    found = mastery_of(RunDirectory(tmp_path / "run"))
    assert (found.gate, found.stops) == (gate, True)
    assert found.mastered == (done.mastered_at is not None)
    assert found.step == done.mastered_at
    assert found.accuracy == done.metrics["validation_accuracy"]


def test_a_run_without_a_gate_is_judged_by_the_checkpoint_that_counts(tmp_path: Path) -> None:
    train(config(ADDITION), tmp_path / "run", device="cpu")
    found = mastery_of(RunDirectory(tmp_path / "run"))
    assert (found.gate, found.stops, found.mastered, found.step) == (GATE, False, False, None)
    rows = [{"step": 5, "loss": 1.0}, *({"step": s, "validation": {"accuracy": a}} for s, a in ((2, 0.5), (4, 0.999)))]
    assert (first_reaching(rows, GATE), first_reaching(rows, 1.0)) == (4, None)


def test_words_for_a_table() -> None:
    assert [str(study_tables.mastered(one)) for one in (YES, NO, None)] == ["yes", "no (0.312)", "–"]
    assert [str(study_tables.steps(one)) for one in (YES, NO, None)] == ["1,250", "–", "–"]


def test_a_run_that_did_not_master_says_nothing_of_length() -> None:
    good = cell("good", [run(0, held_to(64), mastery=YES), run(1, held_to(16), mastery=NO)])
    bad = cell("bad", [run(0, held_to(64), mastery=NO)])
    said = [sentence.text for sentence in answer([good, bad])]
    assert said[0] == (
        "1 of 3 runs mastered their training lengths (at least 99.9 % of validation); the others are left out of "
        "all results on length (accuracy, seeds): good (0.312, 1 of 2), bad (0.312, 1 of 1)"
    )
    assert said[1].endswith("in the median: good (64, one seed)")
    assert str(furthest([bad], "adjacent")) == (
        "adjacent: no run mastered its training lengths, so there is no result on length"
    )
    assert [mastered(one, "adjacent") for one in (*good.runs, run(0, held_to(64)))] == [True, False, True]
    assert loss_of(replace(bad.runs[0], negatives_trained="adjacent")) == 0


def test_every_seed_stands_in_the_tables_with_its_mastery() -> None:
    cells = [cell("some", [run(0, held_to(64), mastery=YES), run(1, held_to(16), mastery=NO)])]
    assert shown(mastery_table(cells))[0] == ["some", "1 of 2", "1,250 –", "0.312"]
    found = seed_table(cells, "adjacent")
    titles = ["run", "mastered", "steps to mastery", "16", "32", "64", "steps", "seconds", "device"]
    assert [str(column.title) for column in found.columns] == titles
    assert shown(found)[:1] == [
        ["some-seed0", "yes", "1,250", "1.000", "1.000", "1.000", "50", "2", "cpu"],
    ]
    assert shown(found)[1][:4] == ["some-seed1", "no (0.312)", "–", "1.000"]
    assert not mastery_table([cell("before", [run(0, held_to(64))])]).rows


def test_a_run_that_mastered_validation_but_not_a_set_says_nothing_of_that_set() -> None:
    rows = [replace(one, accuracy=0.6) for one in held_to(64)]
    assert not mastered(run(0, rows, mastery=YES), "adjacent")
