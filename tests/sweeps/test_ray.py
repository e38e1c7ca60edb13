"""Sweeps on a real local Ray and on a real cluster of three nodes: equal to trials run here, whatever dies."""

import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from faults.ray_cluster import ray_cluster
from faults.ray_sweeps import TRIAL

from headway.cli.main import run
from headway.errors import InputError, Interrupted, RunStopped
from headway.runs import RunDirectory, SweepDirectory, list_runs
from headway.sweeps import ray as ray_module
from headway.sweeps.driver import run_sweep
from headway.sweeps.executors import make_executor
from headway.sweeps.packing import pack, unpack
from headway.sweeps.plan import SweepPlan, plan_grid
from headway.sweeps.ray import RayExecutor
from headway.sweeps.ray_processes import children_of, in_session, process_state
from headway.sweeps.ray_session import MOST_DEATHS, describe_refusal, describe_shortage, reason_to_give_up, slots_of
from headway.sweeps.trial import DiskFull, JobOptions
from headway.training import train
from tests.sweeps.driving import HOW, ROOT, command_line, kill, lines_without_times, run_here, wait_until
from tests.tiny import weights_hash
from tests.tiny_recipes import write_recipe
from tests.training.conftest import outcome

if find_spec("ray") is None and not os.environ.get("CI"):
    pytest.skip("ray is not installed: pip install 'headway[ray]'", allow_module_level=True)

VARIED = "train.lr=0.01,0.02"
LONG = ["train.steps=100", "train.validate_every=25"]
"""Settings of trials that are long enough to be killed in the middle."""
ENDLESS = [("train.steps", 100_000), ("train.validate_every", 100_000)]


def long_plan(recipe: Path) -> SweepPlan:
    return plan_grid(recipe, LONG, [VARIED], [0, 1, 2])


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recipe(tmp_path_factory.mktemp("recipe"))


