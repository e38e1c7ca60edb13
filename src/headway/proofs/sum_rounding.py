"""First-order bounds of the difference between a model's fp32 logits and the proof's float64 logits, for sums.

Every operation of the model has a known largest rounding error (`rounding.py`). The effect of such an error on a logit
is its derivative, computed by backpropagation for each context. The sum over all operations of |derivative| times the
largest error bounds the difference to first order. Higher-order terms are products of errors of about 1e-5;
`HIGHER_ORDERS` doubles the bound to cover them.
"""

import copy
import math
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.blocks import Block
from headway.proofs.rounding import ARGUMENT, EXPONENTIAL, SQUARE_ROOT, UNIT, gamma

HIGHER_ORDERS = 2.0
"""Factor on the first-order bound."""
KINK = 1e-3
"""A ReLU input closer to 0 than this may have either sign, so its whole output counts as error."""

Parts = Float[Tensor, "..."]
"""What keys add to an attention, `... head part`: see `key_parts`."""
SINGLE = 1 + 2.0**-10
"""Factor for computing derivatives in fp32: they are off by a share of about n u, less than 2^-16 for n up to 256."""
Cotangent = Float[Tensor, "#row out d_model"]
"""Derivatives of several outputs."""


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


def exact(value: Tensor) -> Bounded:
    """Numbers without rounding error, such as embeddings."""
    return Bounded(value, torch.zeros_like(value))


def add(x: Bounded, y: Bounded) -> Bounded:
    return Bounded(x.value + y.value, x.error + y.error + UNIT * (x.reach() + y.reach()))


def scores(query: Bounded, key: Bounded, bias: Tensor) -> Bounded:
    """query . key / sqrt(d_head) + bias, over the last axis; the three broadcast."""
    width, scale = query.value.shape[-1], 1 / math.sqrt(query.value.shape[-1])
    error = (query.error * key.reach() + query.value.abs() * key.error).sum(-1) * scale
    error = error + gamma(width + 3) * (query.reach() * key.reach()).sum(-1) * scale
    return add(Bounded((query.value * key.value).sum(-1) * scale, error), exact(bias))


def key_parts(score: Bounded, value: Bounded, centre: Tensor) -> Parts:
    """What one key adds for each row: weighted values, their errors, effects of score errors, and weights.

    With w = exp(score) and E the error of log w: w v, w e, w E |v - centre|, w E, w. An error E of log w moves the
    output by w E (v - output), whose size is at most w E (|v - centre| + |output - centre|), whatever the centre.
    """
    weight = score.value.exp()[..., None]
    argument = 2 * ARGUMENT * UNIT * score.reach().max() + EXPONENTIAL
    shift = weight * (score.error[..., None] + argument)
    return torch.cat(
        [weight * value.value, weight * value.error, shift * (value.value - centre).abs(), shift, weight], dim=-1
    )


def mixture(parts: Parts) -> Parts:
    """The weighted values and the weights alone."""
    width = (parts.shape[-1] - 2) // 3
    return torch.cat([parts[..., :width], parts[..., -1:]], dim=-1)


def attended(parts: Parts, keys: int, centre: Tensor) -> Bounded:
    """The attention output, heads concatenated, from the sum of all parts; `keys` is the largest number of visible
    keys.
    """
    width = (parts.shape[-1] - 2) // 3
    summed, errors, moved, shift, weight = torch.split(parts, [width, width, width, 1, 1], dim=-1)
    found = summed / weight
    error = (errors + moved + (found - centre).abs() * shift) / weight
    # Rounding of the sums: gamma times the mean absolute value.
    error = error + gamma(4 * keys + 16) * (found.abs() + centre.abs() + moved / shift)
    return Bounded(found.flatten(-2), error.flatten(-2))


@dataclass(frozen=True)
class Normed:
    """The output of a layer norm and its roundings: a common scale error, a common shift, errors per coordinate."""

    value: Tensor
    scaled: Tensor
    scale_error: Tensor
    moved: Tensor
    move_error: Tensor
    own: Tensor

    def errors(self, cotangent: Cotangent) -> Float[Tensor, "row out"]:
        """The effect of the roundings on linear functions of the output."""
        scaled = (cotangent @ self.scaled[..., None])[..., 0].abs() * self.scale_error
        moved = (cotangent @ self.moved).abs() * self.move_error
        return scaled + moved + weighed(cotangent, self.own)


def normed(norm: nn.LayerNorm, x: Tensor) -> Normed:
    """A layer norm; the sizes of its roundings are derived in `rounding.layer_norm`."""
    n = x.shape[-1]
    spread = _spread(norm, x)
    scaled = (x - x.mean(-1, keepdim=True)) / spread * norm.weight
    relative = 4 * gamma(n + 4) * x.square().mean(-1, keepdim=True) / spread.square() + SQUARE_ROOT
    centre = gamma(n) * x.abs().mean(-1, keepdim=True) / spread * (1 + relative)
    own = 3 * UNIT * (scaled.abs() + norm.bias.abs())
    return Normed(scaled + norm.bias, scaled, relative, norm.weight, centre, own)


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

    def bounded(self) -> Bounded:
        """The same with one bound for each coordinate."""
        return Bounded(self.value, self.own + self.heads.error @ self.output.weight.abs().T)


def after_attention(x: Bounded, heads: Bounded, output: nn.Linear) -> Stream:
    """Add the output projection of an attention to the residual stream."""
    branch, branch_own = _linear(output, heads.value)
    own = x.error + branch_own + UNIT * (x.reach() + branch.abs())
    return Stream(heads, output, x.value + branch, own)


