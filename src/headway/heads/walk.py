"""One batch's pass through a model, cut at every site where heads meet.

    state = walk.start()
    for site in walk.sites:
        heads = walk.look(state, site)            # batch query head d_head: the handle
        state = walk.go_on(state, site, heads)    # change `heads` before this call to intervene
    logits = walk.logits(state)

is the model's forward pass, number for number. `run_tree` walks many variants of it at once and computes what
they share only once: two variants go separate ways at the first site where they differ.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.attention import HeadOutputs, KeyValueCache
from headway.model.blocks import Block, Encoded, Hidden, View
from headway.model.sites import HeadSite
from headway.model.transformer import Inputs, Transformer

Plan = Int[np.ndarray, "variant head"]
"""What each variant does to each head: 0 leaves it alone, k puts in what the k-th filling says."""
Filling = Mapping[str, Tensor]
"""What to put in place of a head's output: site -> a tensor that broadcasts to `batch query head d_head`."""


@dataclass(frozen=True)
class State:
    """A pass between two sites: the stream it works on, and the encoder's output with its keys and values."""

    hidden: Hidden
    encoded: Encoded | None = None
    memory: tuple[KeyValueCache, ...] = field(default=())


class Walk:
    """A model and a batch, ready to be walked through any number of times."""

    def __init__(self, model: Transformer, inputs: Inputs):
        self.model, self.inputs, self.sites = model, model.placed(inputs), model.sites
        self.encoder_view: View | None = None
        if model.config.shape != "decoder":
            self.encoder_view = model.encoder_view(self.inputs)
        if model.config.shape != "encoder":
            self.decoder_hidden, self.own_view, self.cross_view = model.decoder_start(self.inputs)

    def start(self) -> State:
        return State(self.decoder_hidden if self.encoder_view is None else self.model.embed_source(self.inputs))

    def block(self, site: HeadSite) -> Block:
        stack: nn.ModuleList = getattr(self.model, site.stack)
        block = stack[site.layer]
        assert isinstance(block, Block)
        return block

    def look(self, state: State, site: HeadSite) -> HeadOutputs:
        """What the heads of a site bring."""
        block = self.block(site)
        if not site.across:
            view = self.encoder_view if site.stack == "encoder" else self.own_view
            assert view is not None
            return block.look_at_self(state.hidden, view)
        assert state.encoded is not None and self.cross_view is not None
        return block.look_across(state.hidden, state.encoded, self.cross_view, state.memory[site.layer])

    def go_on(self, state: State, site: HeadSite, heads: HeadOutputs) -> State:
        """Take up what the heads bring, and go to the next site."""
        block = self.block(site)
        if site.across:
            hidden = block.add_cross(state.hidden, heads)
        else:
            hidden = block.add_own(state.hidden, heads)
            if block.cross is not None:
                return replace(state, hidden=hidden)
        hidden = block.add_feed_forward(hidden)
        if site.stack == "encoder" and site.layer == len(self.model.encoder) - 1:
            return self._after_encoder(self.model.encoder_norm(hidden))
        return replace(state, hidden=hidden)

    def _after_encoder(self, encoded: Hidden) -> State:
        if self.model.config.shape == "encoder":
            return State(encoded)
        return State(self.decoder_hidden, encoded, tuple(KeyValueCache() for _ in self.model.decoder))

    def logits(self, state: State) -> Float[Tensor, "batch *prefix out"]:
        """The model's answer, once every site has been passed."""
        if self.model.config.shape == "encoder":
            return self.model.classify(state.hidden, self.inputs)
        assert self.inputs.prefix is not None
        return self.model.read_out(state.hidden[:, -self.inputs.prefix.shape[1] :])


@torch.inference_mode()
def head_outputs(walk: Walk) -> dict[str, HeadOutputs]:
    """What every head of every site brings when nothing is changed."""
    found = {}
    state = walk.start()
    for site in walk.sites:
        found[site.name] = walk.look(state, site)
        state = walk.go_on(state, site, found[site.name])
    return found


Emit = Callable[[Int[np.ndarray, " some"], Tensor], None]
"""Told the logits of some variants, which all do the same."""


@torch.inference_mode()
def run_tree(walk: Walk, plan: Plan, fillings: Sequence[Filling], emit: Emit) -> None:
    """Every variant of a plan in one walk that branches where variants part; `emit` is told of each leaf."""
    n_heads = sum(len(site.kept) for site in walk.sites)
    if plan.ndim != 2 or plan.shape[1] != n_heads or plan.min(initial=0) < 0 or plan.max(initial=0) > len(fillings):
        raise ValueError(f"a plan for {n_heads} heads and {len(fillings)} fillings needed, got {plan.shape}")
    _branch(walk, walk.start(), 0, 0, plan, np.arange(len(plan)), fillings, emit)


def _branch(
    walk: Walk,
    state: State,
    step: int,
    column: int,
    plan: Plan,
    variants: np.ndarray,
    fillings: Sequence[Filling],
    emit: Emit,
) -> None:
    """Go on from a site with the variants that were alike so far; `column` is its first head in the plan."""
    if not len(variants):
        return
    if step == len(walk.sites):
        emit(variants, walk.logits(state))
        return
    site = walk.sites[step]
    last = column + len(site.kept)
    heads = walk.look(state, site)
    ways, which = _distinct(plan[variants, column:last])
    for index, way in enumerate(ways):
        onward = walk.go_on(state, site, put_in(heads, site, way, fillings))
        _branch(walk, onward, step + 1, last, plan, variants[which == index], fillings, emit)


def _distinct(rows: Plan) -> tuple[Int[np.ndarray, "way head"], Int[np.ndarray, " variant"]]:
    """The different rows, and which of them each row is."""
    if not rows.shape[1]:  # a site that has lost all its heads
        return rows[:1], np.zeros(len(rows), dtype=np.int64)
    ways, which = np.unique(rows, axis=0, return_inverse=True)
    return ways, which.reshape(-1)


def put_in(heads: HeadOutputs, site: HeadSite, way: np.ndarray, fillings: Sequence[Filling]) -> HeadOutputs:
    """The heads of a site with some replaced, as one row of a plan says."""
    for code in np.unique(way[way > 0]).tolist():
        chosen = torch.from_numpy(way == code).to(heads.device)[:, None]
        heads = torch.where(chosen, fillings[code - 1][site.name].to(heads.dtype), heads)
    return heads
