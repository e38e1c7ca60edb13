"""One job: what it measures, and how failures and a full disk come out of it."""

import errno
import json
from pathlib import Path

import pytest
import safetensors.torch

from headway.errors import InputError, RunStopped
from headway.evaluation import evaluate, load
from headway.results.comparison import Outcome
from headway.sweeps.plan import plan_grid
from headway.sweeps.trial import DiskFull, JobOptions, in_one_line, run_job, stopping_when_full
from tests.tiny_recipes import write_recipe


def one_trial(folder: Path, how: JobOptions, *settings: str) -> Outcome:
    (trial,) = plan_grid(write_recipe(folder), settings, [], [1]).trials
    (found,) = run_job([trial], [folder / "run"], how)
    return found


def test_a_finished_trial_says_what_the_run_directory_says(tmp_path: Path) -> None:
    found = one_trial(tmp_path, JobOptions(device="cpu", split="validation"))
    assert (found.name, found.seed, found.state, found.error) == ("seed=1", 1, "finished", None)
    measured = evaluate(load(tmp_path / "run", device="cpu"), "validation")
    for key in ("n", "wrong", "accuracy", "loss"):
        assert found.metrics[key] == getattr(measured, key)
    assert found.metrics["validation_loss"] == pytest.approx(measured.loss, rel=1e-6)  # other batches, other sums
    assert found.metrics["steps"] == 4
    assert json.loads((tmp_path / "run" / "analysis" / "evaluation.json").read_text())["validation"]["n"] == 16


def test_without_a_split_only_training_is_reported(tmp_path: Path) -> None:
    found = one_trial(tmp_path, JobOptions(device="cpu", split=None))
    assert set(found.metrics) == {"steps", "validation_loss", "validation_accuracy", "best_step"}
    assert not (tmp_path / "run" / "analysis").exists()


def test_a_failure_is_an_outcome_that_does_not_name_the_place(tmp_path: Path) -> None:
    found = one_trial(tmp_path, JobOptions(device="cpu"), "train.lr=10.0", "train.weight_decay=10.0", "train.steps=40")
    assert found.state == "failed"
    assert found.error is not None
    assert "not finite" in found.error
    assert found.error.endswith("of seed=1")
    assert str(tmp_path) not in found.error
    assert found.metrics == {}


class PanicException(BaseException):
    """Like the one of safetensors, which is no `Exception`."""


def test_want_of_memory_for_a_checkpoint_fails_the_trial_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(tensors: object) -> bytes:
        raise PanicException("PyObject pointer is null")

    monkeypatch.setattr(safetensors.torch, "save", panic)
    found = one_trial(tmp_path, JobOptions(device="cpu"))
    assert found.state == "failed"
    assert found.error == "out of memory (no room for the tensors of step-000000: PyObject pointer is null)"


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (InputError("a\n b"), "a b"),
        (RunStopped("stopped"), "stopped"),
        (MemoryError(), "out of memory (MemoryError)"),
        (RuntimeError("CUDA out of memory. Tried"), "out of memory (CUDA out of memory. Tried)"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_an_error_becomes_one_line(problem: Exception, line: str) -> None:
    assert in_one_line(problem) == line


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_from_other_errors(number: int) -> None:
    with pytest.raises(DiskFull, match=r"no room to write /x \("), stopping_when_full(Path("/y")):
        raise OSError(number, "full", "/x")
    with pytest.raises(DiskFull, match=r"no room to write /y \(full\)"), stopping_when_full(Path("/y")):
        raise OSError(number, "full")
    with pytest.raises(PermissionError), stopping_when_full(Path("/y")):
        raise PermissionError(errno.EACCES, "no", "/x")
