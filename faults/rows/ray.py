"""SIGKILL to processes of a sweep on Ray: every trial ends exactly once, with the results of an undisturbed sweep."""

import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from faults.campaign import Attempt, Row, chance, must
from faults.ray_cluster import RayCluster
from faults.ray_sweeps import TRIAL, Results, SweepProcess, at_work_in, send
from faults.rows.signals import GONE_WITHIN, MARK, carrying, left_running
from faults.victims import ADDITION, differences, fingerprint
from headway.sweeps.ray_processes import in_session, process_state

ORDER = (
    *(("cluster", one) for one in ("worker", "raylet", "node", "driver", "session", "head")),
    *(("own Ray", one) for one in ("worker", "driver")),
    *(("cluster", one) for one in ("worker", "raylet", "node", "driver", "head's raylet")),
    *(("own Ray", one) for one in ("raylet", "node")),
)
"""Where the sweep of each of fifteen cases runs, and what is killed: a node is a raylet with its workers, a session is
the process of headway that is connected to Ray, and the head is the node of the driver, with the cluster's server."""
VARIED = "train.lr=0.01,0.02"
SETTINGS = ("train.steps=100", "train.validate_every=25", "train.keep_every=50")
SWEEP = (
    *("sweep", "addition.toml", "--vary", VARIED, "--seeds", "0-1", "--out", "sweep", "--on", "ray"),
    *(word for setting in SETTINGS for word in ("--set", setting)),
)
ASKED = ("worker", "raylet", "node")
"""What SIGTERM may end, too, in place of SIGKILL; headway's own processes take it as a request to save."""
MOST_TRIES = 5
"""Times that a kill may come after the end of its sweep."""


@dataclass(frozen=True)
class Undisturbed:
    seconds: float
    left: dict[str, str]


class RaySweeps:
    """The cases, which share a cluster. `plant` names a function "module:function" that breaks headway in each."""

    def __init__(self, seed: int, folder: Path, plant: str = ""):
        self.seed, self.folder = seed, folder
        self.environment = {"OMP_NUM_THREADS": "1", **({"HEADWAY_FAULT_PLANT": plant} if plant else {})}
        self.cluster: RayCluster | None = None
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self.undisturbed: dict[str, Undisturbed] = {}

    def end(self) -> None:
        if self.cluster is not None:
            self.cluster.end()
            self.cluster = None

    def attempt(self, number: int) -> str:
        where, victim = ORDER[number % len(ORDER)]
        draw = chance(self.seed, "ray", number)
        for _ in range(MOST_TRIES):
            expected = self.expected(where)
            case = Case(self, where, f"case-{number}")
            case.begin()
            try:
                sent = signal.SIGTERM if victim in ASKED and draw.random() < 1 / 3 else signal.SIGKILL
                if case.hit(victim, sent, draw.uniform(0, expected.seconds), draw):
                    how = case.judge(victim)
                    case.compare(expected)
                    left = "; a folder of a trial is left on its machine" if case.far_folders() else ""
                    return f"{where}, {victim}{' (SIGTERM)' if sent == signal.SIGTERM else ''}: {how}{left}"
                must(case.sweep.code == 0, f"{where}, before the kill: {case.sweep.printed}")
                # The machine is faster than it was.
                self.undisturbed[where] = replace(expected, seconds=case.sweep.seconds)
            finally:
                case.end()
        raise AssertionError(f"{where}, {victim}: no kill met it")

    def expected(self, where: str) -> Undisturbed:
        """What a sweep leaves if nothing happens to it, and how long it takes; it is run once."""
        if where not in self.undisturbed:
            case = Case(self, where, "undisturbed")
            case.begin()
            try:
                case.sweep.follow()
                seconds = case.sweep.seconds
                must(case.sweep.code == 0, f"{where}, undisturbed: {case.sweep.printed}")
                found = Undisturbed(seconds, fingerprint(case.out))
                for elsewhere, other in self.undisturbed.items():
                    must(found.left == other.left, f"undisturbed, {where} and {elsewhere} differ")
                self.undisturbed[where] = found
            finally:
                case.end()
        return self.undisturbed[where]

    def whole_cluster(self) -> RayCluster:
        """The cluster, with two nodes that live."""
        if self.cluster is not None and any(process_state(pid).ended for pid in self.cluster.head):
            self.end()
        self.cluster = self.cluster or RayCluster(self.temporary)
        while any(process_state(pid).ended for pid in self.cluster.raylets[-2:]):
            self.cluster.add_node()
        return self.cluster


