"""Poolings: one vector from a sequence of vectors; none of them sees padding."""

from headway.config import Choice, options_of
from headway.model.poolings.base import Pooling
from headway.registry import Registry

POOLINGS: Registry[Pooling] = Registry(
    "pooling",
    "headway.model.poolings.base:Pooling",
    {
        "mean": "headway.model.poolings.simple:Mean",
        "max": "headway.model.poolings.simple:Max",
        "min": "headway.model.poolings.simple:Min",
        "first": "headway.model.poolings.simple:First",
        "last": "headway.model.poolings.simple:Last",
        "detector": "headway.model.poolings.detector:Detector",
        "attention": "headway.model.poolings.attention:AttentionPooling",
        "multi-feature": "headway.model.poolings.multi_feature:MultiFeature",
    },
)


def make_pooling(choice: Choice, d_model: int) -> Pooling:
    """The pooling of a recipe's [model.pooling] table."""
    cls = POOLINGS.get(choice.name)
    return cls(options_of(cls.Options, choice, "model.pooling"), d_model)


__all__ = ["POOLINGS", "Pooling", "make_pooling"]
