"""The handle of a head, reached by a hook: the input of its site's output projection.

This is the plain method. It works wherever the model is called, greedy decoding included, and the fast sweeps are
checked against it. A hook that did not fire is an error, never a zero effect.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.errors import InputError, InstrumentError, suggestion
from headway.head_analysis.partial_forward import Replacement, patch_heads
from headway.model.attention import HeadOutputs, MultiHeadAttention
from headway.model.sites import HeadSite
from headway.model.transformer import Transformer

Edit = Callable[[HeadOutputs], HeadOutputs]
"""Changes the head outputs of one site, `batch query head d_head`."""


def attention_at(model: Transformer, name: str) -> MultiHeadAttention:
    """The attention of a site such as `decoder.1.cross`."""
    known = [site.name for site in model.sites]
    if name not in known:
        raise InputError(f"the model has no site {name!r}; {suggestion(name, known)}")
    stack, layer, looks = name.split(".")
    blocks: nn.ModuleList = getattr(model, stack)
    found = getattr(blocks[int(layer)], "cross" if looks == "cross" else "own")
    assert isinstance(found, MultiHeadAttention)
    return found


@contextmanager
def intervene(model: Transformer, edits: Mapping[str, Edit]) -> Iterator[None]:
    """Apply edits to every pass of the model while the context is open; an edit that never ran is an error."""
    fired = dict.fromkeys(edits, 0)
    handles = []

    def hook_for(name: str, attention: MultiHeadAttention, edit: Edit) -> Callable[[nn.Module, Any], tuple[Tensor]]:
        def hook(module: nn.Module, arguments: Any) -> tuple[Tensor]:
            fired[name] += 1
            return (edit(arguments[0].unflatten(-1, (len(attention.kept), attention.d_head))).flatten(2),)

        return hook

    try:
        for name, edit in edits.items():
            attention = attention_at(model, name)
            handles.append(attention.output.register_forward_pre_hook(hook_for(name, attention, edit)))
        yield
    finally:
        for handle in handles:
            handle.remove()
    silent = [name for name, count in fired.items() if count == 0]
    if silent:
        raise InstrumentError(f"the hook at {', '.join(silent)} did not fire: nothing was measured there")


def edits_of(model: Transformer, row: np.ndarray, replacements: Sequence[Replacement]) -> dict[str, Edit]:
    """One row of head masks as edits for hooks.

    During decoding only the first positions exist; an answer longer than the right one uses the replacement of the last
    position, which changes nothing before it.
    """
    edits: dict[str, Edit] = {}
    column = 0
    for site in model.sites:
        mask = row[column : column + len(site.kept)]
        column += len(site.kept)
        if mask.any():
            edits[site.name] = _edit(site, mask, replacements)
    return edits


def _edit(site: HeadSite, mask: np.ndarray, replacements: Sequence[Replacement]) -> Edit:
    def edit(heads: Tensor) -> Tensor:
        return patch_heads(
            heads, site, mask, [{site.name: _at_places(f[site.name], heads.shape[1])} for f in replacements]
        )

    return edit


def _at_places(replacement: Tensor, count: int) -> Tensor:
    """The replacement cut to the first positions, if it has a position axis."""
    if replacement.ndim < 3:
        return replacement
    places = torch.arange(count, device=replacement.device).clamp(max=replacement.shape[-3] - 1)
    return replacement.index_select(replacement.ndim - 3, places)
