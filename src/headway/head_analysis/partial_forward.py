"""One batch's pass through a model, cut at every site where heads meet.

    state = forward.start()
    for site in forward.sites:
        heads = forward.head_outputs_at(state, site)            # batch query head d_head: the handle
        state = forward.continue_from(state, site, heads)    # change `heads` before this call to intervene
    logits = forward.logits(state)

is the model's forward pass, number for number. `run_tree` walks many variants of it at once and computes what
they share only once: two variants go separate masks at the first site where they differ. On a GPU branches are walked
together: their states lie one after another in one batch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
"""Widths of a batch for which masks and positions are kept."""
KEPT_NUMBERS = 1 << 28
"""Numbers of the decoder's stream past its first site that are kept, for all masks through it."""

HeadMasks = Int[np.ndarray, "variant head"]
"""What each variant does to each head: 0 leaves it alone, k puts in what the k-th replacement says."""
Replacement = Mapping[str, Tensor]
"""What to put in place of a head's output: site -> a tensor that broadcasts to `batch query head d_head`."""


@dataclass(frozen=True)
class State:
    """A pass between two sites: the stream it works on, and the keys and values of the encoder's output."""

    hidden: Hidden
    memory: tuple[KeyValueCache, ...] = field(default=())

    def take(self, rows: Int[Tensor, " row"]) -> "State":
        """The states of some rows."""
        return State(self.hidden.index_select(0, rows), self.memory_of(rows))

    def memory_of(self, rows: Int[Tensor, " row"]) -> tuple[KeyValueCache, ...]:
        return tuple(KeyValueCache(_take(cache.key, rows), _take(cache.value, rows)) for cache in self.memory)

    def past(self, site: HeadSite) -> "State":
        """The same without the keys and values that nobody will look at again once a site has."""
        if not site.across:
            return self
        return State(self.hidden, (*self.memory[: site.layer], KeyValueCache(), *self.memory[site.layer + 1 :]))


def _take(heads: Tensor | None, rows: Int[Tensor, " row"]) -> Tensor | None:
    """Some rows of keys or values, in the order in memory that the linear layer gave them."""
    return None if heads is None else heads.transpose(1, 2).index_select(0, rows).transpose(1, 2)


class PartialForward:
    """A model and a batch, ready to be walked through any number of times."""

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
        """The pass of a batch that holds this one so many times; this one itself where nothing has to be repeated."""
        if copies == 1 or self.alike:
            return self
        if copies not in self.copies:
            if len(self.copies) >= MOST_WIDTHS:
                self.copies.clear()
            self.copies[copies] = PartialForward(self.model, repeat(self.inputs, copies), placed=True)
        return self.copies[copies]

    def opens(self, site: HeadSite) -> bool:
        """Whether a site looks at nothing but the decoder's own beginning, whatever the encoder does."""
        return self.encoder_view is not None and (site.side, site.layer, site.across) == ("decoder", 0, False)

    def start(self) -> State:
        return State(self.decoder_hidden if self.encoder_view is None else self.model.embed_source(self.inputs))

    def block(self, site: HeadSite) -> Block:
        stack: nn.ModuleList = getattr(self.model, site.side)
        block = stack[site.layer]
        assert isinstance(block, Block)
        return block

    def head_outputs_at(self, state: State, site: HeadSite) -> HeadOutputs:
        """What the heads of a site bring."""
        block = self.block(site)
        if not site.across:
            view = self.encoder_view if site.side == "encoder" else self.own_view
            assert view is not None
            return block.self_attention_outputs(state.hidden, view)
        assert self.cross_view is not None
        return block.cross_attention_outputs(state.hidden, None, self.cross_view, state.memory[site.layer])

    def continue_from(self, state: State, site: HeadSite, heads: HeadOutputs) -> State:
        """Take up the heads' outputs, and go to the next site."""
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
        """The model's answer, once every site has been passed."""
        if self.model.config.shape == "encoder":
            return self.model.classify(state.hidden, self.inputs)
        assert self.inputs.prefix is not None
        return self.model.read_out(state.hidden[:, -self.inputs.prefix.shape[1] :])


def one_row_for_all(inputs: Inputs) -> bool:
    """Whether every example stands at the same positions and none is padded."""
    places = (inputs.source_positions, inputs.prefix_positions)
    return inputs.source_visible is None and all(place is None or len(place) == 1 for place in places)


def repeat(inputs: Inputs, copies: int) -> Inputs:
    """The rows of a batch several times over; one row that stands for all stays one."""
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
    """What every head of every site brings when nothing is changed."""
    found = {}
    state = forward.start()
    for site in forward.sites:
        found[site.name] = forward.head_outputs_at(state, site)
        state = forward.continue_from(state, site, found[site.name])
    return found


Emit = Callable[[Int[np.ndarray, " some"], Tensor], None]
"""Told the logits of some variants, which all do the same."""


@torch.inference_mode()
def run_tree(
    forward: PartialForward, plan: HeadMasks, replacements: Sequence[Replacement], emit: Emit, together: int = 1
) -> None:
    """Every variant of a plan in one pass that branches where variants part; `emit` is told of each leaf.

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
        """Go on from a site with groups of variants, alike so far; `column` is the site's first head in the plan."""
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
    """The decoder's stream past its first self-attention, which sees nothing of the encoder.

    It depends on what is done to the heads of that site alone, so it is computed once for each of its masks.
    """

    def __init__(self, forward: PartialForward, replacements: Sequence[Replacement]):
        self.forward, self.replacements = forward, replacements
        self.heads: HeadOutputs | None = None
        self.streams: dict[bytes, Hidden] = {}

    def after(self, site: HeadSite, masks: HeadMasks) -> Hidden:
        """The streams of some branches, one after another."""
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
    """The rows of some branches that lie one after another, each of so many rows."""
    return (branches[:, None] * size + np.arange(size)).reshape(-1)


def _alike(rows: HeadMasks, variants: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """What some variants do, each different row once, with the variants that do it."""
    if len(variants) == 1:
        return [(rows[0], variants)]
    places: dict[bytes, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(row.tobytes(), []).append(place)
    return [(rows[same[0]], variants[same]) for same in places.values()]


def patch_heads(
    heads: HeadOutputs, site: HeadSite, mask: np.ndarray, replacements: Sequence[Replacement]
) -> HeadOutputs:
    """The heads of a site with some replaced, as one row of a plan says."""
    for code in np.unique(mask[mask > 0]).tolist():
        chosen = send(mask == code, heads.device)[:, None]
        heads = torch.where(chosen, replacements[code - 1][site.name].to(heads.dtype), heads)
    return heads


def patch_each(
    heads: HeadOutputs, site: HeadSite, masks: HeadMasks, replacements: Sequence[Replacement]
) -> HeadOutputs:
    """`patch_heads` for several branches that lie one after another, each with a row of its own."""
    if len(masks) == 1:
        return patch_heads(heads, site, masks[0], replacements)
    folded = heads.unflatten(0, (len(masks), len(heads) // len(masks)))
    for code in np.unique(masks[masks > 0]).tolist():
        chosen = send(masks == code, heads.device)[:, None, None, :, None]
        folded = torch.where(chosen, replacements[code - 1][site.name].to(heads.dtype), folded)
    return folded.flatten(0, 1)
