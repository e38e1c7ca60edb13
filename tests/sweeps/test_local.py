"""Worker processes: the same results as in one process, failures and full disks that cost nothing else."""

import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from headway.callbacks import OnEvent
from headway.config import RunConfig
from headway.errors import Interrupted, RunStopped
from headway.processes import available_cores
from headway.results.comparison import Outcome
from headway.runs import RunDirectory, SweepDirectory
from headway.sweeps import deaths, pool
from headway.sweeps.deaths import Deaths, count_out_of_memory, describe_end
from headway.sweeps.driver import run_sweep
from headway.sweeps.local import LocalExecutor
from headway.sweeps.plan import plan_grid
from headway.sweeps.trial import DiskFull, Job, JobOptions
from tests.sweeps.driving import HOW, is_running, kill, lines_without_times, run_here, wait_until, workers_of
from tests.tiny_recipes import write_recipe


def test_two_workers_give_the_results_of_one_process(tmp_path: Path) -> None:
    plan = plan_grid(write_recipe(tmp_path), [], ["train.lr=0.01,0.02"], [0, 1])
    here = run_here(plan, tmp_path / "here")
    there = SweepDirectory(tmp_path / "there")
    assert run_sweep(plan, there, LocalExecutor(2, HOW)).finished == 4
    assert lines_without_times(there) == lines_without_times(here)
    threads = {there.trial(trial.name).provenance()["threads"] for trial in plan.trials}
    assert threads == {1}
    assert workers_of(os.getpid()) == []


def test_cores_are_those_this_process_may_use() -> None:
    assert available_cores() == len(os.sched_getaffinity(0))


def test_a_trial_whose_worker_crashes_again_and_again_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deaths, "MOST_CRASHES", 2)
    plan = plan_grid(write_recipe(tmp_path), [], [], [0, 1])
    warnings = []

    def crash(event: dict) -> None:
        if event["event"] == "started" and event["trial"] == "seed=0":
            for worker in workers_of(os.getpid()):
                kill(worker, signal.SIGSEGV)
        if event["event"] == "warning":
            warnings.append((event["trial"], event["text"]))

    result = run_sweep(plan, SweepDirectory(tmp_path / "sweep"), LocalExecutor(1, HOW), crash)
    assert result.failed == {"seed=0": "its worker was ended by SIGSEGV, 2 times"}
    assert warnings == [("seed=0", "its worker was ended by SIGSEGV; it is tried again")]
    assert result.finished == 1


def test_an_idle_worker_takes_over_the_job_of_one_that_died(tmp_path: Path) -> None:
    """The short trial ends first though it begins last, and nothing waits; then the long one's worker is killed."""
    plan = plan_grid(write_recipe(tmp_path), ["train.validate_every=40"], ["train.steps=400,1"], [0])
    directory = SweepDirectory(tmp_path / "sweep")
    held = directory.trial("steps=400,seed=0").path.resolve() / "lock"
    killed = []

    def end_the_other(event: dict) -> None:
        if event["event"] == "ended" and event["trial"] == "steps=1,seed=0":
            wait_until(lambda: any(holds(worker, held) for worker in workers_of(os.getpid())), "the long trial runs")
            killed.extend(worker for worker in workers_of(os.getpid()) if holds(worker, held))
            kill(killed[0])

    assert run_sweep(plan, directory, LocalExecutor(2, HOW), end_the_other).finished == 2
    assert len(killed) == 1


def holds(pid: int, path: Path) -> bool:
    """Whether a process has the file open."""
    with suppress(OSError):
        return any(entry.resolve() == path for entry in Path(f"/proc/{pid}/fd").iterdir())
    return False


def test_a_job_survives_so_many_deaths_and_no_more() -> None:
    def deaths_until_given_up(code: int, out_of_memory: bool = False, saving: bool = False) -> tuple[int, str]:
        deaths = Deaths()
        for number in range(1, 100):
            end = describe_end(code, "oh")
            error = deaths.count(code, end, out_of_memory, (number if saving else -1,))
            if error:
                return number, error
        return 100, ""

    assert deaths_until_given_up(-9) == (20, "its worker was ended by SIGKILL, 20 times without a new checkpoint")
    assert deaths_until_given_up(-15)[0] == 20
    assert deaths_until_given_up(-9, saving=True) == (100, "")
    assert deaths_until_given_up(-6, saving=True) == (3, "its worker was ended by SIGABRT, 3 times")
    assert deaths_until_given_up(7) == (3, "its worker ended with exit code 7 (oh), 3 times")
    assert deaths_until_given_up(-9, out_of_memory=True) == (
        2,
        "out of memory (the system ended its worker 2 times)",
    )
    assert describe_end(-250, "") == "its worker was ended by signal 250"
    assert describe_end(1, "") == "its worker ended with exit code 1 (it printed nothing)"


