"""Randomized positions: training uses ordered random subsets of a long range (Ruoss et al. 2023)."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.config import Choice, setting
from headway.errors import InputError
from headway.model.encodings.base import Encoding, Heads, Positions, Sizes, for_rows


@dataclass(frozen=True, kw_only=True)
class RandomizedOptions:
    max_position: int = setting(4_096, "positions are drawn from 0 to max_position - 1", low=2, high=10_000_000)
    over: str = setting("sinusoidal", "the encoding applied to the drawn positions, with its own defaults")


class Randomized(Encoding):
    """Position p of an example becomes the p-th smallest of as many random positions as the example has tokens.

    In training each example draws its own; in evaluation the places are spread evenly over the range, by the
    length of the source alone, so that they do not depend on the length of the answer.
    """

    Options = RandomizedOptions
    spreads = True

    def __init__(self, options: Any, sizes: Sizes):
        from headway.model.encodings import make_encoding

        super().__init__(options, sizes)
        # A table of the other encoding must have a row for every position that can be drawn.
        table = {"table_size": options.max_position} if options.over == "learned" else {}
        self.inner = make_encoding(Choice(name=options.over, options=table), sizes)
        if self.inner.position_kind != "index" or isinstance(self.inner, Randomized):
            raise InputError(f"model.encoding.over = {options.over!r}; an encoding of plain positions needed")

    def place(
        self, source: Positions, target: Int[Tensor, "#other prefix"] | None, length: Int[Tensor, "#batch 1"]
    ) -> tuple[Int[Tensor, "#placed position"], Int[Tensor, "#moved prefix"] | None]:
        places = source.shape[1] + (0 if target is None else target.shape[1])
        chosen = self.draw(places, length) if self.training else self.spread(places, length)

        def picked(positions: Positions) -> Int[Tensor, "#placed position"]:
            return chosen.gather(1, for_rows(positions, len(chosen)).expand(len(chosen), -1))

        return picked(source), None if target is None else picked(target)

    def draw(self, places: int, length: Int[Tensor, "#batch 1"]) -> Int[Tensor, "#batch places"]:
        """Sorted random positions without repeats within an example; padding takes the last one."""
        inside = torch.arange(places, device=length.device) < length
        random = self.noise.uniform(inside.shape, length.device).masked_fill(~inside, 2.0).sort(dim=1).values
        free = (self.options.max_position - length + 1).clamp(min=1)
        drawn = (random * free).long() + torch.arange(places, device=length.device)
        return drawn.clamp(max=self.options.max_position - 1)

    def spread(self, places: int, length: Int[Tensor, "#batch 1"]) -> Int[Tensor, "#batch places"]:
        """Evenly spaced positions."""
        place = torch.arange(places, device=length.device)
        return ((2 * place + 1) * self.options.max_position // (2 * length)).clamp(max=self.options.max_position - 1)

    def embed(self, positions: Positions) -> Float[Tensor, "#row position d_model"] | None:
        return self.inner.embed(positions)

    def rotate(self, x: Heads, positions: Positions) -> Heads:
        return self.inner.rotate(x, positions)

    def bias(
        self, query: Int[Tensor, "#batch query"], key: Int[Tensor, "#batch key"], kind: str
    ) -> Float[Tensor, "#batch head query key"] | None:
        return self.inner.bias(query, key, kind)
