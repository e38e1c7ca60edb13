"""Trainings in a process of their own, which tests may kill or interrupt."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headway.runs import RunDirectory


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (minus the signal that killed it) and what it printed."""

    code: int
    seconds: float
    printed: str


class Commands:
    """Runs `headway` commands one after another in forked processes; see forking_server.py."""

    def __init__(self, process: "subprocess.Popen[str]"):
        self.process = process

    def run(self, folder: Path, *arguments: str, **fault: Any) -> Ended:
        log = folder / "log.txt"
        request = {"arguments": list(arguments), "log": str(log), **fault}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        reply = json.loads(self.process.stdout.readline())
        return Ended(reply["code"], reply["seconds"], log.read_text() if log.exists() else "")


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    line = [sys.executable, str(Path(__file__).with_name("forking_server.py"))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        yield Commands(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=60) == 0


@dataclass(frozen=True)
class Outcome:
    """All that must not depend on how often a training was stopped."""

    step: int
    weights: str
    optimiser: str
    best: dict[str, float]
    best_weights: str
    losses: list[Any]


def outcome(path: Path) -> Outcome:
    directory = RunDirectory(path)
    last, damages = directory.newest_checkpoint()
    assert damages == []
    assert last is not None
    best = last.state["best"]
    place = directory.checkpoint_path(last.step)
    return Outcome(
        step=last.step,
        weights=sha256(place / "model.safetensors"),
        optimiser=sha256(place / "trainer.safetensors"),
        best=best,
        best_weights=sha256(directory.checkpoint_path(best["step"]) / "model.safetensors"),
        losses=[record for record in directory.metrics() if "resumed_at" not in record],
    )


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
