"""Successive halving: the best of each complete rung go on, from results alone, whatever happened in between."""

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import headway as hw
from headway.callbacks import OnEvent
from headway.cli.compare import as_csv, remarks
from headway.cli.grid import Standing
from headway.cli.main import run
from headway.errors import InputError, Interrupted
from headway.results.comparison import Comparison, Outcome
from headway.runs import RunDirectory, SweepDirectory
from headway.sweeps.driver import next_stage, run_sweep
from headway.sweeps.halving import count_steps, make_rungs, plan_rungs
from headway.sweeps.local import LocalExecutor
from headway.sweeps.plan import Rung, SweepPlan, Trial
from headway.sweeps.ray_task import run_in_ray
from headway.sweeps.search import plan_search
from headway.sweeps.tables import heading, table_of
from headway.sweeps.trial import Job, JobOptions, run_job
from headway.training import train
from tests.sweeps.driving import HERE, HOW, ROOT, Here, lines_without_times
from tests.tiny import weights_hash
from tests.tiny_recipes import write_recipe

pytest.importorskip("optuna", reason="the extra `search` is not installed")

WITHOUT_SPLIT = replace(HOW, split=None)


def halving(folder: Path, *settings: str, trials: int = 9, seeds: Sequence[int] = (100, 101)) -> SweepPlan:
    """Nine learning rates of two seeds: all to step 2, three to step 6, one to step 18."""
    recipe = write_recipe(folder)
    vary = ["train.lr=1e-4..1e-1:log"]
    return plan_search(recipe, ["train.steps=18", *settings], vary, seeds, trials=trials, search="halving")


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[SweepPlan, SweepDirectory]:
    """A search that nothing disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    plan, directory = halving(folder), SweepDirectory(folder / "sweep")
    run_sweep(plan, directory, HERE)
    return plan, directory


# Rungs

SIZES = {
    "settings": st.integers(1, 300),
    "total": st.integers(1, 5000),
    "every": st.integers(1, 600),
    "seeds": st.integers(1, 5),
}


@given(cuts=st.integers(1, 6), **SIZES)
def test_rungs_rise_to_the_last_step_and_end_at_validations(
    settings: int, total: int, every: int, seeds: int, cuts: int
) -> None:
    rungs = make_rungs(settings, total, every, cuts)
    assert (rungs[0].settings, rungs[-1].until) == (settings, total)
    assert all(rung.until % every == 0 or rung.until == total for rung in rungs)
    for rung, after in pairwise(rungs):
        assert rung.until < after.until
        assert 1 <= after.settings <= max(1, rung.settings / 3)
        assert after.settings < rung.settings
    reached = [max(rung.until for rung in rungs if place < rung.settings) for place in range(settings)]
    assert count_steps(rungs, seeds) == seeds * sum(reached)


@given(budget=st.integers(1, 2_000_000), **SIZES)
def test_a_budget_is_kept_and_used_for_the_longest_first_rung(
    settings: int, total: int, every: int, seeds: int, budget: int
) -> None:
    least = count_steps(make_rungs(settings, total, every, 20), seeds)
    if least > budget:
        with pytest.raises(InputError, match=f"need at least {least:,} steps"):
            plan_rungs(settings, seeds, total, every, budget)
        return
    rungs = plan_rungs(settings, seeds, total, every, budget)
    assert count_steps(rungs, seeds) <= budget
    longer = [make_rungs(settings, total, every, cuts) for cuts in range(1, 20)]
    assume(rungs != longer[0])
    assert all(count_steps(one, seeds) > budget for one in longer if one[0].until > rungs[0].until)


def test_a_budget_that_is_too_small_is_refused_with_the_least_that_would_do() -> None:
    with pytest.raises(InputError) as refused:
        plan_rungs(40, 2, 900, 50, 5000)
    assert str(refused.value) == (
        "--budget 5,000: 40 settings x 2 seeds need at least 8,100 steps "
        "(the first rung ends with the first validation, step 50); fewer --trials or a larger --budget"
    )
    with pytest.raises(InputError, match=r"^--budget 5: 3 settings x 1 seed need at least 9 steps \("):
        plan_rungs(3, 1, 7, 1, 5)
    with pytest.raises(InputError, match=r"^--budget 5: 1 setting x 2 seeds need at least 14 steps \("):
        plan_rungs(1, 2, 7, 1, 5)
    assert plan_rungs(40, 2, 900, 50, None) == (Rung(40, 100), Rung(13, 300), Rung(4, 900))


# Real trainings


def loss_at(directory: SweepDirectory, trial: Trial, until: int) -> float:
    """The best validation loss that a run had up to a step, from its own metrics."""
    found = directory.trial(trial.name).metrics()
    return min(one["validation"]["loss"] for one in found if "validation" in one and one["step"] <= until)


def test_the_best_third_of_each_rung_go_on(searched: tuple[SweepPlan, SweepDirectory]) -> None:
    plan, directory = searched
    assert plan.search is not None
    assert plan.search.rungs == (Rung(9, 2), Rung(3, 6), Rung(1, 18))
    settings = {
        trial.settings["train.lr"]: [t for t in plan.trials if t.settings == trial.settings] for trial in plan.trials
    }
    going = list(settings)
    expected = {}
    for until, keep in ((2, 3), (6, 1), (18, 0)):
        means = {rate: sum(loss_at(directory, trial, until) for trial in settings[rate]) / 2 for rate in going}
        expected |= dict.fromkeys(going, until)
        going = sorted(means, key=lambda rate: means[rate])[:keep]
    records = directory.results()
    assert [records[trial.name].metrics["steps"] for trial in plan.trials] == [
        expected[trial.settings["train.lr"]] for trial in plan.trials
    ]
    for trial in plan.trials:
        record, until = records[trial.name], expected[trial.settings["train.lr"]]
        assert record.state == ("finished" if until == 18 else "stopped")
        assert record.rungs == tuple(loss_at(directory, trial, end) for end in (2, 6, 18) if end <= until)
        assert record.metrics["validation_loss"] == record.rungs[-1]
        assert directory.trial(trial.name).checkpoint_steps()[-1] == until


def test_a_setting_that_goes_on_is_trained_as_it_would_be_alone(
    searched: tuple[SweepPlan, SweepDirectory], tmp_path: Path
) -> None:
    plan, directory = searched
    last = next(trial for trial in plan.trials if directory.results()[trial.name].state == "finished")
    alone = train(last.config, tmp_path / "alone", device="cpu")
    assert weights_hash(tmp_path / "alone", 18) == weights_hash(directory.trial(last.name).path, 18)
    assert alone.metrics["validation_loss"] == directory.results()[last.name].metrics["validation_loss"]


@pytest.mark.parametrize("most", [pytest.param(1, marks=pytest.mark.long), 5])
def test_an_interrupted_search_goes_on_to_the_same_results(
    most: int, searched: tuple[SweepPlan, SweepDirectory], tmp_path: Path
) -> None:
    plan, expected = searched
    directory = SweepDirectory(tmp_path / "sweep")
    starts = -(-(18 + 6 + 2) // most)
    for _ in range(starts - 1):  # nothing is done twice, so that each start has `most` jobs to do
        with pytest.raises(Interrupted, match="trained up to a rung; the same command continues"):
            run_sweep(plan, directory, Here(most))
    run_sweep(plan, directory, Here(most))
    assert lines_without_times(directory) == lines_without_times(expected)
    nothing = Here(0)
    assert run_sweep(plan, directory, nothing).finished == 2
    assert nothing.ran == 0


def test_seeds_and_rates_climb_as_a_stack(searched: tuple[SweepPlan, SweepDirectory], tmp_path: Path) -> None:
    plan, alone = searched
    directory, executor = SweepDirectory(tmp_path / "sweep"), Here()
    run_sweep(plan, directory, executor, stack=8)
    assert executor.ran == 3 + 1 + 1  # 9, 3 and 1 rates times 2 seeds, 8 in a stack
    for name, record in directory.results().items():
        expected = alone.results()[name]
        assert (record.state, record.metrics["steps"]) == (expected.state, expected.metrics["steps"])
        # A stack adds in another order; 18 steps let the last bits of single precision grow a little.
        assert record.rungs == pytest.approx(expected.rungs, rel=1e-4)


def kill_plan(folder: Path) -> SweepPlan:
    return halving(folder, "train.steps=54", trials=3, seeds=[100, 101])


@pytest.mark.long
def test_a_driver_that_is_killed_loses_nothing_and_workers_do_not_matter(tmp_path: Path) -> None:
    plan, directory = kill_plan(tmp_path), SweepDirectory(tmp_path / "killed")
    command = [sys.executable, "-m", "tests.sweeps.test_halving", str(tmp_path), str(directory.path)]
    assert subprocess.run(command, cwd=ROOT).returncode == -signal.SIGKILL
    stage = next_stage(plan, directory)
    assert (stage.name, len(stage.left)) == ("rung 2 of 2", 2)
    assert directory.trial(stage.left[0].name).checkpoint_steps()[-1] == 18, "it was killed in the middle"
    run_sweep(plan, directory, LocalExecutor(2, WITHOUT_SPLIT))
    undisturbed = SweepDirectory(tmp_path / "undisturbed")
    run_sweep(plan, undisturbed, HERE)
    assert lines_without_times(directory) == lines_without_times(undisturbed)
    assert sorted(one.state for one in directory.results().values()) == ["finished"] * 2 + ["stopped"] * 4


def test_a_job_that_ends_at_a_step_measures_nothing_and_can_go_on(tmp_path: Path) -> None:
    trial = halving(tmp_path).trials[0]
    how = JobOptions(device="cpu", split="validation", until=6)
    (stopped,) = run_job([trial], [tmp_path / "run"], how)
    assert (stopped.state, stopped.metrics["steps"], stopped.error) == ("stopped", 6, None)
    assert "accuracy" not in stopped.metrics
    assert run_job([trial], [tmp_path / "run"], how)[0].metrics == stopped.metrics
    (finished,) = run_job([trial], [tmp_path / "run"], replace(how, until=18))
    assert (finished.state, finished.metrics["steps"], finished.metrics["n"]) == ("finished", 18, 16)


def test_a_job_takes_its_step_along_to_other_processes_and_machines(tmp_path: Path) -> None:
    job = Job((halving(tmp_path).trials[0],), (tmp_path / "run",), until=6, how=WITHOUT_SPLIT)
    sent = pickle.loads(pickle.dumps(job))
    assert sent == job
    ended, _ = run_in_ray(sent, None, b"")
    assert [one.state for one in ended["outcomes"]] == ["stopped"]
    assert RunDirectory(tmp_path / "run").checkpoint_steps()[-1] == 6


def test_a_run_that_stops_early_is_finished_and_keeps_its_loss_in_later_rungs(tmp_path: Path) -> None:
    plan = halving(tmp_path, "train.stop_below=1000.0", "train.stop_for=2", trials=4, seeds=[100])
    directory, executor = SweepDirectory(tmp_path / "sweep"), Here()
    result = run_sweep(plan, directory, executor)
    assert executor.ran == 4
    assert (result.finished, result.failed) == (4, {})
    assert [one.metrics["steps"] for one in directory.results().values()] == [2] * 4
    assert result.search is not None
    assert result.search.best is not None
    assert result.search.best.validation_loss == min(one.rungs[0] for one in directory.results().values())


# Failures


class Written:
    """An executor that trains nothing: a trial's loss is its learning rate; those in `failing` fail from a step on."""

    def __init__(self, failing: dict[str, int] | None = None):
        self.failing = failing or {}
        self.ran: list[tuple[str, int | None]] = []

    def run(self, jobs: Sequence[Job], done: Callable[[Sequence[Outcome]], None], on_event: OnEvent) -> None:
        for job in reversed(jobs):
            (trial,) = job.trials
            assert job.until is not None
            self.ran.append((trial.name, job.until))
            if job.until >= self.failing.get(trial.name, 1000):
                done([Outcome(trial.name, trial.settings, trial.seed, "failed", error="it broke", seconds=1.0)])
                continue
            state = "finished" if job.until == 18 else "stopped"
            metrics = {"steps": job.until, "validation_loss": trial.config.train.lr}
            done([Outcome(trial.name, trial.settings, trial.seed, state, metrics, seconds=1.0)])


