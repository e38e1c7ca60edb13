"""One connection to Ray: `python -m headway.sweeps.ray_session`, which ends with its driver.

When Ray fails, it ends the process that is connected to it or lets it wait for ever. So the driver of a sweep is not
connected itself: this process is, and the driver replaces it when it ends. Its input is one `Request`; "stop" makes it
save and end. It answers through the same pipe:

    ("connected", None)
    ("started", 3)                       a job was submitted to Ray
    ("warning", (3, "..."))              its worker died, and it is tried again
    ("ended", (3, outcomes))             it ended, and its runs are in their directories
    ("raised", problem)                  the whole sweep cannot continue
"""

import os
import queue
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from headway.errors import InputError, RunStopped
from headway.processes import parent_pipe
from headway.runs import RunDirectory
from headway.sweeps.packing import pack, unpack
from headway.sweeps.ray_processes import children_of, end_session, process_state
from headway.sweeps.ray_task import Ended, run_in_ray
from headway.sweeps.trial import DiskFull, Job, in_one_line, stopping_when_full

MOST_DEATHS = 20
"""Deaths of its worker that a job survives."""
MOST_OUT_OF_MEMORY = 2
POLL_SECONDS = 0.2
"""Seconds between checks for the driver's stop."""
CENSUS_EVERY = 2.0
"""Seconds between two counts of the cluster's nodes."""
SAVING = 45.0
"""Seconds for jobs to save when the sweep is stopped."""
ANSWERING = 5.0
"""Seconds within which an address must accept a connection."""


Say = Callable[[str, Any], None]
"""Sends a message to the driver."""


@dataclass(frozen=True)
class Request:
    """The jobs by number, the resources of each, and the cluster.

    `mark` is part of the names of folders on other machines. `cores` limits a Ray that the sweep starts itself.
    """

    jobs: Mapping[int, Job]
    cpus: float
    gpus: float
    address: str | None
    cores: int
    mark: str


