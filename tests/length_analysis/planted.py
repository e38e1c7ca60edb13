"""A sortedness model set by hand, one of whose heads can be made to fail past a length, so that it must be found.

    enc0.self.h0   looks at itself and writes nothing
    enc0.self.h1   looks at the element before and brings its value: without it nothing can be told
    enc0.self.h2   looks at everything evenly and writes nothing

The stream holds an element's value as a one-hot vector. After h1 brought the value before, the feed-forward layer is
relu(before - own), which is above 0 where the sequence descends; max pooling finds the largest. No other head writes
anything, so what goes wrong past a length can only be h1. Ways in which it can:

    even       past the length it looks everywhere evenly
    far        it prefers keys further away than the length, if there are any
    quiet      it looks where it always did; the length does something else (the readout's bias grows with it)
    crowd      every other key takes a little of its attention, near or far: with too many of them it is misled
    partly     as `far`, and what `quiet` does befalls half of the sequences as well

Every number stands in the stream a second time with the other sign, so a layer norm finds a mean of 0 and only scales
what is there. Comparing before with own does not mind being scaled.
"""

import math
from typing import Any, Literal

import torch
from torch import Tensor

from headway.config import RunConfig, build
from headway.evaluation import Trained
from headway.model.encodings.base import Encoding, NoOptions, Sizes
from headway.model.sites import Head
from headway.model.transformer import Inputs, Transformer
from headway.runs import RunDirectory
from headway.tasks import make_task

Fault = Literal["none", "even", "far", "quiet", "crowd", "partly"]

VALUES = 12
BEFORE, DESCENT = VALUES, VALUES + 1
HALF = VALUES + 2
LAST = 40
"""The longest length at which nothing is wrong."""
CULPRIT = Head("encoder.0.self", 1)
ENOUGH = 0.02
"""A descent by 1 from the largest value is 0.1 after two layer norms; rounding leaves 1e-6."""
SHARP = 30.0
"""Softmax gives a key that is 30 behind 1e-13."""

CROWD, ENOUGH_IN_A_CROWD = 10.6, 0.09
"""Each key that is 10.6 behind takes 2.5e-5 of the attention: what 32 of them take passes, what 64 take does not."""

CONFIG: dict[str, Any] = {
    "task": {"name": "sortedness", "values": VALUES, "negatives": "adjacent"},
    "data": {"train": 20, "validation": 20, "test": 20},
    "model": {
        "shape": "encoder",
        "d_model": 2 * HALF,
        "n_heads": 3,
        "d_head": 5,
        "d_ff": 4,
        "encoder_layers": 1,
        "activation": "relu",
        "encoding": "none",
        "pooling": "max",
    },
    "train": {"steps": 1},
}


def plant(fault: Fault = "none") -> Trained:
    """The model as if it had been trained; its run directory is never written."""
    config = build(RunConfig, CONFIG, "")
    model = Planted(config, fault)
    return Trained(RunDirectory("planted"), config, make_task(config.task), model.eval(), step=0)


class Looks(Encoding):
    """Where the three heads look."""

    def __init__(self, sizes: Sizes, fault: Fault):
        super().__init__(NoOptions(), sizes)
        self.fault = fault

    def bias(self, query: Tensor, key: Tensor, kind: str) -> Tensor | None:
        back = query[:, :, None] - key[:, None, :]
        before = (back == 1) | ((back == 0) & (query[:, :, None] == 0))  # the first element has none and sees itself
        own = torch.where(back == 0, 0.0, -math.inf)
        even = torch.zeros_like(own)
        culprit = torch.where(before, 0.0, -SHARP)
        if self.fault == "even" and key.shape[1] > LAST:
            culprit = even
        if self.fault == "crowd":
            culprit = torch.where(before, 0.0, -CROWD)
        if self.fault in ("far", "partly"):
            culprit = torch.where(back.abs() >= LAST, SHARP, culprit)
        return torch.stack([own, culprit, even], dim=1)


class Planted(Transformer):
    """Says 0 where an element is smaller than the one before it."""

    def __init__(self, config: RunConfig, fault: Fault):
        super().__init__(config.model, VALUES + 1, 2)
        self.encoding = Looks(self.encoding.sizes, fault)
        self.fault = fault
        values = torch.arange(VALUES, dtype=torch.float32)
        block: Any = self.encoder[0]
        with torch.no_grad():
            for parameter in (*self.embedding.parameters(), *self.readout.parameters()):
                parameter.zero_()
            for name, parameter in block.named_parameters():
                if "norm" not in name:
                    parameter.zero_()
            self.embedding.weight[:VALUES] = mirrored(torch.eye(VALUES, HALF))
            rows = slice(5 * CULPRIT.index, 5 * CULPRIT.index + 1)
            block.own.value.weight[rows, :VALUES] = values / HALF**0.5  # the norm makes a one-hot vector so much larger
            block.own.output.weight[:, rows] = mirrored(torch.eye(HALF)[BEFORE])[:, None]
            block.feed_forward.expand.weight[0, BEFORE] = 1.0
            block.feed_forward.expand.weight[0, :VALUES] = -values
            block.feed_forward.contract.weight[:, 0] = mirrored(torch.eye(HALF)[DESCENT])
            self.readout.weight[0, DESCENT] = 1.0
            self.readout.bias[1] = ENOUGH_IN_A_CROWD if fault == "crowd" else ENOUGH

    def classify(self, hidden: Tensor, inputs: Inputs) -> Tensor:
        logits = super().classify(hidden, inputs)
        if self.fault == "quiet" and inputs.source.shape[1] > LAST:
            logits = logits + torch.tensor([0.0, 100.0])
        if self.fault == "partly" and inputs.source.shape[1] > LAST:
            logits = logits + (inputs.source.sum(1, keepdim=True) % 2) * torch.tensor([0.0, 100.0])
        return logits


def mirrored(half: Tensor) -> Tensor:
    """Rows of the stream: every channel, and again with the other sign."""
    return torch.cat([half, -half], dim=-1)