def by_rate(plan: SweepPlan) -> list[list[str]]:
    """The names of each setting's trials, the lowest learning rate first."""
    found: dict[float, list[str]] = {}
    for trial in plan.trials:
        found.setdefault(trial.config.train.lr, []).append(trial.name)
    return [found[rate] for rate in sorted(found)]


def test_a_setting_with_a_failed_seed_does_not_go_on(tmp_path: Path) -> None:
    plan, directory = halving(tmp_path), SweepDirectory(tmp_path / "sweep")
    best, second, third, fourth, *_ = by_rate(plan)
    result = run_sweep(plan, directory, Written({best[1]: 2, second[0]: 6}))
    states = {name: (one.state, len(one.rungs)) for name, one in directory.results().items()}
    assert states[best[0]] == ("stopped", 1)
    assert states[best[1]] == ("failed", 0)
    assert (states[second[0]], states[second[1]]) == (("failed", 1), ("stopped", 2))
    assert states[third[0]] == states[third[1]] == ("finished", 3)
    assert states[fourth[0]] == ("stopped", 2), "it takes the place of the one that failed"
    assert result.failed == {best[1]: "it broke", second[0]: "it broke"}
    assert result.search is not None
    assert result.search.best is not None
    assert result.search.best.validation_loss == pytest.approx(
        min(t.config.train.lr for t in plan.trials if t.name in third)
    )
    assert directory.results()[third[0]].seconds == 3.0, "the time of all its rungs"


