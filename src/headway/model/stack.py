"""Several models of one shape as one model: seeds are folded into the batch.

The rows of the first model come first, then those of the second. Attention, masks, positions and poolings process rows
independently already, so only the layers with weights change: a linear layer becomes one batched product. All weights
live in one vector, a block for each parameter, of which every layer holds views.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from headway.errors import InputError
from headway.model.encodings.fire import Number
from headway.model.noise import share_noise
from headway.model.transformer import Transformer

ALIGNED = 32
"""Every parameter starts at a multiple of this many numbers, which fast matrix products require."""
SMALL_TABLE = 256
"""Tables with at most this many rows are read by a product with one-hot rows, whose gradient is deterministic."""


class StackedLinear(nn.Module):
    """Weights are stored `in out`, so that the batched product gives their gradient in the same layout."""

    def __init__(self, weight: Float[Tensor, "seed in out"], bias: Float[Tensor, "seed out"]):
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, x: Float[Tensor, "rows *any in"]) -> Float[Tensor, "rows *any out"]:
        # An attention may have lost all its heads; a size of -1 could not be found for what is empty.
        folded = x.unflatten(0, (len(self.weight), len(x) // len(self.weight))).flatten(1, -2)
        # Not baddbmm: it writes the bias to every row first, and a compiler cannot fuse that with what follows.
        return (torch.bmm(folded, self.weight) + self.bias[:, None]).view(*x.shape[:-1], self.weight.shape[-1])


class StackedLayerNorm(nn.Module):
    def __init__(self, weight: Float[Tensor, "seed d_model"], bias: Float[Tensor, "seed d_model"], epsilon: float):
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
class Layout:
    """The layout of a stack's parameters in one vector: one block per parameter, with the seeds one after another.

    `matrices` names the weights of linear layers, which are stored `in out`.
    """

    seeds: int
    places: dict[str, tuple[int, torch.Size]]
    matrices: frozenset[str]
    size: int

    def blocks(self, vector: Shaped[Tensor, " number"]) -> dict[str, Shaped[Tensor, "seed *any"]]:
        """Views of a vector with this layout, by parameter."""
        return {
            name: vector[at : at + self.seeds * shape.numel()].view(self.seeds, *self._stored(name, shape))
            for name, (at, shape) in self.places.items()
        }

    def _stored(self, name: str, shape: torch.Size) -> tuple[int, ...]:
        return tuple(reversed(shape)) if name in self.matrices else tuple(shape)

    def norms(self, vector: Float[Tensor, " number"]) -> Float[Tensor, " seed"]:
        """The norm of each seed's part of a vector, in full precision."""
        parts, dtype = [], torch.promote_types(vector.dtype, torch.float32)
        for numel, group in itertools.groupby(self.places.values(), key=lambda place: place[1].numel()):
            starts = [at for at, _ in group]
            width = -(-self.seeds * numel // ALIGNED) * ALIGNED
            rows = vector[starts[0] : starts[0] + len(starts) * width].view(len(starts), width)
            each = rows[:, : self.seeds * numel].unflatten(1, (self.seeds, numel))
            parts.append(torch.linalg.vector_norm(each, dim=2, dtype=dtype))
        return torch.linalg.vector_norm(torch.cat(parts), dim=0)

    def write(self, vector: Float[Tensor, " number"], models: Sequence[Mapping[str, Tensor]]) -> None:
        """Fill a vector with the numbers of each model, by parameter name."""
        for name, block in self.blocks(vector).items():
            values = torch.stack([model[name].detach() for model in models])
            block.copy_(values.transpose(1, 2) if name in self.matrices else values)

    def read(self, vector: Float[Tensor, " number"]) -> list[dict[str, Tensor]]:
        """The numbers of each model, by parameter name, on the CPU and in a model's own order."""
        blocks = self.blocks(vector.detach().cpu())
        turned = {name: x.transpose(1, 2) if name in self.matrices else x for name, x in blocks.items()}
        return [{name: x[seed].contiguous() for name, x in turned.items()} for seed in range(self.seeds)]

    def owners(self, device: torch.device) -> Int[Tensor, " number"]:
        """The seed of each number; `seeds` is added for the entries of matrices, since only these have weight decay."""
        owner = torch.zeros(self.size, dtype=torch.int16, device=device)
        each = torch.arange(self.seeds, device=device, dtype=torch.int16)
        for name, block in self.blocks(owner).items():
            block.copy_(each.view(-1, *[1] * (block.ndim - 1)) + self.seeds * (name in self.matrices))
        return owner


@dataclass(frozen=True)
class Stack:
    """The stacked model, and its weights as one vector of which every layer holds views."""

    model: Transformer
    weights: Float[Tensor, " number"]
    layout: Layout

    def __len__(self) -> int:
        return self.layout.seeds

    def rounded(self, dtype: torch.dtype) -> "Stack":
        """A copy of the stack whose weights have another type; this stack is unchanged."""
        first = self.model
        shell = type(first)(first.config, first.embedding.num_embeddings, _classes(first))
        return _assemble(shell, self.weights.to(dtype), self.layout)

    @property
    def leaves(self) -> list[nn.Parameter]:
        """The parameters in the order of the layout."""
        found = dict(self.model.named_parameters())
        return [found[name] for name in self.layout.places]


def stack_models(models: Sequence[Transformer], device: torch.device) -> Stack:
    """Stack several models of the same shape into one, each with its own weights."""
    first = models[0]
    shell = type(first)(first.config, first.embedding.num_embeddings, _classes(first))
    layout = _lay_out(shell, len(models))
    weights = torch.zeros(layout.size, dtype=first.readout.weight.dtype, device=device)
    layout.write(weights, [dict(model.named_parameters()) for model in models])
    return _assemble(shell, weights, layout)


def _assemble(shell: Transformer, weights: Float[Tensor, " number"], layout: Layout) -> Stack:
    """Replace every leaf module of the shell by one that holds views of the weights."""
    blocks = layout.blocks(weights)
    for path, leaf in list(_leaves(shell)):
        parent, _, name = path.rpartition(".")
        setattr(shell.get_submodule(parent), name, _stacked(leaf, path, blocks))
    shell.noise = share_noise(shell)
    return Stack(shell, weights, layout)


def _classes(model: Transformer) -> int:
    if model.config.shape != "encoder":
        return 0
    readout = model.readout
    return readout.weight.shape[-1] if isinstance(readout, StackedLinear) else readout.out_features


def _lay_out(model: nn.Module, seeds: int) -> Layout:
    places, start = {}, 0
    # Parameters of one size stand side by side, so that a sum over each is one operation for all of them.
    for name, parameter in sorted(model.named_parameters(), key=lambda one: one[1].numel()):
        places[name] = (start, parameter.shape)
        start += -(-seeds * parameter.numel() // ALIGNED) * ALIGNED
    matrices = frozenset(f"{path}.weight" for path, leaf in _leaves(model) if isinstance(leaf, nn.Linear))
    return Layout(seeds, places, matrices, start)


def _leaves(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for path, module in model.named_modules():
        if next(module.parameters(recurse=False), None) is not None:
            yield path, module


def _stacked(leaf: nn.Module, path: str, blocks: dict[str, Tensor]) -> nn.Module:
    own = [blocks[f"{path}.{name}"] for name, _ in leaf.named_parameters(recurse=False)]
    if type(leaf) is nn.Linear:  # one that derives from it may compute something else
        return StackedLinear(*own)
    if type(leaf) is nn.LayerNorm:
        weight, bias = own
        return StackedLayerNorm(weight, bias, leaf.eps)
    if type(leaf) is nn.Embedding:
        return StackedEmbedding(*own)
    if type(leaf) is Number:
        return StackedNumber(*own)
    raise InputError(
        f"{path} of class {type(leaf).__name__} holds weights of its own, and several seeds at once need them in "
        "nn.Linear, nn.LayerNorm or nn.Embedding; train one seed at a time"
    )
