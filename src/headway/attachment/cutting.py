"""Heads cut out of the weights of a module, in place.

The rows of a head in the projections of queries, keys and values go, and its columns in the output projection. Fused
projections keep their layout: three blocks of all heads (GPT-2, `nn.MultiheadAttention`), or three parts for each head
(GPT-NeoX). In grouped-query attention a key-value head goes with the last of its query heads, and those that stay have
equally many.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headway.attachment import multihead
from headway.attachment.finding import HEAD_COUNTS, input_projections, is_transposed
from headway.attachment.sites import AttachedSite
from headway.errors import InputError
from headway.model.attention import MultiHeadAttention

BY_HEAD = ("query_key_value",)
"""Fused projections whose rows are `(head 3 d_head)`; those of the others are `(3 head d_head)`."""


def cut_site(model: nn.Module, site: AttachedSite, places: Sequence[int]) -> None:
    """Keep the heads of a site at these places among those it has."""
    attention = model.get_submodule(site.attention or "")
    if isinstance(attention, MultiHeadAttention):
        raise InputError("this is headway's own model; prune its run: hw.prune(run, keep=[...])")
    if not places:
        raise InputError(f"every head of {site.name} would go; at least one must stay")
    if isinstance(attention, nn.MultiheadAttention):
        _cut_multihead(model, attention, site, places)
    else:
        _cut_inputs(attention, site, places)
        _cut_counts(attention, site, places)
    _keep_input(model.get_submodule(site.path), _columns(places, site.d_head))
    attention.headway_kept = tuple(site.kept[place] for place in places)  # type: ignore[assignment]


def _columns(places: Sequence[int], size: int) -> Tensor:
    """The rows of some heads in a projection, `(head d_head)`."""
    return (torch.tensor(places)[:, None] * size + torch.arange(size)).flatten()


def _cut_inputs(attention: nn.Module, site: AttachedSite, places: Sequence[int]) -> None:
    names = input_projections(attention)
    if names is None:
        raise InputError(f"{site.attention} has no projections of queries, keys and values that headway knows")
    if len(names) == 3:
        groups = kept_groups(site, places)
        for name, kept in zip(names, (places, groups, groups), strict=True):
            _keep_output(attention.get_submodule(name), _columns(kept, site.d_head))
        if hasattr(attention, "num_key_value_groups"):
            attention.num_key_value_groups = len(places) // len(groups)  # type: ignore[assignment]
        return
    if site.n_kv_heads != site.n_heads:
        raise InputError(f"{site.attention}.{names[0]} fuses grouped-query heads, whose layout headway does not know")
    if names[0] in BY_HEAD:
        _keep_output(attention.get_submodule(names[0]), _columns(places, 3 * site.d_head))
        return
    fused = attention.get_submodule(names[0])
    own = _columns(places, site.d_head)
    queries = attention._modules.get("q_attn")  # GPT-2's cross-attention: queries apart, keys and values together
    parts = 3 if queries is None else 2
    _keep_output(fused, torch.cat([own + part * site.n_heads * site.d_head for part in range(parts)]))
    if queries is not None:
        _keep_output(queries, own)


def kept_groups(site: AttachedSite, places: Sequence[int]) -> list[int]:
    """The key-value heads that stay: those with query heads left, of which each must have equally many."""
    size = site.n_heads // site.n_kv_heads
    left = {group: [place for place in places if place // size == group] for group in range(site.n_kv_heads)}
    groups = [group for group, inside in left.items() if inside]
    if len({len(left[group]) for group in groups}) > 1:
        short = min(groups, key=lambda group: len(left[group]))
        names = {place: f"{site.name}.h{site.kept[place]}" for place in range(short * size, (short + 1) * size)}
        gone = ", ".join(name for place, name in names.items() if place not in places)
        shared = f"{', '.join(names.values())} share one key-value head"
        raise InputError(f"{gone} cannot go alone: {shared}; all of a group go, or as many of every group")
    return groups


def _cut_counts(attention: nn.Module, site: AttachedSite, places: Sequence[int]) -> None:
    """Numbers of heads, and widths made of them, that a module keeps as attributes."""
    if hasattr(attention, "has_relative_attention_bias"):
        bias = SharedBias([site.kept[place] for place in places])
        attention.register_forward_pre_hook(bias.cut, with_kwargs=True)
        attention.register_forward_hook(bias.restore)
        return
    for name in HEAD_COUNTS:
        if getattr(attention, name, None) == site.n_heads:
            setattr(attention, name, len(places))
    for name in ("split_size", "all_head_size"):
        if getattr(attention, name, None) == site.n_heads * site.d_head:
            setattr(attention, name, len(places) * site.d_head)


class SharedBias:
    """T5 computes the position bias of all heads in its first layer and hands it from layer to layer.

    A layer that lost heads takes the part of those it kept and hands on the whole.
    """

    def __init__(self, kept: list[int]) -> None:
        self.kept = kept
        self.whole: Tensor | None = None

    def cut(self, module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        whole = named.get("position_bias")
        if whole is None:
            whole = self.first(module, arguments[0] if arguments else named["hidden_states"], named)
        self.whole = whole
        return arguments, {**named, "position_bias": whole[:, self.kept]}

    def restore(self, module: nn.Module, arguments: Any, output: Any) -> Any:
        return (output[0], self.whole, *output[2:])

    def first(self, module: Any, hidden: Tensor, named: dict[str, Any]) -> Tensor:
        """The bias of all heads as the module's own forward pass makes it."""
        cache, across = named.get("past_key_values"), named.get("key_value_states")
        seen = 0 if cache is None else int(cache.get_seq_length(module.layer_idx))
        length = hidden.shape[1]
        if module.has_relative_attention_bias:
            bias: Tensor = module.compute_bias(length, seen + length, device=hidden.device, past_seen_tokens=seen)
            return bias
        n_keys = seen + length if across is None else across.shape[1]
        return hidden.new_zeros(1, module.n_heads, length, n_keys)


