"""Detector pooling: a linear projection of every position, then the maximum over positions."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headway.config import setting
from headway.errors import InputError
from headway.model.poolings.base import Pooling, PoolingPage
from headway.model.poolings.simple import highest

FAVOUR = 3.0
"""Logits by which a response of 1 raises the favoured class at the start: responses begin at about 1."""


@dataclass(frozen=True, kw_only=True)
class DetectorOptions:
    detectors: int = setting(8, "number of detectors", low=1, high=16_384)
    readout: Literal["linear", "sum"] = setting(
        "linear", "output: the maximum of each detector, or the maximum sum of positive detectors at one position"
    )
    favours: int | None = setting(
        None,
        "class whose logit every detector raises when training begins; random when left out",
        low=0,
        high=1_000_000,
    )


class Detector(Pooling):
    """Each detector gives one number per position; only its maximum over the sequence is passed on.

    In max pooling every coordinate of the residual stream counts, and its maximum grows with the number of positions,
    so answers can drift with length. A few detectors drift less. With `readout = "sum"` all detectors vote for the same
    class and only their sum is passed on, so that no other position can cancel a detection.

    A maximum detects that some position has a property, which is evidence for one class. A single detector whose
    initial weights vote for the other class can get stuck there: `favours` sets their sign. Training can change it.
    """

    Options = DetectorOptions
    PAGE: ClassVar[PoolingPage] = {"read": "pooling.detect", "features": ["max"], "project": "pooling.project"}

    def __init__(self, options: Any, d_model: int):
        super().__init__(options, d_model)
        self.detect = nn.Linear(d_model, options.detectors)
        self.project = nn.Linear(1 if options.readout == "sum" else options.detectors, d_model)

    def forward(
        self, hidden: Float[Tensor, "batch position d_model"], visible: Bool[Tensor, "batch position"]
    ) -> Float[Tensor, "batch d_model"]:
        pooled: Tensor = self.project(highest(self.read(hidden), visible))
        return pooled

    def initialise(self, readout: nn.Linear) -> None:
        """With `favours`, every detector raises the margin of that class by `FAVOUR` for each unit of its response."""
        favoured = self.options.favours
        if favoured is None:
            return
        if favoured >= readout.out_features:
            raise InputError(
                f"model.pooling.favours = {favoured}: the task has classes 0 to {readout.out_features - 1}"
            )
        own, count = readout.weight[favoured], readout.out_features
        direction = own - (readout.weight.sum(0) - own) / max(1, count - 1)
        with torch.no_grad():
            self.project.weight.copy_(
                (FAVOUR * direction / direction.square().sum())[:, None].expand_as(self.project.weight)
            )

    def read(self, hidden: Float[Tensor, "*any d_model"]) -> Float[Tensor, "*any number"]:
        """The detector values at every position, before the maximum."""
        found: Tensor = self.detect(hidden)
        return found.relu().sum(-1, keepdim=True) if self.options.readout == "sum" else found

    def not_on_a_page(self) -> str | None:
        return "readout = 'sum'" if self.options.readout == "sum" else None
