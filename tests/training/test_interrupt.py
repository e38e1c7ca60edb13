"""Ctrl-C once saves, twice stops at once; either way --resume ends with the weights of an untouched run."""

from pathlib import Path

import pytest
from faults.forking import Commands

from headway.runs import RunDirectory
from tests.tiny_recipes import write_recipe
from tests.training.conftest import Outcome, outcome

SETTINGS = ("--quiet", "--set", "train.steps=5", "--set", "train.validate_every=100")


def train(recipe: Path, run: Path) -> list[str]:
    return ["train", str(recipe), "--out", str(run), *SETTINGS]


@pytest.fixture(scope="module")
def untouched(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("untouched")
    assert commands.run(folder, *train(write_recipe(folder), folder / "run")).code == 0
    return outcome(folder / "run")


def interrupt(commands: Commands, folder: Path, times: int) -> tuple[Path, str]:
    """Start a run and press Ctrl-C in its second step, which is made to last; the run, and the line printed."""
    recipe, run = write_recipe(folder), folder / "run"
    # Line 1 of the metrics is the validation before the first step, line 3 the second step.
    stopped = commands.run(folder, *train(recipe, run), interrupt_at=3, watched=str(run), times=times)
    assert stopped.code == 130
    assert stopped.printed.count("\n") == 1
    assert stopped.printed.startswith("headway: ")
    return run, stopped.printed


def resume(commands: Commands, run: Path) -> Outcome:
    assert commands.run(run.parent, *train(run.parent / "tiny.toml", run), "--resume").code == 0
    return outcome(run)


def test_ctrl_c_once_saves_and_resumes_to_the_same_weights(
    commands: Commands, untouched: Outcome, tmp_path: Path
) -> None:
    run, line = interrupt(commands, tmp_path, times=1)
    assert f"stopped at step 2 of 5; --resume continues {run}" in line
    assert RunDirectory(run).checkpoint_steps() == [0, 2]
    assert resume(commands, run) == untouched


def test_ctrl_c_twice_stops_at_once_and_still_resumes(commands: Commands, untouched: Outcome, tmp_path: Path) -> None:
    run, line = interrupt(commands, tmp_path, times=2)
    assert "interrupted" in line
    assert RunDirectory(run).checkpoint_steps() == [0]
    assert resume(commands, run) == untouched
