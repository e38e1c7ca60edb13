"""One layer of a transformer: attention to itself, optionally to an encoder, then a feed-forward layer."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headway.config import ModelConfig
from headway.model.attention import KeyValueCache, MultiHeadAttention, Place, Visibility

Hidden = Float[Tensor, "batch position d_model"]
Encoded = Float[Tensor, "batch source d_model"]


@dataclass
class LayerCache:
    """What decoding keeps of one layer: its own keys and values, and those of the encoder's output."""

    own: KeyValueCache = field(default_factory=KeyValueCache)
    cross: KeyValueCache = field(default_factory=KeyValueCache)


@dataclass(frozen=True)
class View:
    """What one kind of attention may look at, and where everything stands."""

    place: Place
    visibility: Visibility


class FeedForward(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.expand = nn.Linear(config.d_model, config.d_ff)
        self.contract = nn.Linear(config.d_ff, config.d_model)
        self.activation = F.relu if config.activation == "relu" else F.gelu
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Hidden) -> Hidden:
        return self.contract(self.dropout(self.activation(self.expand(x))))


class Block(nn.Module):
    """Each branch is added to the residual stream; its norm stands before it (pre) or after the sum (post)."""

    def __init__(self, config: ModelConfig, *, cross: bool):
        super().__init__()
        assert config.d_head is not None
        sizes = (config.d_model, config.n_heads, config.d_head, config.dropout, config.log_length_scale)
        self.pre_norm = config.norm == "pre"
        self.own = MultiHeadAttention(*sizes)
        self.own_norm = nn.LayerNorm(config.d_model)
        self.cross = MultiHeadAttention(*sizes) if cross else None
        self.cross_norm = nn.LayerNorm(config.d_model) if cross else None
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.d_model)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Hidden,
        own: View,
        across: View | None = None,
        memory: Encoded | None = None,
        cache: LayerCache | None = None,
        record: dict[str, Tensor] | None = None,
        name: str = "",
    ) -> Hidden:
        x = self._add(x, self.own_norm, lambda y: self._look_at_self(y, own, cache, record, name))
        if self.cross is not None and self.cross_norm is not None and across is not None and memory is not None:
            x = self._add(x, self.cross_norm, lambda y: self._look_across(y, memory, across, cache, record, name))
        return self._add(x, self.feed_forward_norm, self.feed_forward)

    def _add(self, x: Hidden, norm: nn.Module, branch: Callable[[Hidden], Hidden]) -> Hidden:
        if self.pre_norm:
            return x + self.dropout(branch(norm(x)))
        summed: Hidden = norm(x + self.dropout(branch(x)))
        return summed

    def _look_at_self(
        self, x: Hidden, view: View, cache: LayerCache | None, record: dict[str, Tensor] | None, name: str
    ) -> Hidden:
        key, value = self.own.keys_and_values(x, view.place.rotate_key)
        if cache is not None:
            key, value = cache.own.extend(key, value)
        return self.own(x, key, value, view.place, view.visibility, record, f"{name}.self")

    def _look_across(
        self,
        x: Hidden,
        memory: Encoded,
        view: View,
        cache: LayerCache | None,
        record: dict[str, Tensor] | None,
        name: str,
    ) -> Hidden:
        assert self.cross is not None
        if cache is not None and cache.cross.key is not None and cache.cross.value is not None:
            key, value = cache.cross.key, cache.cross.value
        else:
            key, value = self.cross.keys_and_values(memory, view.place.rotate_key)
            if cache is not None:
                cache.cross.extend(key, value)
        return self.cross(x, key, value, view.place, view.visibility, record, f"{name}.cross")
