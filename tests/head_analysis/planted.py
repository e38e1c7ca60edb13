"""A model set by hand, whose carries go through heads that are known, so that an analysis can be held against it.

    dec0.cross.h0   looks at the column being written and brings the sum of its two digits
    dec0.cross.h1   looks below and brings the carry
    dec0.cross.h2   brings the sum of the digits too, at half the strength: a backup
    dec0.cross.h3   looks where h1 looks and knows what it knows; it brings the carry too if it is a carrier, and
                    else it writes it where nothing reads: a decoy
    enc0.self.*, dec0.self.*   write nothing

Why nothing but h1 (and h3 where it is a carrier) can bring a carry into a column:

1. The source is embedded column by column: the digits a and b of a column are both the one-hot vector of a + b, and
   the + is that of 0. The encoder's attention and feed-forward layer add nothing, so what the decoder sees of a
   column depends on that column alone.
2. The decoder does not read what it wrote: its tokens are BOS wherever a digit is to come, and EOS at the end. So a
   digit that was written with a carry cannot tell of it.
3. The decoder's self-attention adds nothing. In cross-attention the bias of the scores is -inf for every key that a
   head must not see, of which softmax makes exactly 0: h0 and h2 see the column being written and the +; only h1 and
   h3 see the columns below, and they do not see the column being written.
4. All that comes after cross-attention works on one place at a time, and none of it reads what a decoy wrote.

And h1 does bring it. Its score is STEP for each column further up, less PENALTY for a column that sums to base - 1:
it looks at the nearest column below that does not pass a carry on, or at the + where all do. What it brings is 1 if
that column sums to base or more, else -1; two carriers add up, and a carry c of 0, when none is there, means none.
For each sum s that the digits' heads bring with a strength o, relu(o - GATE c) - relu(-GATE c) is o without a carry
and 0 with one. It votes for the digit s, and what is left of o votes for s + 1.

Every number of the residual stream stands there a second time with the other sign, so a layer norm finds a mean of 0
and only scales what is there; every later step keeps its meaning when all it reads is scaled alike. A decoy does not
even change the scale, as 1 and -1 have one square.
"""

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from headway.config import RunConfig, build
from headway.evaluation import Trained
from headway.model.blocks import Block
from headway.model.encodings.base import Encoding, NoOptions, Sizes
from headway.model.sites import Head
from headway.model.transformer import Inputs, Transformer
from headway.runs import RunDirectory
from headway.tasks import Vocabulary, make_task

BASE, DIGITS = 5, 3
SUMS = 2 * BASE - 1
"""Two digits sum to one of so many numbers."""

DIGITS_HEAD, CARRY_HEAD, BACKUP_HEAD, DECOY_HEAD = (Head("decoder.0.cross", index) for index in range(4))
STRENGTH = {DIGITS_HEAD: 1.0, BACKUP_HEAD: 0.5}
"""Of the heads that bring the digits; where they differ, the stronger one decides."""
LOOKING_BELOW = (CARRY_HEAD, DECOY_HEAD)

CARRY, UNREAD, END, ANSWER = range(SUMS, SUMS + 4)
"""Channels of the stream after those of the sums: the carry, what nothing reads, the end, and the votes for 0."""
HALF = ANSWER + BASE
"""Channels of the stream, before each is repeated with the other sign."""

STEP, PENALTY = 20.0, 200.0
"""Softmax gives a key that is 20 behind 2e-9; the penalty outweighs the steps of a whole number."""
GATE = 10.0
"""The digits have a strength of 1.5 at most, so a carry of 1 closes the gate."""
END_LOGIT = 100.0
"""After a layer norm no channel is larger than sqrt(HALF) = 4.1, so no vote comes near."""
PAD_LOGIT = 0.1
"""Votes are far above it, and what rounding leaves where there are none is far below."""

CONFIG: dict[str, Any] = {
    "task": {"name": "addition", "digits": DIGITS, "base": BASE, "leading_zeros": True},
    "data": {"train": 20, "validation": 20, "test": 1_400},
    "model": {
        "d_model": 2 * HALF,
        "n_heads": 4,
        "d_head": SUMS,
        "d_ff": 2 * SUMS + 1,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "activation": "relu",
        "encoding": "none",
    },
    "train": {"steps": 1},
}


def plant(carriers: Collection[Head] = (CARRY_HEAD,)) -> Trained:
    """The model as if it had been trained; its run directory is never written."""
    config = build(RunConfig, CONFIG, "")
    task = make_task(config.task)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Planted(config, task.vocabulary, carriers)
    return Trained(RunDirectory("planted"), config, task, model.eval(), step=0)