class Shift:
    """The waiting jobs and the jobs in Ray, of which there are never more than the cluster can run at once."""

    def __init__(self, request: Request, say: Say):
        import ray

        self.request, self.say = request, say
        self.waiting = deque(request.jobs)
        self.running: dict[Any, tuple[int, Any]] = {}
        self.deaths: dict[int, list[str]] = {}
        # Ray's own retries are silent and endless if a job needs more memory than a node has.
        amounts: dict[str, Any] = {"num_cpus": request.cpus, "num_gpus": request.gpus}
        self.task: Any = ray.remote(max_retries=0, num_returns=2, **amounts)(run_in_ray)
        self.slots, self.counted = 0, 0.0

    def work(self, stop: threading.Event) -> None:
        """Run until every job has ended, or the driver asks for a stop."""
        self._count_slots()
        while (self.waiting or self.running) and not stop.is_set():
            self._submit()
            self._collect()
        if self.running:
            self._save()

    def _count_slots(self) -> None:
        """Count how many jobs the cluster can run at once now; nodes come and go."""
        import ray

        if time.monotonic() - self.counted < CENSUS_EVERY and self.slots:
            return
        nodes = [node for node in ray.nodes() if node["Alive"]]
        resources = [node["Resources"] for node in nodes]
        cpus, gpus = self.request.cpus, self.request.gpus
        fitting = sum(slots_of(one, cpus, gpus) for one in resources)
        if not self.counted and not fitting:
            raise InputError(describe_shortage(resources, cpus, gpus))
        if ray.get_runtime_context().get_node_id() not in [node["NodeID"] for node in nodes]:
            end_as_lost("the Ray node of this machine is gone")  # Ray would wait for ever
        self.slots, self.counted = max(1, fitting), time.monotonic()

    def _submit(self) -> None:
        self._count_slots()
        while self.waiting and len(self.running) < self.slots:
            number = self.waiting.popleft()
            job = self.request.jobs[number]
            folder = None if self.request.address is None else f"headway-{self.request.mark}-{number}"
            packed = b"" if folder is None else self._packed(job)
            ended, content = self.task.remote(job, folder, packed)
            self.running[ended] = (number, content)
            self.say("started", number)

    def _packed(self, job: Job) -> bytes:
        for place in job.places:
            RunDirectory(place).mend_arrival()  # the session before this one may have been killed
        return pack(job.places)

    def _collect(self) -> None:
        """Take one finished job, if any; the next is submitted before its runs are fetched."""
        import ray

        ready, _ = ray.wait(list(self.running), num_returns=1, timeout=POLL_SECONDS, fetch_local=False)
        for reference in ready:
            number, content = self.running.pop(reference)
            self._submit()
            try:
                ended, packed = ray.get([reference, content])
            except ray.exceptions.RayTaskError as problem:
                raise RunStopped(describe_refusal(problem)) from None
            except ray.exceptions.RayError as problem:
                self._try_again(number, type(problem).__name__)
            else:
                self._take(number, ended, packed)

    def _take(self, number: int, ended: Ended, packed: bytes) -> None:
        if self.request.address is not None:
            places = self.request.jobs[number].places
            with stopping_when_full(places[0]):
                unpack(packed, places)
        if "disk_full" in ended:
            raise DiskFull(ended["disk_full"])
        if "outcomes" in ended:
            self.say("ended", (number, ended["outcomes"]))
        else:  # somebody else's SIGTERM; if it is the sweep that stops, nothing is submitted again
            self._try_again(number, "Interrupted")

    def _try_again(self, number: int, death: str) -> None:
        """A worker or its node is gone: its job waits again, unless it was tried too often."""
        self.deaths.setdefault(number, []).append(death)
        error = reason_to_give_up(self.deaths[number])
        if error is None:
            self.waiting.appendleft(number)
            self.say("warning", (number, f"its Ray worker is gone ({death}); it is tried again"))
        else:
            self.say("ended", (number, self.request.jobs[number].failed(error)))

    def _save(self) -> None:
        """Let Ray's workers save, for a limited time, and fetch their runs."""
        import ray

        self.waiting.clear()
        for reference in self.running:
            ray.cancel(reference, force=False)
        end = time.monotonic() + SAVING
        while self.running and time.monotonic() < end:
            with suppress(RunStopped):
                self._collect()
            self.waiting.clear()


def reason_to_give_up(deaths: Sequence[str]) -> str | None:
    """Why a job is not retried after its workers' deaths, by Ray's names for them; None to retry it.

    >>> reason_to_give_up(["OutOfMemoryError", "NodeDiedError", "OutOfMemoryError"])
    'out of memory (Ray ended its worker 2 times)'
    """
    out_of_memory = deaths.count("OutOfMemoryError")
    if out_of_memory >= MOST_OUT_OF_MEMORY:
        return f"out of memory (Ray ended its worker {out_of_memory} times)"
    if len(deaths) >= MOST_DEATHS:
        return f"its Ray worker died {len(deaths)} times (the last time: {deaths[-1]})"
    return None


def slots_of(resources: Mapping[str, float], cpus: float, gpus: float) -> int:
    """How many trials fit on a node at once.

    >>> slots_of({"CPU": 8.0, "GPU": 1.0}, cpus=1, gpus=0.25)
    4
    """
    wanted = {"CPU": cpus, "GPU": gpus}
    return min(int(resources.get(name, 0) / amount + 1e-9) for name, amount in wanted.items() if amount)


def describe_shortage(nodes: Sequence[Mapping[str, float]], cpus: float, gpus: float) -> str:
    """The option that asks for more than any node has.

    >>> describe_shortage([{"CPU": 2.0}, {"CPU": 4.0}], 8, 0)
    '--cpus 8: the largest node of the Ray cluster has 4 CPUs'
    """
    for option, name, amount in (("--cpus", "CPU", cpus), ("--gpus", "GPU", gpus)):
        largest = max((node.get(name, 0) for node in nodes), default=0)
        if amount > largest:
            return f"{option} {amount:g}: the largest node of the Ray cluster has {largest:g} {name}s"
    return f"--cpus {cpus:g} --gpus {gpus:g}: no node of the Ray cluster has both"


