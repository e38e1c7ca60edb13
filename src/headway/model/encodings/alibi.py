"""ALiBi: attention falls off linearly with distance, at a slope fixed for each head (Press et al. 2022)."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.config import setting
from headway.model.encodings.base import Encoding


@dataclass(frozen=True, kw_only=True)
class AlibiOptions:
    direction: Literal["symmetric", "directional"] = setting(
        "symmetric", "the same on both sides, or half of the heads for each side (without a causal mask)"
    )


class Alibi(Encoding):
    """bias = -m_h |p - q|, with slopes m_h = 2^(-8 h / n_heads) for h = 1 to n_heads.

    Directional: even heads prefer keys before the query, odd heads keys after it; the distance counts twice on the
    other side. In causal attention there is only one side.
    """

    Options = AlibiOptions

    def bias(
        self, query: Int[Tensor, "#batch query"], key: Int[Tensor, "#batch key"], kind: str
    ) -> Float[Tensor, "#batch head query key"]:
        head = torch.arange(1, self.sizes.n_heads + 1, device=query.device)
        slope = torch.exp2(-8.0 * head / self.sizes.n_heads)[:, None, None]
        ahead = (key[:, None, None, :] - query[:, None, :, None]).float()
        bias = -slope * ahead.abs()
        if self.options.direction == "directional" and not self.sizes.kinds[kind]:
            looks_back = (head % 2 == 1)[:, None, None]
            bias = bias - torch.where(looks_back, ahead, -ahead).clamp(min=0)
        return bias
