"""The interface of a pooling."""

from typing import Any, ClassVar, TypedDict

from jaxtyping import Bool, Float
from torch import Tensor, nn

from headway.model.encodings.base import NoOptions


class PoolingPage(TypedDict, total=False):
    """What the explorer's page computes instead of a pooling; see `Pooling.PAGE`."""

    features: list[str]
    read: str
    score: str
    project: str


class Pooling(nn.Module):
    """`forward(hidden, visible)` -> one vector per example; every row has at least one visible position."""

    Options: ClassVar[type] = NoOptions
    PAGE: ClassVar[PoolingPage | None] = None
    """The explorer's description of `forward`. It applies to this class, not to subclasses.

    `features` are taken over the sequence and put side by side: `mean`, `max`, `min`, `first`, `last`, `smallest step`,
    `mean step` or `weighted`. `read` names a linear layer that is applied to every position first, `score` the one that
    gives the weights, `project` one that is applied to the features. None: the page cannot compute it.
    """

    def __init__(self, options: Any, d_model: int):
        super().__init__()
        self.options, self.d_model = options, d_model

    def initialise(self, readout: nn.Linear) -> None:
        """Set initial weights that depend on what reads the pooled vector; called once, after all others are drawn."""

    def not_on_a_page(self) -> str | None:
        """The option for which `PAGE` does not describe `forward`; None if there is none."""
        return None

    def forward(
        self, hidden: Float[Tensor, "batch position d_model"], visible: Bool[Tensor, "batch position"]
    ) -> Float[Tensor, "batch d_model"]:
        raise TypeError("a pooling defines forward")
