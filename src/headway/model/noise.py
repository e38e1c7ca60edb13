"""Counter-based random numbers of a training step: each is a hash of the step's key, the call and the index in the
tensor.

A generator's numbers depend on how many were drawn before. These do not: the same key gives the same dropout to a
model trained alone, resumed halfway, or trained in a stack beside others, on a CPU and on a GPU.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

AXES = (0x2C1B3C6D, 0x297A2D39, 0x5851F42D, 0x14057B7F)
"""Odd multipliers that distinguish the axes of a tensor. Widths do not enter, so padding changes no number."""
CALL = 0x1E3779B9
FIRST, SECOND = 0x85EBCA6B - (1 << 32), 0xC2B2AE35 - (1 << 32)
"""The multipliers of MurmurHash3's 32-bit finaliser, as signed numbers."""


class Noise:
    """The source of all random numbers of a model; `begin` sets the keys of a step, one pair for each model of a
    stack.
    """

    def __init__(self) -> None:
        self.keys: Int[Tensor, "seed 2"] | None = None
        self.drawn: Int[Tensor, "1 2"] | None = None
        self.calls = 0

    def begin(self, keys: Int[Tensor, "seed 2"] | None) -> None:
        """Set the keys of the next passes; with None each pass draws its keys from PyTorch's generator."""
        self.keys = keys

    def start_pass(self) -> None:
        """Restart the count of calls at 0, and forget a key that the last pass drew."""
        self.calls, self.drawn = 0, None

    def bits(self, shape: Sequence[int], device: torch.device) -> Int[Tensor, "..."]:
        """32 random bits for each element, as signed numbers; in the first axis the models' rows follow each other."""
        if self.keys is None and self.drawn is None:
            self.drawn = torch.randint(-(1 << 31), 1 << 31, (1, 2)).int()
        keys = self.keys if self.keys is not None else self.drawn
        assert keys is not None
        keys = keys.to(device)
        self.calls += 1
        n_models, rest = len(keys), [1] * (len(shape) - 1)
        x = torch.zeros((), dtype=torch.int32, device=device)
        for axis, size in enumerate((shape[0] // n_models, *shape[1:])):
            along = torch.arange(size, dtype=torch.int32, device=device) * AXES[axis]
            x = x + along.view(-1, *[1] * (len(shape) - 1 - axis))
        first, second = (key.view(-1, 1, *rest) for key in (keys + self.calls * CALL % (1 << 31)).unbind(1))
        # A right shift of a signed number copies its sign; the mask makes it the shift of an unsigned one.
        x = x + first
        x.bitwise_xor_((x >> 16).bitwise_and_(0xFFFF)).mul_(FIRST).add_(second)
        x.bitwise_xor_((x >> 13).bitwise_and_(0x7FFFF)).mul_(SECOND)
        return x.bitwise_xor_((x >> 16).bitwise_and_(0xFFFF)).flatten(0, 1)

    def uniform(self, shape: Sequence[int], device: torch.device) -> Float[Tensor, "..."]:
        """Uniform numbers in [0, 1), multiples of 2^-24."""
        return ((self.bits(shape, device) >> 8) & 0xFFFFFF).float() / (1 << 24)

    def drop(self, x: Float[Tensor, "..."], share: float) -> Float[Tensor, "..."]:
        """Set a random share of the elements to 0 and scale the others up."""
        kept = self.bits(x.shape, x.device) >= round(share * (1 << 32)) - (1 << 31)
        return torch.where(kept, x / (1 - share), 0.0)


def share_noise(model: nn.Module) -> Noise:
    """Make all modules of a model draw from the same noise, so that one call of `begin` reaches them all."""
    noise = Noise()
    for module in model.modules():
        if isinstance(getattr(module, "noise", None), Noise):
            object.__setattr__(module, "noise", noise)
    return noise


class Dropout(nn.Module):
    """Dropout that draws from the model's noise; the identity outside of training."""

    def __init__(self, share: float):
        super().__init__()
        self.share, self.noise = share, Noise()

    def forward(self, x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        return self.noise.drop(x, self.share) if self.training and self.share else x
