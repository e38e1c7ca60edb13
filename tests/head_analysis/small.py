"""Small models of every shape, with sizes that differ wherever a swapped axis could hide."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from headway.batches import make_model
from headway.evaluation import Trained, load
from headway.runs import RunDirectory
from headway.tasks import make_task
from headway.training import train
from tests.tiny import config

SIZES = {"d_model": 12, "n_heads": 3, "d_head": 5, "d_ff": 16}
ADDITION: dict[str, Any] = {
    "task": {"name": "addition", "digits": 2},
    "data": {"train": 60, "validation": 24, "test": 40},
    "model": {**SIZES, "encoder_layers": 1, "decoder_layers": 2},
    "train": {"steps": 4, "batch_size": 8, "validate_every": 2},
}
TEXT: dict[str, Any] = {
    **ADDITION,
    "task": {"name": "addition-text", "max_characters": 12},
    "model": {**SIZES, "shape": "decoder", "decoder_layers": 2},
}
TEXT_ACROSS: dict[str, Any] = {**TEXT, "model": {**SIZES, "encoder_layers": 1, "decoder_layers": 1}}
SORTEDNESS: dict[str, Any] = {
    **ADDITION,
    "task": {"name": "sortedness", "min_length": 3, "max_length": 6, "values": 12},
    "model": {**SIZES, "shape": "encoder", "encoder_layers": 2},
}
SHAPES: Mapping[str, dict[str, Any]] = {
    "addition": ADDITION,
    "text, decoder-only": TEXT,
    "text, encoder-decoder": TEXT_ACROSS,
    "sortedness": SORTEDNESS,
}


def untrained(base: dict[str, Any], seed: int = 5, **tables: dict[str, Any]) -> Trained:
    """A model with random weights, larger than those that training begins with, so that heads look unevenly."""
    settings = config(base, **tables)
    task = make_task(settings.task)
    torch.manual_seed(seed)
    model = make_model(task, settings.model).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if ".query." in name or ".key." in name:
                weight.mul_(3)
    return Trained(RunDirectory("nowhere"), settings, task, model, 0)


HALF_TRAINED = {
    "addition": (
        ADDITION,
        {
            "data": {"train": 2_000, "validation": 20, "test": 300},
            "model": {"d_model": 48, "d_head": 7, "d_ff": 96, "encoding": {"name": "learned"}, "decoder_layers": 1},
            "train": {"steps": 300, "batch_size": 64, "validate_every": 300, "lr": 0.006},
        },
    ),
    "sortedness": (
        SORTEDNESS,
        {
            "task": {"negatives": "mixed", "values": 8, "max_length": 5},
            "data": {"train": 1_000, "validation": 20, "test": 200},
            "train": {"steps": 200, "batch_size": 64, "validate_every": 200, "lr": 0.01},
        },
    ),
}


@cache
def half_trained(task: str) -> Trained:
    """A model that is right on some examples and wrong on others; trained once for all tests."""
    base, tables = HALF_TRAINED[task]
    with TemporaryDirectory() as folder:
        train(config(base, **tables), Path(folder) / "run", device="cpu")
        return load(Path(folder) / "run", device="cpu")


def favour(trained: Trained, token: int, by: float) -> Trained:
    """Make the model write a token always (a large number) or never (a large negative one)."""
    with torch.no_grad():
        trained.model.readout.bias[token] += by
    return trained
