"""A sweep on Ray in a process of its own: what of it can be killed, and every line that its results ever had."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from faults.forking import ROOT
from faults.ray_cluster import RayCluster
from headway.sweeps.ray_processes import children_of, in_session

PLANTED = Path(__file__).parent / "planted"
POLL_SECONDS = 0.02
LONGEST = 240.0
"""Seconds after which a sweep counts as hanging; Ray may take 90 to start if a worker of it is killed."""
TRIAL = "ray::run_in_ray"
"""The name of a worker's process while it runs a trial."""


class Results:
    """Every version of a results.jsonl. One that is replaced can still be read, because it was opened before."""

    def __init__(self, path: Path):
        self.path, self.versions = path, dict[int, BinaryIO]()

    def look(self) -> None:
        with suppress(FileNotFoundError):
            handle = self.path.open("rb")
            inode = os.fstat(handle.fileno()).st_ino
            if inode in self.versions:
                handle.close()
            else:
                self.versions[inode] = handle

    def repeated(self) -> list[str]:
        """The trials that a version has twice, or that have different lines: those that ran twice."""
        found, lines = set[str](), dict[str, bytes]()
        for version in self.versions.values():
            version.seek(0)
            names = list[str]()
            for line in version.read().splitlines():
                names.append(json.loads(line)["name"])
                if lines.setdefault(names[-1], line) != line:
                    found.add(names[-1])
            found.update(name for name in names if names.count(name) > 1)
        return sorted(found)

    def close(self) -> None:
        for version in self.versions.values():
            version.close()


class SweepProcess:
    """A running `headway` command; its standard output and errors go to a file."""

    def __init__(self, words: list[str], folder: Path, results: Results, environment: Mapping[str, str]):
        self.results, self.log, self.began = results, folder / "log.txt", time.monotonic()
        self.session: int | None = None
        """The process that is connected to Ray; it is replaced when Ray is lost."""
        paths = [str(ROOT), str(ROOT / "src"), str(PLANTED), os.environ.get("PYTHONPATH", "")]
        whole = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **environment}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headway", *words],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=whole,
                start_new_session=True,
            )

    def look(self) -> bool:
        """Look once; whether the command still runs."""
        running = self.process.poll() is None
        self.results.look()
        connected = (pid for pid in children_of(self.process.pid) if b"headway.sweeps.ray_session" in words_of(pid))
        self.session = next(connected, None)
        return running

    def follow(self, until: Callable[[], object] = lambda: False) -> bool:
        """Look until the command ends or something is true; whether it still runs. One that hangs raises."""
        while running := self.look():
            if until():
                return True
            if time.monotonic() - self.began > LONGEST:
                raise TimeoutError(f"it hangs: {self.printed}")
            time.sleep(POLL_SECONDS)
        return running

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def code(self) -> int:
        return self.process.wait()

    @property
    def printed(self) -> str:
        return self.log.read_text(errors="replace")

    def victims(self, kind: str, cluster: RayCluster | None, draw: random.Random) -> list[int]:
        """The processes that a kill of this kind ends now; none if there is no such process yet."""
        if kind == "driver":
            return [self.process.pid]
        if self.session is None:
            return []
        if kind == "session":
            return [self.session]
        if cluster is not None and kind == "head":
            return [pid for process in cluster.head for pid in (process, *children_of(process))]
        if cluster is not None and kind == "head's raylet":
            return cluster.head[-1:]
        if kind == "worker":
            return worker_in(self.session if cluster is None else cluster.owner.pid, draw)
        raylets = cluster.raylets[-2:] if cluster is not None else raylets_in(self.session)
        chosen = [draw.choice(raylets)] if raylets else []
        return chosen if kind == "raylet" else [pid for raylet in chosen for pid in (raylet, *children_of(raylet))]


def raylets_in(session: int) -> list[int]:
    return [process.pid for process in in_session(session) if process.name == "raylet"]


def worker_in(session: int, draw: random.Random) -> list[int]:
    """A worker, one with a trial if there is any; the agents of a node are no workers."""
    names = {process.pid: process.name for process in in_session(session)}
    workers = [pid for pid, name in sorted(names.items()) if name == TRIAL]
    workers = workers or [pid for pid, name in sorted(names.items()) if is_worker(name, words_of(pid))]
    return [draw.choice(workers)] if workers else []


def is_worker(name: str, words: bytes) -> bool:
    """Whether a process is a worker, which may be starting; the command line of a raylet names their program, too."""
    starting = name != "raylet" and b"default_worker.py" in words
    return starting or (words.startswith(b"ray::") and b"Agent" not in words)


def words_of(pid: int) -> bytes:
    """The command line of a process; nothing if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def send(number: signal.Signals, pids: list[int]) -> int:
    """Send a signal; returns to how many processes it was sent, because some may have ended by now."""
    reached = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            reached += 1
    return reached


def at_work_in(folder: Path, session: int) -> Iterator[int]:
    """The processes of a session that have a file below a folder open."""
    for process in in_session(session):
        with suppress(OSError):
            if any(handle.readlink().is_relative_to(folder) for handle in Path(f"/proc/{process.pid}/fd").iterdir()):
                yield process.pid
