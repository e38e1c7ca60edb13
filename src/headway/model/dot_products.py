"""Scaled dot-product attention, written out in full, and faster ways to the same output.

The output of a query is a weighted mean of the values:

    score[q, k]  = query[q] . key[k] / sqrt(d_head) + bias[q, k]
    weight[q, :] = softmax over the visible keys of score[q, :]
    output[q]    = sum over k of weight[q, k] value[k]

A query without visible keys has weights 0 and output 0. `attend` implements these formulas.
`attend_fast` gives the same output through PyTorch's fused kernel and never stores the weights.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

CHUNK_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 26}
"""The most (batch x head x query x key) cells of mask and bias held in memory at once."""

SHORT_CELLS = 64 * 64
"""Up to this many query x key cells, training on a CPU uses plain matrix products instead of the blocked kernel."""

BLOCK = 64
"""The block size of a GPU's fused kernel, in queries and keys."""

MANY_BLOCKS = 4_096
"""From this many rows x heads on, attention keeps a GPU busy, so that it does not wait for the host."""

UNROLLED_CELLS = 24 * 24
"""Up to this many query x key cells, compiled code computes attention as elementwise sums."""

PRODUCT_CELLS = 64 * 64
"""Up to this many query x key cells, compiled code uses plain matrix products, since a block of the fused kernel would
be mostly empty.
"""


Drop = Callable[[Float[Tensor, "batch head query key"]], Float[Tensor, "batch head query key"]]
"""Dropout of attention weights."""


def attend(
    query: Float[Tensor, "batch head query d_head"],
    key: Float[Tensor, "batch head key d_head"],
    value: Float[Tensor, "batch head key d_value"],
    mask: Bool[Tensor, "#batch #head #query key"] | None = None,
    bias: Float[Tensor, "#batch #head query key"] | None = None,
    drop: Drop | None = None,
) -> tuple[Float[Tensor, "batch head query d_value"], Float[Tensor, "batch head query key"]]:
    """Attention with its weights: the definition, and the reference for every faster implementation."""
    score = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if bias is not None:
        score = score + bias
    if mask is not None:
        score = score.masked_fill(~mask, -math.inf)
    highest = score.amax(-1, keepdim=True)
    # A query that sees nothing has -inf everywhere; 0 keeps its exponentials at 0 instead of NaN.
    unscaled = torch.exp(score - highest.masked_fill(highest == -math.inf, 0.0))
    weight = unscaled / unscaled.sum(-1, keepdim=True).clamp(min=torch.finfo(score.dtype).tiny)
    return (weight if drop is None else drop(weight)) @ value, weight


def attend_fast(
    query: Float[Tensor, "batch head query d_head"],
    key: Float[Tensor, "batch head key d_head"],
    value: Float[Tensor, "batch head key d_value"],
    mask: Bool[Tensor, "#batch #head #query key"] | None = None,
    bias: Float[Tensor, "#batch #head query key"] | None = None,
) -> Float[Tensor, "batch head query d_value"]:
    """The output of `attend` without the weights, by the fused kernel; equal up to rounding."""
    blind = None
    if mask is not None:
        # The fused kernels differ on queries that see nothing; such rows are opened here and zeroed below.
        blind = ~mask.any(-1, keepdim=True)
        mask = mask | blind
    if bias is not None:
        mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
    if torch.compiler.is_compiling() and query.shape[-2] * key.shape[-2] <= UNROLLED_CELLS:
        mixed = _attend_unrolled(query, key, value, mask)
    elif torch.compiler.is_compiling() and query.shape[-2] * key.shape[-2] <= PRODUCT_CELLS:
        mixed = _attend_by_products(query, key, value, mask)
    elif (rows := rows_side_by_side(query, key, mask)) > 1:
        mixed = attend_side_by_side(query, key, value, mask, rows)
    else:
        with _kernel_for(query, key):
            mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    return mixed if blind is None else mixed.masked_fill(blind, 0.0)


