"""Runs whose lengths are measured: small, and some with an answer planted in them."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.evaluation import Trained
from headway.model.transformer import Inputs, Transformer
from tests.head_analysis.small import SIZES, untrained

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


class PlantedSums(Transformer):
    """A decoder that writes the answers of a rule on the source instead of what its weights say."""

    rule: Callable[[np.ndarray], np.ndarray]

    def forward(self, inputs: Inputs, record: dict[str, Tensor] | None = None) -> Tensor:
        assert inputs.prefix is not None
        answers = torch.from_numpy(self.rule(inputs.source.numpy()))
        width = inputs.prefix.shape[1]
        answers = torch.nn.functional.pad(answers, (0, max(0, width - answers.shape[1])), value=0)[:, :width]
        return torch.nn.functional.one_hot(answers, self.readout.out_features).float()

    def decode(self, memory: Any, inputs: Inputs, *, done: int = 0, keep: bool = False, record: Any = None) -> Tensor:
        return self(inputs)[:, done:]


def planted_sums(rule: Callable[[np.ndarray], np.ndarray]) -> Trained:
    """A run whose model writes the answers of the rule."""
    trained = small_text()
    model = PlantedSums(trained.model.config, len(trained.task.vocabulary), 0)
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