@pytest.fixture(scope="module")
def expected(recipe: Path) -> SweepDirectory:
    return run_here(long_plan(recipe), recipe.parent / "expected")


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the workers of the cluster put what is temporary."""
    return tmp_path_factory.mktemp("temporary")


@pytest.fixture(scope="module")
def address(temporary: Path) -> Iterator[str]:
    """A cluster of a head without cores and two nodes with one."""
    with pytest.MonkeyPatch.context() as patch, ray_cluster(temporary) as cluster:
        for name, value in cluster.environment.items():
            patch.setenv(name, value)
        yield cluster.address


@pytest.fixture
def away(temporary: Path) -> Path:
    """The same, without what trials that were cut off have left there."""
    for left in temporary.glob("headway-*"):
        shutil.rmtree(left)
    return temporary


def assert_equal(directory: SweepDirectory, expected: SweepDirectory) -> None:
    assert lines_without_times(directory) == lines_without_times(expected)
    names = [trial["name"] for trial in expected.plan()["trials"]]
    assert [run.name for run in list_runs(directory.path / "trials")] == sorted(names)
    for name in names:
        assert outcome(directory.trial(name).path) == outcome(expected.trial(name).path)


# Processes


def session_of(driver: int) -> int:
    """The process that a driver has connected to Ray; waits until there is one."""
    found: list[int] = []

    def look() -> list[int]:
        found.extend(pid for pid in children_of(driver) if b"headway.sweeps.ray_session" in command_line(pid))
        return found

    wait_until(look, "the driver has a session")
    return found[0]


def holder_of(run: Path) -> int | None:
    """The process that writes a run: the one that has its lock open."""
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):
            if any(handle.readlink() == run / "lock" for handle in folder.iterdir()):
                return int(folder.parent.name)
    return None


def has_begun(run: Path) -> bool:
    """Whether a training has gone through some steps."""
    metrics = run / "metrics.jsonl"
    return metrics.exists() and metrics.read_bytes().count(b"\n") > 5


class Saboteur(threading.Thread):
    """Does harm beside a sweep; what goes wrong with it is raised where it is joined."""

    def __init__(self, harm: Callable[[], None]):
        super().__init__(daemon=True)
        self.harm, self.problem = harm, None
        self.start()

    def run(self) -> None:
        try:
            self.harm()
        except BaseException as problem:
            self.problem = problem

    def check(self) -> None:
        self.join(60)
        assert not self.is_alive()
        if self.problem is not None:
            raise self.problem


def warnings_in(events: Sequence[Mapping[str, Any]], word: str) -> list[Mapping[str, Any]]:
    return [event for event in events if event["event"] == "warning" and word in event["text"]]


# A local cluster


def test_a_killed_worker_one_told_to_end_and_a_killed_node_change_nothing_and_a_trial_that_fails_is_named(
    recipe: Path, tmp_path: Path
) -> None:
    """Every trial is equal to the one that is run here; with the larger rate the loss is soon not finite."""
    plan = plan_grid(recipe, [*LONG, "train.weight_decay=10.0"], ["train.lr=0.001,10.0"], [0, 1, 2])
    directory = SweepDirectory(tmp_path / "ray")
    events: list[Mapping[str, Any]] = []
    sessions: list[int] = []

    def harm() -> None:
        sessions.append(session_of(os.getpid()))
        run = directory.trial("lr=0.001,seed=0").path
        wait_until(lambda: has_begun(run), "a trial runs")
        holder = holder_of(run)
        assert holder is not None
        kill(holder, signal.SIGTERM)
        wait_until(lambda: warnings_in(events, "its Ray worker is gone (Interrupted); it is tried again"), "it saves")
        while not warnings_in(events, "its Ray worker is gone (WorkerCrashedError)"):
            holder = holder_of(run)
            if holder is not None and process_state(holder).session == sessions[0]:
                kill(holder)
        wait_until(lambda: any(event["event"] == "ended" for event in events), "a trial ends")
        (raylet,) = [process.pid for process in in_session(sessions[0]) if process.name == "raylet"]
        kill(raylet)
        wait_until(lambda: session_of(os.getpid()) != sessions[0], "Ray is started again")
        sessions.append(session_of(os.getpid()))

    saboteur = Saboteur(harm)
    result = run_sweep(plan, directory, RayExecutor(HOW), events.append)
    saboteur.check()
    assert (result.finished, sorted(result.failed)) == (3, [f"lr=10.0,seed={seed}" for seed in range(3)])
    assert all("not finite" in error for error in result.failed.values())
    started = [event for event in events if event["event"] == "started"]
    assert {event["trial"] for event in started} == {trial.name for trial in plan.trials}
    assert {event["total"] for event in started} == {100}
    assert warnings_in(events, "Ray was lost")
    assert [in_session(session) for session in sessions] == [[], []]
    assert_equal(directory, run_here(plan, tmp_path / "here"))


def start_command(recipe: Path, out: Path) -> "subprocess.Popen[str]":
    settings = [word for setting in LONG for word in ("--set", setting)]
    plan = [str(recipe), *settings, "--vary", VARIED, "--seeds", "0-2", "--out", str(out)]
    command = [sys.executable, "-m", "headway", "sweep", *plan, "--on", "ray", "--quiet"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [*command, "--quiet"], cwd=ROOT, env=environment, text=True, start_new_session=True, **pipes
    )


@pytest.mark.long
def test_a_killed_driver_and_ctrl_c_lose_nothing_and_leave_no_process(
    recipe: Path, expected: SweepDirectory, tmp_path: Path
) -> None:
    directory = SweepDirectory(tmp_path / "sweep")
    driver = start_command(recipe, directory.path)
    session = session_of(driver.pid)
    wait_until(lambda: len(directory.results()) == 1, "a trial ends")
    kill(driver.pid)
    driver.communicate()
    wait_until(lambda: not in_session(session), "Ray is gone with its driver", seconds=10)
    finished = set(directory.results())
    assert finished

    driver = start_command(recipe, directory.path)
    session = session_of(driver.pid)
    wait_until(lambda: set(directory.results()) > finished, "another trial ends")
    kill(driver.pid, signal.SIGINT)
    _, errors = driver.communicate(timeout=60)
    assert driver.returncode == 130
    assert "of 6 trials finished; the same command continues" in errors
    assert len(errors.splitlines()) == 1
    assert in_session(session) == []

    driver = start_command(recipe, directory.path)
    assert driver.communicate(timeout=120)[1] == ""
    assert driver.returncode == 0
    assert_equal(directory, expected)


def choose(kind: str, driver: int, chance: random.Random) -> int | None:
    """A process of a kind to kill, if there is one now."""
    if kind == "driver":
        return driver
    found = [process.pid for child in children_of(driver) for process in in_session(child) if kind in process.name]
    return chance.choice(found) if found else None


@pytest.mark.long
def test_twenty_kills_of_workers_two_of_the_driver_and_one_of_the_node_change_nothing(
    recipe: Path, expected: SweepDirectory, tmp_path: Path
) -> None:
    chance = random.Random(0)
    targets = [TRIAL] * 20 + ["driver"] * 2 + ["raylet"]
    chance.shuffle(targets)
    sessions = set()
    for attempt in count():
        directory = SweepDirectory(tmp_path / f"killed-{attempt}")
        driver = start_command(recipe, directory.path)
        while targets and driver.poll() is None:
            time.sleep(chance.uniform(0, 3))
            sessions.update(children_of(driver.pid))
            victim = choose(targets[-1], driver.pid, chance) if driver.poll() is None else None
            if victim is not None:
                kill(victim)
                if targets.pop() == "driver":
                    driver.communicate()
                    driver = start_command(recipe, directory.path)
        _, errors = driver.communicate(timeout=200)
        assert driver.returncode == 0, errors
        assert_equal(directory, expected)
        if not targets:
            break
    wait_until(lambda: not any(map(in_session, sessions)), "no process is left", seconds=20)


# A cluster of several nodes


def test_more_than_any_node_has_is_refused(recipe: Path, address: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^--cpus 2: the largest node of the Ray cluster has 1 CPUs$"):
        run_sweep(long_plan(recipe), SweepDirectory(tmp_path), RayExecutor(HOW, cpus=2, address=address))


def far_run(folder: Path) -> Path:
    """Where the first job is trained when it is not trained in its place; waits until it has begun."""
    found: list[Path] = []

    def look() -> list[Path]:
        found.extend(run for run in folder.glob("headway-*-0/0") if has_begun(run))
        return found

    wait_until(look, "a trial runs")
    return found[0]


def test_ctrl_c_brings_home_what_runs_elsewhere(recipe: Path, address: str, away: Path, tmp_path: Path) -> None:
    directory = SweepDirectory(tmp_path / "sweep")
    plan = plan_grid(recipe, ENDLESS, [], [0])
    place = directory.trial("seed=0").path
    far: list[Path] = []

    def harm() -> None:
        far.append(far_run(away))
        assert not place.exists()
        os.kill(os.getpid(), signal.SIGINT)

    saboteur = Saboteur(harm)
    with pytest.raises(Interrupted, match="0 of 1 trials finished; the same command continues"):
        run_sweep(plan, directory, RayExecutor(HOW, address=address))
    saboteur.check()
    step = RunDirectory(place).checkpoint_steps()[-1]
    assert step > 0
    assert not far[0].exists()
    train(plan.trials[0].config, tmp_path / "untouched", device="cpu", until=step)
    assert weights_hash(place, step) == weights_hash(tmp_path / "untouched", step)


@pytest.mark.long
def test_no_room_for_a_run_that_comes_home_stops_the_sweep_and_loses_nothing(
    recipe: Path, address: str, small_disk: Path, tmp_path: Path
) -> None:
    directory = SweepDirectory(small_disk / "sweep")
    plan = plan_grid(recipe, [], [], [0, 1, 2, 3])
    with pytest.raises(DiskFull, match=r"No space left on device.*of 4 trials finished; with room"):
        run_sweep(plan, directory, RayExecutor(HOW, address=address))
    for name in directory.results():
        assert RunDirectory(directory.path / "trials" / name).newest_state()["finished"]
    assert len(list_runs(directory.path / "trials")) == len(directory.results()) > 0
    subprocess.run(["mount", "-o", "remount,size=8m", small_disk], check=True)
    assert run_sweep(plan, directory, RayExecutor(HOW, address=address)).finished == 4
    assert lines_without_times(directory) == lines_without_times(run_here(plan, tmp_path / "here"))


@pytest.mark.long
def test_a_node_that_dies_costs_a_retry_and_a_run_that_was_begun_goes_on(
    recipe: Path, address: str, away: Path, expected: SweepDirectory, tmp_path: Path
) -> None:
    directory = SweepDirectory(tmp_path)
    plan = long_plan(recipe)
    begun = directory.trial(plan.trials[3].name)
    train(plan.trials[3].config, begun.path, device="cpu", until=50)
    events: list[Mapping[str, Any]] = []

    def harm() -> None:
        worker = holder_of(far_run(away))
        assert worker is not None
        raylet = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
        assert process_state(raylet).name == "raylet"
        for pid in [raylet, *children_of(raylet)]:
            kill(pid)

    saboteur = Saboteur(harm)
    result = run_sweep(plan, directory, RayExecutor(HOW, address=address), events.append)
    saboteur.check()
    assert result.finished == 6
    assert warnings_in(events, "it is tried again")
    assert [record["resumed_at"] for record in begun.metrics() if "resumed_at" in record] == [50]
    assert_equal(directory, expected)
    assert not list(directory.path.glob("trials/.*"))


# Without a cluster


def run_one(plan: SweepPlan, folder: Path, **options: Any) -> None:
    run_sweep(plan, SweepDirectory(folder / "sweep"), RayExecutor(HOW, **options))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "^--address 127.0.0.1:1: no Ray cluster answers there .Connection refused.$"),
        ("somewhere", "^--address 'somewhere'; host:port of a Ray cluster that this machine belongs to, or auto$"),
        ("ray://127.0.0.1:1", "^--address 'ray://127.0.0.1:1'; host:port of a Ray cluster"),
        ("127.0.0.1:70000", "^--address '127.0.0.1:70000'; host:port of a Ray cluster"),
    ],
)
def test_an_address_without_a_cluster_is_refused(recipe: Path, tmp_path: Path, address: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_one(long_plan(recipe), tmp_path, address=address)


def test_a_ray_that_cannot_start_stops_the_sweep(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ray.py").write_text(r"raise RuntimeError('a \x1b[1;31mplanted\x1b[0m fault')" + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ray_module, "MOST_LOSSES", 2)
    with pytest.raises(RunStopped, match=r"^Ray was lost 2 times in a row .*\(RuntimeError: a planted fault\)$"):
        run_one(long_plan(recipe), tmp_path)


def test_a_ray_that_does_not_start_in_time_stops_the_sweep(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ray.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ray_module, "MOST_LOSSES", 1)
    monkeypatch.setattr(ray_module, "CONNECTING", 0.5)
    with pytest.raises(RunStopped, match=r"it did not start within 0.5 seconds"):
        run_one(long_plan(recipe), tmp_path)


def test_a_raylet_that_dies_while_ray_starts_is_noticed_at_once(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray itself waits a minute for it."""
    monkeypatch.setattr(ray_module, "MOST_LOSSES", 1)
    killed: list[float] = []

    def harm() -> None:
        session, raylets = session_of(os.getpid()), list[int]()
        wait_until(
            lambda: raylets.extend(one.pid for one in in_session(session) if one.name == "raylet") or raylets,
            "a raylet starts",
        )
        kill(raylets[0])
        killed.append(time.monotonic())

    saboteur = Saboteur(harm)
    with pytest.raises(RunStopped, match=r"^Ray was lost 1 times in a row without a finished trial \(its raylet has"):
        run_one(long_plan(recipe), tmp_path)
    saboteur.check()
    assert time.monotonic() - killed[0] < 30


