"""Trainings in a process of their own, which tests may kill or interrupt."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.runs import RunDirectory


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
