"""Packs all tensors of a model into one base64 text with an index of their offsets."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Shaped

from headway.errors import InputError

PRECISIONS = ("fp16", "fp32")
TYPES = {"fp16": "<f2", "fp32": "<f4", "u16": "<u2"}
LARGEST_HALF = 65_504.0
ALIGNMENT = 4
"""Alignment of every tensor in bytes, as typed arrays of a browser require."""


@dataclass(frozen=True, kw_only=True)
class PackedTensor:
    """A tensor of `PackedWeights`: its number type, its shape, and the byte at which it begins."""

    type: str
    shape: list[int]
    at: int


@dataclass(frozen=True, kw_only=True)
class PackedWeights:
    """All tensors as one base64 text, and where each one lies."""

    index: Mapping[str, PackedTensor]
    data: str


@dataclass
class Pack:
    """Tensors in sequence; matrices in the chosen precision, vectors always in fp32."""

    precision: str
    index: dict[str, PackedTensor] = field(default_factory=dict)
    content: bytearray = field(default_factory=bytearray)

    def add(self, name: str, values: Shaped[np.ndarray, "..."], kind: str | None = None) -> None:
        """Append a tensor as `kind`; by default matrices in the chosen precision, other tensors in fp32."""
        kind = kind or (self.precision if values.ndim > 1 else "fp32")
        if not np.isfinite(values).all():
            raise InputError(f"the weights {name} contain a non-finite number, so the model cannot be shown")
        if kind == "fp16" and np.abs(values).max(initial=0) > LARGEST_HALF:
            kind = "fp32"  # out of the range of half precision
        self.content += bytes(-len(self.content) % ALIGNMENT)
        self.index[name] = PackedTensor(type=kind, shape=list(values.shape), at=len(self.content))
        self.content += np.ascontiguousarray(values).astype(TYPES[kind]).tobytes()

    def packed(self) -> PackedWeights:
        return PackedWeights(index=self.index, data=base64.b64encode(bytes(self.content)).decode())