def test_ray_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"^--on ray needs the extra: pip install 'headway\[ray\]'$"):
        RayExecutor(HOW)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpus": 0.0}, "^--cpus 0; a finite number above 0 needed$"),
        ({"cpus": float("nan")}, "^--cpus nan; a finite number above 0 needed$"),
        ({"gpus": -1.0}, "^--gpus -1; a fraction such as 0.25, or a whole number$"),
        ({"gpus": 1.5}, "^--gpus 1.5; a fraction"),
    ],
)
def test_impossible_amounts_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RayExecutor(HOW, **options)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--cpus", "nan", "headway: --cpus nan; a finite number above 0 needed\n"),
        ("--cpus", "inf", "headway: --cpus inf; a finite number above 0 needed\n"),
        ("--gpus", "nan", "headway: --gpus nan; a fraction such as 0.25, or a whole number\n"),
        ("--gpus", "inf", "headway: --gpus inf; a fraction such as 0.25, or a whole number\n"),
    ],
)
def test_an_amount_that_is_no_number_is_one_line_and_exit_code_2(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, message: str
) -> None:
    assert run(["sweep", str(recipe), "--on", "ray", option, value, "--out", str(tmp_path / "sweep")]) == 2
    assert capsys.readouterr() == ("", message)
    assert not (tmp_path / "sweep").exists()


