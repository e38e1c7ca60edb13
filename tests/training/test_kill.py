"""A training that is killed, whenever and however often, ends with the weights of one that was not."""

import random
import signal
from itertools import count
from pathlib import Path

import pytest
from faults.forking import Commands

from tests.tiny_recipes import write_recipe
from tests.training.conftest import outcome

STEPS = 60
OPERATIONS = 60
"""Points at which a kill inside a checkpoint write can fall: those of about two checkpoints, old ones removed."""


def train(commands: Commands, recipe: Path, run: Path, *, steps: int = STEPS, **fault: object) -> tuple[int, float]:
    """Start the run, or continue it; its exit code and how long it took."""
    settings = ("--set", f"train.steps={steps}", "--set", f"train.validate_every={steps // 10}")
    again = ["--resume"] if run.exists() else []
    command = ("train", str(recipe), "--out", str(run), *again, "--quiet", *settings)
    ended = commands.run(run.parent, *command, **fault)
    assert ended.code in (0, -signal.SIGKILL), ended.printed
    return ended.code, ended.seconds


def survive(commands: Commands, folder: Path, kills: int) -> None:
    """Kill trainings until there were enough kills, half inside a checkpoint write; compare each that finishes."""
    recipe = write_recipe(folder)
    chance = random.Random(kills)
    _, seconds = train(commands, recipe, folder / "uninterrupted")
    expected = outcome(folder / "uninterrupted")
    done = {"moment": 0, "checkpoint": 0}
    for attempt in count():
        run = folder / f"killed-{attempt}"
        code = -signal.SIGKILL
        while code != 0:
            where = min(done, key=lambda kind: done[kind])
            if sum(done.values()) == kills:
                fault = {}
            elif where == "moment":
                fault = {"signal_after": chance.uniform(0, seconds)}
            else:
                fault = {"kill_at": chance.randint(1, OPERATIONS), "inside": "checkpoint"}
            code, _ = train(commands, recipe, run, **fault)
            done[where] += code != 0
        assert outcome(run) == expected
        if sum(done.values()) == kills:
            break
    assert done == {"moment": kills // 2, "checkpoint": kills // 2}


def test_six_kills_do_not_change_the_final_weights(commands: Commands, tmp_path: Path) -> None:
    survive(commands, tmp_path, 6)


@pytest.mark.long
def test_thirty_kills_do_not_change_the_final_weights(commands: Commands, tmp_path: Path) -> None:
    survive(commands, tmp_path, 30)


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.long)])
def test_a_kill_at_any_file_operation_of_a_new_run_does_no_harm(commands: Commands, tmp_path: Path, every: int) -> None:
    recipe = write_recipe(tmp_path)
    train(commands, recipe, tmp_path / "uninterrupted", steps=10)
    expected = outcome(tmp_path / "uninterrupted")
    for operation in count(1, every):
        run = tmp_path / f"killed-{operation}"
        code, _ = train(commands, recipe, run, steps=10, kill_at=operation, inside="created")
        if code == 0:
            break
        train(commands, recipe, run, steps=10)
        assert outcome(run) == expected
    assert operation > 8  # two files, each written in halves, synced and put in place
