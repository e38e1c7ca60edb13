"""An adversary that chooses every rounding error of a model's forward pass, within what fp32 allows, to move one logit.

The model itself runs in float64. Linear layers, layer norms, attention and additions get errors, each a share in
[-1, 1] of the largest one. Shares are set to the sign of the gradient, several times.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from headway.proofs import rounding


class WorstArithmetic(TorchFunctionMode):
    """Adds the chosen errors to operations; `shares` grows by one tensor for each error on the first pass."""

    def __init__(self, shares: list[Tensor]):
        super().__init__()
        self.shares, self.asked = shares, 0

    def share(self, like: Tensor) -> Tensor:
        if self.asked == len(self.shares):
            self.shares.append(torch.zeros_like(like, requires_grad=True))
        self.asked += 1
        return self.shares[self.asked - 1]

    def off(self, x: Tensor, largest: Tensor) -> Tensor:
        return x + self.share(x) * largest

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunction():
            if func is F.linear:
                return self.linear(*args)
            if func is F.layer_norm:
                return self.layer_norm(*args, **(kwargs or {}))
            if func is F.scaled_dot_product_attention:
                return self.attention(*args, **kwargs)
            found = func(*args, **(kwargs or {}))
            if func in (Tensor.add, Tensor.__add__) and found.dtype == torch.float64 and found.dim() == 3:
                return self.off(found, rounding.UNIT * found.abs())
            return found

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        sizes = x.abs() @ weight.abs().T + bias.abs()
        return self.off(x @ weight.T + bias, rounding.gamma(x.shape[-1] + 1) * sizes)

    def layer_norm(self, x: Tensor, shape: Any, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        n, mean = x.shape[-1], x.mean(-1, keepdim=True)
        variance = x.var(-1, unbiased=False, keepdim=True) + eps
        wrong = self.off(mean, rounding.gamma(n) * x.abs().mean(-1, keepdim=True))
        variance = self.off(variance, 4 * rounding.gamma(n + 4) * x.square().mean(-1, keepdim=True))
        root = variance.rsqrt()
        root = self.off(root, rounding.SQUARE_ROOT * root)
        scaled = (x - wrong) * root * weight
        return self.off(scaled, rounding.gamma(4) * scaled.abs()) + bias

    def attention(self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor) -> Tensor:
        width = query.shape[-1]
        score, sizes = (q @ k.mT / math.sqrt(width) for q, k in ((query, key), (query.abs(), key.abs())))
        score = self.off(score, rounding.gamma(width + 3) * sizes) + attn_mask
        seen = score > -math.inf
        largest = rounding.UNIT * score.masked_fill(~seen, 0).abs().amax() * rounding.ARGUMENT + rounding.EXPONENTIAL
        weight = self.off(score, largest).softmax(-1)
        terms = weight[..., None] * value[:, :, None]
        return self.off(terms, rounding.gamma(8) * terms.abs()).sum(-2)


def farthest(run: Callable[[], Tensor], steps: int = 4) -> float:
    """The largest distance from its exact number that the adversary finds for `run()`, upwards or downwards."""
    shares: list[Tensor] = []
    with WorstArithmetic(shares):
        exact = run()
    distances = []
    for sign in (1, -1):
        for share in shares:
            share.data.zero_()
        for _ in range(steps):
            with WorstArithmetic(shares):
                found = run()
            distances.append(abs(float((found - exact).detach())))
            for share, slope in zip(shares, torch.autograd.grad(found, shares), strict=True):
                share.data = sign * slope.sign()
    with WorstArithmetic(shares):
        distances.append(abs(float((run() - exact).detach())))
    return max(distances)
