"""Several models of one shape as one model: seeds are folded into the batch.

The rows of the first model come first, then those of the second. Attention, masks, positions and poolings treat
rows apart already, so only the leaves that hold weights have to know: a linear layer becomes one batched product.
All weights live in one matrix, `seed parameter`, of which every layer holds views.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.encodings.fire import Number
from headway.model.noise import share_noise
from headway.model.transformer import Transformer

ALIGNED = 32
"""Every parameter starts at a multiple of this many numbers, as fast matrix products need."""
SMALL_TABLE = 256
"""Rows up to which a table is read by a product with one-hot rows: its gradient is a product too, in a fixed order."""


class StackedLinear(nn.Module):
    def __init__(self, weight: Float[Tensor, "seed out in"], bias: Float[Tensor, "seed out"]):
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, x: Float[Tensor, "rows *any in"]) -> Float[Tensor, "rows *any out"]:
        folded = x.reshape(len(self.weight), -1, x.shape[-1])
        mixed = torch.baddbmm(self.bias[:, None], folded, self.weight.transpose(1, 2))
        return mixed.view(*x.shape[:-1], -1)


class StackedLayerNorm(nn.Module):
    def __init__(self, weight: Float[Tensor, "seed d_model"], bias: Float[Tensor, "seed d_model"], epsilon: float = 1e-5):
        super().__init__()
        self.weight, self.bias, self.epsilon = nn.Parameter(weight), nn.Parameter(bias), epsilon

    def forward(self, x: Float[Tensor, "rows *any d_model"]) -> Float[Tensor, "rows *any d_model"]:
        folded = F.layer_norm(x, x.shape[-1:], eps=self.epsilon).view(len(self.weight), -1, x.shape[-1])
        return (folded * self.weight[:, None] + self.bias[:, None]).view(x.shape)


class StackedEmbedding(nn.Module):
    def __init__(self, weight: Float[Tensor, "seed row d_model"]):
        super().__init__()
        self.weight = nn.Parameter(weight)

    @property
    def num_embeddings(self) -> int:
        return self.weight.shape[1]

    def forward(self, index: Int[Tensor, "rows *any"]) -> Float[Tensor, "rows *any d_model"]:
        folded = index.reshape(len(self.weight), -1)
        if self.num_embeddings <= SMALL_TABLE:
            hot = folded[..., None] == torch.arange(self.num_embeddings, device=index.device)
            found = hot.to(self.weight.dtype) @ self.weight
        else:
            found = self.weight[torch.arange(len(self.weight), device=index.device)[:, None], folded]
        return found.view(*index.shape, -1)


class StackedNumber(nn.Module):
    def __init__(self, value: Float[Tensor, " seed"]):
        super().__init__()
        self.value = nn.Parameter(value)

    def forward(self, like: Float[Tensor, "rows *any"]) -> Float[Tensor, "rows *ones"]:
        each = self.value.repeat_interleave(like.shape[0] // len(self.value))
        return each.view(-1, *[1] * (like.ndim - 1))


@dataclass(frozen=True)
class Stack:
    """The stacked model, its weights as one matrix, and where each parameter lies in a row of it."""

    model: Transformer
    weights: Float[Tensor, "seed parameter"]
    places: dict[str, tuple[int, torch.Size]]

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def leaves(self) -> list[nn.Parameter]:
        """The parameters in the order of `places`."""
        found = dict(self.model.named_parameters())
        return [found[name] for name in self.places]

    def read(self, matrix: Float[Tensor, "seed parameter"], seed: int) -> dict[str, Tensor]:
        """One model's part of a matrix laid out like the weights, by parameter name, on the CPU."""
        row = matrix[seed].detach().cpu()
        return {name: row[at : at + shape.numel()].view(shape).clone() for name, (at, shape) in self.places.items()}

    def write(self, matrix: Float[Tensor, "seed parameter"], seed: int, values: dict[str, Tensor]) -> None:
        """Put one model's numbers into a matrix laid out like the weights."""
        row = torch.zeros(matrix.shape[1], dtype=matrix.dtype)
        for name, (at, shape) in self.places.items():
            row[at : at + shape.numel()] = values[name].flatten()
        with torch.no_grad():
            matrix[seed] = row.to(matrix.device)


def stack_models(models: Sequence[Transformer], device: torch.device) -> Stack:
    """One model of several that have the same shape and each their own weights."""
    shell = type(models[0])(models[0].config, models[0].embedding.num_embeddings, _classes(models[0]))
    places = _lay_out(shell)
    end, last = list(places.values())[-1]
    width = -(-(end + last.numel()) // ALIGNED) * ALIGNED
    weights = torch.zeros(len(models), width, dtype=models[0].readout.weight.dtype, device=device)
    views = {
        name: weights[:, at : at + shape.numel()].unflatten(1, shape or (1,)).view(len(models), *shape)
        for name, (at, shape) in places.items()
    }
    for path, leaf in list(_leaves(shell)):
        parent, _, name = path.rpartition(".")
        setattr(shell.get_submodule(parent), name, _stacked(leaf, path, views))
    shell.noise = share_noise(shell)
    stack = Stack(shell, weights, places)
    for seed, model in enumerate(models):
        stack.write(weights, seed, dict(model.named_parameters()))
    return stack


def _classes(model: Transformer) -> int:
    return model.readout.out_features if model.config.shape == "encoder" else 0


def _lay_out(model: nn.Module) -> dict[str, tuple[int, torch.Size]]:
    places, start = {}, 0
    for name, parameter in model.named_parameters():
        places[name] = (start, parameter.shape)
        start += -(-parameter.numel() // ALIGNED) * ALIGNED
    return places


def _leaves(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for path, module in model.named_modules():
        if next(module.parameters(recurse=False), None) is not None:
            yield path, module


def _stacked(leaf: nn.Module, path: str, views: dict[str, Tensor]) -> nn.Module:
    own = [views[f"{path}.{name}"] for name, _ in leaf.named_parameters(recurse=False)]
    if isinstance(leaf, nn.Linear):
        return StackedLinear(*own)
    if isinstance(leaf, nn.LayerNorm):
        return StackedLayerNorm(*own, leaf.eps)
    if isinstance(leaf, nn.Embedding):
        return StackedEmbedding(*own)
    if isinstance(leaf, Number):
        return StackedNumber(*own)
    raise TypeError(f"{path}: a stack knows no {type(leaf).__name__}; give model/stack.py one")