def normed_linear(x: Bounded | Stream, norm: nn.LayerNorm, layer: nn.Linear) -> Bounded:
    """A layer norm followed by a linear layer."""
    read, cotangent = normed(norm, x.value), layer.weight[None]
    value, own = _linear(layer, read.value)
    carried = x.errors(_back_through_norm(norm, x.value, cotangent))
    return Bounded(value, carried + read.errors(cotangent) + own)


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

    @cached_property
    def single(self) -> "Tail":
        """The same layers in fp32."""
        readers = tuple(single_module(reader) for reader in self.readers)
        return Tail(single_module(self.output), single_module(self.block), single_module(self.norm), readers)

    def values(self, x: Tensor, heads: Tensor) -> Float[Tensor, "row out"]:
        """The values alone."""
        middle = x + self.output(heads)
        layer = self.block.feed_forward
        last = middle + layer.contract(layer.expand(self.block.feed_forward_norm(middle)).relu())
        ready = self.norm(last)
        return torch.cat([reader(ready) for reader in self.readers], dim=-1)

    def forward(self, x: Bounded, heads: Bounded) -> "Passed":
        """The forward pass from the residual stream `x` and the head outputs, with the roundings of each operation."""
        branch, branch_own = _linear(self.output, heads.value)
        middle = x.value + branch
        middle_own = UNIT * (x.value.abs() + branch.abs()) + branch_own + x.error
        read = normed(self.block.feed_forward_norm, middle)
        hidden, hidden_own = _linear(self.block.feed_forward.expand, read.value)
        written, written_own = _linear(self.block.feed_forward.contract, hidden.relu())
        last = middle + written
        last_own = UNIT * (middle.abs() + written.abs()) + written_own
        ready = normed(self.norm, last)
        found = [_linear(reader, ready.value) for reader in self.readers]
        values, own = (torch.cat([one[i] for one in found], dim=-1) for i in (0, 1))
        return Passed(self, heads, middle, middle_own, read, hidden, hidden_own, last, last_own, ready, values, own)


@dataclass(frozen=True)
class Passed:
    """A forward pass through a `Tail`, with the roundings of each of its operations."""

    tail: Tail
    heads: Bounded
    middle: Tensor
    middle_own: Tensor
    read: Normed
    hidden: Tensor
    hidden_own: Tensor
    last: Tensor
    last_own: Tensor
    ready: Normed
    values: Float[Tensor, "row out"]
    values_own: Float[Tensor, "row out"]

    def errors(self, cotangent: Cotangent) -> Float[Tensor, "row out"]:
        """Error bounds of linear functions of the final norm, given by their derivatives; without the readers'
        roundings.
        """
        block = self.tail.block
        bound = self.ready.errors(cotangent)
        stream = _back_through_norm(self.tail.norm, self.last, cotangent)
        bound = bound + weighed(stream, self.last_own)
        active = stream @ block.feed_forward.contract.weight
        near = (self.hidden.abs() < KINK).to(active.dtype)
        bound = bound + KINK * weighed(active, near)
        inner = active * (self.hidden > 0)[..., None, :]
        bound = bound + weighed(inner, self.hidden_own)
        inner = inner @ block.feed_forward.expand.weight
        bound = bound + self.read.errors(inner)
        stream = stream + _back_through_norm(block.feed_forward_norm, self.middle, inner)
        bound = bound + weighed(stream, self.middle_own)
        return bound + weighed(stream @ self.tail.output.weight, self.heads.error)

    def value_errors(self) -> Float[Tensor, "row out"]:
        """Error bounds of the values."""
        return self.errors(self.tail.weight[None]) + self.values_own

    def single(self) -> "Passed":
        """The same in fp32, in which derivatives take less than half the time."""
        parts = {name: _single(getattr(self, name)) for name in ("heads", "read", "ready")}
        return replace(_single(self), tail=self.tail.single, **parts)

    def difference_errors(self, right: Int[Tensor, " row"]) -> Float[Tensor, "row out"]:
        """Error bounds of the differences between the right value and each other value."""
        weight = self.tail.weight
        own = self.values_own.gather(1, right[:, None]) + self.values_own
        return SINGLE * HIGHER_ORDERS * (self.errors(weight[right][:, None] - weight) + own)


def _single(record: Any) -> Any:
    """A record with its tensors of floating-point numbers in fp32."""
    tensors = {field.name: getattr(record, field.name) for field in fields(record)}
    single = {name: value.float() for name, value in tensors.items() if isinstance(value, Tensor)}
    return replace(record, **single)


@lru_cache(maxsize=64)
def single_module(module: nn.Module) -> Any:
    return copy.deepcopy(module).float()


def weighed(cotangent: Tensor, own: Tensor) -> Float[Tensor, "row out"]:
    """The sum of |derivative| times error."""
    return (cotangent.abs() @ own[..., None])[..., 0]


def _linear(layer: nn.Linear, x: Tensor) -> tuple[Tensor, Tensor]:
    share = gamma(layer.in_features + 1)
    return layer(x), share * (x.abs() @ layer.weight.abs().T + layer.bias.abs())


def _spread(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    return (x.var(-1, unbiased=False, keepdim=True) + norm.eps).sqrt()


def _back_through_norm(norm: nn.LayerNorm, x: Tensor, cotangent: Tensor) -> Tensor:
    spread = _spread(norm, x)
    normed = ((x - x.mean(-1, keepdim=True)) / spread)[..., None, :]
    scaled = cotangent * norm.weight
    along = (scaled * normed).mean(-1, keepdim=True)
    found: Tensor = (scaled - scaled.mean(-1, keepdim=True) - normed * along) / spread[..., None]
    return found