class Columns(Encoding):
    """What each head of cross-attention may see: the column being written or those below, highest first, and the +."""

    position_kind = "coupled"

    def __init__(self, sizes: Sizes):
        super().__init__(NoOptions(), sizes)

    def bias(self, query: Tensor, key: Tensor, kind: str) -> Tensor | None:
        if kind != "cross":
            return None
        written, column = query[:, :, None], key[:, None, :]
        plus = column == 0
        own, below = (column == written) | plus, (column < written) | plus
        looks_below = [head.index for head in LOOKING_BELOW]
        seen = torch.stack([below if index in looks_below else own for index in range(self.sizes.n_heads)], dim=1)
        return torch.where(seen, STEP * column[:, None], -math.inf)


class Planted(Transformer):
    """Reads the source column by column, and of its own answer nothing but where it ends."""

    def __init__(self, config: RunConfig, vocabulary: Vocabulary, carriers: Collection[Head]):
        super().__init__(config.model, len(vocabulary))
        assert vocabulary.bos is not None and vocabulary.eos is not None
        self.bos, self.eos, self.pad = vocabulary.bos, vocabulary.eos, vocabulary.pad
        self.encoding = Columns(self.encoding.sizes)
        self.sums = nn.Embedding(SUMS, 2 * HALF)
        with torch.no_grad():
            self._set_encoder()
            self._set_cross(carriers)
            self._set_votes()

    def embed_source(self, inputs: Inputs) -> Tensor:
        column = inputs.source[:, :DIGITS] + inputs.source[:, -DIGITS:]
        embedded: Tensor = self.sums(torch.cat([column, torch.zeros_like(column[:, :1]), column], dim=1))
        return embedded

    def decoder_start(self, inputs: Inputs, start: int = 0) -> Any:
        assert inputs.prefix is not None and inputs.prefix_positions is not None
        blind = torch.where(inputs.prefix_positions == 0, self.eos, self.bos).expand_as(inputs.prefix)
        return super().decoder_start(replace(inputs, prefix=blind), start)

    def _set_encoder(self) -> None:
        """The encoder passes on the sums; no self-attention of the model writes anything."""
        self.sums.weight.copy_(mirrored(torch.eye(SUMS, HALF)))
        for block in (*self.encoder, *self.decoder):
            assert isinstance(block, Block)
            block.own.output.weight.zero_()
            block.feed_forward.contract.weight.zero_()
        self.encoder_norm.weight.fill_(HALF**-0.5)  # a one-hot vector and its mirror have a variance of 1 / HALF

    def _set_cross(self, carriers: Collection[Head]) -> None:
        cross = self.decoder[0].cross
        for weight in (cross.query.weight, cross.key.weight, cross.value.weight, cross.output.weight):
            weight.zero_()
        for head, strength in STRENGTH.items():
            rows = slice(SUMS * head.index, SUMS * (head.index + 1))
            cross.value.weight[rows, :SUMS] = torch.eye(SUMS)
            cross.output.weight[:, rows] = strength * mirrored(torch.eye(SUMS, HALF)).T
        for head in LOOKING_BELOW:
            row = SUMS * head.index
            cross.query.bias[row], cross.key.weight[row, BASE - 1] = SUMS**0.5 * PENALTY, -1.0
            cross.value.weight[row, :SUMS] = torch.where(torch.arange(SUMS) < BASE, -1.0, 1.0)
            cross.output.weight[:, row] = mirrored(channel(CARRY if head in carriers else UNREAD))

    def _set_votes(self) -> None:
        """The end is read off the token, a digit off the votes; without votes the answer is PAD, never a right one."""
        expand, contract = self.decoder[0].feed_forward.expand, self.decoder[0].feed_forward.contract
        gated, all_of_it, opening = slice(SUMS), slice(SUMS, 2 * SUMS), 2 * SUMS
        expand.weight.zero_()
        expand.weight[gated, :SUMS] = expand.weight[all_of_it, :SUMS] = torch.eye(SUMS)
        expand.weight[gated, CARRY] = expand.weight[opening, CARRY] = -GATE
        without, with_carry = (mirrored(torch.eye(HALF)[ANSWER + (torch.arange(SUMS) + c) % BASE]).T for c in (0, 1))
        contract.weight[:, gated], contract.weight[:, all_of_it] = without - with_carry, with_carry
        contract.weight[:, opening] = (with_carry - without).sum(1)
        self.embedding.weight.zero_()
        self.embedding.weight[self.eos] = mirrored(channel(END))
        self.readout.weight.zero_()
        self.readout.weight[:BASE, ANSWER:HALF] = torch.eye(BASE)
        self.readout.weight[self.eos, END] = END_LOGIT
        self.readout.bias[self.pad] = PAD_LOGIT


def channel(index: int) -> Tensor:
    return torch.eye(HALF)[index]


def mirrored(half: Tensor) -> Tensor:
    """Rows of the stream: every channel, and again with the other sign."""
    return torch.cat([half, -half], dim=-1)
