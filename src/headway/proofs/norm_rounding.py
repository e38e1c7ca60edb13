"""Layer norms and linear layers in fp32: how far their outputs can be from those of the float64 pass, to all orders.

The difference between two outputs of a layer norm is exactly a multiple of its Jacobian times the displacement of the
input, plus a multiple of the output itself; both multiples are bounded by the displacement in units of the deviation.
docs/proofs.md derives this.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.proofs import rounding

Cotangent = Float[Tensor, "#row out width"]
"""Derivatives of several outputs."""
NORM_STEPS = 6
"""Roundings of one coordinate of a layer norm: mean subtracted (before or after scaling), scaled, weight, bias."""


def weighed(cotangent: Tensor, own: Tensor) -> Float[Tensor, "row out"]:
    """The sum of |derivative| times error."""
    return applied(cotangent.abs(), own)


def applied(cotangent: Cotangent, x: Float[Tensor, "row width"]) -> Float[Tensor, "row out"]:
    """The linear functions with these derivatives; one product of matrices where all rows share them."""
    if len(cotangent) == 1:
        return x @ cotangent[0].T
    if torch.compiler.is_compiling():  # joined with what computes the derivatives, which then need no memory
        return (cotangent * x[:, None]).sum(-1)
    return (cotangent @ x[..., None])[..., 0]


def linear_error(layer: nn.Linear, reach: Tensor) -> Tensor:
    """The rounding error of a linear layer, from the largest absolute values that its inputs can have."""
    share = rounding.gamma(layer.in_features + 1)
    found: Tensor = share * (reach @ layer.weight.abs().T + layer.bias.abs()) + rounding.UNDERFLOW
    return found


@dataclass(frozen=True)
class Normed:
    """A layer norm with the differences that its fp32 output can have, given the displacement of its input.

    With y the normalised float64 input and h the displacement, the fp32 output is `value` + (1 + a) J h + b w y + c w +
    d, where |a| <= slope_error, |b| <= scale_error, |c| <= move_error and |d| <= own for each coordinate.
    """

    weight: Float[Tensor, " width"]
    value: Float[Tensor, "row width"]
    normalised: Float[Tensor, "row width"]
    spread: Float[Tensor, "row 1"]
    displaced: Float[Tensor, "row 1"]
    slope_error: Float[Tensor, "row 1"]
    scale_error: Float[Tensor, "row 1"]
    move_error: Float[Tensor, "row 1"]
    own: Float[Tensor, "row width"]

    def carried(self, first_order: Float[Tensor, "row out"]) -> Float[Tensor, "row out"]:
        """The effect of the displacement on outputs, from its effect by the Jacobian alone."""
        return (1 + self.slope_error) * first_order

    def errors(self, cotangent: Cotangent) -> Float[Tensor, "row out"]:
        """The effect of everything else: roundings, and the change of scale by the displacement."""
        scaled = applied(cotangent, self.weight * self.normalised).abs() * self.scale_error
        moved = (cotangent @ self.weight).abs() * self.move_error
        return scaled + moved + weighed(cotangent, self.own)

    def reach(self) -> Float[Tensor, "row width"]:
        """The largest absolute values that the fp32 output can have."""
        displaced = (1 + self.slope_error) * self.displaced / self.spread
        scaled = self.scale_error * self.normalised.abs()
        return self.value.abs() + self.weight.abs() * (displaced + scaled + self.move_error) + self.own

    def back(self, cotangent: Cotangent) -> Cotangent:
        """Derivatives by the norm's float64 input."""
        normalised = self.normalised[..., None, :]
        scaled = cotangent * self.weight
        along = (scaled * normalised).mean(-1, keepdim=True)
        return (scaled - scaled.mean(-1, keepdim=True) - normalised * along) / self.spread[..., None]


def normed(norm: nn.LayerNorm, x: Float[Tensor, "row width"], displacement: Float[Tensor, "row width"]) -> Normed:
    """A layer norm of `x`, where the fp32 input differs from it by at most `displacement` in each coordinate."""
    width = x.shape[-1]
    mean = x.mean(-1, keepdim=True)
    spread = ((x - mean).square().mean(-1, keepdim=True) + norm.eps).sqrt()
    normalised = (x - mean) / spread
    displaced = displacement.square().sum(-1, keepdim=True).sqrt()
    share = displaced / (math.sqrt(width) * spread)
    # The fp32 input's deviation is at least (1 - share) spread; its mean square is at most `square`.
    least = torch.where(share < 0.5, (1 - share) * spread, math.nan)
    square = (x.square().mean(-1, keepdim=True).sqrt() + displaced / math.sqrt(width)).square()
    variance = 4 * rounding.gamma(width + 4) * square / least.square()
    root = torch.where(variance < 0.5, variance + 2 * rounding.SQUARE_ROOT, math.nan)
    slope = share / (1 - share)
    turned = share.square() / (2 * (1 - share).square())
    farthest = (1 + root) * (x.abs() + displacement + square.sqrt()) / least
    return Normed(
        weight=norm.weight,
        value=normalised * norm.weight + norm.bias,
        normalised=normalised,
        spread=spread,
        displaced=displaced,
        slope_error=(1 + slope) * (1 + root) - 1,
        scale_error=turned + root,
        move_error=rounding.gamma(width) * square.sqrt() * (1 + root) / least,
        own=rounding.gamma(NORM_STEPS) * (norm.weight.abs() * farthest + norm.bias.abs()) + rounding.UNDERFLOW,
    )
