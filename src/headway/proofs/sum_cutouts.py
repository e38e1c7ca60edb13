"""Margins of a model in billions of contexts of sums: the last steps of the model, on the keys that a context sees.

The encoder's output at a column depends on the column's neighbourhood, and the decoder's query on the digits written
before. The model computes both in real sums, once for each neighbourhood and once for all written digits. For a context
they are put together, and the rest of the model runs on them in fp32: cross-attention over these keys, feed-forward
layer, readout. The keys that are left out would add exact zeros. Neither the tables of the proof nor its list of
contexts is used.
"""

import math
from functools import cached_property
from itertools import product

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.batches import collate, make_batch
from headway.evaluation import Trained
from headway.model.blocks import Block
from headway.proofs.sum_contexts import Reach
from headway.proofs.sum_covering import Sums, covering
from headway.tasks import Examples
from headway.tasks.addition_text import EOS, AdditionText

ENCODED_AT_ONCE = 1 << 13
"""Sums that are encoded in one batch."""
STATES = 66
"""Unordered pairs of two digits, either of which may be missing."""
Keys = Float[Tensor, "*any head d_head"]
Rows = Int[Tensor, " sum"]


class CutOuts:
    """The parts of a model's passes over sums from which every context can be put together."""

    def __init__(self, trained: Trained, reach: Reach):
        assert isinstance(trained.task, AdditionText)
        self.task, self.model, self.device, self.reach = trained.task, trained.model, trained.device, reach
        block = trained.model.decoder[0]
        assert isinstance(block, Block) and block.cross is not None and block.cross_norm is not None
        self.block, self.cross, self.cross_norm = block, block.cross, block.cross_norm
        self._states: dict[int, Tensor] = {}

    @torch.inference_mode()
    def margins(self, sums: Sums) -> Float[Tensor, " context"]:
        """The model's margins at the checked column, for the sums that have a token there."""
        written, right, asked = self._answers(sums)
        sums, written, right = sums.take(asked), written[asked], right[asked]
        state = self._after_self_attention(sums.column)[written][:, None]
        state = self.block.add_cross(state, self._heads(sums, state)[:, None])
        logits = self.model.read_out(self.block.add_feed_forward(state))[:, 0].float()
        return lead(logits, right)

    def _answers(self, sums: Sums) -> tuple[Rows, Rows, Int[Tensor, " asked"]]:
        """The digits written just before the checked column, as one number; its right token; the sums that have one."""
        seen = _seen(self.reach, sums.column)
        carry = before = written = torch.zeros_like(sums.first[:, 0])
        for column in range(1, sums.column):
            total = _total(sums, column) + carry
            before, carry = carry, total // 10
            written = (10 * written + total % 10) % 10**seen
        here, below = (_present(sums, column) for column in (sums.column, sums.column - 1))
        digit = (_total(sums, sums.column) + carry) % 10
        right = torch.where(here, digit, torch.where(carry == 1, 1, EOS))
        return written, right, (here | below | (before == 1)).nonzero()[:, 0]

    def _heads(self, sums: Sums, state: Float[Tensor, "context 1 d_model"]) -> Float[Tensor, "context head d_head"]:
        """The head outputs of cross-attention: a softmax over the tokens around the numbers and the visible digits."""
        query = self._split(self.cross.query(self.cross_norm(state)))
        near = [column for column in self._columns(sums.column) if column >= 1]
        rows = {column: _neighbourhood(sums, column, self.reach.encoder) for column in near}
        key, value = self._around
        scores = [torch.einsum("bohd,ahd->bah", query, key)]
        for column in near:
            score = (query * self._digits[min(column, self.reach.clip)][0][rows[column]]).sum(-1)
            larger, smaller = _ordered(sums, column)
            scores.append(score.masked_fill(torch.stack([larger, smaller], dim=1)[..., None] < 0, -math.inf))
        score = torch.cat(scores, dim=1) / math.sqrt(self.cross.d_head) + self._bias(sums.column, near, len(key))
        first, *others = score.softmax(1).split([len(key), *[2] * len(near)], dim=1)
        found = torch.einsum("bah,ahd->bhd", first, value)
        for column, weight in zip(near, others, strict=True):
            found = found + (weight[..., None] * self._digits[min(column, self.reach.clip)][1][rows[column]]).sum(1)
        return found

    def _columns(self, column: int) -> range:
        return range(column - self.reach.cross, column + self.reach.cross + 1)

    def _bias(self, column: int, near: list[int], around: int) -> Float[Tensor, "key head"]:
        positions = torch.tensor([[0] * around + [one for one in near for _ in range(2)]], device=self.device)
        bias = self.model.encoding.bias(torch.tensor([[column]], device=self.device), positions, "cross")
        assert bias is not None
        return bias[0, list(self.cross.kept), 0].T

    def _split(self, x: Float[Tensor, "*any width"]) -> Keys:
        return x.unflatten(-1, (len(self.cross.kept), self.cross.d_head))

    def _after_self_attention(self, column: int) -> Float[Tensor, "written d_model"]:
        """The decoder's state at a column, after every row of digits that it sees; earlier ones are 1."""
        if column not in self._states:
            seen = _seen(self.reach, column)
            rows = [(1,) * (column - 1 - seen) + row + (0,) for row in product(range(10), repeat=seen)]
            target = torch.tensor(rows, device=self.device)
            source = torch.as_tensor(self._sum_of_ones.source, device=self.device).expand(len(target), -1)
            inputs = self.model.placed(collate(self.task, self.model, source, target, padded=False).inputs)
            state, own, _ = self.model.decoder_start(inputs)
            self._states[column] = self.block.add_own(state, self.block.self_attention_outputs(state, own))[:, -1]
        return self._states[column]

    @cached_property
    def _sum_of_ones(self) -> Examples:
        one = torch.ones(1, 1, dtype=torch.int64)
        return Sums(one, one, 1).examples(self.task)

    @cached_property
    def _around(self) -> tuple[Keys, Keys]:
        """Keys and values of the tokens around the numbers, which see only each other."""
        encoded, positions, _ = self._encoded(self._sum_of_ones)
        return self._keys_and_values(encoded[positions == 0])

    def _encoded(self, examples: Examples) -> tuple[Tensor, Tensor, Tensor]:
        """The encoder's output, and the positions and tokens of the source."""
        inputs = self.model.placed(make_batch(self.task, self.model, examples, self.device).inputs)
        return self.model.encode(inputs), inputs.source_positions, inputs.source

    def _keys_and_values(self, encoded: Float[Tensor, "*any d_model"]) -> tuple[Keys, Keys]:
        return self._split(self.cross.key(encoded)), self._split(self.cross.value(encoded))

    @cached_property
    def _digits(self) -> dict[int, tuple[Keys, Keys]]:
        """Keys and values of both digits of a column, the larger first, in every neighbourhood; for the columns below
        `clip`, and for all others. Where there is no digit, 0; where there is no such neighbourhood, NaN.
        """
        clip, around = self.reach.clip, self.reach.encoder
        shape = (STATES ** (2 * around + 1), 2, len(self.cross.kept), self.cross.d_head)
        found = {
            column: (torch.full(shape, math.nan, device=self.device), torch.full(shape, math.nan, device=self.device))
            for column in range(1, clip + 1)
        }
        for every in covering(Reach(encoder=around, decoder=0, cross=0, clip=clip), self.device):
            for sums in every.split(ENCODED_AT_ONCE):
                encoded, positions, tokens = self._encoded(sums.examples(self.task))
                digit, at = torch.where(positions == sums.column, tokens, -1).topk(2, dim=1)
                parts = self._keys_and_values(encoded.gather(1, at[..., None].expand(-1, -1, encoded.shape[-1])))
                row = _neighbourhood(sums, sums.column, around)
                for table, part in zip(found[min(sums.column, clip)], parts, strict=True):
                    table[row] = part.masked_fill(digit[..., None, None] < 0, 0.0)
        return found


