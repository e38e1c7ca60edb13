"""Tables of what a model with windowed attention computes for sums, in every context, in float64.

Attention is a quotient of two sums over keys: `sum of exp(score) value` over `sum of exp(score)`. Each visible column
adds a part to both sums, which depends only on the column and its neighbours. These parts are tabulated, so that a
context costs a few additions and one feed-forward layer instead of a pass over its tokens. Every number has a bound of
its difference from the model's fp32 number.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.attention import MultiHeadAttention
from headway.model.blocks import Block
from headway.model.transformer import Transformer
from headway.proofs.sum_contexts import EMPTY, N_STATES, STATES, Contexts, Place, Reach
from headway.proofs.sum_rounding import (
    Bounded,
    Parts,
    Stream,
    after_attention,
    attended,
    exact,
    key_parts,
    mixture,
    normed_linear,
    scores,
)
from headway.proofs.sum_tail import Passed, Tail
from headway.tasks.addition_text import CHARACTERS

DIGITS = 10
AROUND = tuple(CHARACTERS.index(character) for character in " +  = ")
"""The tokens around the numbers. They are always the same and see only each other."""
AT_ONCE = {"cpu": 1 << 7, "cuda": 1 << 14}
"""Neighbourhoods of a column that are encoded in one batch."""


class Tables:
    """Tables over contexts of a model with one encoder layer and one decoder layer of windowed attention.

    `codes` are the neighbourhoods of a column that are tabulated, in increasing order; all of them by default.
    """

    def __init__(self, model: Transformer, reach: Reach, bos: int, codes: Int[Tensor, " code"] | None = None):
        self.model, self.reach, self.bos = copy.deepcopy(model).double().eval().requires_grad_(False), reach, bos
        self.device = model.readout.weight.device
        self.encoder, self.decoder = _block(self.model.encoder[0]), _block(self.model.decoder[0])
        assert self.decoder.cross is not None
        self.cross = self.decoder.cross
        self.digits = torch.tensor(STATES, device=self.device)
        every = torch.arange(N_STATES ** (2 * reach.encoder + 1), device=self.device)
        self.codes = every if codes is None else codes
        self.encoder_keys = len(AROUND) + 2 * (2 * reach.encoder + 1)
        self.cross_keys = len(AROUND) + 2 * (2 * reach.cross + 1)
        self._memories: dict[int, tuple[Bounded, Bounded]] = {}

    def _bias(self, kind: str, ahead: int) -> Tensor:
        """The bias of each head that is kept, for a key `ahead` columns ahead of its query."""
        clip, kept = self.reach.clip, {"encoder": self.encoder.own, "decoder": self.decoder.own, "cross": self.cross}
        table = self.model.encoding.tables[kind].weight  # type: ignore[index, union-attr]
        return table[max(-clip, min(clip, ahead)) + clip][list(kept[kind].kept)]

    def _embedded(self, tokens: list[int]) -> Bounded:
        return exact(self.model.embedding.weight[tokens])

    # The encoder.

    def _encoder_heads(self, tokens: list[int]) -> tuple[Bounded, Bounded, Bounded]:
        """Queries, keys and values of tokens in the encoder."""
        return _heads(self.encoder.own, self._embedded(tokens), self.encoder.own_norm)

    def _encoder_parts(self, query: Bounded, key: Bounded, value: Bounded, ahead: int) -> Parts:
        """`query x key`: the attention parts of each key `ahead` columns ahead, for each query."""
        score = scores(_rows(query), key, self._bias("encoder", ahead))
        return key_parts(score, _repeated(value, len(query.value)), self._encoder_centre(), self.encoder_keys)

    def _encoder_centre(self) -> Tensor:
        """The mean value over all tokens of a question, used as the centre of error bounds."""
        return self._encoder_heads([*range(DIGITS), *AROUND])[2].value.mean(0)

    def memory(self, column_class: int) -> tuple[Bounded, Bounded]:
        """Keys and values for cross-attention of both digits of a column, in every tabulated neighbourhood.

        A neighbourhood is a row of states from `encoder` columns below to `encoder` columns above, read as a number in
        base 66. `column_class` is the column, or `clip` for all columns from `clip` on; it sets the distance to the
        tokens around the numbers.
        """
        if column_class not in self._memories:
            self._memories[column_class] = self._encode_digits(column_class)
        return self._memories[column_class]

    def _encode_digits(self, column_class: int) -> tuple[Bounded, Bounded]:
        x = self._embedded(list(range(DIGITS)))
        query, key, value = self._encoder_heads(list(range(DIGITS)))
        _, key_around, value_around = self._encoder_heads(list(AROUND))
        constant = self._encoder_parts(query, key_around, value_around, -column_class).sum(1)
        near = range(-self.reach.encoder, self.reach.encoder + 1)
        columns = [self._by_state(self._encoder_parts(query, key, value, ahead)) for ahead in near]
        encoded = []
        for codes in torch.split(self.codes, AT_ONCE[self.device.type]):
            states = [codes // N_STATES**place % N_STATES for place in range(len(near))]  # the lowest column first
            token = self.digits[states[self.reach.encoder]].clamp(min=0)
            parts = constant[token]
            for table, state in zip(columns, states, strict=True):
                parts = parts + table[token, state[:, None]]
            encoded.append(self._finish_encoder(x[token.flatten()], parts.flatten(0, 1)))
        return self._as_memory(encoded, 2)

    def _by_state(self, parts: Parts) -> Parts:
        """The attention parts of a column's digits, for each state of the column."""
        present = (self.digits[:, :, None] == torch.arange(DIGITS, device=self.device)).sum(1).double()
        return torch.einsum("qdhp,sd->qshp", parts, present)

    def around(self) -> tuple[Bounded, Bounded]:
        """Keys and values for cross-attention of the tokens around the numbers."""
        query, key, value = self._encoder_heads(list(AROUND))
        parts = self._encoder_parts(query, key, value, 0).sum(1)
        return self._as_memory([self._finish_encoder(self._embedded(list(AROUND)), parts)], 1)

    def _finish_encoder(self, x: Bounded, parts: Parts) -> Bounded:
        """Keys and values, concatenated, that cross-attention computes from the encoder's output."""
        assert isinstance(self.model.encoder_norm, nn.LayerNorm)
        readers = (self.cross.key, self.cross.value)
        tail = Tail(self.encoder.own.output, self.encoder, self.model.encoder_norm, readers)
        passed = tail.forward(x, attended(parts, self._encoder_centre()))
        return Bounded(passed.values, passed.value_errors())

    def _as_memory(self, encoded: list[Bounded], slots: int) -> tuple[Bounded, Bounded]:
        values, errors = [one.value for one in encoded], [one.error for one in encoded]

        def gathered(which: int) -> Bounded:
            shape = (-1, slots, 2, len(self.cross.kept), self.cross.d_head)
            value, error = (torch.cat(rows).view(shape)[:, :, which] for rows in (values, errors))
            return Bounded(value, error)

        return gathered(0), gathered(1)

    # The decoder at one column.

    def _cross_centre(self) -> Tensor:
        """The mean cross-attention value at a digit, used as the centre of error bounds."""
        return self.memory(self.reach.clip)[1].value.mean((0, 1))

    def writer(self, place: Place, written: tuple[int, ...]) -> "Writer":
        """What gives the next token in contexts of a place in which these digits were written before."""
        stream = self._after_self_attention(place, written)
        x = stream.bounded()
        assert self.decoder.cross_norm is not None and isinstance(self.model.decoder_norm, nn.LayerNorm)
        query = _split(self.cross, normed_linear(stream, self.decoder.cross_norm, self.cross.query))
        key, value = self.around()
        bias = self._bias("cross", -min(place.column, self.reach.clip))
        score = scores(query, key[:, 0], bias)
        constant = key_parts(score, value[:, 0], self._cross_centre(), self.cross_keys).sum(0)
        offsets = [ahead for ahead in range(-self.reach.cross, self.reach.cross + 1) if place.column + ahead >= 1]
        tables = {ahead: self._column_parts(query, place.column + ahead, ahead) for ahead in offsets}
        tail = Tail(self.cross.output, self.decoder, self.model.decoder_norm, (self.model.readout,))
        return Writer(tail, x, constant, tables, self.reach.encoder, self._cross_centre(), self.codes)

    def _after_self_attention(self, place: Place, written: tuple[int, ...]) -> Stream:
        tokens, own = self.view(place, written), self.decoder.own
        x = self._embedded(tokens)
        query, key, value = _heads(own, x, self.decoder.own_norm)
        centre = value.value.mean(0)
        bias = torch.stack([self._bias("decoder", ahead) for ahead in range(1 - len(tokens), 1)])
        parts = key_parts(scores(query[-1:], key, bias), value, centre, len(tokens)).sum(0, keepdim=True)
        return after_attention(x[-1:], attended(parts, centre), own.output)

    def view(self, place: Place, written: tuple[int, ...]) -> list[int]:
        """The answer tokens that the query sees: the digits written before, and BOS if it is in the window."""
        begins = place.column - self.reach.decoder <= 1
        digits = written[-(self.reach.decoder + 1 - begins) :] if self.reach.decoder + 1 > begins else ()
        return [self.bos] * begins + list(digits)

    def _column_parts(self, query: Bounded, column: int, ahead: int) -> Parts:
        """The cross-attention parts of a column `ahead` columns ahead, in every tabulated neighbourhood."""
        key, value = self.memory(min(column, self.reach.clip))
        score = scores(query, key, self._bias("cross", ahead))
        parts = key_parts(score, value, self._cross_centre(), self.cross_keys)
        middle = self.codes // N_STATES**self.reach.encoder % N_STATES
        return (parts * (self.digits[middle] >= 0)[..., None, None]).sum(1)


