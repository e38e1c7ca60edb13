"""Bounds of the difference between fp32 and float64 in the layers after an attention, to all orders, for sums.

Every layer's output differs from its float64 output by the float64 Jacobian times the difference of its input, plus
the layer's own error: rounding, and what the Jacobian leaves out. So the difference of an output of the model is a sum
over all own errors, each times its derivative. The own errors need bounds of how far the inputs of layer norms and
ReLUs move; those are differences of the same kind, computed layer after layer.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.blocks import Block
from headway.proofs import rounding
from headway.proofs.norm_rounding import Cotangent, Normed, applied, linear_error, normed, weighed
from headway.proofs.sum_rounding import Bounded, after_attention


@dataclass(frozen=True)
class Tail:
    """The layers after an attention: output projection, feed-forward, norm, and the linear layers after it."""

    output: nn.Linear
    block: Block
    norm: nn.LayerNorm
    readers: tuple[nn.Linear, ...]

    @property
    def weight(self) -> Float[Tensor, "out d_model"]:
        return torch.cat([reader.weight for reader in self.readers])

    def values(self, x: Tensor, heads: Tensor) -> Float[Tensor, "row out"]:
        """The values alone."""
        middle = x + self.output(heads)
        layer = self.block.feed_forward
        last = middle + layer.contract(layer.expand(self.block.feed_forward_norm(middle)).relu())
        return self._read(self.norm(last))

    def forward(self, x: Bounded, heads: Bounded) -> "Passed":
        """The forward pass from the residual stream `x` and the head outputs, with the errors of each operation."""
        branch = Branch.of(self, x, heads)
        identity = torch.eye(branch.last.shape[-1], dtype=branch.last.dtype, device=branch.last.device)
        ready = normed(self.norm, branch.last, branch.errors(identity[None]))
        own = torch.cat([linear_error(reader, ready.reach()) for reader in self.readers], dim=-1)
        return Passed(self, branch, ready, self._read(ready.value), own)

    def _read(self, ready: Tensor) -> Float[Tensor, "row out"]:
        return torch.cat([reader(ready) for reader in self.readers], dim=-1)


@dataclass(frozen=True)
class Branch:
    """The residual stream after an attention and a feed-forward layer, with the own errors of each operation."""

    tail: Tail
    heads: Bounded
    middle_own: Float[Tensor, "row d_model"]
    read: Normed
    slope: Float[Tensor, "row d_ff"]
    hidden_own: Float[Tensor, "row d_ff"]
    active_own: Float[Tensor, "row d_ff"]
    feed_forward: Float[Tensor, "row d_model d_model"]
    """The Jacobian of the feed-forward layer, with a slope for each ReLU."""
    last: Float[Tensor, "row d_model"]
    last_own: Float[Tensor, "row d_model"]

    @staticmethod
    def of(tail: Tail, x: Bounded, heads: Bounded) -> "Branch":
        """The forward pass through the feed-forward layer."""
        middle, layer = after_attention(x, heads, tail.output), tail.block.feed_forward
        read = normed(tail.block.feed_forward_norm, middle.value, middle.displacement())
        hidden, rounded = layer.expand(read.value), linear_error(layer.expand, read.reach())
        carried = _through_norm(read, layer.expand.weight, middle.own, tail.output.weight, heads.error)
        moved = read.carried(carried) + read.errors(layer.expand.weight[None]) + rounded
        reach = hidden.relu() + moved
        written, written_own = layer.contract(hidden.relu()), linear_error(layer.contract, reach)
        last = middle.value + written
        sizes = middle.value.abs() + middle.displacement() + written_own + reach @ layer.contract.weight.abs().T
        last_own = written_own + rounding.UNIT * (sizes + layer.contract.bias.abs())
        # What the Jacobian of the norm leaves out counts as an error of the hidden units.
        hidden_own = rounded + read.slope_error * carried
        slope, active_own = relu(hidden, moved)
        jacobian = (layer.contract.weight * slope[:, None, :]) @ layer.expand.weight
        return Branch(tail, heads, middle.own, read, slope, hidden_own, active_own, jacobian, last, last_own)

    def errors(self, stream: Cotangent) -> Float[Tensor, "row out"]:
        """The effect of all errors on linear functions of the stream."""
        layer = self.tail.block.feed_forward
        bound = weighed(stream, self.last_own)
        active = stream @ layer.contract.weight
        bound = bound + weighed(active, self.active_own + self.slope * self.hidden_own)
        inner = stream @ self.feed_forward
        bound = bound + self.read.errors(inner)
        stream = stream + self.read.back(inner)
        bound = bound + weighed(stream, self.middle_own)
        return bound + weighed(stream @ self.tail.output.weight, self.heads.error)


def relu(hidden: Tensor, moved: Tensor) -> tuple[Tensor, Tensor]:
    """A slope for each unit that moves by at most `moved`, and the largest error of the line with that slope.

    A unit that can cross 0 gets the slope for which both ends of its range have the same error.
    """
    crosses = moved > hidden.abs()
    slope = torch.where(crosses, (moved + hidden) / (2 * moved), (hidden > 0).to(hidden.dtype))
    return slope, (moved - hidden.abs()).relu() / 2


def _through_norm(read: Normed, weight: Tensor, own: Tensor, output: Tensor, heads: Tensor) -> Float[Tensor, "row out"]:
    """The effect of errors of the stream (`own`) and of head outputs on `weight` times a norm, by its Jacobian.

    The Jacobian is a constant matrix less one of rank one, so no product of matrices is computed for each row. For the
    errors of the stream, which are small, the two are bounded apart.
    """
    scaled = weight * read.weight
    scaled = scaled - scaled.mean(-1, keepdim=True)
    along = read.normalised @ scaled.T / scaled.shape[-1]
    direction = read.normalised @ output
    through = torch.addcmul(scaled @ output, along[..., None], direction[..., None, :], value=-1).abs_()
    direct = own @ scaled.abs().T + along.abs() * (read.normalised.abs() * own).sum(-1, keepdim=True)
    return (direct + applied(through, heads)) / read.spread


@dataclass(frozen=True)
class Passed:
    """A forward pass through a `Tail`, with the own errors of each of its operations."""

    tail: Tail
    branch: Branch
    ready: Normed
    values: Float[Tensor, "row out"]
    own: Float[Tensor, "row out"]

    def errors(self, cotangent: Cotangent) -> Float[Tensor, "row out"]:
        """Error bounds of linear functions of the final norm, without the readers' roundings."""
        return self.ready.carried(self.branch.errors(self.ready.back(cotangent))) + self.ready.errors(cotangent)

    def value_errors(self) -> Float[Tensor, "row out"]:
        """Error bounds of the values."""
        return rounding.OWN * (self.errors(self.tail.weight[None]) + self.own)

    def difference_errors(self, right: Int[Tensor, " row"]) -> Float[Tensor, "row out"]:
        """Error bounds of the differences between the right value and each other value; infinity if there is none."""
        weight = self.tail.weight
        own = self.own.gather(1, right[:, None]) + self.own
        found = rounding.OWN * (self.errors(weight[right][:, None] - weight) + own)
        return found.nan_to_num(math.inf, math.inf)
