"""A trained vector for each position, up to the end of the table (Gehring et al. 2017)."""

from dataclasses import dataclass
from typing import Any, Literal

from jaxtyping import Float
from torch import Tensor, nn

from headway.config import setting
from headway.errors import InputError
from headway.model.encodings.base import Encoding, Positions, Sizes

UNTRAINED_ROWS = 4_096


@dataclass(frozen=True, kw_only=True)
class LearnedOptions:
    table_size: int = setting(128, "rows of the table", low=1, high=1_000_000)
    past: Literal["clamp", "untrained"] = setting(
        "clamp", f"past the table: its last row, or rows up to {UNTRAINED_ROWS:,} that training never reaches"
    )


class Learned(Encoding):
    """Row p of a table; a position past the table takes its last row, or a row that was never trained."""

    Options = LearnedOptions

    def __init__(self, options: Any, sizes: Sizes):
        super().__init__(options, sizes)
        rows = options.table_size if options.past == "clamp" else max(options.table_size, UNTRAINED_ROWS)
        self.table = nn.Embedding(rows, sizes.d_model)

    def embed(self, positions: Positions) -> Float[Tensor, "#row position d_model"]:
        rows = self.table.num_embeddings
        if self.options.past == "untrained" and positions.shape[1] > rows:
            raise InputError(f"the learned table has {rows:,} rows and the sequence {positions.shape[1]:,} positions")
        return self.table(positions.clamp(max=rows - 1))
