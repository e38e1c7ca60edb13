"""What every pooling offers."""

from typing import Any, ClassVar

from jaxtyping import Bool, Float
from torch import Tensor, nn

from headway.model.encodings.base import NoOptions


class Pooling(nn.Module):
    """`forward(hidden, visible)` -> one vector an example; every row has at least one visible place."""

    Options: ClassVar[type] = NoOptions

    def __init__(self, options: Any, d_model: int):
        super().__init__()
        self.options, self.d_model = options, d_model

    def forward(
        self, hidden: Float[Tensor, "batch position d_model"], visible: Bool[Tensor, "batch position"]
    ) -> Float[Tensor, "batch d_model"]:
        raise TypeError("a pooling defines forward")
