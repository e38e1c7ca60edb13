"""Abacus and coupled positions: a table over digit places, shifted by a random offset in training.

Both need a task that knows which tokens are digits. The offset, one for each example, lets short numbers
train the rows that longer numbers will need: a row is trained at every place of a number if it is at most
max_offset + 1, and at its last places up to max_offset + the places of the longest answer. The answer to two numbers of
125 digits has 126 digits and an end, so it needs row 127; hence 128. Position 0 (what is not a digit) never moves.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.config import setting
from headway.errors import InputError
from headway.model.encodings.base import Encoding, Positions, Sizes, for_rows


@dataclass(frozen=True, kw_only=True)
class OffsetOptions:
    table_size: int = setting(256, "rows of the table; positions beyond it use the last row", low=2, high=1_000_000)
    max_offset: int = setting(128, "training shifts all digits of an example by up to this much", low=0, high=1_000_000)


class OffsetTable(Encoding):
    """A trained vector for each digit place."""

    Options = OffsetOptions

    def __init__(self, options: Any, sizes: Sizes):
        super().__init__(options, sizes)
        if options.max_offset >= options.table_size:
            raise InputError(
                f"model.encoding.max_offset = {options.max_offset} moves every digit past "
                f"model.encoding.table_size = {options.table_size}"
            )
        self.table = nn.Embedding(options.table_size, sizes.d_model)

    def place(
        self, source: Positions, target: Int[Tensor, "#other prefix"] | None, length: Int[Tensor, "#batch 1"]
    ) -> tuple[Int[Tensor, "#placed position"], Int[Tensor, "#moved prefix"] | None]:
        if not self.training or self.options.max_offset == 0:
            return source, target
        offset = (self.noise.uniform(length.shape, source.device) * (self.options.max_offset + 1)).long()

        def moved(positions: Positions) -> Int[Tensor, "#placed position"]:
            positions = for_rows(positions, len(offset))
            return torch.where(positions > 0, positions + offset, positions)

        return moved(source), None if target is None else moved(target)

    def embed(self, positions: Positions) -> Float[Tensor, "#row position d_model"]:
        return self.table(positions.clamp(max=self.options.table_size - 1))


class Abacus(OffsetTable):
    """Abacus: the position is the digit's index in its number as written (McLeish et al. 2024)."""

    position_kind = "abacus"


class Coupled(OffsetTable):
    """Coupled: digits of the same significance share a position, in source and answer (Cho et al. 2024)."""

    position_kind = "coupled"
