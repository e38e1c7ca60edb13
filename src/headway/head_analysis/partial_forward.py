"""The forward pass of one batch, cut at every site.

    state = forward.start()
    for site in forward.sites:
        heads = forward.head_outputs_at(state, site)            # batch query head d_head: the handle
        state = forward.continue_from(state, site, heads)    # change `heads` before this call to intervene
    logits = forward.logits(state)

is the model's forward pass, with identical numbers. `run_tree` runs many variants at once and computes what they share
only once: two variants branch at the first site where their masks differ. On a GPU all branches are computed together,
concatenated into one batch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.batches import send
from headway.model.attention import HeadOutputs, KeyValueCache
from headway.model.blocks import Block, Hidden, View
from headway.model.sites import HeadSite
from headway.model.transformer import Inputs, Transformer

MOST_WIDTHS = 8
"""Number of batch widths for which masks and positions are cached."""
KEPT_NUMBERS = 1 << 28
"""Size limit, in numbers, of the cache of decoder streams after the first site."""

HeadMasks = Int[np.ndarray, "variant head"]
"""Head masks of the variants: 0 keeps a head, k replaces its output by the k-th replacement."""
Replacement = Mapping[str, Tensor]
"""The replacement of head outputs: site -> a tensor that broadcasts to `batch query head d_head`."""


@dataclass(frozen=True)
class State:
    """The state of a pass between two sites: the residual stream, and the keys and values of the encoder's output."""

    hidden: Hidden
    memory: tuple[KeyValueCache, ...] = field(default=())

    def take(self, rows: Int[Tensor, " row"]) -> "State":
        """The states of some rows."""
        return State(self.hidden.index_select(0, rows), self.memory_of(rows))

    def memory_of(self, rows: Int[Tensor, " row"]) -> tuple[KeyValueCache, ...]:
        return tuple(KeyValueCache(_take(cache.key, rows), _take(cache.value, rows)) for cache in self.memory)

    def past(self, site: HeadSite) -> "State":
        """The same state without the keys and values that no later site reads."""
        if not site.across:
            return self
        return State(self.hidden, (*self.memory[: site.layer], KeyValueCache(), *self.memory[site.layer + 1 :]))


def _take(heads: Tensor | None, rows: Int[Tensor, " row"]) -> Tensor | None:
    """Some rows of keys or values, in the memory layout that the linear layer produced."""
    return None if heads is None else heads.transpose(1, 2).index_select(0, rows).transpose(1, 2)


class PartialForward:
    """A model and a batch, ready for any number of partial forward passes."""

    def __init__(self, model: Transformer, inputs: Inputs, *, placed: bool = False):
        self.model, self.inputs, self.sites = model, inputs if placed else model.placed(inputs), model.sites
        self.copies: dict[int, PartialForward] = {}
        self.encoder_view: View | None = None
        if model.config.shape != "decoder":
            self.encoder_view = model.encoder_view(self.inputs)
        if model.config.shape != "encoder":
            self.decoder_hidden, self.own_view, self.cross_view = model.decoder_start(self.inputs)
        self.alike = model.config.shape != "encoder" and one_row_for_all(self.inputs)

    def wide(self, copies: int) -> "PartialForward":
        """The pass of a batch that repeats this one several times; this pass itself if nothing needs repeating."""
        if copies == 1 or self.alike:
            return self
        if copies not in self.copies:
            if len(self.copies) >= MOST_WIDTHS:
                self.copies.clear()
            self.copies[copies] = PartialForward(self.model, repeat(self.inputs, copies), placed=True)
        return self.copies[copies]

    def opens(self, site: HeadSite) -> bool:
        """Whether a site reads only the decoder's own input, independently of the encoder."""
        return self.encoder_view is not None and (site.side, site.layer, site.across) == ("decoder", 0, False)

    def start(self) -> State:
        return State(self.decoder_hidden if self.encoder_view is None else self.model.embed_source(self.inputs))

    def block(self, site: HeadSite) -> Block:
        stack: nn.ModuleList = getattr(self.model, site.side)
        block = stack[site.layer]
        assert isinstance(block, Block)
        return block

    def head_outputs_at(self, state: State, site: HeadSite) -> HeadOutputs:
        """The head outputs at a site."""
        block = self.block(site)
        if not site.across:
            view = self.encoder_view if site.side == "encoder" else self.own_view
            assert view is not None
            return block.self_attention_outputs(state.hidden, view)
        assert self.cross_view is not None
        return block.cross_attention_outputs(state.hidden, None, self.cross_view, state.memory[site.layer])

    def continue_from(self, state: State, site: HeadSite, heads: HeadOutputs) -> State:
        """Continue from a site with these head outputs, up to the next site."""
        block = self.block(site)
        if site.across:
            hidden = block.add_cross(state.hidden, heads)
        else:
            hidden = block.add_own(state.hidden, heads)
            if block.cross is not None:
                return replace(state, hidden=hidden)
        hidden = block.add_feed_forward(hidden)
        if site.side == "encoder" and site.layer == len(self.model.encoder) - 1:
            return self._after_encoder(self.model.encoder_norm(hidden))
        return replace(state, hidden=hidden)

    def _after_encoder(self, encoded: Hidden) -> State:
        if self.model.config.shape == "encoder":
            return State(encoded)
        assert self.cross_view is not None
        turn = self.cross_view.place.rotate_key
        across = [self.block(site).cross for site in self.sites if site.across]
        memory = tuple(KeyValueCache(*cross.keys_and_values(encoded, turn)) for cross in across if cross is not None)
        copies = len(encoded) // len(self.decoder_hidden)
        return State(self.decoder_hidden if copies == 1 else self.decoder_hidden.repeat(copies, 1, 1), memory)

    def logits(self, state: State) -> Float[Tensor, "batch *prefix out"]:
        """The logits, after the last site."""
        if self.model.config.shape == "encoder":
            return self.model.classify(state.hidden, self.inputs)
        assert self.inputs.prefix is not None
        return self.model.read_out(state.hidden[:, -self.inputs.prefix.shape[1] :])


