"""Several seeds of one setting as one job: how they are grouped, trained, measured, and how they fail."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.config import RunConfig
from headway.errors import Interrupted
from headway.results.comparison import Outcome
from headway.runs import Checkpoint, RunDirectory, SweepDirectory
from headway.sweeps import seeds as seeds_module
from headway.sweeps.driver import make_jobs
from headway.sweeps.plan import Trial, plan_grid
from headway.sweeps.trial import Job, JobOptions, run_job
from headway.training import train
from tests.tiny import ADDITION, config
from tests.tiny_recipes import write_recipe

HOW = JobOptions(device="cpu", split="validation")


@given(groups=st.lists(st.integers(1, 7), max_size=5), stack=st.integers(1, 4))
def test_a_job_holds_up_to_so_many_neighbours_that_differ_in_seed_and_rate_alone(groups: list[int], stack: int) -> None:
    trials = [
        Trial(
            f"clip={clip},run={run}", {"train.clip": clip}, config(ADDITION, run // 2, train={"clip": clip, "lr": lr})
        )
        for clip, size in enumerate(groups, start=1)
        for run in range(size)
        for lr in [(1e-3, 1e-2)[run % 2]]
    ]
    jobs = make_jobs(trials, [SweepDirectory("there").trial(trial.name).path for trial in trials], stack)
    assert [trial for job in jobs for trial in job.trials] == trials
    for job in jobs:
        assert 1 <= len(job.trials) <= stack
        assert len({trial.settings["train.clip"] for trial in job.trials}) == 1
        assert [place.name for place in job.places] == [trial.name for trial in job.trials]
    assert len(jobs) == sum(math.ceil(size / stack) for size in groups)  # none is smaller than it must be


def trials_of(folder: Path, *settings: str, seeds: int = 3) -> list[Trial]:
    return list(plan_grid(write_recipe(folder), settings, [], range(seeds)).trials)


def in_one_job(trials: list[Trial], folder: Path, how: JobOptions = HOW) -> list[Outcome]:
    return run_job(trials, [folder / trial.name for trial in trials], how)


def test_a_stacked_job_finds_what_single_ones_find(tmp_path: Path) -> None:
    trials = trials_of(tmp_path, "train.steps=10", "train.validate_every=5")
    together = in_one_job(trials, tmp_path / "stack")
    for trial, found in zip(trials, together, strict=True):
        (alone,) = in_one_job([trial], tmp_path / "alone")
        assert (found.name, found.seed, found.state, found.error) == (trial.name, trial.seed, "finished", None)
        assert found.metrics.keys() == alone.metrics.keys()
        assert found.metrics == pytest.approx(alone.metrics, rel=1e-4)
        assert found.seconds > 0
    assert len({outcome.metrics["loss"] for outcome in together}) == 3


def test_events_name_their_trial(tmp_path: Path) -> None:
    trials, seen = trials_of(tmp_path), []
    run_job(trials, [tmp_path / trial.name for trial in trials], HOW, seen.append)
    for trial in trials:
        assert [e["step"] for e in seen if e["trial"] == trial.name and e["event"] == "step"] == [1, 2, 3, 4]


def test_a_failure_inside_a_stack_is_the_outcome_of_one_trial(tmp_path: Path) -> None:
    trials = trials_of(tmp_path)
    in_one_job(trials, tmp_path, JobOptions(device="cpu", until=2))
    directory = RunDirectory(tmp_path / trials[1].name)
    found = directory.read_checkpoint(2)
    found.model["readout.weight"][0, 0] = math.nan
    directory.write_checkpoint(Checkpoint(2, found.model, found.trainer, found.state))
    outcomes = in_one_job(trials, tmp_path)
    assert [one.state for one in outcomes] == ["finished", "failed", "finished"]
    assert outcomes[1].error == (
        "the loss is not finite at step 3; nothing was updated, the last good checkpoint is step 2 of seed=1"
    )
    assert outcomes[1].metrics == {}
    assert outcomes[0].metrics["accuracy"] >= 0


def test_until_ends_every_trial_of_a_stack_unmeasured(tmp_path: Path) -> None:
    trials = trials_of(tmp_path)
    outcomes = in_one_job(trials, tmp_path, JobOptions(device="cpu", until=2))
    assert [(one.state, one.metrics["steps"], "accuracy" in one.metrics) for one in outcomes] == [
        ("stopped", 2, False)
    ] * 3


def test_what_stops_a_whole_stack_is_told_of_every_trial_without_its_place(tmp_path: Path) -> None:
    trials = trials_of(tmp_path)
    other: RunConfig = trials_of(tmp_path, "train.lr=0.02")[1].config
    train(other, tmp_path / trials[1].name, device="cpu", until=0)
    outcomes = in_one_job(trials, tmp_path)
    assert [one.state for one in outcomes] == ["failed"] * 3
    for one in outcomes:
        assert one.error == ("seed=1 was begun with other settings (train.lr: 0.02 and 0.01); use another --out")
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["seed=1"]


def test_a_stacked_job_that_is_stopped_is_not_an_outcome(tmp_path: Path) -> None:
    trials = trials_of(tmp_path)

    def stop(event: object) -> None:
        raise Interrupted("stopped")

    with pytest.raises(Interrupted, match=r"^stopped$"):
        run_job(trials, [tmp_path / trial.name for trial in trials], HOW, stop)


def test_a_single_seed_is_a_stack_too_where_stacks_are_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU captures the step of a stack, of one seed as of several; a seed alone would wait for the host."""

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("trained outside of a stack")

    (trial,) = trials_of(tmp_path, seeds=1)
    alone = in_one_job([trial], tmp_path / "alone")
    monkeypatch.setattr("headway.training.train", refuse)
    (failed,) = in_one_job([trial], tmp_path / "refused")
    assert "trained outside of a stack" in str(failed.error)
    stacked = in_one_job([trial], tmp_path / "stack", replace(HOW, stack=2))
    assert stacked[0].metrics == pytest.approx(alone[0].metrics, rel=1e-4)


def test_seeds_are_trained_stack_by_stack_where_there_is_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `train_seeds` asks of its processes for a GPU, with the processes left out."""
    asked: list[tuple[int, JobOptions, list[list[str]]]] = []

    class Recorded:
        def __init__(self, workers: int, how: JobOptions):
            self.workers, self.how = workers, how

        def run(self, jobs: Sequence[Job], done: Callable[[list[Outcome]], None], report: object) -> None:
            asked.append((self.workers, self.how, [[trial.name for trial in job.trials] for job in jobs]))
            for job in jobs:
                done([Outcome(trial.name, {}, trial.seed, "finished") for trial in job.trials])

    monkeypatch.setattr(seeds_module, "LARGEST_STACK", 2)
    monkeypatch.setattr(seeds_module, "LocalExecutor", Recorded)
    monkeypatch.setattr(seeds_module, "pick_device", lambda device: torch.device("cuda"))
    configs = [trial.config for trial in trials_of(tmp_path)]
    seeds_module.train_seeds(configs, [tmp_path / f"seed{config.seed}" for config in configs])
    ((workers, how, jobs),) = asked
    assert jobs == [["seed0", "seed1"], ["seed2"]]
    assert (workers, how.device, how.stack) == (2, "cuda", 2)
