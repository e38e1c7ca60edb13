"""Poolings without parameters."""

import math
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headway.model.poolings.base import Pooling, PoolingPage

Hidden = Float[Tensor, "batch position d_model"]
Visible = Bool[Tensor, "batch position"]
Pooled = Float[Tensor, "batch d_model"]


def lowest(hidden: Hidden, visible: Visible) -> Pooled:
    """The minimum of each coordinate over the visible positions."""
    return hidden.masked_fill(~visible[..., None], math.inf).amin(1)


def highest(hidden: Hidden, visible: Visible) -> Pooled:
    """The maximum of each coordinate over the visible positions."""
    return hidden.masked_fill(~visible[..., None], -math.inf).amax(1)


def mean(hidden: Hidden, visible: Visible) -> Pooled:
    """The mean over the visible positions; 0 if there are none."""
    kept = hidden.masked_fill(~visible[..., None], 0.0).sum(1)
    return kept / visible.sum(1, keepdim=True).clamp(min=1)


def last(hidden: Hidden, visible: Visible) -> Pooled:
    """The vector at the last visible position."""
    place = torch.arange(hidden.shape[1], device=hidden.device)
    at_end = place == (visible * place).amax(1, keepdim=True)
    return (hidden * at_end[..., None]).sum(1)


class Mean(Pooling):
    PAGE: ClassVar[PoolingPage] = {"features": ["mean"]}

    def forward(self, hidden: Hidden, visible: Visible) -> Pooled:
        return mean(hidden, visible)


class Max(Pooling):
    PAGE: ClassVar[PoolingPage] = {"features": ["max"]}

    def forward(self, hidden: Hidden, visible: Visible) -> Pooled:
        return highest(hidden, visible)


class Min(Pooling):
    PAGE: ClassVar[PoolingPage] = {"features": ["min"]}

    def forward(self, hidden: Hidden, visible: Visible) -> Pooled:
        return lowest(hidden, visible)


class First(Pooling):
    PAGE: ClassVar[PoolingPage] = {"features": ["first"]}

    def forward(self, hidden: Hidden, visible: Visible) -> Pooled:
        return hidden[:, 0]


class Last(Pooling):
    PAGE: ClassVar[PoolingPage] = {"features": ["last"]}

    def forward(self, hidden: Hidden, visible: Visible) -> Pooled:
        return last(hidden, visible)
