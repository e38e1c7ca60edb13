"""The row of sweeps on Ray: violations that it counts, and its short version in the long tests."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from faults.campaign import BarBroken, run
from faults.rows.ray import ROW, SETTINGS, VARIED, Case, RaySweeps

from headway.api import plan_sweep
from headway.results.comparison import Outcome
from headway.runs import SweepDirectory
from headway.sweeps.plan import SweepPlan

if find_spec("ray") is None and not os.environ.get("CI"):
    pytest.skip("ray is not installed: pip install 'headway[ray]'", allow_module_level=True)

DRIVER_OF_CLUSTER = 26
"""A case that kills the driver after 87 % of a sweep on a cluster."""


@pytest.fixture
def sweeps(tmp_path: Path) -> Iterator[RaySweeps]:
    prepared = RaySweeps(0, tmp_path)
    yield prepared
    prepared.end()


@pytest.fixture
def case(sweeps: RaySweeps) -> Iterator[Case]:
    prepared = Case(sweeps, "own Ray", "case")
    yield prepared
    prepared.results.close()


def plan_of(case: Case) -> SweepPlan:
    return plan_sweep(str(case.folder / "addition.toml"), set=SETTINGS, vary=[VARIED], seeds=[0, 1])


def record(case: Case, seconds: float) -> SweepDirectory:
    """The results of a sweep whose trials all ended; nothing is trained."""
    plan, directory = plan_of(case), SweepDirectory(case.out)
    directory.begin(plan.to_json())
    for trial in plan.trials:
        directory.append_result(
            Outcome(trial.name, dict(trial.settings), trial.seed, "finished", {"accuracy": 0.5}, seconds=seconds)
        )
    return directory


@pytest.mark.parametrize("tidied", [False, True])
def test_a_trial_that_ran_twice_is_counted_even_if_only_one_of_its_lines_is_left(case: Case, tidied: bool) -> None:
    names = sorted(trial.name for trial in plan_of(case).trials)
    directory = record(case, 1.0)
    case.results.look()
    assert case.results.repeated() == []
    directory.tidy_results(names[::-1])
    case.results.look()
    assert case.results.repeated() == []
    record(case, 2.0)
    if tidied:
        directory.tidy_results(names)
        left = [line.partition('", ')[0] for line in directory.results_path.read_text().splitlines()]
        assert len(set(left)) == len(left)
    case.results.look()
    assert case.results.repeated() == names


def test_a_process_of_a_killed_sweep_that_still_runs_beside_the_next_one_is_counted(case: Case) -> None:
    """The first sweep is a process that sleeps; the next one has nothing left to run, so that Ray is not started."""
    record(case, 1.0)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stale:
        with pytest.raises(BarBroken, match=rf"the next one begins while the processes \[{stale.pid}\] of the first"):
            case.take_over(stale.pid)
        stale.kill()
    assert case.sweep.code == 0, case.sweep.printed
    case.end()
    assert not case.folder.exists()


@pytest.mark.long
def test_a_session_that_outlives_its_driver_is_counted(tmp_path: Path) -> None:
    sweeps = RaySweeps(0, tmp_path, plant="tests.faults.planted:outliving_sessions")
    planted = replace(ROW, attempts=lambda seed, folder: nullcontext(sweeps.attempt))
    try:
        found = run(planted, 1, 0, only=DRIVER_OF_CLUSTER)
    finally:
        sweeps.end()
    assert found.outcomes == {"FAILED": 1}
    assert "the next one begins while the processes" in found.failures[0].seen


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 2, 3, 6])
def test_a_killed_process_of_a_sweep_costs_no_trial(sweeps: RaySweeps, number: int) -> None:
    assert sweeps.attempt(number).partition(": ")[2].endswith("equal")
