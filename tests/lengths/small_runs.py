"""Runs whose lengths are measured: small, and some with an answer planted in them."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from headway.evaluation import Trained
from headway.model.transformer import Inputs, Transformer
from tests.heads.small import SIZES, untrained

SORTEDNESS: dict[str, Any] = {
    "task": {"name": "sortedness", "min_length": 4, "max_length": 6, "values": 100},
    "data": {"train": 60, "validation": 24, "test": 40},
    "model": {**SIZES, "shape": "encoder", "encoder_layers": 1},
    "train": {"steps": 4, "batch_size": 8, "validate_every": 2},
}
TEXT: dict[str, Any] = {
    **SORTEDNESS,
    "task": {"name": "addition-text", "max_characters": 14},
    "model": {**SIZES, "shape": "decoder", "decoder_layers": 1},
}
ENOUGH = 400
"""Examples that certify a model without an error."""


class Planted(Transformer):
    """A classifier that answers by a rule on the tokens instead of by its weights."""

    rule: Callable[[Tensor], Tensor]

    def forward(self, inputs: Inputs, record: dict[str, Tensor] | None = None) -> Tensor:
        return torch.nn.functional.one_hot(self.rule(inputs.source), 2).float()


def planted(rule: Callable[[Tensor], Tensor]) -> Trained:
    """A run whose model gives the classes of the rule."""
    trained = small_sortedness()
    model = Planted(trained.model.config, len(trained.task.vocabulary), 2)
    model.rule = rule
    return replace(trained, model=model.eval())


@cache
def small_sortedness() -> Trained:
    return untrained(SORTEDNESS)


@cache
def small_text() -> Trained:
    return untrained(TEXT)


def is_sorted(source: Tensor) -> Tensor:
    """The right answer, for rows without padding."""
    return (source.diff(dim=1) >= 0).all(1).long()


def fails_at(length: int) -> Callable[[Tensor], Tensor]:
    """Right everywhere but at one length, where one answer in twenty is turned round."""

    def rule(source: Tensor) -> Tensor:
        right = is_sorted(source)
        turned = (source.sum(1) % 20 == 0) & (source.shape[1] == length)
        return torch.where(turned, 1 - right, right)

    return rule