def test_the_count_of_processes_killed_for_memory_can_be_read() -> None:
    counts = Path("/proc/vmstat").read_text()
    assert "oom_kill " in counts
    assert count_out_of_memory() >= 0


def test_the_newest_checkpoint_of_a_job_is_seen(tmp_path: Path) -> None:
    plan = plan_grid(write_recipe(tmp_path), [], [], [0, 1])
    RunDirectory(tmp_path / "a").checkpoint_path(7).mkdir(parents=True)
    assert Job(plan.trials, (tmp_path / "a", tmp_path / "b")).saved() == (7, -1)


def test_workers_that_cannot_start_end_the_sweep_with_their_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho first >&2\necho no such library >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    plan = plan_grid(write_recipe(tmp_path), [], [], [0, 1])
    message = r"5 workers in a row ended before they started; the last: .* exit code 3 \(no such library\)"
    with pytest.raises(RunStopped, match=message):
        run_sweep(plan, SweepDirectory(tmp_path / "sweep"), LocalExecutor(2, HOW))


def test_kills_of_workers_that_start_are_forgiven_more_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "python"
    broken.write_text(f"#!/bin/sh\necho x >> {tmp_path}/starts\nkill -9 $$\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    plan = plan_grid(write_recipe(tmp_path), [], [], [0])
    with pytest.raises(RunStopped, match=r"20 workers in a row ended .* the last: its worker was ended by SIGKILL"):
        run_sweep(plan, SweepDirectory(tmp_path / "sweep"), LocalExecutor(1, HOW))
    assert (tmp_path / "starts").read_text().count("x") == 20


def test_a_second_signal_ends_workers_that_do_not_save(tmp_path: Path) -> None:
    """The worker is stopped (SIGSTOP), so that it cannot answer the first signal."""
    plan = plan_grid(write_recipe(tmp_path), [("train.steps", 100_000)], [], [0])
    workers: list[int] = []
    second = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))

    def end(event: dict) -> None:
        if event["event"] == "validation" and not workers:
            workers.extend(workers_of(os.getpid()))
            kill(workers[0], signal.SIGSTOP)
            signal.raise_signal(signal.SIGTERM)
            second.start()

    before = time.monotonic()
    with pytest.raises(Interrupted, match="0 of 1 trials finished; the same command continues"):
        run_sweep(plan, SweepDirectory(tmp_path / "sweep"), LocalExecutor(1, HOW), end)
    assert time.monotonic() - before < pool.SAVING
    assert not is_running(workers[0])
    second.join()


FINISHES = """
import signal, sys, time
from multiprocessing.connection import Connection
from headway.results.comparison import Outcome

pipe = Connection(int(sys.argv[-1]))

def finish(number, frame):
    pipe.send(("ended", ([Outcome("seed=0", {}, 0, "finished", {"accuracy": 1.0})], False)))

signal.signal(signal.SIGINT, finish)
pipe.send(("ready", None))
pipe.recv()
pipe.send(("event", {"event": "validation", "trial": "seed=0", "step": 4}))
while True:
    time.sleep(60)
"""
"""A worker that was taking its last step when it was told to save: it finishes, and waits for another job."""


@pytest.mark.parametrize(
    ("error", "message"), [(Interrupted, ": 1 of 2 trials finished; the same"), (ZeroDivisionError, "^validation$")]
)
def test_a_worker_that_finishes_instead_of_saving_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception], message: str
) -> None:
    (tmp_path / "worker.py").write_text(FINISHES)
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexec {sys.executable} {tmp_path}/worker.py $@\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    plan = plan_grid(write_recipe(tmp_path), [], [], [0, 1])
    directory = SweepDirectory(tmp_path / "sweep")

    def stop(event: dict) -> None:
        if error is ZeroDivisionError and event["event"] in ("validation", "ended"):
            raise ZeroDivisionError(event["event"])
        if event["event"] == "validation":
            signal.raise_signal(signal.SIGINT)

    before = time.monotonic()
    with pytest.raises(error, match=message):
        run_sweep(plan, directory, LocalExecutor(1, HOW), stop)
    assert time.monotonic() - before < pool.SAVING
    assert {name: record.state for name, record in directory.results().items()} == {"seed=0": "finished"}


