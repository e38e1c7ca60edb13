"""Sines and cosines of the position at falling frequencies (Vaswani et al. 2017)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from headway.model.encodings.base import Encoding, Positions


class Sinusoidal(Encoding):
    """PE(p)[2i] = sin(p w_i), PE(p)[2i + 1] = cos(p w_i), w_i = 10000^(-2i / d_model).

    So PE(p + k) is PE(p) turned by k w_i in each plane, and PE(p) . PE(q) depends on p - q alone.
    """

    def embed(self, positions: Positions) -> Float[Tensor, "#row position d_model"]:
        d_model = self.sizes.d_model
        plane = torch.arange(0, d_model, 2, device=positions.device, dtype=torch.float64)
        angle = positions[..., None].double() * torch.exp(-math.log(10_000.0) * plane / d_model)
        pairs = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)
        return pairs[..., :d_model]
