"""`nn.MultiheadAttention` written out, so that its heads can be reached.

PyTorch calls the output projection as a function inside `F.multi_head_attention_forward`, and its fast path calls no
module at all, so a hook on `out_proj` never fires. While `written_out` is open, the modules compute the same numbers,
bit for bit as their slow path does, and call `out_proj` as a module. The fast path is off for that time.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@contextmanager
def without_fast_path() -> Iterator[None]:
    """PyTorch's attention modules take their slow path, which calls modules, while the context is open."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


Record = Callable[[nn.MultiheadAttention, Tensor], None]
"""Called with the weights of a module, `batch head query key`, at each pass."""


@contextmanager
def written_out(modules: Sequence[nn.MultiheadAttention], record: Record | None = None) -> Iterator[None]:
    """Give these modules a written-out forward pass while the context is open; contexts may be nested."""
    before = [vars(module).get("forward") for module in modules]
    try:
        for module, own in zip(modules, before, strict=True):
            around = own.keywords["records"] if isinstance(own, partial) and own.func is forward else ()
            records = around if record is None else (*around, record)
            module.forward = partial(forward, module, records=records)  # type: ignore[method-assign]
        with without_fast_path():
            yield
    finally:
        for module, own in zip(modules, before, strict=True):
            vars(module).pop("forward", None)
            if own is not None:
                module.forward = own  # type: ignore[method-assign]


class PrunedMultiheadAttention(nn.MultiheadAttention):
    """An `nn.MultiheadAttention` that lost heads, whose projections are narrower than the model."""

    def forward(self, *arguments: Any, **named: Any) -> tuple[Tensor, Tensor | None]:
        return forward(self, *arguments, **named)


def forward(
    module: nn.MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
    records: tuple[Record, ...] = (),
) -> tuple[Tensor, Tensor | None]:
    """The forward pass of `nn.MultiheadAttention`, with `out_proj` called on `position batch (head d_head)`."""
    batched, self_attention, key_is_value = query.dim() == 3, query is key, key is value
    if not batched:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    elif module.batch_first:
        query, key, value = (x.transpose(0, 1) for x in (query, key, value))
    q, k, v = _project(module, query, key, value, self_attention and key_is_value, key_is_value)
    use_flag = is_causal and key_padding_mask is None and not need_weights
    mask = None if use_flag else _merged_mask(module, key_padding_mask, attn_mask, query, k.shape[0])
    mixed, weights = _attend(module, q, k, v, mask, need_weights=need_weights, causal=use_flag)
    if records:
        mask = _merged_mask(module, key_padding_mask, attn_mask, query, k.shape[0])
        again = _attend(module, q, k, v, mask, need_weights=True, causal=False)[1] if weights is None else weights
        assert again is not None
        for record in records:
            record(module, again)
    mixed = module.out_proj(mixed)
    if weights is not None and average_attn_weights:
        weights = weights.mean(1)
    if not batched:
        return mixed.squeeze(1), None if weights is None else weights.squeeze(0)
    return mixed.transpose(0, 1) if module.batch_first else mixed, weights


def _project(
    module: nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor, packed: bool, key_is_value: bool
) -> tuple[Tensor, ...]:
    """Queries, keys and values, `position batch (head d_head)`, with as many products as PyTorch takes."""
    weight, bias = module.in_proj_weight, module.in_proj_bias
    biases = (None, None, None) if bias is None else bias.chunk(3)
    if weight is None:
        separate = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
        inputs = (query, key, value)
        return tuple(F.linear(x, w, b) for x, w, b in zip(inputs, separate, biases, strict=True))
    if packed:
        return tuple(part.contiguous() for part in F.linear(query, weight, bias).chunk(3, -1))
    if key_is_value:
        width = len(weight) // 3
        both = F.linear(key, weight[width:], None if bias is None else bias[width:])
        return F.linear(query, weight[:width], biases[0]), *(part.contiguous() for part in both.chunk(2, -1))
    return tuple(F.linear(x, w, b) for x, w, b in zip((query, key, value), weight.chunk(3), biases, strict=True))


def _merged_mask(
    module: nn.MultiheadAttention, padding: Tensor | None, mask: Tensor | None, query: Tensor, n_keys: int
) -> Tensor | None:
    """The numbers that are added to the scores, `#batch #head #query key`."""
    n_queries, n_rows, _ = query.shape
    merged = None
    if mask is not None:
        mask = _additive(mask, query.dtype)
        merged = mask[None, None] if mask.dim() == 2 else mask.view(n_rows, -1, n_queries, n_keys)
    if padding is not None:
        padded = _additive(padding, query.dtype).view(n_rows, 1, 1, n_keys).expand(-1, heads_of(module), -1, -1)
        merged = padded if merged is None else merged + padded
    return merged


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask, -math.inf) if mask.dtype == torch.bool else mask


def heads_of(module: nn.MultiheadAttention) -> int:
    """The number of heads that are there, fewer than `num_heads` in a pruned module."""
    return int(module.out_proj.in_features) // int(module.head_dim)


def _attend(
    module: nn.MultiheadAttention, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **how: Any
) -> tuple[Tensor, Tensor | None]:
    """The head outputs, `position batch (head d_head)`, and the weights if they are asked for."""
    n_queries, n_rows, _ = q.shape
    n_heads, d_head = heads_of(module), int(module.head_dim)
    dropout = module.dropout if module.training else 0.0
    q, k, v = (x.reshape(len(x), n_rows * n_heads, d_head).transpose(0, 1) for x in (q, k, v))
    if not how["need_weights"]:
        q, k, v = (x.view(n_rows, n_heads, -1, d_head) for x in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, mask, dropout, how["causal"])
        return mixed.permute(2, 0, 1, 3).reshape(n_queries, n_rows, -1), None
    scaled = q * math.sqrt(1.0 / d_head)
    if mask is None:
        scores = torch.bmm(scaled, k.transpose(1, 2))
    else:
        flat = mask.expand(n_rows, n_heads, n_queries, k.shape[1]).reshape(-1, n_queries, k.shape[1])
        scores = torch.baddbmm(flat, scaled, k.transpose(1, 2))
    weights = F.dropout(F.softmax(scores, -1), dropout) if dropout else F.softmax(scores, -1)
    mixed = torch.bmm(weights, v).transpose(0, 1).reshape(n_queries, n_rows, -1)
    return mixed, weights.view(n_rows, n_heads, n_queries, -1)
