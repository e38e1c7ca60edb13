"""Examples as tensors on a device, ready for the model: the one place where tasks and model meet."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from headway.config import ModelConfig
from headway.errors import InputError
from headway.model.transformer import Inputs, Transformer
from headway.tasks.base import Examples, Task


@dataclass(frozen=True)
class Batch:
    """What goes into the model and what should come out."""

    inputs: Inputs
    target: Int[Tensor, "batch *answer"]


def make_batch(task: Task, model: Transformer, examples: Examples, device: torch.device) -> Batch:
    """Cut padding that no row needs, put BOS before the answer, and ask the task for the positions."""
    source = _to_tensor(_cut(examples.source, task.vocabulary.pad), device)
    padded = bool((examples.source[:, source.shape[1] - 1] == task.vocabulary.pad).any())
    visible = source != task.vocabulary.pad if padded else None
    kind = model.encoding.position_kind
    if task.kind == "class":
        positions, _ = task.positions(kind, source, None)
        return Batch(Inputs(source, positions, visible), _to_tensor(examples.target, device))
    assert task.vocabulary.bos is not None
    target = _to_tensor(_cut(examples.target, task.vocabulary.pad), device)
    bos = target.new_full((len(target), 1), task.vocabulary.bos)
    prefix = torch.cat([bos, target[:, :-1]], dim=1)
    positions, prefix_positions = task.positions(kind, source, prefix)
    return Batch(Inputs(source, positions, visible, prefix, prefix_positions), target)


def _cut(rows: np.ndarray, pad: int) -> np.ndarray:
    """Drop the columns on the right that are padding in every row."""
    used = np.flatnonzero((rows != pad).any(axis=0))
    return rows[:, : int(used[-1]) + 1]


def _to_tensor(rows: np.ndarray, device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(rows)).to(device)


def make_model(task: Task, config: ModelConfig) -> Transformer:
    """The model of a recipe for this task; an encoding whose positions the task lacks is refused by name."""
    model = Transformer(config, len(task.vocabulary), task.n_classes)
    task.check_positions(model.encoding.position_kind)
    return model


def pick_device(name: str) -> torch.device:
    """`auto` takes a GPU where there is one."""
    if name not in ("auto", "cpu", "cuda"):
        raise InputError(f"--device {name!r}; known: auto, cpu, cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: this machine has no GPU that PyTorch can use; auto and cpu work")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")
