"""Attention weights of every head on a few examples and on average; part of heads.json."""

from collections.abc import Mapping
from dataclasses import dataclass

from headway.results.schema import fact

Weights = tuple[tuple[float, ...], ...]
"""Attention weights of one head: query (rows) by key."""


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Tokens, and the attention weights of every head on them.

    Queries of a decoder are the prefix tokens; BOS generates the first answer token. In a decoder-only model, source
    and prefix form one row.
    """

    source: tuple[str, ...] = fact("tokens of the source, or names of their positions")
    generated: tuple[str, ...] = fact("tokens that the model generates, or their names", key="written")
    prefix: tuple[str, ...] = fact("tokens of the answer that the model had read; empty for classifiers")
    weights: Mapping[str, Weights] = fact("attention weights of each head, query by key")


@dataclass(frozen=True, kw_only=True)
class ExampleAttention(Attention):
    """One example while it is decoded greedily."""

    target: tuple[str, ...] = fact("the right answer")


@dataclass(frozen=True, kw_only=True)
class MeanAttention(Attention):
    """The mean over the examples of the most common layout."""

    n: int = fact("examples")
    alike: str | None = fact("common layout of the examples, if not all of the split have it", default=None)


@dataclass(frozen=True, kw_only=True)
class Capture:
    """Captured attention; examples too long to show are left out."""

    decimals: int = fact("decimals of the weights")
    class_names: tuple[str, ...] | None = fact("name of each class", optional=True)
    examples: tuple[ExampleAttention, ...] = fact("a few examples")
    mean: MeanAttention | None = fact("mean over examples; null if they are too long to show")
