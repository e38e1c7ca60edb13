"""The driver: finished trials are skipped, failed ones tried again, results in order, one driver at a time."""

import errno
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from headway.callbacks import OnEvent
from headway.errors import InputError, Interrupted
from headway.results.comparison import Outcome
from headway.runs import SweepDirectory
from headway.sweeps.driver import Executor, Job, make_jobs, run_sweep
from headway.sweeps.plan import SweepPlan, plan_grid
from headway.sweeps.trial import DiskFull
from tests.tiny_recipes import write_recipe


class Written:
    """An executor that trains nothing: the last job ends first, trials in `failing` fail, `stop` ends it after one."""

    def __init__(self, failing: Sequence[str] = (), stop: BaseException | None = None):
        self.failing, self.stop = failing, stop
        self.ran: list[str] = []

    def run(self, jobs: Sequence[Job], done: Callable[[Sequence[Outcome]], None], on_event: OnEvent) -> None:
        for job in reversed(jobs):
            if self.stop and self.ran:
                raise self.stop
            (trial,) = job.trials
            self.ran.append(trial.name)
            state, error = ("failed", "it broke") if trial.name in self.failing else ("finished", None)
            done([Outcome(trial.name, trial.settings, trial.seed, state, {"accuracy": 0.5}, error, 1.0)])


@pytest.fixture
def plan(tmp_path: Path) -> SweepPlan:
    return plan_grid(write_recipe(tmp_path), [], ["train.lr=0.01,0.02"], [0, 1])


@pytest.fixture
def directory(tmp_path: Path) -> SweepDirectory:
    return SweepDirectory(tmp_path / "sweep")


def names_written(directory: SweepDirectory) -> list[str]:
    return [json.loads(line)["name"] for line in directory.results_path.read_text().splitlines()]


def test_results_stand_in_the_order_of_the_plan(plan: SweepPlan, directory: SweepDirectory) -> None:
    executor = Written()
    assert isinstance(executor, Executor)
    result = run_sweep(plan, directory, executor)
    names = [trial.name for trial in plan.trials]
    assert executor.ran == names[::-1]
    assert names_written(directory) == names
    assert (result.planned, result.finished, result.failed) == (4, 4, {})
    assert directory.plan() == plan.to_json()


def test_what_finished_is_skipped_and_what_failed_is_tried_again(plan: SweepPlan, directory: SweepDirectory) -> None:
    names = [trial.name for trial in plan.trials]
    result = run_sweep(plan, directory, Written(failing=names[1:3]))
    assert result.failed == {names[1]: "it broke", names[2]: "it broke"}
    assert result.finished == 2
    again = Written(failing=names[2:3])
    assert run_sweep(plan, directory, again).failed == {names[2]: "it broke"}
    assert again.ran == [names[2], names[1]]
    assert names_written(directory) == names
    run_sweep(plan, directory, Written())
    before = directory.results_path.read_bytes()
    nothing = Written()
    run_sweep(plan, directory, nothing)
    assert nothing.ran == []
    assert directory.results_path.read_bytes() == before


@pytest.mark.parametrize("stop", [Interrupted("SIGINT"), KeyboardInterrupt()])
def test_an_interruption_says_how_far_the_sweep_came(
    stop: BaseException, plan: SweepPlan, directory: SweepDirectory
) -> None:
    message = rf"{directory.path}: 1 of 4 trials finished; the same command continues"
    with pytest.raises(Interrupted, match=message):
        run_sweep(plan, directory, Written(stop=stop))
    assert names_written(directory) == [plan.trials[-1].name]
    rest = Written()
    run_sweep(plan, directory, rest)
    assert len(rest.ran) == 3


def test_a_full_disk_says_how_far_the_sweep_came(plan: SweepPlan, directory: SweepDirectory) -> None:
    message = "no room to write x; .*: 1 of 4 trials finished; with room, the same command continues"
    with pytest.raises(DiskFull, match=message):
        run_sweep(plan, directory, Written(stop=DiskFull("no room to write x")))


def test_another_error_passes_and_the_results_are_tidy(plan: SweepPlan, directory: SweepDirectory) -> None:
    with pytest.raises(OSError, match="broken"):
        run_sweep(plan, directory, Written(stop=OSError(errno.EIO, "broken")))
    assert names_written(directory) == [plan.trials[-1].name]


def test_another_plan_is_refused_and_writes_nothing(plan: SweepPlan, directory: SweepDirectory, tmp_path: Path) -> None:
    run_sweep(plan, directory, Written())
    other = plan_grid(tmp_path / "tiny.toml", ["train.steps=5"], ["train.lr=0.01,0.02"], [0, 1])
    with pytest.raises(InputError, match="sweep holds another sweep; choose another --out"):
        run_sweep(other, directory, Written())
    assert directory.plan() == plan.to_json()


def test_a_place_with_other_things_in_it_is_refused(plan: SweepPlan, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--out .* holds other files; an empty or new directory needed"):
        run_sweep(plan, SweepDirectory(tmp_path), Written())
    with pytest.raises(InputError, match=r"--out .*tiny.toml is a file; a directory needed"):
        run_sweep(plan, SweepDirectory(tmp_path / "tiny.toml"), Written())
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.toml"]


def test_a_second_driver_is_refused(plan: SweepPlan, directory: SweepDirectory) -> None:
    with directory.lock(), pytest.raises(InputError, match="sweep is being written by process"):
        run_sweep(plan, directory, Written())


def test_a_plan_that_a_kill_left_half_written_does_no_harm(plan: SweepPlan, directory: SweepDirectory) -> None:
    (directory.path / "trials").mkdir(parents=True)
    (directory.path / "lock").touch()
    (directory.path / "sweep.json.writing-17").write_text("{")
    assert run_sweep(plan, directory, Written()).finished == 4


def test_events_say_what_is_planned_and_how_each_trial_ended(plan: SweepPlan, directory: SweepDirectory) -> None:
    events: list[dict] = []
    run_sweep(plan, directory, Written(failing=[plan.trials[0].name]), lambda event: events.append(dict(event)))
    assert events[0] == {"event": "planned", "total": 4, "finished": 0}
    assert events[-1] == {"event": "ended", "trial": plan.trials[0].name, "state": "failed", "error": "it broke"}


def test_a_job_is_a_trial_at_its_place(plan: SweepPlan, directory: SweepDirectory) -> None:
    (job, *_) = make_jobs(plan.trials, [directory.trial(trial.name).path for trial in plan.trials])
    assert job == Job((plan.trials[0],), (directory.path / "trials" / plan.trials[0].name,))


def test_a_sweep_is_not_continued_with_another_split(plan: SweepPlan, directory: SweepDirectory) -> None:
    run_sweep(plan, directory, Written())
    with pytest.raises(InputError, match="holds another sweep"):
        run_sweep(replace(plan, split="validation"), directory, Written())


def test_a_result_without_metrics_is_done_again(plan: SweepPlan, directory: SweepDirectory) -> None:
    run_sweep(plan, directory, Written())
    lines = directory.results_path.read_text().splitlines()
    record = {**json.loads(lines[0]), "metrics": None}
    directory.results_path.write_text("\n".join([json.dumps(record), *lines[1:]]) + "\n")
    again = Written()
    assert run_sweep(plan, directory, again).finished == len(plan.trials)
    assert directory.results_path.read_text().splitlines() == lines
