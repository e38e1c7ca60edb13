"""A classifier of sortedness whose weights were set by hand: right everywhere, or wrong at one triple."""

from pathlib import Path
from typing import Any

import torch

from headway.batches import make_model
from headway.config import RunConfig, build
from headway.evaluation import Trained
from headway.runs import RunDirectory
from headway.tasks import make_task

VALUES, WIDTH = 4, 14
SETTINGS: dict[str, Any] = {
    "task": {"name": "sortedness", "min_length": 3, "max_length": 6, "values": VALUES},
    "data": {"train": 10, "validation": 4, "test": 4},
    "model": {
        "shape": "encoder",
        "d_model": WIDTH,
        "n_heads": 2,
        "d_ff": 12,
        "encoder_layers": 1,
        "activation": "relu",
        "window": 1,
        "encoding": {"name": "clipped", "clip": 1},
        "pooling": {"name": "detector", "detectors": 3},
    },
    "train": {"steps": 1},
}
FLAG = 3 * VALUES
"""The coordinate in which a descent is noted; before it: the element, its right and its left neighbour, one-hot."""


def empty(place: Path, **model: Any) -> Trained:
    """The model as it is initialised, in a run directory that need not exist."""
    config = build(RunConfig, {**SETTINGS, "model": {**SETTINGS["model"], **model}}, "")
    task = make_task(config.task)
    return Trained(RunDirectory(place), config, task, make_model(task, config.model).eval(), 0)


@torch.no_grad()
def planted(place: Path, bad: tuple[int, int, int] | None = None, **model_settings: Any) -> Trained:
    """Head 0 copies the right neighbour, head 1 the left one; a hidden unit for each descending pair raises the flag.

    With `bad`, one more unit takes the flag back where an element stands between these two neighbours.
    """
    trained = empty(place, **model_settings)
    model: Any = trained.model
    for name, weights in model.named_parameters():
        if "norm" not in name:
            weights.zero_()
    model.embedding.weight[:VALUES, :VALUES] = torch.eye(VALUES)
    block, n = model.encoder[0], VALUES
    scale, shift = _normed(ones=1)
    model.encoding.tables["encoder"].weight.copy_(torch.tensor([[-50.0, 50.0], [0.0, 0.0], [50.0, -50.0]]))
    for head in range(2):
        first = head * WIDTH // 2
        block.own.value.weight[first : first + n, :n] = torch.eye(n) / scale
        block.own.value.bias[first : first + n] = -shift / scale
        block.own.output.weight[(head + 1) * n : (head + 2) * n, first : first + n] = torch.eye(n)
    scale, shift = _normed(ones=3)
    pairs = [(c, r) for c in range(n) for r in range(c)]
    for unit, seen in enumerate(
        [(c, n + r) for c, r in pairs] + ([(bad[1], n + bad[2], 2 * n + bad[0])] if bad else [])
    ):
        block.feed_forward.expand.weight[unit, list(seen)] = 1 / scale
        block.feed_forward.expand.bias[unit] = -len(seen) * shift / scale - len(seen) + 0.5
        block.feed_forward.contract.weight[FLAG, unit] = 10.0 if len(seen) == 2 else -10.0
    model.pooling.detect.weight[0, FLAG] = 1.0
    model.pooling.project.weight[0, 0] = 1.0
    model.readout.weight[0, 0], model.readout.bias[0] = 10.0, -10.0
    return trained


def _normed(ones: int) -> tuple[float, float]:
    """Layer norm of a row with so many ones and zeros else: x times the first number, and the second."""
    row = torch.nn.functional.layer_norm(torch.tensor([1.0] * ones + [0.0] * (WIDTH - ones)), (WIDTH,))
    return float(row[0] - row[-1]), float(row[-1])


@torch.no_grad()
def perturb(trained: Trained, size: float, seed: int) -> None:
    """Random numbers are added to all weights."""
    random = torch.Generator().manual_seed(seed)
    for weights in trained.model.parameters():
        weights += size * torch.randn(weights.shape, generator=random) * (1 + weights.abs())