def lead(logits: Float[Tensor, "row token"], right: Rows) -> Float[Tensor, " row"]:
    """The logit of the right token less the largest of the others."""
    others = logits.scatter(1, right[:, None], -math.inf).amax(1)
    return logits.gather(1, right[:, None])[:, 0] - others


def _seen(reach: Reach, column: int) -> int:
    """How many of the digits written before a column's its query sees."""
    return min(reach.decoder + 1, column - 1)


def _ordered(sums: Sums, column: int) -> tuple[Rows, Rows]:
    """The larger and the smaller digit of a column, -1 where there is none."""
    if not 1 <= column <= sums.first.shape[1]:
        return torch.full_like(sums.first[:, 0], -1), torch.full_like(sums.first[:, 0], -1)
    first, second = sums.first[:, column - 1], sums.second[:, column - 1]
    return torch.maximum(first, second), torch.minimum(first, second)


def _present(sums: Sums, column: int) -> Tensor:
    return _ordered(sums, column)[0] >= 0


def _total(sums: Sums, column: int) -> Rows:
    larger, smaller = _ordered(sums, column)
    return larger.clamp(min=0) + smaller.clamp(min=0)


def _neighbourhood(sums: Sums, column: int, around: int) -> Rows:
    """The digits from `around` columns below a column to as many above it, as one number."""
    found = torch.zeros_like(sums.first[:, 0])
    for near in range(column - around, column + around + 1):
        larger, smaller = _ordered(sums, near)
        found = found * STATES + (larger + 1) * (larger + 2) // 2 + smaller + 1
    return found