@dataclass(frozen=True)
class Writer:
    """The next token at one place after the same digits: the stream, and what every column in view adds to attention.

    `constant` is what the tokens around the numbers add; `tables` hold the columns', by how far ahead they are, with a
    row for each of `codes`.
    """

    tail: Tail
    x: Bounded
    constant: Parts
    tables: dict[int, Parts]
    reach: int
    centre: Tensor
    codes: Int[Tensor, " code"]

    def logits(self, contexts: Contexts) -> Float[Tensor, "context token"]:
        """The logits alone."""
        sums = self._mixed[None]
        for ahead, row in self._rows(contexts):
            sums = sums + self._mixtures[ahead][row]
        return self.tail.values(self.x.value, (sums[..., :-1] / sums[..., -1:]).flatten(-2))

    def passed(self, contexts: Contexts) -> Passed:
        """The whole pass with its roundings."""
        return self.tail.forward(self.x, self.heads(contexts))

    def heads(self, contexts: Contexts) -> Bounded:
        """The head outputs of cross-attention with their roundings."""
        parts = self.constant
        for ahead, row in self._rows(contexts):
            parts = parts + self.tables[ahead][row]
        return attended(parts, self.centre)

    @cached_property
    def _mixed(self) -> Tensor:
        return mixture(self.constant)

    @cached_property
    def _mixtures(self) -> dict[int, Tensor]:
        return {ahead: mixture(table) for ahead, table in self.tables.items()}

    def _rows(self, contexts: Contexts) -> Iterator[tuple[int, Int[Tensor, " context"]]]:
        """The row of each column's neighbourhood in its table."""
        for ahead in self.tables:
            yield ahead, torch.searchsorted(self.codes, codes_of(contexts, ahead, self.reach))