def one_row_for_all(inputs: Inputs) -> bool:
    """Whether all examples have the same positions and no padding."""
    places = (inputs.source_positions, inputs.prefix_positions)
    return inputs.source_visible is None and all(place is None or len(place) == 1 for place in places)


def repeat(inputs: Inputs, copies: int) -> Inputs:
    """The rows of a batch repeated; a single row that stands for all is not repeated."""
    rows = len(inputs.source)

    def again(part: Tensor | None) -> Tensor | None:
        return part if part is None or len(part) < rows else part.repeat(copies, 1)

    parts = {name: again(getattr(inputs, name)) for name in ("source_visible", "prefix", "prefix_positions")}
    source = inputs.source.repeat(copies, 1)
    positions = again(inputs.source_positions)
    assert positions is not None
    return Inputs(source, positions, **parts)


@torch.inference_mode()
def head_outputs(forward: PartialForward) -> dict[str, HeadOutputs]:
    """The outputs of every head when nothing is changed."""
    found = {}
    state = forward.start()
    for site in forward.sites:
        found[site.name] = forward.head_outputs_at(state, site)
        state = forward.continue_from(state, site, found[site.name])
    return found


Emit = Callable[[Int[np.ndarray, " some"], Tensor], None]
"""Called with the logits of variants that share a mask."""


@torch.inference_mode()
def run_tree(
    forward: PartialForward, plan: HeadMasks, replacements: Sequence[Replacement], emit: Emit, together: int = 1
) -> None:
    """Run all head masks in one pass that branches where they differ; `emit` is called for each leaf.

    Up to `together` branches are computed in one batch. That is for a GPU: one by one, the numbers of a variant do not
    depend on what else is in the plan, to the last bit.
    """
    n_heads = sum(len(site.kept) for site in forward.sites)
    if plan.ndim != 2 or plan.shape[1] != n_heads or plan.min(initial=0) < 0 or plan.max(initial=0) > len(replacements):
        raise ValueError(f"a plan for {n_heads} heads and {len(replacements)} replacements needed, got {plan.shape}")
    if len(plan):
        tree = _Tree(forward, plan, replacements, emit, together, _Opening(forward, replacements))
        tree.grow(forward.start(), 0, 0, [np.arange(len(plan))])


