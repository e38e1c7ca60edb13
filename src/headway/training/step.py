"""One optimiser step for a stack of seeds, without host-device synchronisation.

The batches, noise keys and learning rates of many steps are put on the device beforehand; a counter on the device
selects the next one, and losses and gradient norms are stored there. So a step can be captured once and replayed.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from headway.batches import Batch, collate
from headway.config import RunConfig, TrainConfig
from headway.model.dot_products import let_compiler_keep_walls
from headway.model.stack import Stack
from headway.model.transformer import Inputs
from headway.tasks import Task
from headway.training.adamw import EPSILON
from headway.training.loop import learning_rate, noise_keys
from headway.training.prefetch import Prefetcher

WARM_UP = 3
"""Warm-up steps before a CUDA graph is captured, as PyTorch requires."""


class Load:
    """Inputs of some steps on the device: noise keys, learning rates with AdamW's corrections, and examples."""

    def __init__(self, keys: Tensor, rates: Tensor, *examples: Tensor):
        self.keys, self.rates, self.examples = keys, rates, examples


class StackStep:
    """Updates the stack's weights in place; seeds that are not alive or whose loss is not finite are unchanged.

    `first` and `second` are AdamW's moments, with the layout of the weights. If `mixed`, the forward and backward pass
    use the weights of `used`, rounded to bf16; AdamW's moments and weights stay in full precision, so that small steps
    are not lost.
    """

    def __init__(
        self,
        stack: Stack,
        task: Task,
        settings: TrainConfig,
        prefetcher: Prefetcher,
        *,
        padded: bool,
        longest: int,
        compiled: bool = True,
        mixed: bool = False,
    ):
        self.stack, self.task, self.settings, self.prefetcher, self.padded = stack, task, settings, prefetcher, padded
        device, n = stack.weights.device, len(stack)
        self.first, self.second = torch.zeros_like(stack.weights), torch.zeros_like(stack.weights)
        self.mixed = mixed
        self.used = stack.rounded(torch.bfloat16) if mixed else stack
        self.gradient = torch.zeros_like(self.used.weights)
        self.keys = torch.zeros(longest, n, 2, dtype=torch.int32, device=device)
        self.rates = torch.zeros(longest, 3, n, dtype=torch.float64, device=device)
        self.losses, self.norms = torch.zeros(2, longest, n, device=device)
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.alive = torch.ones(n, dtype=torch.bool, device=device)
        self.leaves = self.used.leaves
        self.slots = list(stack.layout.blocks(self.gradient).values())
        self.owner = stack.layout.owners(device)
        self.loss_of: Callable[[Batch, Tensor], Tensor] = self._losses
        self.update: Callable[..., None] = adamw
        self.replay = self._captured(compiled) if device.type == "cuda" else self.take

    def find(self, first: int, total: int, count: int, models: Sequence[RunConfig]) -> "Load":
        """The host's part of the next `count` steps; models may differ in seed and learning rate."""
        steps = range(first, first + count)
        beta1, beta2 = self.settings.beta1, self.settings.beta2
        rates = np.array([[learning_rate(one.train, step, total) for one in models] for step in steps])
        corrections = np.array([(1 - beta1 ** (s + 1), (1 - beta2 ** (s + 1)) ** 0.5) for s in steps])
        table = np.concatenate([rates[:, None], np.repeat(corrections[:, :, None], len(models), 2)], axis=1)
        keys = np.stack([noise_keys([one.seed for one in models], step).numpy() for step in steps])
        return Load(*(self._sendable(part) for part in (keys, table, *self.prefetcher.find(first, count))))

    def take_up_weights(self) -> None:
        """Must be called after the stack's weights were changed from outside."""
        if self.mixed:
            self.used.weights.copy_(self.stack.weights)

    def _sendable(self, values: np.ndarray) -> Tensor:
        """Numbers in pinned memory, which can be copied without waiting for the device."""
        found = torch.from_numpy(np.ascontiguousarray(values))
        return found.pin_memory() if self.at.device.type == "cuda" else found

    def load(self, coming: "Load") -> None:
        """Copy prepared steps to the device."""
        count = len(coming.keys)
        self.keys[:count].copy_(coming.keys, non_blocking=True)
        self.rates[:count].copy_(coming.rates, non_blocking=True)
        self.prefetcher.load(coming.examples)
        self.at.zero_()

    def readings(self, count: int) -> Callable[[], tuple[Tensor, Tensor]]:
        """Losses and gradient norms of the steps since the last load; waits for the device."""
        found = torch.stack([self.losses[:count], self.norms[:count]])
        if found.device.type == "cpu":
            return lambda: (found[0], found[1])
        host = torch.empty(found.shape, dtype=found.dtype, pin_memory=True)
        host.copy_(found, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()

        def wait() -> tuple[Tensor, Tensor]:
            arrived.synchronize()
            return host[0], host[1]

        return wait

    def take(self) -> None:
        """Take the next of the loaded steps."""
        self.used.model.train()
        source, target = self.prefetcher.take(self.at)
        losses = self.loss_of(self._batch(source, target), self.keys.index_select(0, self.at)[0])
        torch._foreach_copy_(self.slots, list(torch.autograd.grad(losses.sum(), self.leaves)))
        rates = self.rates.index_select(0, self.at)[0].to(self.first.dtype)
        with torch.no_grad():
            norms = self.stack.layout.norms(self.gradient)
            self.alive.logical_and_(norms.isfinite() & losses.isfinite())
            self.update(
                self.stack.weights,
                self.first,
                self.second,
                self.gradient,
                (self.settings.clip / (norms + 1e-6)).clamp(max=1.0),
                self.alive,
                self.owner,
                rates,
                (self.settings.beta1, self.settings.beta2),
                self.settings.weight_decay,
                self.used.weights if self.mixed else None,
            )
            self.losses.index_copy_(0, self.at, losses.detach().to(self.losses.dtype)[None])
            self.norms.index_copy_(0, self.at, norms.to(self.norms.dtype)[None])
            self.at.add_(1)

    def _batch(self, source: Int[Tensor, "row position"], target: Int[Tensor, "row *answer"]) -> Batch:
        batch = collate(self.task, self.used.model, source, target, padded=self.padded)
        return Batch(positions_of_each(batch.inputs, len(self.stack)), batch.target)

    def _losses(self, batch: Batch, keys: Int[Tensor, "seed 2"]) -> Float[Tensor, " seed"]:
        """The mean loss of each seed over its own rows."""
        model, pad, n = self.used.model, self.task.vocabulary.pad, len(self.stack)
        model.noise.begin(keys)
        # What is not a weight, a table of sinusoids for one, is in full precision; products need both alike.
        with torch.autocast(self.gradient.device.type, torch.bfloat16, enabled=self.mixed, cache_enabled=False):
            logits, target = model(batch.inputs), batch.target
        each = F.cross_entropy(
            (logits.float() if self.mixed else logits).flatten(0, -2),
            target.flatten(),
            ignore_index=pad,
            reduction="none",
            label_smoothing=self.settings.label_smoothing,
        )
        return each.view(n, -1).sum(1) / (target != pad).view(n, -1).sum(1)

    def _captured(self, compiled: bool) -> Callable[[], None]:
        """Capture the step as one CUDA graph, compiled if wanted; no seed is alive during the capture."""
        if compiled:
            let_compiler_keep_walls()
            self.loss_of = torch.compile(self._losses, dynamic=False)
            self.update = torch.compile(adamw, dynamic=False)
        alive = self.alive.clone()
        self.alive.zero_()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"\s*Online softmax is disabled")  # of no use to the reader
            for _ in range(WARM_UP):
                self.at.zero_()
                self.take()
        torch.cuda.current_stream().wait_stream(side)
        self.at.zero_()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.take()
        self.alive.copy_(alive)
        self.at.zero_()
        return graph.replay