def _cut_multihead(
    model: nn.Module, attention: nn.MultiheadAttention, site: AttachedSite, places: Sequence[int]
) -> None:
    """The module computes by headway's written-out pass from now on; PyTorch's own accepts no fewer heads."""
    own, width = _columns(places, site.d_head), site.n_heads * site.d_head
    for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_weight", "in_proj_bias"):
        values = getattr(attention, name)
        if values is not None:
            parts = 3 if name.startswith("in_") else 1
            rows = torch.cat([own + part * width for part in range(parts)]).to(values.device)
            setattr(attention, name, _parameter(values.detach()[rows], values))
    attention.num_heads = len(places)
    attention._qkv_same_embed_dim = False  # layers ask it before they take the fast path
    attention.__class__ = multihead.PrunedMultiheadAttention
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder) and attention in set(module.modules()):
            module.use_nested_tensor = False


def _keep_output(projection: nn.Module, rows: Tensor) -> None:
    _select(projection, 1 if is_transposed(projection) else 0, rows)
    bias: Any = getattr(projection, "bias", None)
    if bias is not None:
        projection.bias = _parameter(bias.detach()[rows.to(bias.device)], bias)
    for name in ("out_features", "nf"):
        if hasattr(projection, name):
            setattr(projection, name, len(rows))


def _keep_input(projection: nn.Module, columns: Tensor) -> None:
    _select(projection, 0 if is_transposed(projection) else 1, columns)
    for name in ("in_features", "nx"):
        if hasattr(projection, name):
            setattr(projection, name, len(columns))


def _select(projection: nn.Module, axis: int, kept: Tensor) -> None:
    weight: Any = projection.weight
    if not weight.is_floating_point():
        raise InputError(f"a weight of {weight.dtype} is quantized; prune the model before it is quantized")
    projection.weight = _parameter(weight.detach().index_select(axis, kept.to(weight.device)), weight)


def _parameter(values: Tensor, like: Any) -> nn.Parameter:
    return nn.Parameter(values.clone(), requires_grad=like.requires_grad)