def describe_refusal(problem: Exception) -> str:
    """The error of a worker that could not start a job; usually headway is missing or another version."""
    cause = getattr(problem, "cause", problem)
    return f"a Ray worker could not run a trial; is the same headway installed on every node? ({in_one_line(cause)})"


def connect(address: str | None, cores: int) -> None:
    """Start a local Ray, or join the one at an address; raises `InputError` if none answers."""
    if address is not None:
        check_address(address)
    import logging

    import ray

    own: dict[str, Any] = {"include_dashboard": False, "num_cpus": cores} if address is None else {}
    try:
        ray.init(
            address=address or "local",
            log_to_driver=False,
            configure_logging=False,
            logging_level=logging.ERROR,
            **own,
        )
    except (Exception, SystemExit) as problem:
        if address is None:
            raise
        hint = "a cluster with a token needs RAY_AUTH_MODE=token and the same ~/.ray/auth_token here"
        raise InputError(f"--address {address}: {' '.join(str(problem).split())}; {hint}") from None


def check_address(address: str) -> None:
    """Check that an address is `auto` or host:port and accepts a connection; Ray itself would try for two minutes."""
    if address == "auto":
        return
    match = re.fullmatch(r"([^/\s]+):(\d{1,5})", address)
    if not match or int(match[2]) > 65_535:
        raise InputError(f"--address {address!r}; host:port of a Ray cluster that this machine belongs to, or auto")
    try:
        socket.create_connection((match[1].strip("[]"), int(match[2])), timeout=ANSWERING).close()
    except OSError as problem:
        raise InputError(f"--address {address}: no Ray cluster answers there ({problem.strerror or problem})") from None


def watch_own_ray() -> None:
    """End this process when a vital process of its own Ray ends, while that starts, too: Ray would wait a minute."""
    parts: dict[int, str] = {}
    while not (ended := [name for pid, name in parts.items() if process_state(pid).ended]):
        names = {pid: process_state(pid).name for pid in children_of(os.getpid())}
        parts |= {pid: name for pid, name in names.items() if name in ("raylet", "gcs_server")}
        time.sleep(POLL_SECONDS)
    end_as_lost(f"its {ended[0]} has ended")


def end_as_lost(reason: str) -> NoReturn:
    """End this process; the driver reads the reason as its last line, and replaces it."""
    print(reason, flush=True)
    os._exit(3)


def main() -> None:
    """Run the jobs of one request; this process and its Ray end with the driver."""
    requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
    stop = threading.Event()

    def take(message: Request | str) -> None:
        if isinstance(message, Request):
            requests.put(message)
        else:
            stop.set()

    pipe = parent_pipe(take, at_the_end=lambda: end_session(os.getpid(), sparing=os.getpid()))
    try:
        serve(requests.get(), lambda kind, content: pipe.send((kind, content)), stop)
    except (InputError, RunStopped) as problem:
        pipe.send(("raised", problem))


def serve(request: Request, say: Say, stop: threading.Event) -> None:
    import ray

    if request.address is None:
        threading.Thread(target=watch_own_ray, daemon=True).start()
    connect(request.address, request.cores)
    shift = Shift(request, say)
    say("connected", None)
    try:
        shift.work(stop)
    finally:
        for reference in shift.running:
            with suppress(Exception):
                ray.cancel(reference, force=True)
        if request.address is not None:
            ray.shutdown()


if __name__ == "__main__":
    # Imported under its own name, so that pickled objects have the driver's classes.
    from headway.sweeps import ray_session

    ray_session.main()
    os._exit(0)  # a local Ray ends with this process; its regular shutdown takes a second longer
