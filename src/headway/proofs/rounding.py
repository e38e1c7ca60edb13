"""How far a model's own fp32 arithmetic can be from exact arithmetic, layer by layer.

A `Bounded` is a value in float64 with a bound of how far the model's fp32 number can be from it. Every function here
takes the bounds of what a layer reads and returns the bound of what it writes, whatever the order of the sums, with
or without fused multiply-add, on a CPU or a GPU without TF32. With u = 2^-24, a sum of n products in any order is off
by at most gamma_n = n u / (1 - n u) times the sum of their absolute values (Higham, Accuracy and Stability of
Numerical Algorithms, section 3.1). docs/proofs.md derives each bound.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

UNIT = 2.0**-24
"""Unit roundoff of fp32: one rounded operation is off by at most this share."""
OWN = 1.001
"""The proof's float64 numbers have the same bounds with 2^-53, a 500-millionth of those of fp32."""
EXPONENTIAL = 64 * UNIT
"""Relative error allowed for one exponential: PyTorch's fastest one is good to 20 units in the last place (40 u)."""
ARGUMENT = 8
"""Roundings between a score and the argument of its exponential: scaling, bias, change of base, less the highest."""
SQUARE_ROOT = 8 * UNIT
"""Relative error allowed for a reciprocal square root and the additions before it."""
STEEPEST_GELU = 1.13
"""Largest slope of GELU."""


@dataclass(frozen=True)
class Bounded:
    """Float64 values, and how far the model's fp32 numbers can be from them."""

    value: Float[Tensor, "*any"]
    error: Float[Tensor, "*any"]

    def __getitem__(self, index: object) -> "Bounded":
        return Bounded(self.value[index], self.error[index])  # type: ignore[index]

    def reach(self) -> Tensor:
        """The largest absolute value that the model's number can have."""
        return self.value.abs() + self.error


def gamma(roundings: int) -> float:
    """What so many roundings in a row can amount to, as a share."""
    return roundings * UNIT / (1 - roundings * UNIT)


def exact(value: Tensor) -> Bounded:
    """Numbers that the model holds as they are, such as embeddings."""
    wide = value.detach().double()
    return Bounded(wide, torch.zeros_like(wide))


def linear(x: Bounded, layer: nn.Linear) -> Bounded:
    """Error: |W| e + gamma_(n+1) (|W| (|x| + e) + |b|)."""
    weight, bias = _parameters(layer)
    share = gamma(layer.in_features + 1)
    carried = (x.error + share * x.reach()) @ weight.abs().T
    return Bounded(x.value @ weight.T + bias, carried + share * bias.abs())


def add(x: Bounded, y: Bounded) -> Bounded:
    """A sum of two: both errors, and one rounding."""
    return Bounded(x.value + y.value, x.error + y.error + UNIT * (x.reach() + y.reach()))


def relu(x: Bounded) -> Bounded:
    return Bounded(x.value.relu(), x.error)


def gelu(x: Bounded) -> Bounded:
    """Error: the steepest slope times e, and eight roundings of |x|, near 0 or not."""
    value = nn.functional.gelu(x.value)
    return Bounded(value, STEEPEST_GELU * x.error + gamma(8) * x.reach())


def layer_norm(x: Bounded, norm: nn.LayerNorm) -> Bounded:
    """What an error of the input does to the exact norm, and what computing it in fp32 adds.

    With d = x - mean and s = sqrt(var + eps): an error e moves d by at most e + mean(e) and s by at most rms(e). The
    fp32 mean is off by gamma_n mean|x|, the variance, by any one-pass or two-pass formula, by 4 gamma_(n+4) mean(x^2).
    """
    n, reach = x.value.shape[-1], x.reach()
    mean = x.value.mean(-1, keepdim=True)
    apart = x.value - mean
    spread = (apart.square().mean(-1, keepdim=True) + norm.eps).sqrt()
    moved = x.error.square().mean(-1, keepdim=True).sqrt()
    least = spread - moved
    if bool((least <= 0).any()):
        raise ValueError("a layer norm reads values that are all alike up to rounding")
    normed = apart / spread
    carried = (x.error + x.error.mean(-1, keepdim=True) + normed.abs() * moved) / least
    squares = reach.square().mean(-1, keepdim=True)
    relative = 4 * gamma(n + 4) * squares / least.square()
    if bool((relative > 0.5).any()):
        raise ValueError("a layer norm reads values whose spread is lost in rounding")
    centre = gamma(n) * reach.mean(-1, keepdim=True)
    size = reach + reach.mean(-1, keepdim=True) + centre
    rounded = (size * (relative + SQUARE_ROOT) + centre * (1 + relative + SQUARE_ROOT)) / least
    error = carried + rounded
    weight, bias = norm.weight.detach().double(), norm.bias.detach().double()
    scaled = error * weight.abs() + 2 * UNIT * ((normed.abs() + error) * weight.abs() + bias.abs())
    return Bounded(normed * weight + bias, scaled)


def scores(query: Bounded, key: Bounded, bias: Tensor | None = None) -> Bounded:
    """query . key / sqrt(d_head) + bias, over the last axis; the three broadcast."""
    width, scale = query.value.shape[-1], 1 / math.sqrt(query.value.shape[-1])
    value = (query.value * key.value).sum(-1) * scale
    error = (query.error * key.reach() + query.value.abs() * key.error).sum(-1) * scale
    error = error + gamma(width + 3) * (query.reach() * key.reach()).sum(-1) * scale
    product = Bounded(value, error)
    return product if bias is None else add(product, exact(bias))


def attention(score: Bounded, value: Bounded) -> Bounded:
    """softmax over the last axis of the scores, times the values (`*any key d_head`); an unseen key has score -inf.

    Every weight is off by a factor of at most exp(2 E): E is the largest error of a score, of its argument's
    roundings and of the exponential. Keys that are not seen add exact zeros, so their number does not count.
    """
    seen = score.value > -math.inf
    most = int(seen.sum(-1).max())
    weight = score.value.softmax(-1)[..., None]
    largest = torch.where(seen, score.reach(), 0.0).amax(-1, keepdim=True)
    shift = torch.where(seen, score.error, 0.0).amax(-1, keepdim=True) + 2 * ARGUMENT * UNIT * largest + EXPONENTIAL
    factor = (2 * shift).exp() * (1 + gamma(4 * most + 16))
    size, carried = (weight * value.value.abs()).sum(-2), (weight * value.error).sum(-2)
    return Bounded((weight * value.value).sum(-2), size * (factor - 1) + carried * factor)


def _parameters(layer: nn.Linear) -> tuple[Tensor, Tensor]:
    return layer.weight.detach().double(), layer.bias.detach().double()