def test_a_worker_has_the_threads_it_is_told_and_a_trial_costs_little_beyond_its_own_time(tmp_path: Path) -> None:
    """One worker, from the first trial's start to the last one's end; 20 ms are allowed, about 2 are usual."""
    plan = plan_grid(write_recipe(tmp_path), ["train.steps=1"], [], range(12))
    moments = []
    directory = SweepDirectory(tmp_path / "sweep")
    run_sweep(
        plan,
        directory,
        LocalExecutor(1, JobOptions(device="cpu", threads=2)),
        lambda event: moments.append(time.perf_counter()) if event["event"] in ("started", "ended") else None,
    )
    assert len(moments) == 24
    own = sum(record.seconds for record in directory.results().values())
    assert (moments[-1] - moments[0] - own) / 12 < 0.020
    assert {directory.trial(trial.name).provenance()["threads"] for trial in plan.trials} == {2}


def test_two_thousand_results_are_read_and_put_in_order_within_seconds(tmp_path: Path) -> None:
    plan = plan_grid(write_recipe(tmp_path), [], [], range(2_000))
    directory = SweepDirectory(tmp_path / "sweep")
    directory.begin(plan.to_json())
    for trial in reversed(plan.trials):
        directory.append_result(Outcome(trial.name, {}, trial.seed, "finished", {"accuracy": 0.5}))
    began = time.perf_counter()
    result = run_sweep(plan, directory, LocalExecutor(1, HOW))
    assert result.finished == 2_000
    assert time.perf_counter() - began < 3
    assert list(directory.results()) == [trial.name for trial in plan.trials]


def test_an_error_in_the_driver_leaves_no_worker(tmp_path: Path) -> None:
    plan = plan_grid(write_recipe(tmp_path), [("train.steps", 100_000)], [], [0, 1])
    workers: list[int] = []

    def fail(event: dict) -> None:
        if event["event"] == "validation":
            workers.extend(workers_of(os.getpid()))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_sweep(plan, SweepDirectory(tmp_path / "sweep"), LocalExecutor(2, HOW), fail)
    assert len(workers) == 2
    assert not any(map(is_running, workers))


def test_jobs_and_circumstances_travel_whole(tmp_path: Path) -> None:
    vary = ['model.encoding={name="learned", table_size=64},rotary']
    plan = plan_grid(write_recipe(tmp_path), [], vary, [0])
    for trial in plan.trials:
        job = Job((trial,), (tmp_path / "ü",))
        assert pickle.loads(pickle.dumps(job)) == job
        assert isinstance(trial.config, RunConfig)
    how = JobOptions("cpu", 3, None, 7, "tensorboard", ("a", "b"))
    assert pickle.loads(pickle.dumps(how)) == how


def test_no_room_for_a_checkpoint_stops_the_sweep_and_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    plan = plan_grid(write_recipe(tmp_path), ["train.steps=1"], [], range(7))
    directory = SweepDirectory(small_disk / "sweep")
    with pytest.raises(DiskFull) as full:
        run_sweep(plan, directory, LocalExecutor(1, HOW))
    assert str(full.value).startswith(f"no room to write {directory.path}")
    finished = directory.results()
    assert 0 < len(finished) < 7
    assert f"{len(finished)} of 7 trials finished; with room, the same command continues" in str(full.value)
    assert workers_of(os.getpid()) == []
    subprocess.run(["mount", "-o", "remount,size=8m", small_disk], check=True)
    assert run_sweep(plan, directory, LocalExecutor(1, HOW)).finished == 7
    assert {name: directory.results()[name] for name in finished} == finished


class Nothing:
    """An executor that trains nothing and says that all is done."""

    def run(self, jobs: Sequence[Job], done: Callable[[Sequence[Outcome]], None], on_event: OnEvent) -> None:
        for trial in (trial for job in jobs for trial in job.trials):
            done([Outcome(trial.name, trial.settings, trial.seed, "finished", {"accuracy": 0.5})])


def test_no_room_for_a_result_stops_the_sweep_and_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    """Beside the plan there is room for the lock and one page of results; the trials train nothing."""
    plan = plan_grid(write_recipe(tmp_path), [], [], range(40))
    directory = SweepDirectory(small_disk / "sweep")
    directory.begin(plan.to_json())
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * (os.statvfs(small_disk).f_bavail - 2) * resource.getpagesize())
    with pytest.raises(DiskFull) as full:
        run_sweep(plan, directory, Nothing())
    assert str(full.value).startswith(f"no room to write {directory.results_path}")
    written, finished = directory.results_path.read_text(), directory.results()
    assert written.endswith("\n")
    assert 0 < written.count("\n") == len(finished) < 40
    assert sorted(path.name for path in directory.path.iterdir()) == ["lock", "results.jsonl", "sweep.json", "trials"]
    filler.unlink()
    assert run_sweep(plan, directory, Nothing()).finished == 40
    assert {name: directory.results()[name] for name in finished} == finished
