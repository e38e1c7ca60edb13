"""Converts examples to tensors on a device: the only module that imports both tasks and model."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from headway.config import ModelConfig
from headway.errors import InputError
from headway.model.transformer import Inputs, Transformer
from headway.tasks.base import Task
from headway.tasks.examples import Examples


@dataclass(frozen=True)
class Batch:
    """The model's inputs and the target."""

    inputs: Inputs
    target: Int[Tensor, "batch *answer"]


def make_batch(task: Task, model: Transformer, examples: Examples, device: torch.device, *, cut: bool = True) -> Batch:
    """Examples as tensors; columns that are padding in every row are cut.

    Training does not cut them, so that all steps have one shape. Random numbers do not depend on it.
    """
    pad = task.vocabulary.pad
    source, target = examples.source, examples.target
    if cut:
        source, target = _cut(source, pad), target if task.kind == "class" else _cut(target, pad)
    padded = bool((source[:, -1] == pad).any())
    return collate(task, model, send(source, device), send(target, device), padded=padded)


def collate(
    task: Task,
    model: Transformer,
    source: Int[Tensor, "batch position"],
    target: Int[Tensor, "batch *answer"],
    *,
    padded: bool,
) -> Batch:
    """Put BOS before the answer, get the positions from the task, and mask padding."""
    visible = source != task.vocabulary.pad if padded else None
    kind = model.encoding.position_kind
    if task.kind == "class":
        positions, _ = task.positions(kind, source, None)
        return Batch(Inputs(source, positions, visible), target)
    assert task.vocabulary.bos is not None
    bos = target.new_full((len(target), 1), task.vocabulary.bos)
    prefix = torch.cat([bos, target[:, :-1]], dim=1)
    positions, prefix_positions = task.positions(kind, source, prefix)
    return Batch(Inputs(source, positions, visible, prefix, prefix_positions), target)


def _cut(rows: np.ndarray, pad: int) -> np.ndarray:
    """Drop the columns on the right that are padding in every row."""
    used = np.flatnonzero((rows != pad).any(axis=0))
    return rows[:, : int(used[-1]) + 1]


def send(values: np.ndarray, device: torch.device) -> Tensor:
    """Copy an array to a device; on a GPU without synchronisation."""
    found = torch.from_numpy(np.ascontiguousarray(values))
    return found.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else found.to(device)


def make_model(task: Task, config: ModelConfig) -> Transformer:
    """The model of a recipe for this task; raises if the task lacks the positions that the encoding needs."""
    model = Transformer(config, len(task.vocabulary), task.n_classes)
    task.check_positions(model.encoding.position_kind)
    return model


def pick_device(name: str) -> torch.device:
    """The device of a name; `auto` is a GPU if there is one."""
    if name not in ("auto", "cpu", "cuda"):
        raise InputError(f"--device {name!r}; known: auto, cpu, cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: this machine has no GPU that PyTorch can use; auto and cpu work")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")
