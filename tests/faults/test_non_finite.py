"""NaN and infinity stop a training or are reported; without the check of the loss the row counts them."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from faults.campaign import Attempt, BarBroken
from faults.laboratory import Answer
from faults.rows.non_finite import ROW, check, is_finite

from headway.attacks.attack import attack
from headway.diagnosis.examine import examine_together
from headway.errors import RunStopped
from headway.evaluation import load
from headway.runs import RunDirectory
from headway.storage import non_finite, write_json
from headway.training import loop, train
from tests.tiny import ADDITION, SORTEDNESS, config


@pytest.fixture(scope="module")
def attempt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attempt]:
    with ROW.attempts(0, tmp_path_factory.mktemp("non-finite")) as found:
        yield found


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 5, 6, 10])
def test_what_is_not_finite_is_stopped_or_reported(attempt: Attempt, number: int) -> None:
    assert attempt(number)


def test_a_training_that_goes_on_is_counted(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop._Loop, "_stop_unless_finite", lambda *_: None)
    with pytest.raises(BarBroken):
        attempt(0)


def test_a_number_that_is_none_is_counted_where_it_is_printed_or_written(tmp_path: Path) -> None:
    with pytest.raises(BarBroken, match="printed"):
        check("a case", Answer(0, "accuracy nan\n", ""), tmp_path)
    (tmp_path / "a.json").write_text('{"loss": -Infinity}')
    with pytest.raises(BarBroken, match=r"a.json holds -Infinity"):
        check("a case", Answer(0, "", ""), tmp_path)
    (tmp_path / "a.json").write_text('{"check": "NaN is named"}')
    check("a case", Answer(0, "accuracy 0.5, information -3\n", ""), tmp_path)


@pytest.fixture(scope="module", params=[ADDITION, SORTEDNESS], ids=["addition", "sortedness"])
def poisoned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run whose readout has a NaN."""
    place = tmp_path_factory.mktemp("poisoned") / "run"
    train(config(request.param), place, device="cpu")
    directory = RunDirectory(place)
    for step in directory.checkpoint_steps():
        found = directory.read_checkpoint(step)
        with torch.no_grad():
            next(one for name, one in found.model.items() if name.startswith("readout"))[0] = math.nan
        directory.write_checkpoint(found)
    return directory


def test_the_doctor_says_that_logits_are_not_finite(poisoned: RunDirectory) -> None:
    found = examine_together([load(poisoned)]).runs[0]
    assert found.errors[0].check == "not-finite"
    poisoned.replace_analysis("doctor", found)  # JSON has no NaN
    assert not is_finite(poisoned.path, max(poisoned.checkpoint_steps()))


def test_an_attack_on_logits_that_are_not_finite_stops(poisoned: RunDirectory) -> None:
    with pytest.raises(RunStopped, match=r"the logits of .* are not finite, so its answers are meaningless"):
        attack(load(poisoned), seconds=5, tries=20)


def test_a_document_with_a_number_that_is_not_finite_is_not_written_and_names_it(tmp_path: Path) -> None:
    with pytest.raises(RunStopped, match=r"a.json is not written: rows\[1\].loss is not a finite number"):
        write_json(tmp_path / "a.json", {"rows": [{"loss": 1.0}, {"loss": math.inf}]})
    assert not (tmp_path / "a.json").exists()
    assert non_finite({"a": [1.5, {"b": (0, "nan")}]}) is None
