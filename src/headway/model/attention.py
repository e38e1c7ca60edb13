"""Multi-head attention with its places and masks; `dot_products` computes what each head reads."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.config import ModelConfig
from headway.model.dot_products import BiasOf, BiasPiece, MaskPiece, attend, attend_in_chunks
from headway.model.encodings.base import Encoding, Heads, for_rows
from headway.model.noise import Dropout


@dataclass(frozen=True)
class Visibility:
    """Which keys a query may see: no padding, and with `causal` no later token.

    The last query is at the last key, so a decoder with a KV cache can pass a single query.
    """

    keys: Bool[Tensor, "batch key"] | None = None
    causal: bool = False

    def mask(self, queries: range, n_queries: int, n_keys: int, device: torch.device) -> Tensor | None:
        """The mask `batch 1 query key` of some of the queries, true where visible; None if everything is visible."""
        mask = None if self.keys is None else self.keys[:, None, None, :]
        if self.causal and n_queries > 1:
            query = torch.arange(queries.start, queries.stop, device=device) + (n_keys - n_queries)
            past = torch.arange(n_keys, device=device) <= query[:, None]
            mask = past[None, None] if mask is None else mask & past
        return mask

    def count(self, n_queries: int, n_keys: int, device: torch.device) -> Int[Tensor, "#batch query"]:
        """How many keys each query sees."""
        seen = torch.arange(1, n_keys + 1, device=device)[None] if self.keys is None else self.keys.cumsum(-1)
        return seen[:, n_keys - n_queries :] if self.causal else seen[:, -1:].expand(-1, n_queries)


NewHeads = Float[Tensor, "batch head new d_head"]


@dataclass
class KeyValueCache:
    """The KV cache of one attention module; decoding appends to it step by step."""

    key: Heads | None = None
    value: Heads | None = None

    def extend(self, key: NewHeads, value: NewHeads) -> tuple[Heads, Heads]:
        if self.key is not None and self.value is not None:
            key, value = torch.cat([self.key, key], dim=2), torch.cat([self.value, value], dim=2)
        self.key, self.value = key, value
        return key, value


@dataclass(frozen=True)
class Place:
    """The encoding's hooks for attention (`rotate` and `bias`), bound to the positions of queries and keys.

    `kind` is the attention's kind (encoder, decoder or cross), for encodings that learn one bias for each.
    With a `window`, a query sees keys at most that far away. Where positions count digits, tokens that are not digits
    stand at position 0, outside the count: every query sees them, and they see only each other.
    """

    encoding: Encoding
    kind: str
    query_positions: Int[Tensor, "#row query"]
    key_positions: Int[Tensor, "#row key"]
    window: int | None = None

    def near(self, queries: range) -> Bool[Tensor, "#batch 1 query key"] | None:
        """The mask of the window for some of the queries; None without a window."""
        if self.window is None:
            return None
        query, key = self._both(queries)
        query, key = query[:, :, None], key[:, None, :]
        inside = (query - key).abs() <= self.window
        if self.encoding.position_kind != "index":
            inside = (inside & (query > 0)) | (key == 0)
        return inside[:, None]

    def _both(self, queries: range) -> tuple[Int[Tensor, "#row query"], Int[Tensor, "#row key"]]:
        """Positions of some of the queries and of all keys. In a stack, either may have one row for each model."""
        query, key = self.query_positions[:, queries.start : queries.stop], self.key_positions
        rows = max(len(query), len(key))
        return for_rows(query, rows), for_rows(key, rows)

    def rotate_query(self, query: Heads) -> Heads:
        return self.encoding.rotate(query, for_rows(self.query_positions, len(query)))

    def rotate_key(self, key: Heads) -> Heads:
        # With a KV cache, only the newest ones are still to be turned.
        return self.encoding.rotate(key, for_rows(self.key_positions[:, -key.shape[2] :], len(key)))

    def bias(self, queries: range, dtype: torch.dtype) -> Float[Tensor, "#batch #head query key"] | None:
        bias = self.encoding.bias(*self._both(queries), self.kind)
        return None if bias is None else bias.to(dtype)


def _linear(width_in: int, width_out: int) -> nn.Linear:
    """A linear layer. A layer of size 0 is made without PyTorch's warning that there is nothing to initialise."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Initializing zero-element tensors")
        return nn.Linear(width_in, width_out)


HeadOutputs = Float[Tensor, "batch query head d_head"]


class MultiHeadAttention(nn.Module):
    """Multi-head attention: several heads, each in its own subspace, mixed by one output projection.

    The heads are combined only in `output`: at its input, `batch query (head d_head)`, a head can be ablated, patched
    or pruned. `kept` are the remaining heads out of the original `n_heads`; with none left, only the bias of `output`
    remains.
    """

    def __init__(self, config: ModelConfig, kept: tuple[int, ...]):
        super().__init__()
        assert config.d_head is not None
        self.kept, self.d_head = kept, config.d_head
        self.dropout = Dropout(config.dropout)
        self.pruned = len(kept) < config.n_heads
        self.log_length_scale = config.log_length_scale
        width = len(kept) * config.d_head
        self.query = _linear(config.d_model, width)
        self.key = _linear(config.d_model, width)
        self.value = _linear(config.d_model, width)
        self.output = _linear(width, config.d_model)

    def split(self, x: Float[Tensor, "batch position width"]) -> Heads:
        return x.unflatten(-1, (len(self.kept), self.d_head)).transpose(1, 2)

    def keys_and_values(
        self, x: Float[Tensor, "batch key d_model"], rotate: Callable[[Heads], Heads]
    ) -> tuple[Heads, Heads]:
        return rotate(self.split(self.key(x))), self.split(self.value(x))

    def head_outputs_at(
        self,
        x: Float[Tensor, "batch query d_model"],
        key: Heads,
        value: Heads,
        place: Place,
        visibility: Visibility,
        record: dict[str, Tensor] | None = None,
        name: str = "",
    ) -> HeadOutputs:
        """The output of each head, before the output projection; with `record`, its weights are stored under `name`."""
        query = place.rotate_query(self.split(self.query(x)))
        if self.log_length_scale:
            seen = visibility.count(query.shape[2], key.shape[2], query.device)
            query = query * seen.to(query.dtype).log()[:, None, :, None]
        n_queries, n_keys = query.shape[2], key.shape[2]

        def mask_of(queries: range) -> MaskPiece:
            mask, near = visibility.mask(queries, n_queries, n_keys, x.device), place.near(queries)
            near = None if near is None else for_rows(near, len(x))
            return near if mask is None else mask if near is None else mask & near

        bias_of = self._bias_of(place, len(x))
        drops = self.training and self.dropout.share > 0
        if record is None and self.kept and not drops:
            mixed = attend_in_chunks(query, key, value, mask_of, bias_of)
        else:
            everything = range(n_queries)
            bias = bias_of(everything, query.dtype)
            mixed, weights = attend(query, key, value, mask_of(everything), bias, self.dropout)
            if record is not None:
                record[name] = weights
        return mixed.transpose(1, 2)

    def _bias_of(self, place: Place, rows: int) -> BiasOf:
        """The encoding's bias for the heads that the model has and for this many rows."""

        def bias_of(queries: range, dtype: torch.dtype) -> BiasPiece:
            bias = place.bias(queries, dtype)
            if bias is None:
                return None
            bias = bias[:, list(self.kept)] if self.pruned and bias.shape[1] > 1 else bias
            return for_rows(bias, rows)

        return bias_of
