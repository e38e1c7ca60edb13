"""Attention pooling: one trained query looks at the whole sequence."""

import math
from typing import Any, ClassVar

from jaxtyping import Bool, Float
from torch import Tensor, nn

from headway.model.poolings.base import Pooling, PoolingPage


class AttentionPooling(Pooling):
    """weight = softmax over visible positions of (score . hidden); the pooled vector is the weighted mean."""

    PAGE: ClassVar[PoolingPage] = {"score": "pooling.score", "features": ["weighted"]}

    def __init__(self, options: Any, d_model: int):
        super().__init__(options, d_model)
        self.score = nn.Linear(d_model, 1)

    def forward(
        self, hidden: Float[Tensor, "batch position d_model"], visible: Bool[Tensor, "batch position"]
    ) -> Float[Tensor, "batch d_model"]:
        score = self.score(hidden).squeeze(-1).masked_fill(~visible, -math.inf)
        pooled: Tensor = (score.softmax(-1)[..., None] * hidden).sum(1)
        return pooled