class Case:
    """One sweep, what was killed of it, and the command that continues it."""

    def __init__(self, row: RaySweeps, where: str, name: str):
        self.row, self.where = row, where
        self.folder, self.mark = row.folder / name, f"{row.folder.name}-{name}"
        self.out = self.folder / "sweep"
        self.folder.mkdir()
        (self.folder / "addition.toml").write_text(ADDITION)
        self.results = Results(self.out / "results.jsonl")
        self.told = ""

    def begin(self) -> None:
        """Start the sweep, or continue it with the same command."""
        self.cluster = self.row.whole_cluster() if self.where == "cluster" else None
        address = [] if self.cluster is None else ["--address", self.cluster.address]
        join = {} if self.cluster is None else self.cluster.environment
        environment = {**self.row.environment, MARK: self.mark, **join}
        self.sweep = SweepProcess([*SWEEP, *address], self.folder, self.results, environment)

    def hit(self, victim: str, sent: signal.Signals, after: float, draw: random.Random) -> bool:
        """Send a signal at a moment, or as soon as there is something to kill; false if the sweep ended before."""

        def sent_to_somebody() -> bool:
            return self.sweep.seconds >= after and send(sent, self.sweep.victims(victim, self.cluster, draw)) > 0

        if not self.sweep.follow(sent_to_somebody):
            return False
        self.told = f"{self.where}, {sent.name} to the {victim} after {self.sweep.seconds:.2f} s"
        return True

    def judge(self, victim: str) -> str:
        """How the sweep took it; a driver, and a sweep that stopped with one line, is continued."""
        first = self.sweep
        if victim == "driver":
            must(first.code == -signal.SIGKILL, f"{self.told}: exit {first.code}")
            self.take_over(first.session)
            return "the same command continues; equal"
        first.follow()
        must("Traceback" not in first.printed, f"{self.told}: {first.printed}")
        self.told = f"{self.told}: exit {first.code}, {first.printed}"
        if first.code == 0:
            felt = {"is tried again": "a trial is tried again", "Ray was lost": "Ray is joined or started again"}
            seen = [text for sign, text in felt.items() if sign in first.printed]
            return f"{' and '.join(seen) or 'no trial is lost'}; equal"
        must(first.printed.splitlines()[-1].startswith("headway: "), self.told)
        self.take_over(first.session)
        return "the sweep stops with one line, and the same command continues; equal"

    def take_over(self, before: int | None) -> None:
        """The same command again; when it begins its first trial, no process of the session before may be there."""
        folders = self.far_folders()
        self.begin()
        self.sweep.follow(lambda: self.has_begun_a_trial(folders))
        stale = [] if before is None else [process.pid for process in in_session(before)]
        must(not stale, f"{self.told}; the next one begins while the processes {stale} of the first run")
        self.sweep.follow()
        must(self.sweep.code == 0, f"{self.told}; continued: exit {self.sweep.code}, {self.sweep.printed}")

    def has_begun_a_trial(self, earlier: set[Path]) -> bool:
        """On a cluster a trial has a folder of its own, on the sweep's own Ray a process of the session."""
        if self.cluster is not None:
            return bool(self.far_folders() - earlier)
        return self.sweep.session is not None and any(one.name == TRIAL for one in in_session(self.sweep.session))

    def far_folders(self) -> set[Path]:
        return set(self.row.temporary.glob("headway-*"))

    def compare(self, expected: Undisturbed) -> None:
        """Every trial once, equal to the undisturbed sweep, and nothing of it runs."""
        must(not self.results.repeated(), f"{self.told}: {self.results.repeated()} ran twice")
        apart = differences(fingerprint(self.out), expected.left)
        must(not apart, f"{self.told}: {'; '.join(apart[:5])}")
        left = left_running(self.mark)
        must(not left, f"{self.told}: the processes {left} are left")
        must(self.is_quiet_far_away(), f"{self.told}: a worker of the cluster still has a trial")

    def is_quiet_far_away(self) -> bool:
        """Whether no worker of the cluster has a file of a trial open, after some patience."""
        end = time.monotonic() + GONE_WITHIN
        while self.cluster is not None and any(at_work_in(self.row.temporary, self.cluster.owner.pid)):
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        return True

    def end(self) -> None:
        """End what still runs, as after a broken bar, and remove everything."""
        self.sweep.process.kill()
        self.sweep.process.wait()
        send(signal.SIGKILL, carrying(self.mark))
        self.results.close()
        shutil.rmtree(self.folder)
        for folder in self.far_folders():
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def attempts(seed: int, folder: Path) -> Iterator[Attempt]:
    sweeps = RaySweeps(seed, folder)
    try:
        yield sweeps.attempt
    finally:
        sweeps.end()


ROW = Row(
    name="ray",
    position=14,
    attack="SIGKILL or SIGTERM to a worker, a raylet or a node, SIGKILL to the head, the driver or its session (the "
    "process that is connected to Ray), at a random moment of a sweep on a cluster of three nodes or on a Ray of its "
    "own",
    bar="every trial is recorded exactly once, and the sweep leaves the same SHA-256 of weights, optimiser, metrics "
    "and results (times apart) as an undisturbed one; if it stops, one line says so and the same command continues; "
    "nothing still runs",
    count=30,
    attempts=attempts,
    limits=(
        "All nodes are processes of one machine. A network that fails between machines, and a machine that stops "
        "without closing its connections, are not tried.",
        "Each sweep is hit once; a node is one raylet with all processes that it started.",
        "Ray takes a minute to notice that a worker died while it started, or that the head is gone; the sweep waits "
        "for it.",
        "When the driver is killed, Ray ends its workers on a cluster; they may leave the folder of a trial in the "
        "temporary directory of their machine. No later sweep uses it.",
    ),
)
