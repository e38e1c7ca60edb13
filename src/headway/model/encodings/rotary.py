"""Rotary positions: queries and keys are turned by an angle that grows with the position (Su et al. 2021)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headway.config import setting
from headway.errors import InputError
from headway.model.encodings.base import Encoding, Heads, Positions, Sizes


@dataclass(frozen=True, kw_only=True)
class RotaryOptions:
    base: float = setting(10_000.0, "the slowest plane turns once in about 2 pi base positions", above=1)


class Rotary(Encoding):
    """Plane i of a head turns by p base^(-2i / d_head), so a score depends on the distance alone."""

    Options = RotaryOptions

    def __init__(self, options: Any, sizes: Sizes):
        super().__init__(options, sizes)
        if sizes.d_head % 2:
            raise InputError(f"rotary turns pairs of coordinates; model.d_head = {sizes.d_head} must be even")

    def rotate(self, x: Heads, positions: Positions) -> Heads:
        plane = torch.arange(0, x.shape[-1], 2, device=x.device, dtype=torch.float64)
        angle = positions[:, None, :, None].double() * self.options.base ** (-plane / x.shape[-1])
        sin, cos = angle.sin().to(x.dtype), angle.cos().to(x.dtype)
        first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
        turned: Tensor = torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1)
        return turned.flatten(-2)