def rows_side_by_side(query: Tensor, key: Tensor, mask: Tensor | None) -> int:
    """How many rows share one block of a GPU's fused kernel, a divisor of the batch; 1 if packing saves nothing."""
    batch, longest = len(query), max(query.shape[-2], key.shape[-2])
    few = batch * query.shape[1] < MANY_BLOCKS
    if query.device.type == "cpu" or torch.is_grad_enabled() or few or (mask is not None and len(mask) > 1):
        return 1
    return max((rows for rows in range(2, BLOCK // max(1, longest) + 1) if batch % rows == 0), default=1)


def attend_side_by_side(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, rows: int) -> Tensor:
    """Attention with several rows of a batch packed into one sequence; the mask separates the rows.

    The fused kernel works in blocks of 64 queries and keys; a row of seven tokens alone leaves most of its block empty.
    Non-finite keys and values are replaced by 0 before packing, and NaN is added to the outputs of their own row,
    because 0 times NaN would contaminate the other rows.
    """
    highest = torch.maximum(*(torch.linalg.vector_norm(x, math.inf, dim=(1, 2, 3), keepdim=True) for x in (key, value)))
    own_fault = highest - highest  # 0, or NaN
    key, value = (x.nan_to_num(0.0, 0.0, 0.0) for x in (key, value))
    batch, heads, n_queries, _ = query.shape
    allowed = _same_row(rows, n_queries, key.shape[-2], query.device)
    if mask is not None:
        tiled = mask.expand(-1, -1, n_queries, -1).repeat(1, 1, rows, rows)
        allowed = tiled & allowed if mask.dtype == torch.bool else tiled.masked_fill(~allowed, -math.inf)

    def joined(x: Tensor) -> Tensor:
        return x.transpose(1, 2).reshape(batch // rows, -1, heads, x.shape[-1]).transpose(1, 2)

    mixed = F.scaled_dot_product_attention(joined(query), joined(key), joined(value), attn_mask=allowed)
    return mixed.transpose(1, 2).reshape(batch, n_queries, heads, -1).transpose(1, 2) + own_fault


@lru_cache(maxsize=64)
def _same_row(rows: int, n_queries: int, n_keys: int, device: torch.device) -> Bool[Tensor, "1 1 query key"]:
    """Whether query and key of a packed sequence belong to the same row."""
    query = torch.arange(rows * n_queries, device=device) // n_queries
    key = torch.arange(rows * n_keys, device=device) // n_keys
    return (query[:, None] == key)[None, None]


def _attend_unrolled(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Attention as elementwise sums, which a compiler fuses; for few tokens several times faster than matrix kernels.

    Everything has the order `batch query key head`, that of the linear layers around it, so that nothing is copied.
    """
    query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    score = wall((query[:, :, None] * key[:, None]).sum(-1) / math.sqrt(query.shape[-1]))
    if mask is not None:
        mask = mask.permute(0, 2, 3, 1)
        score = score.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else score + mask
    weight = wall(score.softmax(2))
    return (weight[..., None] * value[:, None]).sum(2).transpose(1, 2)


def _attend_by_products(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Attention as two products with a softmax between them, which a compiler fuses with mask and bias."""
    score = (query @ key.transpose(-2, -1)).float() / math.sqrt(query.shape[-1])
    if mask is not None:
        score = score.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else score + mask
    return score.softmax(-1).to(value.dtype) @ value


@torch.library.custom_op("headway::wall", mutates_args=())
def wall(x: Tensor) -> Tensor:
    """Identity that the compiler does not fuse across, so that `x` and its gradient are computed once."""
    return x.clone()


wall.register_fake(torch.empty_like)
wall.register_autograd(lambda context, gradient: wall(gradient))


def let_compiler_keep_walls() -> None:
    """Make PyTorch's compiler store the input of the barrier instead of copying it.

    This is a part of the compiler that may change without notice; where it is not as expected, the copy stays.
    """
    try:
        from torch._inductor import lowering
    except ImportError:
        return
    if torch.ops.headway.wall.default in lowering.lowerings or not hasattr(lowering, "clone"):
        return

    def stored(x: Any) -> Any:
        x.realize()
        return lowering.clone(x)

    lowering.register_lowering(torch.ops.headway.wall.default, type_promotion_kind=None)(stored)


def _kernel_for(query: Tensor, key: Tensor) -> AbstractContextManager[None]:
    """Whether to use plain products: on a CPU for short sequences in training.

    Without gradients the blocked kernel is 8 % faster.
    """
    short = query.shape[-2] * key.shape[-2] <= SHORT_CELLS
    plain = short and query.device.type == "cpu" and torch.is_grad_enabled()
    return sdpa_kernel(SDPBackend.MATH) if plain else nullcontext()


MaskPiece = Bool[Tensor, "#batch 1 #query key"] | None
BiasPiece = Float[Tensor, "#batch #head query key"] | None
MaskOf = Callable[[range], MaskPiece]
BiasOf = Callable[[range, torch.dtype], BiasPiece]
"""Mask and bias of some of the queries; long sequences request them in chunks."""


def attend_in_chunks(
    query: Float[Tensor, "batch head query d_head"],
    key: Float[Tensor, "batch head key d_head"],
    value: Float[Tensor, "batch head key d_head"],
    mask_of: MaskOf,
    bias_of: BiasOf,
) -> Float[Tensor, "batch head query d_head"]:
    """`attend_fast` over chunks of the queries, so that no full query x key tensor is in memory."""
    n_queries, n_keys = query.shape[2], key.shape[2]
    size = max(1, CHUNK_ELEMENTS[query.device.type] // (query.shape[0] * query.shape[1] * n_keys))
    if size >= n_queries:
        everything = range(n_queries)
        return attend_fast(query, key, value, mask_of(everything), bias_of(everything, query.dtype))
    # One place for all pieces: kept ones between temporaries would leave the heap full of holes.
    found = torch.empty_like(query)
    for start in range(0, n_queries, size):
        rows = range(start, min(start + size, n_queries))
        piece = query[:, :, rows.start : rows.stop]
        found[:, :, rows.start : rows.stop] = attend_fast(piece, key, value, mask_of(rows), bias_of(rows, query.dtype))
    return found
