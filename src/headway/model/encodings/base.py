"""The interface of a positional encoding: three hooks, and the source of positions.

Attention and embedding call the hooks, without code for single encodings:

- `embed(positions)` is added to the tokens,
- `rotate(x, positions)` rotates queries and keys,
- `bias(query_positions, key_positions, kind)` is added to the scores.

Before any of them `place` may move the positions (random offsets, random subsets). Positions are whole
numbers that the task supplies; one row stands for the whole batch where all rows are equal, and in a stack of models
one row for each model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from headway.model.noise import Noise

Positions = Int[Tensor, "#row position"]
Heads = Float[Tensor, "batch head position d_head"]
PositionKind = Literal["index", "coupled", "abacus"]


@dataclass(frozen=True)
class Sizes:
    """The sizes of the model; `kinds` maps each kind of attention to whether it is causal."""

    d_model: int
    n_heads: int
    d_head: int
    kinds: Mapping[str, bool]


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """An encoding or pooling without options."""


class Encoding(nn.Module):
    """Base class whose hooks do nothing; an encoding overrides the hooks it needs."""

    Options: ClassVar[type] = NoOptions
    position_kind: PositionKind = "index"
    spreads: ClassVar[bool] = False
    """Whether `place` moves neighbours apart, so that a window over positions would exclude neighbouring tokens."""

    def __init__(self, options: Any, sizes: Sizes):
        super().__init__()
        self.position_kind = getattr(options, "positions", self.position_kind)
        self.options, self.sizes, self.noise = options, sizes, Noise()

    def initialise(self) -> None:
        """Initialise the parameters, after all linear layers and embeddings of the model."""

    def place(
        self, source: Positions, target: Int[Tensor, "#other prefix"] | None, length: Int[Tensor, "#batch 1"]
    ) -> tuple[Int[Tensor, "#placed position"], Int[Tensor, "#moved prefix"] | None]:
        """Positions to use instead of the task's; `length` is the largest number of positions on one axis."""
        return source, target

    def embed(self, positions: Positions) -> Float[Tensor, "#row position d_model"] | None:
        return None

    def rotate(self, x: Heads, positions: Positions) -> Heads:
        return x

    def bias(
        self, query: Int[Tensor, "#batch query"], key: Int[Tensor, "#batch key"], kind: str
    ) -> Float[Tensor, "#batch head query key"] | None:
        return None


def for_rows(x: Shaped[Tensor, "some *any"], rows: int) -> Shaped[Tensor, "rows *any"]:
    """Parameters of each model of a stack, repeated for its rows.

    A single row stays a single row, to be broadcast; a tensor with one row per example is unchanged.
    """
    if len(x) in (1, rows):
        return x
    return x[:, None].expand(-1, rows // len(x), *x.shape[1:]).flatten(0, 1)


class NoEncoding(Encoding):
    """No positions at all: without a causal mask the model sees a bag of tokens."""
