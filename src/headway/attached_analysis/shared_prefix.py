"""Many head masks on one batch of a foreign model: layers below the first difference are not computed again.

Masks are run in lexicographic order, so that each shares the longest prefix of layers with the one before. A layer in
that prefix is skipped: its forward returns the output that it had in the pass before. Everything else is the model's
own code, so that this works wherever the layers are known (`Attached.blocks`). On a GPU several masks whose first
change is in the same layer run as one batch. Logits are computed only at the positions that the metric reads, if the
model has an output embedding that can be hooked.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from headway.attached_analysis.examples import ModelExamples
from headway.attachment.attached import Attached
from headway.attachment.masks import call
from headway.attachment.sites import AttachedSite
from headway.head_analysis.partial_forward import Emit, HeadMasks, Replacement, patch_each

Outputs = dict[int, Any]
"""Index of a block -> what it returned."""


class SharedPrefix:
    """One batch of examples, ready for any number of head masks."""

    def __init__(self, attached: Attached, examples: ModelExamples, positions: Tensor | None = None):
        self.attached, self.examples, self.positions = attached, examples, positions
        self.blocks = attached.blocks or []
        where = {name: index for index, block in enumerate(self.blocks) for name in block.sites}
        self.block_of_site = [where.get(site.name, 0) for site in attached.sites]
        counts = [site.n_heads for site in attached.sites]
        self.block_of_column = np.repeat(self.block_of_site, counts)
        self.ends = np.cumsum(counts)
        self.cached: Outputs = {}
        self.cached_mask: np.ndarray | None = None

    @torch.no_grad()
    def whole(self) -> Tensor:
        """The logits with every head kept; fills the cache."""
        return self._pass(np.zeros((1, len(self.block_of_column)), dtype=np.int64), [])

    @torch.no_grad()
    def run(self, masks: HeadMasks, replacements: Sequence[Replacement], emit: Emit, together: int = 1) -> None:
        """Call `emit` with the logits of each different mask and the rows that have it."""
        unique, inverse = np.unique(masks, axis=0, return_inverse=True)
        rows = [np.flatnonzero(inverse.reshape(-1) == one) for one in range(len(unique))]
        for chunk in self._chunks(unique, together):
            logits = self._pass(unique[chunk], replacements)
            for one, part in zip(chunk, logits.chunk(len(chunk)), strict=True):
                emit(rows[one], part)

    def _chunks(self, unique: np.ndarray, together: int) -> Iterator[list[int]]:
        """Masks that run as one batch: neighbours in order, whose first change is in the same block."""
        first = [self._first_block(mask) for mask in unique]
        chunk: list[int] = []
        for one in range(len(unique)):
            if chunk and (len(chunk) >= together or first[one] != first[chunk[0]]):
                yield chunk
                chunk = []
            chunk.append(one)
        if chunk:
            yield chunk

    def _first_block(self, mask: np.ndarray) -> int:
        changed = np.flatnonzero(mask)
        return int(self.block_of_column[changed[0]]) if len(changed) else len(self.blocks)

    def _shared(self, masks: np.ndarray) -> int:
        """How many of the first blocks compute what they computed in the cached pass."""
        if self.cached_mask is None:
            return 0
        differs = np.flatnonzero((masks != self.cached_mask).any(0))
        return int(self.block_of_column[differs[0]]) if len(differs) else len(self.blocks)

    def _pass(self, masks: np.ndarray, replacements: Sequence[Replacement]) -> Tensor:
        copies = len(masks)
        skipped = min(self._shared(masks), len(self.blocks) - 1) if self.blocks else 0
        kept = {index: self.cached[index] for index in range(skipped)}
        fresh: Outputs = {}
        wide = self.examples.repeat(copies)
        with ExitStack() as stack:
            stack.enter_context(self.attached.intervene(self._edits(masks, replacements, skipped)))
            for index in range(skipped):
                stack.enter_context(skipping(self.blocks[index].module, self._widened(kept[index], copies)))
            for index in range(skipped, len(self.blocks) if copies == 1 else 0):
                hook = self.blocks[index].module.register_forward_hook(_keep(fresh, index))
                stack.callback(hook.remove)
            positions = None if self.positions is None else self.positions.repeat(copies, 1)
            select = stack.enter_context(_at_positions(self.attached, positions))
            logits = select(self._call(wide))
        if copies == 1 and len(fresh) == len(self.blocks) - skipped:
            self.cached, self.cached_mask = {**kept, **fresh}, masks[0]
        return logits

    def _call(self, examples: ModelExamples) -> Tensor:
        arguments = examples.arguments()
        if isinstance(arguments, dict) and getattr(getattr(self.attached.module, "config", None), "use_cache", False):
            arguments["use_cache"] = False  # type: ignore[assignment]
        return self.attached.read(call(self.attached.model, arguments))

    def _widened(self, output: Any, copies: int) -> Any:
        size = len(self.examples)

        def repeat(x: Tensor) -> Tensor:
            return x.repeat(copies, *[1] * (x.ndim - 1)) if x.ndim and len(x) == size else x

        return output if copies == 1 else tree_map_only(Tensor, repeat, output)

    def _edits(
        self, masks: np.ndarray, replacements: Sequence[Replacement], skipped: int
    ) -> dict[str, Callable[[Tensor], Tensor]]:
        found = {}
        for index, site in enumerate(self.attached.sites):
            part = masks[:, self.ends[index] - site.n_heads : self.ends[index]]
            if part.any() and self.block_of_site[index] >= skipped:
                found[site.name] = _edit(site, part, replacements)
        return found


def _edit(site: AttachedSite, masks: np.ndarray, replacements: Sequence[Replacement]) -> Callable[[Tensor], Tensor]:
    return lambda heads: patch_each(heads, site, masks, replacements)


def _keep(found: Outputs, index: int) -> Callable[[nn.Module, Any, Any], None]:
    def hook(module: nn.Module, arguments: Any, output: Any) -> None:
        found[index] = output

    return hook


@contextmanager
def skipping(module: nn.Module, output: Any) -> Iterator[None]:
    """A module that returns a stored output instead of computing one.

    Its own dictionary is changed, because a block of TransformerBridge hands attributes on to the module that it wraps.
    """
    own = module.__dict__
    before = own.get("forward")
    own["forward"] = lambda *arguments, **named: output
    try:
        yield
    finally:
        if before is None:
            del own["forward"]
        else:
            own["forward"] = before


@contextmanager
def _at_positions(attached: Attached, positions: Tensor | None) -> Iterator[Callable[[Tensor], Tensor]]:
    """A function that takes the logits at some positions; where it can be, only those are computed."""
    if positions is None:
        yield lambda logits: logits
        return
    embedding = output_embedding(attached)

    def gathered(x: Tensor) -> Tensor:
        return x.gather(1, positions[..., None].expand(-1, -1, x.shape[-1]))

    if embedding is None:
        yield gathered
        return
    hook = embedding.register_forward_pre_hook(lambda module, arguments: (gathered(arguments[0]), *arguments[1:]))
    try:
        yield lambda logits: logits
    finally:
        hook.remove()


def output_embedding(attached: Attached) -> nn.Linear | None:
    """The linear layer from hidden states to logits of a language model of Hugging Face; None if it is not known."""
    find = getattr(attached.module, "get_output_embeddings", None)
    found = find() if callable(find) else None
    return found if isinstance(found, nn.Linear) else None


def mean_outputs(sums: Mapping[str, Tensor], counts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Mean head outputs over all positions, from sums and counts at each."""
    return {name: (sums[name].sum(0) / counts[name].sum(0).clamp(min=1)).float() for name in sums}
