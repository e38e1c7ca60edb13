"""The multi-feature pooling of one course report: statistics that reveal order."""

from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headway.model.poolings.base import Pooling, PoolingPage
from headway.model.poolings.simple import last, lowest, mean


class MultiFeature(Pooling):
    """Minimum, minimum and mean of adjacent differences, first and last: 5 d_model numbers projected to d_model.

    A sequence of one element has no differences; 0 is used for them.
    """

    PAGE: ClassVar[PoolingPage] = {
        "features": ["min", "smallest step", "mean step", "first", "last"],
        "project": "pooling.project",
    }

    def __init__(self, options: Any, d_model: int):
        super().__init__(options, d_model)
        self.project = nn.Linear(5 * d_model, d_model)

    def forward(
        self, hidden: Float[Tensor, "batch position d_model"], visible: Bool[Tensor, "batch position"]
    ) -> Float[Tensor, "batch d_model"]:
        step, both = hidden.diff(dim=1), visible[:, 1:] & visible[:, :-1]
        some = both.any(1, keepdim=True)
        # amin needs at least one place, so a step of 0 that nobody sees stands at the end.
        padded = torch.cat([step, torch.zeros_like(hidden[:, :1])], dim=1)
        smallest = lowest(padded, torch.cat([both, ~some], dim=1))
        features = [lowest(hidden, visible), smallest, mean(step, both), hidden[:, 0], last(hidden, visible)]
        pooled: Tensor = self.project(torch.cat(features, dim=-1))
        return pooled
