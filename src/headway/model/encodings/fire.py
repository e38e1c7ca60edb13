"""FIRE: a small network of the distance divided by the length so far (Li et al. 2024)."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.config import setting
from headway.model.encodings.base import Encoding, Sizes


@dataclass(frozen=True, kw_only=True)
class FireOptions:
    width: int = setting(32, "hidden units of the network", low=1, high=4_096)
    threshold: float = setting(
        64.0, "initial length threshold (trained) below which distances are not rescaled", above=0
    )


class Fire(Encoding):
    """bias = f(g(q - k) / g(max(q, k, L))), g(x) = sign(x) log(1 + c |x|), with f, c and L trained.

    In causal attention max(q, k) is the query's position, as in the paper; the sign serves the other kinds.
    """

    Options = FireOptions

    def __init__(self, options: Any, sizes: Sizes):
        super().__init__(options, sizes)
        self.curves = nn.ModuleDict({kind: FireCurve(options, sizes.n_heads) for kind in sizes.kinds})

    def bias(
        self, query: Int[Tensor, "#batch query"], key: Int[Tensor, "#batch key"], kind: str
    ) -> Float[Tensor, "#batch head query key"]:
        return self.curves[kind](query, key)


class Number(nn.Module):
    """One trained number, shaped to act on a tensor."""

    def __init__(self, start: float):
        super().__init__()
        self.value = nn.Parameter(torch.tensor(float(start)))

    def forward(self, like: Tensor) -> Tensor:
        return self.value


class FireCurve(nn.Module):
    """The trained curve of one kind of attention."""

    def __init__(self, options: FireOptions, n_heads: int):
        super().__init__()
        self.steepness = Number(0.1)
        self.threshold = Number(options.threshold)
        self.network = nn.Sequential(nn.Linear(1, options.width), nn.ReLU(), nn.Linear(options.width, n_heads))

    def forward(
        self, query: Int[Tensor, "#batch query"], key: Int[Tensor, "#batch key"]
    ) -> Float[Tensor, "#batch head query key"]:
        dtype = self.steepness.value.dtype
        back = (query[:, :, None] - key[:, None, :]).to(dtype)
        furthest = torch.maximum(query[:, :, None], key[:, None, :]).to(dtype)
        steepness, threshold = self.steepness(back).abs(), self.threshold(back).abs()
        share = back.sign() * torch.log1p(steepness * back.abs())
        share = share / torch.log1p(steepness * torch.maximum(furthest, threshold)).clamp(min=1e-6)
        bias: Tensor = self.network(share[..., None])
        return bias.permute(0, 3, 1, 2)
