"""Bounds of the difference between fp32 and float64 through attention, for sums.

Every number has a bound of its own. The bounds hold to all orders: products of errors are counted, and the change of
attention weights is bounded by exponentials. docs/proofs.md derives each bound.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.proofs import rounding
from headway.proofs.norm_rounding import Cotangent, linear_error, normed, weighed

Parts = Float[Tensor, "..."]
"""What keys add to an attention, `... head part`: see `key_parts`."""
HIGHEST_SCORE = 40.0
"""Above this absolute score a weight could underflow in fp32 (e^-80 > 2^-126), and no bound is given."""
MAXIMUM = 4
"""Roundings of the difference of two maxima of scores: scaled, change of base, subtracted."""


@dataclass(frozen=True)
class Bounded:
    """Float64 values, each with a bound of its difference from the model's fp32 number."""

    value: Float[Tensor, "*any"]
    error: Float[Tensor, "*any"]

    def __getitem__(self, index: object) -> "Bounded":
        return Bounded(self.value[index], self.error[index])  # type: ignore[index]

    def reach(self) -> Tensor:
        """The largest absolute value that the model's number can have."""
        return self.value.abs() + self.error

    def errors(self, cotangent: Cotangent) -> Float[Tensor, "row out"]:
        """The effect of the errors on linear functions of the values."""
        return weighed(cotangent, self.error)

    def displacement(self) -> Tensor:
        """A bound of each value's error."""
        return self.error


def exact(value: Tensor) -> Bounded:
    """Numbers without rounding error, such as embeddings."""
    return Bounded(value, torch.zeros_like(value))


def add(x: Bounded, y: Bounded) -> Bounded:
    return Bounded(x.value + y.value, x.error + y.error + rounding.UNIT * (x.reach() + y.reach()))


def scores(query: Bounded, key: Bounded, bias: Tensor) -> Bounded:
    """query . key / sqrt(d_head) + bias, over the last axis; the three broadcast."""
    width, scale = query.value.shape[-1], 1 / math.sqrt(query.value.shape[-1])
    error = (query.error * key.reach() + query.value.abs() * key.error).sum(-1) * scale
    error = error + rounding.gamma(width + 5) * (query.reach() * key.reach()).sum(-1) * scale + rounding.UNDERFLOW
    return add(Bounded((query.value * key.value).sum(-1) * scale, error), exact(bias))


def key_parts(score: Bounded, value: Bounded, centre: Tensor, keys: int) -> Parts:
    """What one key adds for each row: weighted values, their errors, effects of score errors, and weights.

    With w = exp(score), F = e^E - 1 where E is the error of log w, and e the error of a value: w v, w (1 + F) e,
    w F |v - centre|, w F, w. `keys` is the largest number of visible keys. A kernel that goes over them in blocks may
    multiply as many exponentials, whose arguments are differences of maxima of scores.
    """
    weight, reach = score.value.exp()[..., None], score.reach()
    highest = reach.max() if reach.numel() else reach.sum()  # without heads there are no scores
    sums = rounding.gamma(4 * keys + 16)
    argument = (2 * rounding.ARGUMENT + MAXIMUM * keys) * rounding.UNIT * highest + keys * rounding.EXPONENTIAL + sums
    moved = torch.expm1(score.error[..., None] + argument + (0.0 if highest <= HIGHEST_SCORE else math.inf))
    error = (1 + moved) * (value.error + 3 * sums * value.reach())
    shift = weight * moved
    apart = (value.value - centre).abs()
    return torch.cat([weight * value.value, weight * error, shift * apart, shift, weight], dim=-1)


def mixture(parts: Parts) -> Parts:
    """The weighted values and the weights alone."""
    width = (parts.shape[-1] - 2) // 3
    return torch.cat([parts[..., :width], parts[..., -1:]], dim=-1)


def attended(parts: Parts, centre: Tensor) -> Bounded:
    """The attention output, heads concatenated, from the sum of all parts."""
    width = (parts.shape[-1] - 2) // 3
    summed, errors, moved, shift, weight = torch.split(parts, [width, width, width, 1, 1], dim=-1)
    found = summed / weight
    least = torch.where(shift < weight, weight - shift, math.nan)  # of the fp32 weights' sum
    error = (errors + moved + (found - centre).abs() * shift) / least
    return Bounded(found.flatten(-2), error.flatten(-2))


@dataclass(frozen=True)
class Stream:
    """The residual stream after an attention. The errors of the head outputs stay apart from the others, so that their
    effect on a later layer is computed through all linear maps between at once.
    """

    heads: Bounded
    output: nn.Linear
    value: Tensor
    own: Tensor

    def errors(self, cotangent: Cotangent) -> Float[Tensor, "row out"]:
        """The effect of the errors on linear functions of the stream."""
        return weighed(cotangent, self.own) + self.heads.errors(cotangent @ self.output.weight)

    def displacement(self) -> Tensor:
        """A bound of each coordinate's error."""
        return self.own + self.heads.error @ self.output.weight.abs().T

    def bounded(self) -> Bounded:
        """The same with one bound for each coordinate."""
        return Bounded(self.value, self.displacement())


def after_attention(x: Bounded, heads: Bounded, output: nn.Linear) -> Stream:
    """Add the output projection of an attention to the residual stream."""
    branch, branch_own = output(heads.value), linear_error(output, heads.reach())
    reach = branch.abs() + heads.error @ output.weight.abs().T + branch_own
    own = x.error + branch_own + rounding.UNIT * (x.reach() + reach)
    return Stream(heads, output, x.value + branch, own)


def normed_linear(x: Bounded | Stream, norm: nn.LayerNorm, layer: nn.Linear) -> Bounded:
    """A layer norm followed by a linear layer."""
    read, cotangent = normed(norm, x.value, x.displacement()), layer.weight[None]
    carried = read.carried(x.errors(read.back(cotangent)))
    own = linear_error(layer, read.reach())
    return Bounded(layer(read.value), carried + read.errors(cotangent) + own)
