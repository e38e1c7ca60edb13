"""A Ray cluster of three nodes on this machine, which may lose nodes and get new ones.

`python -m faults.ray_cluster` is its owner: it answers every line of its input with a line of JSON, the cluster's
address and the process of each raylet. The line "node" adds a node. The cluster ends with its owner.
"""

import json
import os
import secrets
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headway.sweeps.ray_processes import end_session

ROOT = Path(__file__).parents[1]
REAP_SECONDS = 0.05
"""Seconds between two looks for killed processes; a zombie's children believe that it lives."""


class RayCluster:
    """A head without cores, so that trials run on its nodes, which have one each."""

    def __init__(self, temporary: Path):
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self.environment = {**token, "RAY_USAGE_STATS_ENABLED": "0"}
        """What a process needs to join it."""
        paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        # The trials' folders are in `temporary`; Ray's own folder must be short, for its sockets.
        folders = {"TMPDIR": str(temporary), "RAY_TMPDIR": "/tmp", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self.owner = subprocess.Popen(
            [sys.executable, "-m", "faults.ray_cluster"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **self.environment, **folders},
            start_new_session=True,
        )
        try:
            self._hear()
        except BaseException:
            self.end()
            raise

    def add_node(self) -> None:
        assert self.owner.stdin is not None
        self.owner.stdin.write("node\n")
        self.owner.stdin.flush()
        self._hear()

    def _hear(self) -> None:
        assert self.owner.stdout is not None
        line = self.owner.stdout.readline()
        if not line:
            raise RuntimeError("the Ray cluster has ended")
        told = json.loads(line)
        self.address: str = told["address"]
        self.head: list[int] = told["head"]
        """The processes of the head, its raylet last."""
        self.raylets: list[int] = told["raylets"]
        """The raylets of the nodes with a core, those that ended too."""

    def end(self) -> None:
        end_session(self.owner.pid)
        self.owner.communicate()


@contextmanager
def ray_cluster(temporary: Path) -> Iterator[RayCluster]:
    """A cluster whose workers have their temporary files in a folder."""
    cluster = RayCluster(temporary)
    try:
        yield cluster
    finally:
        cluster.end()


# In the owner


def own() -> None:
    """Start the cluster, and serve the lines of standard input."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    head = cluster.head_node
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    while True:
        told = {"address": cluster.address, "head": pids_of(head), "raylets": [pids_of(node)[-1] for node in nodes]}
        print(json.dumps(told), flush=True)
        if not next_line():
            os._exit(0)  # the kernel ends its processes with it
        nodes.append(cluster.add_node(num_cpus=1))


def pids_of(node: Any) -> list[int]:
    """The processes that were started for a node, its raylet last."""
    started = [(kind == "raylet", info.process.pid) for kind, infos in node.all_processes.items() for info in infos]
    return [pid for _, pid in sorted(started)]


def next_line() -> str:
    """The next line of standard input; until it comes, killed processes are reaped."""
    while not select.select([sys.stdin], [], [], REAP_SECONDS)[0]:
        with suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
    return sys.stdin.readline()


if __name__ == "__main__":
    own()
