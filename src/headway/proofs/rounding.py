"""Bounds of the difference between a model's fp32 arithmetic and exact arithmetic, layer by layer.

A `Bounded` is a table of float64 rows. Each row has a bound of its Euclidean distance from the model's fp32 row. Every
function takes the bounds of a layer's input and returns the bounds of its output. The bounds hold for any order of
summation, with or without fused multiply-add, on a CPU or on a GPU without TF32. With u = 2^-24, a sum of n products
has an error of at most gamma_n = n u / (1 - n u) times the sum of their absolute values (Higham, Accuracy and Stability
of Numerical Algorithms, section 3.1). docs/proofs.md derives each bound.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

UNIT = 2.0**-24
"""Unit roundoff of fp32: the largest relative error of one rounded operation."""
OWN = 1.001
"""Factor for the proof's own float64 rounding, whose bounds are 2^-29 times those of fp32."""
EXPONENTIAL = 64 * UNIT
"""Relative error allowed for one exponential: PyTorch's fastest one is good to 20 units in the last place (40 u)."""
ARGUMENT = 8
"""Roundings between a score and the argument of its exponential: scaling, bias, change of base, subtracted maximum."""
SQUARE_ROOT = 8 * UNIT
"""Relative error allowed for a reciprocal square root and the additions before it."""
STEEPEST_GELU = 1.13
"""Largest slope of GELU."""
UNDERFLOW = 2.0**-100
"""Absolute error allowed for underflow in one row of results: fewer than 2^26 operations, each below 2^-126."""
LARGEST_WEIGHT, WIDEST = 256, 4096
"""With weights and widths of at most these, every number of a model stays below 2^127: docs/proofs.md."""
LEAVES = "numbers of the model could leave the range of fp32."


class NoBound(ValueError):
    """Rounding errors of a model have no bound; the message says why."""


def out_of_range(model: nn.Module) -> str | None:
    """Why the numbers of a model could leave the range or the precision of fp32; None if they cannot."""
    for name, weights in model.named_parameters():
        if weights.dtype not in (torch.float32, torch.float64):
            kind = str(weights.dtype).removeprefix("torch.")
            return f"{name} has numbers of type {kind}: a proof needs fp32 or better."
        if not bool((weights.abs() <= LARGEST_WEIGHT).all()):
            return f"{name} has a weight that is not finite or above {LARGEST_WEIGHT}: {LEAVES}"
        if max(weights.shape[1:], default=0) > WIDEST:
            return f"{name} is wider than {WIDEST:,}: {LEAVES}"
    return None


@dataclass(frozen=True)
class Bounded:
    """Float64 rows, each with a bound of its Euclidean distance from the model's fp32 row."""

    value: Float[Tensor, "*any width"]
    error: Float[Tensor, "*#any"]

    def __getitem__(self, index: Any) -> "Bounded":
        """Select rows."""
        return Bounded(self.value[index], self.error[index])

    def joined(self) -> "Bounded":
        """Concatenate the rows of several heads."""
        return Bounded(self.value.flatten(-2), length(self.error))

    def lengths(self) -> Float[Tensor, "*any"]:
        """The largest norm that each of the model's rows can have."""
        return length(self.value) + self.error


def length(x: Float[Tensor, "*any width"]) -> Float[Tensor, "*any"]:
    """Euclidean norm."""
    return x.square().sum(-1).sqrt()


def gamma(roundings: int) -> float:
    """The largest relative error after this many roundings."""
    return roundings * UNIT / (1 - roundings * UNIT)


def exact(value: Tensor) -> Bounded:
    """Rows without rounding error, such as embeddings."""
    wide = value.detach().double()
    return Bounded(wide, torch.zeros_like(wide[..., 0]))


def linear(x: Bounded, layer: nn.Linear, heads: int | None = None) -> Bounded:
    """A linear layer. Error: |W|_2 e + gamma_(n+1) (||W||_2 |x| + |b|), where ||W|| has the absolute values of W.

    With `heads`, the output is split by head, and each head has the bound of its own rows of W.
    """
    weight, bias = layer.weight.detach().double(), layer.bias.detach().double()
    value = nn.functional.linear(x.value, weight, bias)
    if heads is None:
        return Bounded(value, _linear_error(x, weight, bias))
    parts = zip(weight.chunk(heads), bias.chunk(heads), strict=True)
    return Bounded(value.unflatten(-1, (heads, -1)), torch.stack([_linear_error(x, *part) for part in parts], dim=-1))


def _linear_error(x: Bounded, weight: Float[Tensor, "out width"], bias: Float[Tensor, " out"]) -> Tensor:
    added = gamma(weight.shape[1] + 1) * (spectral(weight.abs()) * x.lengths() + length(bias)) + UNDERFLOW
    return x.error * spectral(weight) + added


def spectral(weight: Float[Tensor, "out width"]) -> Float[Tensor, ""]:
    """The largest singular value, rounded up for float64's own error."""
    return torch.linalg.matrix_norm(weight, 2) * (1 + 1e-9)


