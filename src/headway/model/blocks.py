"""One layer of a transformer: self-attention, optional cross-attention, then an MLP."""

from dataclasses import dataclass, field

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headway.config import ModelConfig
from headway.model.attention import HeadOutputs, KeyValueCache, MultiHeadAttention, Place, Visibility
from headway.model.noise import Dropout
from headway.model.sites import HeadSite

Hidden = Float[Tensor, "batch position d_model"]
Encoded = Float[Tensor, "batch source d_model"]


@dataclass
class LayerCache:
    """The KV cache of one layer: its own keys and values, and those of the encoder's output."""

    own: KeyValueCache = field(default_factory=KeyValueCache)
    cross: KeyValueCache = field(default_factory=KeyValueCache)


@dataclass(frozen=True)
class View:
    """The mask and the positions of one kind of attention."""

    place: Place
    visibility: Visibility


class FeedForward(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.expand = nn.Linear(config.d_model, config.d_ff)
        self.contract = nn.Linear(config.d_ff, config.d_model)
        self.activation = F.relu if config.activation == "relu" else F.gelu
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Hidden) -> Hidden:
        return self.contract(self.dropout(self.activation(self.expand(x))))


class Block(nn.Module):
    """Each branch is added to the residual stream; its layer norm is before the branch (pre) or after the sum (post).

    `forward` is the whole layer. The parts it is made of are public: a pass can be cut where the heads meet,
    between their outputs (`self_attention_outputs`, `cross_attention_outputs`) and the residual stream (`add_own`,
    `add_cross`).
    """

    def __init__(self, config: ModelConfig, own: HeadSite, cross: HeadSite | None = None):
        super().__init__()
        self.pre_norm = config.norm == "pre"
        self.own = MultiHeadAttention(config, own.kept)
        self.own_norm = nn.LayerNorm(config.d_model)
        self.cross = MultiHeadAttention(config, cross.kept) if cross else None
        self.cross_norm = nn.LayerNorm(config.d_model) if cross else None
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.d_model)
        self.dropout = Dropout(config.dropout)

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
        x = self.add_own(x, self.self_attention_outputs(x, own, cache.own if cache else None, record, name))
        if across is not None and memory is not None:
            x = self.add_cross(
                x, self.cross_attention_outputs(x, memory, across, cache.cross if cache else None, record, name)
            )
        return self.add_feed_forward(x)

    def self_attention_outputs(
        self,
        x: Hidden,
        view: View,
        cache: KeyValueCache | None = None,
        record: dict[str, Tensor] | None = None,
        name: str = "",
    ) -> HeadOutputs:
        """The head outputs of self-attention; keys and values of earlier tokens come from the cache."""
        x = self._read(x, self.own_norm)
        key, value = self.own.keys_and_values(x, view.place.rotate_key)
        if cache is not None:
            key, value = cache.extend(key, value)
        return self.own.head_outputs_at(x, key, value, view.place, view.visibility, record, f"{name}.self")

    def cross_attention_outputs(
        self,
        x: Hidden,
        memory: Encoded | None,
        view: View,
        cache: KeyValueCache | None = None,
        record: dict[str, Tensor] | None = None,
        name: str = "",
    ) -> HeadOutputs:
        """The head outputs of cross-attention; if the cache has the keys and values of the encoder's output, that is
        not needed.
        """
        assert self.cross is not None and self.cross_norm is not None
        x = self._read(x, self.cross_norm)
        if cache is not None and cache.key is not None and cache.value is not None:
            key, value = cache.key, cache.value
        else:
            assert memory is not None
            key, value = self.cross.keys_and_values(memory, view.place.rotate_key)
            if cache is not None:
                cache.extend(key, value)
        return self.cross.head_outputs_at(x, key, value, view.place, view.visibility, record, f"{name}.cross")

    def add_own(self, x: Hidden, heads: HeadOutputs) -> Hidden:
        return self._add(x, self.own_norm, self.own.output(heads.flatten(2)))

    def add_cross(self, x: Hidden, heads: HeadOutputs) -> Hidden:
        assert self.cross is not None and self.cross_norm is not None
        return self._add(x, self.cross_norm, self.cross.output(heads.flatten(2)))

    def add_feed_forward(self, x: Hidden) -> Hidden:
        return self._add(x, self.feed_forward_norm, self.feed_forward(self._read(x, self.feed_forward_norm)))

    def _read(self, x: Hidden, norm: nn.Module) -> Hidden:
        """The input of a branch."""
        read: Hidden = norm(x) if self.pre_norm else x
        return read

    def _add(self, x: Hidden, norm: nn.Module, branch: Hidden) -> Hidden:
        x = x + self.dropout(branch)
        if self.pre_norm:
            return x
        summed: Hidden = norm(x)
        return summed
