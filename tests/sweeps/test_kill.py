"""Workers and drivers killed at any moment: every trial is there once, equal to those of an undisturbed sweep."""

import json
import os
import random
import signal
import subprocess
from itertools import count
from pathlib import Path

import pytest

from headway.errors import Interrupted
from headway.results.comparison import Outcome as Ended
from headway.runs import SweepDirectory
from headway.sweeps.driver import run_sweep
from headway.sweeps.local import LocalExecutor
from headway.sweeps.plan import plan_grid
from headway.training import train
from tests.sweeps.driving import (
    HOW,
    is_running,
    kill,
    lines_without_times,
    long_plan,
    run_here,
    start_driver,
    wait_until,
    workers_of,
)
from tests.tiny import weights_hash
from tests.tiny_recipes import write_recipe
from tests.training.conftest import Outcome, outcome

LONGEST_WAIT = 2.5
"""Seconds to a kill: about what a worker needs to start and train half a trial."""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recipe(tmp_path_factory.mktemp("recipe"))


@pytest.fixture(scope="module")
def undisturbed(recipe: Path) -> SweepDirectory:
    return run_here(long_plan(recipe), recipe.parent / "undisturbed")


def runs_of(directory: SweepDirectory) -> dict[str, Outcome]:
    names = [trial["name"] for trial in directory.plan()["trials"]]
    return {name: outcome(directory.trial(name).path) for name in names}


def assert_equal(directory: SweepDirectory, undisturbed: SweepDirectory) -> None:
    assert lines_without_times(directory) == lines_without_times(undisturbed)
    assert runs_of(directory) == runs_of(undisturbed)


def ends_within(driver: "subprocess.Popen[str]", seconds: float) -> bool:
    try:
        driver.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def survive(recipe: Path, folder: Path, targets: list[str], undisturbed: SweepDirectory) -> dict[str, int]:
    """Kill workers and drivers at random moments until all targets are used; compare every sweep that finishes."""
    chance = random.Random(len(targets))
    chance.shuffle(targets)
    seen: set[int] = set()
    killed = {"worker": 0, "driver": 0}
    for attempt in count():
        directory = SweepDirectory(folder / f"killed-{attempt}")
        driver = start_driver(recipe, directory.path)
        while targets and not ends_within(driver, chance.uniform(0, LONGEST_WAIT)):
            workers = workers_of(driver.pid)
            seen.update(workers)
            if targets[-1] == "worker" and workers:
                kill(chance.choice(workers))
                killed[targets.pop()] += 1
            elif targets[-1] == "driver":
                kill(driver.pid)
                killed[targets.pop()] += 1
                driver.communicate()
                driver = start_driver(recipe, directory.path)
        assert driver.communicate(timeout=120)[1] == ""
        assert driver.returncode == 0
        assert_equal(directory, undisturbed)
        if not targets:
            break
    wait_until(lambda: not any(map(is_running, seen)), "no worker is left")
    return killed


def test_a_kill_of_a_worker_and_one_of_the_driver_change_nothing(
    recipe: Path, undisturbed: SweepDirectory, tmp_path: Path
) -> None:
    """Each in the middle of a trial; a killed driver takes its workers along and lets go of everything."""
    directory = SweepDirectory(tmp_path / "sweep")
    driver = start_driver(recipe, directory.path)
    wait_until(lambda: has_begun(directory, "lr=0.01,seed=0"), "the first trial runs")
    kill(workers_of(driver.pid)[0])
    wait_until(lambda: has_begun(directory, "lr=0.02,seed=0"), "another trial runs")
    workers = workers_of(driver.pid)
    kill(driver.pid)
    driver.communicate()
    wait_until(lambda: not any(map(is_running, workers)), "the workers are gone", seconds=10)
    with directory.lock(), directory.trial("lr=0.02,seed=0").lock():
        pass
    assert len(directory.results()) < 4
    driver = start_driver(recipe, directory.path)
    assert driver.communicate(timeout=120)[1] == ""
    assert driver.returncode == 0
    assert_equal(directory, undisturbed)


def has_begun(directory: SweepDirectory, name: str) -> bool:
    """Whether a trial has gone through some steps."""
    metrics = directory.path / "trials" / name / "metrics.jsonl"
    return metrics.exists() and metrics.read_bytes().count(b"\n") > 5


@pytest.mark.long
def test_twenty_kills_of_workers_and_two_of_the_driver_change_nothing(
    recipe: Path, undisturbed: SweepDirectory, tmp_path: Path
) -> None:
    killed = survive(recipe, tmp_path, ["worker"] * 20 + ["driver"] * 2, undisturbed)
    assert killed == {"worker": 20, "driver": 2}


def test_ctrl_c_saves_what_runs_and_leaves_no_process(recipe: Path, tmp_path: Path) -> None:
    directory = SweepDirectory(tmp_path / "sweep")
    plan = plan_grid(recipe, [("train.steps", 100_000), ("train.validate_every", 100_000)], [], [0, 1, 2])
    workers: list[int] = []

    def interrupt(event: dict) -> None:
        if event["event"] == "step" and event["step"] > 0 and not workers:
            workers.extend(workers_of(os.getpid()))
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted, match="sweep: 0 of 3 trials finished; the same command continues"):
        run_sweep(plan, directory, LocalExecutor(2, HOW), interrupt)
    assert len(workers) == 2
    assert not any(map(is_running, workers))
    saved = {trial.name: directory.trial(trial.name).checkpoint_steps()[1:] for trial in plan.trials}
    name, (step,) = next((name, steps) for name, steps in saved.items() if steps)
    config = next(trial.config for trial in plan.trials if trial.name == name)
    train(config, tmp_path / "untouched", device="cpu", until=step)
    assert weights_hash(directory.trial(name).path, step) == weights_hash(tmp_path / "untouched", step)


def test_a_line_that_a_kill_cut_off_costs_its_own_trial_alone(recipe: Path, tmp_path: Path) -> None:
    plan = long_plan(recipe)
    directory = SweepDirectory(tmp_path)
    records = [Ended(trial.name, trial.settings, trial.seed, "finished") for trial in plan.trials]
    directory.begin(plan.to_json())
    for record in records[:3]:
        directory.append_result(record)
    with directory.results_path.open("a") as handle:
        handle.write(json.dumps(records[3].to_json())[:30])
    ran = []

    class Here:
        def run(self, jobs, done, report) -> None:  # type: ignore[no-untyped-def]
            ran.extend(trial.name for job in jobs for trial in job.trials)
            done([Ended(trial.name, trial.settings, trial.seed, "finished") for job in jobs for trial in job.trials])

    result = run_sweep(plan, directory, Here())
    assert ran == [plan.trials[3].name]
    assert result.finished == 4
