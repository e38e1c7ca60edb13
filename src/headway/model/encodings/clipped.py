"""Clipped relative bias: one trained number per head and distance; large distances share one (Shaw et al. 2018)."""

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.config import setting
from headway.model.encodings.base import Encoding, PositionKind, Sizes


@dataclass(frozen=True, kw_only=True)
class ClippedOptions:
    clip: int = setting(16, "largest distance with its own bias", low=1, high=65_536)
    positions: PositionKind = setting(
        "index", "distances between text positions, coupled positions or Abacus indices of digits"
    )


class Clipped(Encoding):
    """bias = table[clip(key - query, -c, c)], a table for each kind of attention."""

    Options = ClippedOptions

    def __init__(self, options: Any, sizes: Sizes):
        super().__init__(options, sizes)
        rows = 2 * options.clip + 1
        self.tables = nn.ModuleDict({kind: nn.Embedding(rows, sizes.n_heads) for kind in sizes.kinds})

    def initialise(self) -> None:
        """Tables start at 0, so that attention starts flat."""
        for table in self.tables.parameters():
            nn.init.zeros_(table)

    def bias(
        self, query: Int[Tensor, "#batch query"], key: Int[Tensor, "#batch key"], kind: str
    ) -> Float[Tensor, "#batch head query key"]:
        clip = self.options.clip
        ahead = (key[:, None, :] - query[:, :, None]).clamp(-clip, clip)
        return self.tables[kind](ahead + clip).permute(0, 3, 1, 2)