def test_a_trial_has_the_threads_and_the_device_that_were_asked_for() -> None:
    assert make_executor(on="ray", cpus=2.5)[1:] == (JobOptions("cpu", 2, command=("hw.sweep",)), 0)


def test_a_gpu_must_be_asked_for() -> None:
    with pytest.raises(InputError, match=r"^--device cuda with --on ray needs --gpus"):
        RayExecutor(ray_module.replace(HOW, device="cuda"))
    assert RayExecutor(ray_module.replace(HOW, device="auto")).how.device == "cpu"
    assert RayExecutor(ray_module.replace(HOW, device="auto"), cpus=2.5, gpus=0.5).how.device == "auto"
    assert RayExecutor(HOW, cpus=2.5).how.threads == 2


def test_trials_fit_where_all_they_need_is() -> None:
    assert slots_of({"CPU": 8.0, "GPU": 1.0}, cpus=1, gpus=0.25) == 4
    assert slots_of({"CPU": 3.0, "GPU": 8.0}, cpus=1, gpus=0.1) == 3
    assert slots_of({"CPU": 0.3}, cpus=0.1, gpus=0) == 3
    assert slots_of({"memory": 1.0}, cpus=1, gpus=0) == 0
    nodes = [{"CPU": 8.0}, {"CPU": 1.0, "GPU": 2.0}]
    assert describe_shortage(nodes, 1, 4) == "--gpus 4: the largest node of the Ray cluster has 2 GPUs"
    assert describe_shortage(nodes, 2, 1) == "--cpus 2 --gpus 1: no node of the Ray cluster has both"