def test_a_failed_trial_is_tried_again_until_its_rung_has_counted(tmp_path: Path) -> None:
    plan, directory = halving(tmp_path), SweepDirectory(tmp_path / "sweep")
    best, second, *_ = by_rate(plan)
    run_sweep(plan, directory, Written({best[0]: 2, second[0]: 18}))
    again = Written()
    result = run_sweep(plan, directory, again)
    assert again.ran == [(second[0], 18)]
    assert list(result.failed) == [best[0]]
    other = SweepDirectory(tmp_path / "other")
    run_sweep(plan, other, Written({trial.name: 2 for trial in plan.trials}))
    assert run_sweep(plan, other, Written()).failed == {}


def test_where_all_fail_there_is_no_best(tmp_path: Path) -> None:
    plan = halving(tmp_path)
    result = run_sweep(plan, SweepDirectory(tmp_path / "sweep"), Written({trial.name: 6 for trial in plan.trials}))
    assert (result.finished, len(result.failed)) == (0, 6)
    assert result.search is not None
    assert result.search.best is None


# What a person sees


def test_compare_does_not_rank_what_stopped_with_what_finished(searched: tuple[SweepPlan, SweepDirectory]) -> None:
    found = hw.compare(searched[1])
    assert (found.metric, found.trials_finished, found.trials_stopped, found.trials_failed) == (
        "validation_loss",
        2,
        16,
        0,
    )
    assert heading(found).endswith("2 of 18 trials finished, 16 stopped at a rung")
    assert [row.stopped_at for row in found.rows] == [None, 6, 6, *[2] * 6]
    assert [row.n for row in found.rows] == [2, *[0] * 8]
    assert all(row.mean is None and row.stopped == 2 for row in found.rows[1:])
    for group in (found.rows[1:3], found.rows[3:]):
        means = [row.stopped_mean for row in group]
        assert means == sorted(means, key=float)  # type: ignore[arg-type]
    header, first, second, *_ = table_of(found)
    assert header[-2:] == ["stopped at", "mean there"]
    assert first[-2:] == ["", ""]
    assert second[-2] == "step 6"
    assert any(line.startswith("a trial that stopped at a rung had fewer steps") for line in remarks(found))
    assert as_csv(found).splitlines()[0].endswith("stopped,stopped_at,stopped_mean,descriptive")
    assert Comparison.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_while_a_rung_is_under_way_a_setting_is_shown_at_its_farthest_step(tmp_path: Path) -> None:
    plan, directory = halving(tmp_path), SweepDirectory(tmp_path / "sweep")
    with pytest.raises(Interrupted):
        run_sweep(plan, directory, Here(19))
    row, *others = hw.compare(directory).rows
    assert (row.stopped, row.stopped_at) == (2, 6)
    farthest = next(one for one in directory.results().values() if len(one.rungs) == 2)
    assert row.stopped_mean == farthest.rungs[1]
    assert {other.stopped_at for other in others} == {2}


