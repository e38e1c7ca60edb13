"""Data of a foreign model as columns: one tensor for each argument of the model, a row for each example."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.errors import InputError

IGNORED = -100
"""Label of a token that is not scored, as in PyTorch and Hugging Face."""
PADDING = {"labels": IGNORED, "attention_mask": 0, "decoder_attention_mask": 0, "token_type_ids": 0}
TOKENS_A_BATCH = {"cpu": 4_096, "cuda": 1 << 15}
"""Tokens of one batch: small enough for a CPU's cache, large enough for a GPU."""
METRIC_ONLY = ("labels", "answer", "other")
"""Columns that are given to the metric and not to the model."""


@dataclass(frozen=True)
class ModelExamples:
    """Examples as columns; `positional` are the names of arguments that are given by position."""

    columns: Mapping[str, Tensor]
    positional: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def take(self, rows: slice | np.ndarray) -> "ModelExamples":
        index = rows if isinstance(rows, slice) else torch.from_numpy(np.ascontiguousarray(rows))
        return replace(self, columns={name: column[index] for name, column in self.columns.items()})

    def to(self, device: torch.device) -> "ModelExamples":
        return replace(self, columns={name: column.to(device) for name, column in self.columns.items()})

    def repeat(self, copies: int) -> "ModelExamples":
        """The rows repeated as a block, several times."""
        if copies == 1:
            return self
        columns = {name: x.repeat(copies, *[1] * (x.ndim - 1)) for name, x in self.columns.items()}
        return replace(self, columns=columns)

    def arguments(self) -> dict[str, Tensor] | tuple[Tensor, ...]:
        """What the model is called with."""
        if self.positional is not None:
            return tuple(self.columns[name] for name in self.positional)
        return {name: column for name, column in self.columns.items() if name not in METRIC_ONLY}

    @property
    def inputs(self) -> Tensor:
        """The token ids that a model with one sequence reads, or those of the encoder."""
        if self.positional is not None:
            return self.columns[self.positional[0]]
        for name in ("input_ids", "tokens", "x"):
            if name in self.columns:
                return self.columns[name]
        return next(iter(self.columns.values()))

    def column(self, name: str, metric: str) -> Tensor:
        if name not in self.columns:
            raise InputError(f"metric {metric!r} needs {name!r} in the data, which has {', '.join(self.columns)}")
        return self.columns[name]

    def real(self) -> Tensor:
        """Which input tokens are no padding, `row token`."""
        mask = self.columns.get("attention_mask")
        return torch.ones_like(self.inputs[:, :], dtype=torch.bool) if mask is None else mask.bool()

    def lengths(self) -> np.ndarray:
        """The numbers of real tokens and of scored ones; examples of equal lengths can be exchanged."""
        found = [x.bool().sum(1) for name, x in self.columns.items() if name.endswith("attention_mask") and x.ndim == 2]
        labels = self.columns.get("labels")
        if labels is not None and labels.ndim == 2:
            found.append((labels != IGNORED).sum(1))
        if not found:
            found = [torch.full((len(self),), self.inputs.shape[1] if self.inputs.ndim > 1 else 1)]
        return torch.stack([x.cpu() for x in found], dim=1).numpy()

    @property
    def tokens(self) -> int:
        """Tokens of one example, of all sequences that the model reads."""
        ids = [x.shape[1] for x in self.columns.values() if x.ndim >= 2 and not x.is_floating_point()]
        return max(1, max(ids, default=1))

    def parts(self, device: torch.device) -> Iterator[tuple[slice, "ModelExamples"]]:
        """Pieces of a size that suits the device, with their rows."""
        size = max(1, TOKENS_A_BATCH.get(device.type, 4_096) // self.tokens)
        for start in range(0, len(self), size):
            rows = slice(start, min(start + size, len(self)))
            yield rows, self.take(rows).to(device)


def read_data(data: Any) -> ModelExamples:
    """Examples from one batch or a list of batches: mappings of tensors, or tuples whose last tensor is the label."""
    if isinstance(data, ModelExamples):
        return data
    batches = [data] if isinstance(data, Mapping | tuple) else list(data) if isinstance(data, Sequence) else None
    if batches is None and hasattr(data, "__iter__") and not isinstance(data, Tensor | str):
        batches = list(data)
    if not batches:
        raise InputError(f"data of type {type(data).__name__}; a batch or a list of batches needed, mappings or tuples")
    found = [_one(batch) for batch in batches]
    if len({(tuple(one.columns), one.positional) for one in found}) > 1:
        raise InputError("the batches have different columns; all must be alike")
    return found[0] if len(found) == 1 else _joined(found)


def _one(batch: Any) -> ModelExamples:
    if isinstance(batch, Mapping):
        columns, positional = {str(name): x for name, x in batch.items() if isinstance(x, Tensor)}, None
    elif isinstance(batch, tuple | list) and len(batch) >= 2 and all(isinstance(x, Tensor) for x in batch):
        *arguments, labels = batch
        positional = tuple(f"argument {place}" for place in range(len(arguments)))
        columns = {**dict(zip(positional, arguments, strict=True)), "labels": labels}
    else:
        raise InputError(f"a batch of type {type(batch).__name__}; a mapping of tensors, or a tuple (inputs, labels)")
    if not columns:
        raise InputError("a batch without tensors")
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        raise InputError(f"the columns of a batch have different numbers of rows: {sizes}")
    return ModelExamples(columns, positional)


def _joined(found: list[ModelExamples]) -> ModelExamples:
    """Batches one below the other, padded to the longest on the side on which they are padded themselves."""
    masks = [one.columns["attention_mask"] for one in found if "attention_mask" in one.columns]
    left = any(bool((mask[:, 0] == 0).any()) for mask in masks if mask.ndim == 2)
    columns = {}
    for name in found[0].columns:
        parts = [one.columns[name] for one in found]
        width = max(part.shape[1] for part in parts) if parts[0].ndim == 2 else 0
        if any(part.ndim == 2 and part.shape[1] < width for part in parts):
            if not masks and name not in PADDING:
                raise InputError("batches of different lengths need an attention_mask, or padding to one length")
            value = PADDING.get(name, 0)
            pads = [((width - part.shape[1], 0) if left else (0, width - part.shape[1])) for part in parts]
            parts = [F.pad(part, pad, value=value) for part, pad in zip(parts, pads, strict=True)]
        columns[name] = torch.cat(parts)
    return ModelExamples(columns, found[0].positional)