def each_output(x: Bounded, layer: nn.Linear) -> Float[Tensor, "*any out"]:
    """The error of each output of a linear layer: |w| e + gamma_(n+1) (|w| |x| + |b|) for each row w of W."""
    lengths, bias = length(layer.weight.detach().double()), layer.bias.detach().double().abs()
    share = gamma(layer.in_features + 1)
    return (x.error + share * x.lengths())[..., None] * lengths + share * bias + UNDERFLOW


def add(x: Bounded, y: Bounded) -> Bounded:
    """Error of a sum: both errors, and one rounding of each number."""
    value, error = x.value + y.value, x.error + y.error
    return Bounded(value, error + UNIT * (length(value) + error) + UNDERFLOW)


def relu(x: Bounded) -> Bounded:
    return Bounded(x.value.relu(), x.error)


def gelu(x: Bounded) -> Bounded:
    """Error: the largest slope times e, and eight roundings of |x|."""
    return Bounded(nn.functional.gelu(x.value), STEEPEST_GELU * x.error + gamma(8) * x.lengths() + UNDERFLOW)


def layer_norm(x: Bounded, norm: nn.LayerNorm) -> Bounded:
    """Layer norm: the propagated input error, and the rounding error of computing the norm in fp32.

    With d = x - mean and s = sqrt(var + eps), d / s has a symmetric Jacobian of norm 1 / s at most, and s moves by at
    most rms(e). The fp32 mean is off by gamma_n mean|x|; the variance, by any one-pass or two-pass formula, by
    gamma_(n+3) (mean(x^2) + 3 |mean| mean|x|), which is the bound of the worst of them, mean(x^2) - mean^2.
    """
    root, weight, bias = math.sqrt(x.value.shape[-1]), norm.weight.detach().double(), norm.bias.detach().double()
    mean = x.value.mean(-1)
    apart = x.value - mean[..., None]
    spread = (apart.square().mean(-1) + norm.eps).sqrt()
    least = spread - x.error / root
    size, middle = x.lengths() / root, mean.abs() + x.error / root
    n = x.value.shape[-1]
    relative = gamma(n + 3) * (1 + (middle.square() + 3 * middle * size) / least.square())
    if not bool(((least > 0) & (relative < 0.1)).all()):
        raise NoBound("The variance of a layer norm's input is lost in rounding.")
    carried = x.error / least
    # 1 / sqrt(1 - r) <= 1 + 0.6 r for r <= 0.1. A row of d / s has at most norm sqrt(n). The mean may be subtracted
    # before or after the division.
    off = gamma(n) * size
    added = root * (0.6 * relative + SQUARE_ROOT + 4 * UNIT + (1.1 * off + 8 * UNIT * (middle + off)) / least)
    last = 2 * UNIT * (weight.abs().max() * (root + carried + added) + length(bias)) + UNDERFLOW
    normed = apart / spread[..., None]
    return Bounded(normed * weight + bias, weight.abs().max() * (carried + added) + last)


def score_error(query: Bounded, key: Bounded, bias: Float[Tensor, "*#any"]) -> Float[Tensor, "*any"]:
    """Error bound of query . key / sqrt(d_head) + bias, for rows that broadcast against each other."""
    width, scale = query.value.shape[-1], 1 / math.sqrt(query.value.shape[-1])
    lengths = query.lengths() * key.lengths()
    error = query.error * key.lengths() + query.lengths() * key.error + gamma(width + 3) * lengths
    return error * scale + UNIT * (2 * lengths * scale + bias.detach().double().abs()) + UNDERFLOW


def attention(
    score: Float[Tensor, "*any key"],
    error: Float[Tensor, "*#any key"],
    size: Float[Tensor, "*#any key"],
    carried: Float[Tensor, "*#any key"],
    farthest: Float[Tensor, "*#any"],
) -> Float[Tensor, "*any"]:
    """Error bound of softmax(scores) times the values; a masked key has score -inf.

    `error` is the error of the scores, `size` the largest norm of each value, `carried` the error of each value, and
    `farthest` the largest distance between two visible values. E is the largest error of an exponential's argument plus
    the error of the exponential. To first order the absolute changes of the weights sum to at most E, half of them up
    and half down, so the output moves by at most E / 2 times `farthest`; exp(2 E) - 1 - 2 E covers the higher orders.
    Masked keys add exact zeros, so their number does not matter.
    """
    seen = score > -math.inf
    roundings = gamma(4 * int(seen.sum(-1).max()) + 16)
    highest, largest, moved, values = (torch.where(seen, x, 0.0).amax(-1) for x in (score.abs(), error, carried, size))
    shift = largest + 2 * ARGUMENT * UNIT * (highest + largest) + EXPONENTIAL
    rest = (2 * shift).exp() - 1 - 2 * shift
    most = moved * (1 + 2 * shift + rest) + shift * farthest / 2 + rest * values
    return most + roundings * (values + most) + UNDERFLOW * (1 + values)