def test_the_display_counts_a_rung_at_a_time() -> None:
    standing = Standing()
    standing.take({"event": "planned", "total": 9, "finished": 8, "stage": "rung 1 of 2"})
    standing.take({"event": "ended", "trial": "a", "state": "stopped", "error": None})
    assert str(standing) == "rung 1 of 2: 9 of 9 trials"
    standing.take({"event": "planned", "total": 3, "finished": 0, "stage": "rung 2 of 2"})
    assert str(standing) == "rung 2 of 2: 0 of 3 trials"


def test_the_command_shows_its_rungs_before_and_its_choice_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_recipe(tmp_path)
    vary = ["--vary", "train.lr=1e-3..1e-1:log", "--trials", "4", "--search", "halving", "--budget", "20"]
    command = ["sweep", "tiny.toml", *vary, "--seeds", "100", "--device", "cpu", "--workers", "1"]
    assert run([*command, "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.endswith(",seed=100: to step 2") for line in lines[:4])
    assert lines[4:8] == [
        "rung 1: 4 settings x 1 seed to step 2",
        "rung 2: 1 setting x 1 seed to step 4",
        "10 steps in all",
        "sweeps/tiny: rung 1 of 2: 4 trials to run, 0 already finished",
    ]
    assert lines[8].startswith("about ")
    assert not Path("sweeps").exists()
    assert run(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("best on validation: lr 0.0")
    assert lines[0].endswith(" over 1 seed")
    assert lines[1].startswith(
        "this loss is biased by the choice; measure the setting on new seeds: --set train.lr=0.0"
    )
    assert lines[2] == "1 of 4 trials finished, 3 stopped at a rung; the sweep is in sweeps/tiny"
    assert run([*command, "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["search"]["stopped"] == 3
    assert printed.err.splitlines() == [
        "sweep tiny: rung 1 of 2: 4 of 4 trials are finished already",
        "sweep tiny: rung 2 of 2: 1 of 1 trials are finished already",
    ]


def die_in_the_second_rung(event: Mapping[str, Any]) -> None:
    if event.get("step") == 19:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("bootstrap", "falling", "rising"), [(0, 9, 1), (8, 1, 0)])
def test_the_rule_of_optuna_hangs_on_the_order_of_trials(bootstrap: int, falling: int, rising: int) -> None:
    """Why the synchronous rule is ours: docs/commands/sweep.md tells these numbers."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def kept(losses: Sequence[int]) -> int:
        pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3, bootstrap_count=bootstrap)
        study = optuna.create_study(pruner=pruner)
        asked = [study.ask() for _ in losses]
        for trial, loss in zip(asked, losses, strict=True):
            trial.report(float(loss), 1)
        return sum(not trial.should_prune() for trial in asked)

    assert (kept(range(9, 0, -1)), kept(range(1, 10))) == (falling, rising)


if __name__ == "__main__":
    run_sweep(kill_plan(Path(sys.argv[1])), SweepDirectory(sys.argv[2]), Here(on_event=die_in_the_second_rung))