@dataclass(frozen=True)
class _Tree:
    forward: PartialForward
    plan: HeadMasks
    replacements: Sequence[Replacement]
    emit: Emit
    together: int
    opening: "_Opening"

    def grow(self, state: State, step: int, column: int, groups: Sequence[np.ndarray]) -> None:
        """Continue from a site with groups of variants that are equal so far; `column` is the site's first head in the
        masks.
        """
        forward = self.forward.wide(len(groups))
        if step == len(forward.sites):
            for variants, logits in zip(groups, forward.logits(state).chunk(len(groups)), strict=True):
                self.emit(variants, logits)
            return
        site = forward.sites[step]
        last = column + len(site.kept)
        heads = None if forward.opens(site) else forward.head_outputs_at(state, site)
        state = state.past(site)
        branches = [
            (parent, mask, variants)
            for parent, group in enumerate(groups)
            for mask, variants in _alike(self.plan[group, column:last], group)
        ]
        for start in range(0, len(branches), self.together):
            parents, masks, parted = zip(*branches[start : start + self.together], strict=True)
            rows = None
            if (len(groups), len(parents)) != (1, 1):
                rows = send(rows_of(np.array(parents), len(state.hidden) // len(groups)), state.hidden.device)
            if heads is None:  # this is the opening
                memory = state.memory if rows is None else state.memory_of(rows)
                onward = State(self.opening.after(site, np.stack(masks)), memory)
            else:
                mine, own = (state, heads) if rows is None else (state.take(rows), heads.index_select(0, rows))
                changed = patch_each(own, site, np.stack(masks), self.replacements)
                onward = self.forward.wide(len(parents)).continue_from(mine, site, changed)
            self.grow(onward, step + 1, last, parted)


class _Opening:
    """The decoder's residual stream after its first self-attention, which does not depend on the encoder.

    It depends only on the mask of that site, so it is computed once for each of its masks.
    """

    def __init__(self, forward: PartialForward, replacements: Sequence[Replacement]):
        self.forward, self.replacements = forward, replacements
        self.heads: HeadOutputs | None = None
        self.streams: dict[bytes, Hidden] = {}

    def after(self, site: HeadSite, masks: HeadMasks) -> Hidden:
        """The residual streams of several branches, concatenated."""
        keys = [mask.tobytes() for mask in masks]
        new = {key: mask for key, mask in zip(keys, masks, strict=True) if key not in self.streams}
        if (len(self.streams) + len(new)) * self.forward.decoder_hidden.numel() > KEPT_NUMBERS:
            self.streams.clear()
            new = dict(zip(keys, masks, strict=True))
        if new:
            parts = self._compute(site, np.stack(list(new.values()))).chunk(len(new))
            self.streams.update(zip(new, parts, strict=True))
        return self.streams[keys[0]] if len(keys) == 1 else torch.cat([self.streams[key] for key in keys])

    def _compute(self, site: HeadSite, masks: HeadMasks) -> Hidden:
        state = State(self.forward.decoder_hidden)
        if self.heads is None:
            self.heads = self.forward.head_outputs_at(state, site)
        changed = patch_each(self.heads.repeat(len(masks), 1, 1, 1), site, masks, self.replacements)
        return self.forward.continue_from(State(state.hidden.repeat(len(masks), 1, 1)), site, changed).hidden


def rows_of(branches: Int[np.ndarray, " branch"], size: int) -> Int[np.ndarray, " row"]:
    """The rows of some branches in a concatenated batch."""
    return (branches[:, None] * size + np.arange(size)).reshape(-1)


def _alike(rows: HeadMasks, variants: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The different masks at a site, each with the variants that have it."""
    if len(variants) == 1:
        return [(rows[0], variants)]
    places: dict[bytes, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(row.tobytes(), []).append(place)
    return [(rows[same[0]], variants[same]) for same in places.values()]


@runtime_checkable
class Named(Protocol):
    """A site, as far as a patch needs it."""

    @property
    def name(self) -> str: ...


def patch_heads(heads: HeadOutputs, site: Named, mask: np.ndarray, replacements: Sequence[Replacement]) -> HeadOutputs:
    """The head outputs of a site with some replaced, as one row of the masks says."""
    for code in np.unique(mask[mask > 0]).tolist():
        chosen = send(mask == code, heads.device)[:, None]
        heads = torch.where(chosen, replacements[code - 1][site.name].to(heads.dtype), heads)
    return heads


def patch_each(heads: HeadOutputs, site: Named, masks: HeadMasks, replacements: Sequence[Replacement]) -> HeadOutputs:
    """`patch_heads` for several concatenated branches, each with its own row of the masks."""
    if len(masks) == 1:
        return patch_heads(heads, site, masks[0], replacements)
    folded = heads.unflatten(0, (len(masks), len(heads) // len(masks)))
    for code in np.unique(masks[masks > 0]).tolist():
        chosen = send(masks == code, heads.device)[:, None, None, :, None]
        folded = torch.where(chosen, replacements[code - 1][site.name].to(heads.dtype), folded)
    return folded.flatten(0, 1)
