"""What a local model of sums computes in every context, tabulated column by column in float64.

Attention is a sum over keys, divided by another: `sum of exp(score) value` by `sum of exp(score)`. Each column in view
adds its part to both, and that part depends on the column and its own neighbours alone. So the parts are tabulated, and
a context costs a few additions and one feed-forward layer instead of a pass over its tokens.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.attention import MultiHeadAttention
from headway.model.blocks import Block
from headway.model.transformer import Transformer
from headway.proofs.sum_contexts import EMPTY, N_STATES, STATES, Contexts, Place, Reach
from headway.tasks.addition_text import CHARACTERS

DIGITS = 10
AROUND = tuple(CHARACTERS.index(character) for character in " +  = ")
"""The tokens around the numbers, ` + ` and ` = `: always the same, and they see only each other."""

Parts = Float[Tensor, "*rows head part"]
"""What keys add to an attention: for each head the weighted values, and behind them the weights."""


@dataclass
class Extremes:
    """Largest norms of what is added up, and smallest deviations that a layer norm divided by, by name of the place."""

    largest: dict[str, float] = field(default_factory=dict)
    smallest: dict[str, float] = field(default_factory=dict)

    def norm(self, name: str, x: Tensor) -> Tensor:
        if x.numel():
            self.largest[name] = max(self.largest.get(name, 0.0), float(torch.linalg.vector_norm(x, dim=-1).max()))
        return x

    def deviation(self, name: str, x: Tensor) -> Tensor:
        if x.numel():
            found = float(x.var(-1, unbiased=False).min().sqrt())
            self.smallest[name] = min(self.smallest.get(name, math.inf), found)
        return self.norm(name, x)


def attention_parts(score: Float[Tensor, "*rows head"], value: Float[Tensor, "*rows head d_head"]) -> Parts:
    """What one key adds for each row."""
    weight = score.exp()[..., None]
    return torch.cat([weight * value, weight], dim=-1)


def mixed(parts: Parts) -> Float[Tensor, "*rows head d_head"]:
    """The output of attention from the sum of all parts."""
    return parts[..., :-1] / parts[..., -1:]


class Tables:
    """A model of one encoder and one decoder layer whose attention reaches a few columns, as tables over contexts."""

    def __init__(self, model: Transformer, reach: Reach, bos: int):
        self.model, self.reach, self.bos = copy.deepcopy(model).double().eval(), reach, bos
        self.device = model.readout.weight.device
        self.encoder, self.decoder = self._block("encoder"), self._block("decoder")
        self.seen = Extremes()
        self.digits = torch.tensor(STATES, device=self.device)
        self.around = self._encode_around()
        self._memories: dict[int, tuple[Tensor, Tensor]] = {}

    def _block(self, which: str) -> Block:
        block = getattr(self.model, which)[0]
        assert isinstance(block, Block)
        return block

    # Attention of the model's layers, as parts.

    def _bias(self, kind: str, ahead: int) -> Float[Tensor, " head"]:
        """The bias for a key so many columns ahead of its query."""
        clip = self.reach.clip
        table = self.model.encoding.tables[kind].weight  # type: ignore[index, union-attr]
        row: Tensor = table[max(-clip, min(clip, ahead)) + clip]
        return row

    @staticmethod
    def _heads(linear: nn.Linear, attention: MultiHeadAttention, x: Tensor) -> Float[Tensor, "*rows head d_head"]:
        projected: Tensor = linear(x)
        return projected.unflatten(-1, (len(attention.kept), attention.d_head))

    def _embed(self, tokens: Int[Tensor, " token"]) -> Float[Tensor, "token d_model"]:
        found: Tensor = self.model.embedding(tokens)
        return found

    def _encode_around(self) -> Float[Tensor, "token d_model"]:
        """The encoder's output at the tokens around the numbers."""
        tokens = torch.tensor(AROUND, device=self.device)
        x, own = self._embed(tokens), self.encoder.own
        read = self._read(x, self.encoder.own_norm, "encoder input")
        query, key, value = (self._heads(layer, own, read) for layer in (own.query, own.key, own.value))
        score = torch.einsum("qhd,khd->qkh", query, key) / math.sqrt(own.d_head) + self._bias("encoder", 0)
        parts = attention_parts(score, value.expand(len(tokens), -1, -1, -1)).sum(1)
        return self._finish_encoder(x, mixed(parts))

    def _read(self, x: Tensor, norm: nn.Module, name: str) -> Tensor:
        self.seen.deviation(name, x)
        read: Tensor = norm(x) if self.encoder.pre_norm else x
        return read

    def _finish_encoder(self, x: Tensor, heads: Float[Tensor, "row head d_head"]) -> Float[Tensor, "row d_model"]:
        x = self.encoder.add_own(x[:, None], heads[:, None])
        self.seen.deviation("encoder middle", x)
        x = self.encoder.add_feed_forward(x)
        self.seen.deviation("encoder output", x)
        found: Tensor = self.model.encoder_norm(x)[:, 0]
        return found

    def memory(self, column_class: int) -> tuple[Tensor, Tensor]:
        """Keys and values for cross-attention of both digits of a column, in every neighbourhood.

        A neighbourhood is a row of states from `encoder` columns below to as many above, read as a number in base 66.
        `column_class` is the column, or `clip` for all from there on: how far the tokens around the numbers are.
        """
        if column_class not in self._memories:
            encoded = self._encode_digits(column_class)
            cross = self.decoder.cross
            assert cross is not None
            pair = (self._heads(cross.key, cross, encoded), self._heads(cross.value, cross, encoded))
            self._memories = {column_class: pair} if self.reach.encoder else {**self._memories, column_class: pair}
        return self._memories[column_class]

    def _encode_digits(self, column_class: int, most: int = 1 << 17) -> Float[Tensor, "neighbourhood slot d_model"]:
        own, width = self.encoder.own, 2 * self.reach.encoder + 1
        x = self._embed(torch.arange(DIGITS, device=self.device))
        read = self._read(x, self.encoder.own_norm, "encoder input")
        query, key, value = (self._heads(layer, own, read) for layer in (own.query, own.key, own.value))
        plain = torch.einsum("qhd,khd->qkh", query, key) / math.sqrt(own.d_head)
        expanded = value.expand(DIGITS, -1, -1, -1)
        offsets = range(-self.reach.encoder, self.reach.encoder + 1)
        columns = [self._by_state(attention_parts(plain + self._bias("encoder", ahead), expanded)) for ahead in offsets]
        constant = self._around_parts(query, column_class)
        found = torch.empty(N_STATES**width, 2, x.shape[-1], dtype=torch.float64, device=self.device)
        for start in range(0, len(found), most):
            codes = torch.arange(start, min(start + most, len(found)), device=self.device)
            states = [codes // N_STATES**place % N_STATES for place in range(width)]  # the lowest column first
            tokens = self.digits[states[self.reach.encoder]].clamp(min=0)
            for slot in (0, 1):
                token = tokens[:, slot]
                parts = constant[token] + sum(table[token, state] for table, state in zip(columns, states, strict=True))
                found[codes, slot] = self._finish_encoder(x[token], mixed(parts))
        return found

    def _by_state(self, parts: Float[Tensor, "query digit head part"]) -> Float[Tensor, "query state head part"]:
        """What the digits of a column add, for each state of the column."""
        present = (self.digits[:, :, None] == torch.arange(DIGITS, device=self.device)).sum(1).double()
        return torch.einsum("qdhp,sd->qshp", parts, present)

    def _around_parts(
        self, query: Float[Tensor, "row head d_head"], column_class: int
    ) -> Float[Tensor, "row head part"]:
        """What the tokens around the numbers add for queries of a column's class."""
        own = self.encoder.own
        read = self._read(self._embed(torch.tensor(AROUND, device=self.device)), self.encoder.own_norm, "encoder input")
        key, value = self._heads(own.key, own, read), self._heads(own.value, own, read)
        score = torch.einsum("qhd,khd->qkh", query, key) / math.sqrt(own.d_head) + self._bias("encoder", -column_class)
        return attention_parts(score, value.expand(len(query), -1, -1, -1)).sum(1)

    # The decoder at one column.

    def writer(self, place: Place, written: tuple[int, ...]) -> Callable[[Contexts], Float[Tensor, "context token"]]:
        """Contexts of a place in which these digits were written before -> the logits of the next token."""
        x = self._after_self_attention(place, written)
        cross, norm = self.decoder.cross, self.decoder.cross_norm
        assert cross is not None and norm is not None
        query = self._heads(cross.query, cross, self._read(x, norm, "decoder middle"))[0]
        key, value = (self._heads(layer, cross, self.around) for layer in (cross.key, cross.value))
        column_class = min(place.column, self.reach.clip)
        score = self._cross_score(query, key, -column_class)
        constant = attention_parts(score, value).sum(0)
        offsets = [ahead for ahead in range(-self.reach.cross, self.reach.cross + 1) if place.column + ahead >= 1]
        tables = {
            ahead: self._column_parts(query, min(place.column + ahead, self.reach.clip), ahead) for ahead in offsets
        }

        def logits(contexts: Contexts) -> Float[Tensor, "context token"]:
            codes = self._neighbourhoods(contexts, offsets)
            parts = constant + sum(tables[ahead][codes[ahead]] for ahead in offsets)
            return self._finish_decoder(x, mixed(parts))

        return logits

    def _after_self_attention(self, place: Place, written: tuple[int, ...]) -> Float[Tensor, "1 d_model"]:
        tokens = torch.tensor(self.view(place, written), device=self.device)
        x, own = self._embed(tokens), self.decoder.own
        read = self._read(x, self.decoder.own_norm, "decoder input")
        query = self._heads(own.query, own, read[-1:])
        key, value = self._heads(own.key, own, read), self._heads(own.value, own, read)
        ahead = range(1 - len(tokens), 1)
        bias = torch.stack([self._bias("decoder", one) for one in ahead])
        score = torch.einsum("qhd,khd->kh", query, key) / math.sqrt(own.d_head) + bias
        heads = mixed(attention_parts(score, value).sum(0, keepdim=True))
        found: Tensor = self.decoder.add_own(x[-1:, None], heads[:, None])[:, 0]
        return found

    def view(self, place: Place, written: tuple[int, ...]) -> list[int]:
        """The tokens of the answer that the query sees: the digits written before, after BOS where it is in view."""
        begins = place.column - self.reach.decoder <= 1 and not place.everywhere
        return [self.bos] * begins + list(written[-(self.reach.decoder + 1 - begins) :] if written else ())

    def _cross_score(self, query: Tensor, key: Tensor, ahead: int) -> Float[Tensor, "*rows head"]:
        cross = self.decoder.cross
        assert cross is not None
        return torch.einsum("hd,...hd->...h", query, key) / math.sqrt(cross.d_head) + self._bias("cross", ahead)

    def _column_parts(self, query: Tensor, column_class: int, ahead: int) -> Float[Tensor, "neighbourhood head part"]:
        """What a column so far ahead adds to cross-attention, in every neighbourhood."""
        key, value = self.memory(column_class)
        parts = attention_parts(self._cross_score(query, key, ahead), value)
        middle = torch.arange(len(parts), device=self.device) // N_STATES**self.reach.encoder % N_STATES
        present = self.digits[middle] >= 0
        return (parts * present[..., None, None]).sum(1)

    def _neighbourhoods(self, contexts: Contexts, offsets: list[int]) -> dict[int, Int[Tensor, " context"]]:
        """The code of each column's neighbourhood; what lies below the units is empty."""
        states = torch.as_tensor(contexts.states, device=self.device)
        at = contexts.place.n_below

        def state(column: int) -> Tensor:
            inside = 0 <= at + column < states.shape[1]
            return states[:, at + column] if inside else torch.full_like(states[:, 0], EMPTY)

        reach = self.reach.encoder
        return {
            ahead: sum(
                (state(ahead + near) * N_STATES ** (near + reach) for near in range(-reach, reach + 1)),
                torch.zeros_like(states[:, 0]),
            )
            for ahead in offsets
        }

    def _finish_decoder(self, x: Float[Tensor, "1 d_model"], heads: Tensor) -> Float[Tensor, "context token"]:
        x = self.decoder.add_cross(x[:, None].expand(len(heads), -1, -1), heads[:, None])
        self.seen.deviation("decoder last", x)
        x = self.decoder.add_feed_forward(x)
        self.seen.deviation("decoder output", x)
        return self.model.read_out(x)[:, 0]
