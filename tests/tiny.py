"""Small experiments that many tests share."""

import hashlib
import math
from pathlib import Path
from typing import Any

from headway.config import RunConfig, build
from headway.runs import Checkpoint, RunDirectory
from headway.training import train

ADDITION: dict[str, Any] = {
    "task": {"name": "addition", "digits": 1, "leading_zeros": True},
    "data": {"train": 40, "validation": 6, "test": 6},
    "model": {"d_model": 12, "n_heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.1},
    "train": {"steps": 24, "batch_size": 16, "validate_every": 8, "lr": 0.01},
}
SORTEDNESS: dict[str, Any] = {
    "task": {"name": "sortedness", "min_length": 3, "max_length": 5, "values": 12},
    "data": {"train": 60, "validation": 10, "test": 10},
    "model": {"shape": "encoder", "d_model": 12, "n_heads": 2, "d_ff": 16, "encoder_layers": 1},
    "train": {"steps": 16, "batch_size": 16, "validate_every": 8, "lr": 0.01},
}


def config(base: dict[str, Any], seed: int = 0, **tables: dict[str, Any]) -> RunConfig:
    """The small experiment with some settings changed: `config(ADDITION, train={"steps": 5})`."""
    merged = {name: {**table, **tables.get(name, {})} for name, table in base.items()}
    return build(RunConfig, {**merged, "seed": seed}, "")


def weights_hash(run: Path, step: int) -> str:
    """SHA-256 of a checkpoint's weights."""
    path = run / "checkpoints" / f"step-{step:06d}" / "model.safetensors"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def poison(config: RunConfig, run: Path) -> None:
    """Leave a run of two steps whose weights are not finite."""
    directory = RunDirectory(run)
    train(config, run, device="cpu", until=2)
    found = directory.read_checkpoint(2)
    found.model["readout.weight"][0, 0] = math.nan
    directory.write_checkpoint(Checkpoint(2, found.model, found.trainer, found.state))