def codes_of(contexts: Contexts, ahead: int, reach: int) -> Int[Tensor, " context"]:
    """The code of the neighbourhood of a column; what lies below the units or above the view is empty."""
    states, at, code = contexts.states, contexts.place.n_below + ahead, torch.zeros_like(contexts.states[:, 0])
    for index, column in enumerate(range(at - reach, at + reach + 1)):
        state = states[:, column] if 0 <= column < states.shape[1] else torch.full_like(code, EMPTY)
        code = code + state * N_STATES**index
    return code


def _block(module: nn.Module) -> Block:
    assert isinstance(module, Block)
    return module


def _split(attention: MultiHeadAttention, x: Bounded) -> Bounded:
    shape = (*x.value.shape[:-1], len(attention.kept), attention.d_head)
    return Bounded(x.value.view(shape), x.error.view(shape))


def _heads(attention: MultiHeadAttention, x: Bounded, norm: nn.LayerNorm) -> tuple[Bounded, Bounded, Bounded]:
    layers = (attention.query, attention.key, attention.value)
    query, key, value = (_split(attention, normed_linear(x, norm, layer)) for layer in layers)
    return query, key, value


def _rows(query: Bounded) -> Bounded:
    return Bounded(query.value[:, None], query.error[:, None])


def _repeated(value: Bounded, rows: int) -> Bounded:
    return Bounded(value.value.expand(rows, -1, -1, -1), value.error.expand(rows, -1, -1, -1))