def test_a_job_is_given_up_after_too_many_deaths() -> None:
    assert reason_to_give_up(["WorkerCrashedError"] * (MOST_DEATHS - 1)) is None
    text = f"its Ray worker died {MOST_DEATHS} times (the last time: NodeDiedError)"
    assert reason_to_give_up(["WorkerCrashedError"] * (MOST_DEATHS - 1) + ["NodeDiedError"]) == text
    full = ["OutOfMemoryError", "OutOfMemoryError"]
    assert reason_to_give_up(full) == "out of memory (Ray ended its worker 2 times)"


def test_a_worker_without_headway_is_explained() -> None:
    text = describe_refusal(ModuleNotFoundError("No module named 'headway'"))
    assert text.startswith("a Ray worker could not run a trial; is the same headway installed on every node?")
    assert "No module named 'headway'" in text


# Packed runs


def test_runs_come_out_as_they_went_in(tmp_path: Path) -> None:
    for number, words in enumerate([{"a": b"1", "checkpoints/step-000001/b": b"2"}, {"c": b""}]):
        for name, content in words.items():
            path = tmp_path / str(number) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    (tmp_path / "0" / "link").symlink_to("/etc/hostname")
    homes = [tmp_path / "home" / name for name in ("x", "y", "z")]
    homes[1].mkdir(parents=True)
    (homes[1] / "old").write_text("")
    unpack(pack([tmp_path / "0", tmp_path / "1", tmp_path / "nothing"]), homes)
    found = {path.relative_to(tmp_path / "home").as_posix() for path in (tmp_path / "home").rglob("*")}
    assert found == {
        "x",
        "x/a",
        "x/checkpoints",
        "x/checkpoints/step-000001",
        "x/checkpoints/step-000001/b",
        "y",
        "y/c",
    }
    assert (homes[0] / "checkpoints" / "step-000001" / "b").read_bytes() == b"2"


@pytest.mark.parametrize("name", ["0/../../out", "/etc/out", "0", "1/out", "../0/out", "x/out", "²/out"])
def test_a_file_outside_its_run_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("0/fine"))
        archive.addfile(tarfile.TarInfo(name))
    with pytest.raises(RunStopped, match="which is not a plain file inside it"):
        unpack(content.getvalue(), [tmp_path / "home"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        member = tarfile.TarInfo("0/out")
        member.type, member.linkname = kind, "/etc/hostname"
        archive.addfile(member)
    with pytest.raises(RunStopped, match="'0/out', which is not a plain file inside it"):
        unpack(content.getvalue(), [tmp_path / "home"])


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_a_kill_while_a_run_arrives_leaves_the_old_or_the_new_one(tmp_path: Path, renames: int) -> None:
    """Killed before, between or after the renames; the next sweep mends it."""
    run = RunDirectory(tmp_path / "run")
    run.path.mkdir()
    (run.path / "old").write_text("")
    child = os.fork()
    if not child:
        moved, rename = count(), os.rename

        def die_instead(here: Path, there: Path) -> None:
            if next(moved) == renames:
                os.kill(os.getpid(), signal.SIGKILL)
            rename(here, there)

        os.rename = die_instead  # type: ignore[assignment]
        with run.arriving() as folder:
            (folder / "new").write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    run.mend_arrival()
    found = [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))]
    assert found == ["run", "run/new" if renames == 2 else "run/old"]


def test_a_run_that_did_not_arrive_whole_is_not_there(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.path.mkdir()
    (run.path / "old").write_text("stays")

    def fail() -> None:
        with run.arriving() as folder:
            (folder / "half").write_text("")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["run", "run/old"]
