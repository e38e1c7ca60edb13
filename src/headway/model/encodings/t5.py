"""T5's relative bias: one trained number per head and bucket of distances (Raffel et al. 2020)."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.config import setting
from headway.model.encodings.base import Encoding, Sizes


@dataclass(frozen=True, kw_only=True)
class T5Options:
    buckets: int = setting(32, "buckets of distances", low=4, high=4_096)
    max_distance: int = setting(128, "all distances from here on share the last bucket", low=2)


class T5(Encoding):
    """Small distances have a bucket each, larger ones share buckets that widen like a logarithm.

    In bidirectional attention, half of the buckets are for keys after the query.
    """

    Options = T5Options

    def __init__(self, options: Any, sizes: Sizes):
        super().__init__(options, sizes)
        self.tables = nn.ModuleDict({kind: nn.Embedding(options.buckets, sizes.n_heads) for kind in sizes.kinds})

    def initialise(self) -> None:
        """Tables start at 0, so that attention starts flat."""
        for table in self.tables.parameters():
            nn.init.zeros_(table)

    def bias(
        self, query: Int[Tensor, "#batch query"], key: Int[Tensor, "#batch key"], kind: str
    ) -> Float[Tensor, "#batch head query key"]:
        bucket = self.bucket(key[:, None, :] - query[:, :, None], causal=self.sizes.kinds[kind])
        return self.tables[kind](bucket).permute(0, 3, 1, 2)

    def bucket(self, ahead: Int[Tensor, "*any"], *, causal: bool) -> Int[Tensor, "*any"]:
        """The bucket of each distance key - query."""
        buckets, offset = self.options.buckets, torch.zeros_like(ahead)
        distance = -ahead.clamp(max=0)
        if not causal:
            buckets //= 2
            offset = (ahead > 0) * buckets
            distance = ahead.abs()
        exact = buckets // 2
        growth = math.log(max(self.options.max_distance, exact + 1) / exact)
        wide = exact + (distance.clamp(min=1) / exact).log() / growth * (buckets - exact)
        return offset + torch.where(distance < exact, distance, wide.long().clamp(exact, buckets - 1))