def positions_of_each(inputs: Inputs, models: int) -> Inputs:
    """The same inputs with separate positions for each model of a stack, where they shared one row.

    Tables of positions differ between models, so they are read once per model, not once per example.
    """

    def of_each(positions: Int[Tensor, "#row position"]) -> Int[Tensor, "some position"]:
        return positions.expand(models, -1) if len(positions) == 1 else positions

    prefix = inputs.prefix_positions
    return replace(
        inputs,
        source_positions=of_each(inputs.source_positions),
        prefix_positions=None if prefix is None else of_each(prefix),
    )


def adamw(
    weights: Float[Tensor, " number"],
    first: Float[Tensor, " number"],
    second: Float[Tensor, " number"],
    gradient: Float[Tensor, " number"],
    scale: Float[Tensor, " seed"],
    alive: Bool[Tensor, " seed"],
    owner: Int[Tensor, " number"],
    rates: Float[Tensor, "3 seed"],
    betas: tuple[float, float],
    weight_decay: float,
    rounded: Shaped[Tensor, " number"] | None = None,
) -> None:
    """AdamW in place for the seeds that are alive, with scaled gradients.

    `rates` are each one's learning rate and two corrections for the moments' start at 0; `owner` is a layout's.
    `rounded` becomes the new weights in its own type.
    """
    is_matrix = owner >= len(alive)
    seed = torch.where(is_matrix, owner - len(alive), owner).long()
    rate, correction1, correction2 = rates[0][seed], rates[1, 0], rates[2, 0]
    decay = torch.where(is_matrix, weight_decay, 0.0).to(weights.dtype)
    scaled, lives = gradient.to(weights.dtype) * scale[seed], alive[seed]
    new_first = first + (1 - betas[0]) * (scaled - first)
    new_second = betas[1] * second + (1 - betas[1]) * scaled.square()
    moved = weights * (1 - rate * decay) - rate / correction1 * new_first / (new_second.sqrt() / correction2 + EPSILON)
    if rounded is not None:
        rounded.copy_(torch.where(lives, moved, weights))
    for old, new in ((weights, moved), (first, new_first), (second, new_second)):
        old.copy_(torch.where(lives, new, old))
