"""The learned positional encoding (part of lengths.json), and pictures of all encodings (part of a study's)."""

from collections.abc import Mapping
from dataclasses import dataclass

from headway.results.schema import fact


@dataclass(frozen=True, kw_only=True)
class LearnedTable:
    """A table of learned positions."""

    rows: int = fact("rows of the table")
    coordinates: int = fact("coordinates of a row")
    past: str = fact("row of positions beyond the table")
    moved: tuple[float, ...] | None = fact("root mean square distance of each row from step 0; null if not known")
    untrained_rows: int | None = fact("rows equal to step 0; null if not known")
    values: tuple[tuple[float, ...], ...] = fact("the first rows and coordinates")


@dataclass(frozen=True, kw_only=True)
class Bias:
    """A head's bias on the score of a key, for a query in the middle."""

    kind: str = fact("kind of attention")
    head: int = fact("index of the head in its layer")
    distances: tuple[int, ...] = fact("key position minus query position")
    values: tuple[float, ...] = fact("bias at each distance")


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """How nearly a step of positions is an orthogonal map."""

    shift: int = fact("positions between the rows of a pair")
    pairs: int = fact("pairs of rows")
    residual_share: float = fact("unexplained share of the variance of held-out rows; 1 is no better than the mean")


@dataclass(frozen=True, kw_only=True)
class Products:
    """Dot products of all pairs of rows p < q, by distance q - p."""

    pairs: int = fact("pairs of rows")
    within_share: float = fact(
        "share of the variance within pairs of one distance; 0 if the distance determines the product"
    )
    unrelated: float = fact("that share for products that are independent of the distance")
    distances: tuple[int, ...] = fact("distances")
    mean: tuple[float, ...] = fact("mean product at each distance")
    low: tuple[float, ...] = fact("smallest product at each distance")
    high: tuple[float, ...] = fact("largest product at each distance")


@dataclass(frozen=True, kw_only=True)
class Identities:
    """Two identities of the sinusoidal encoding, measured on the rows of one table."""

    rows: int = fact("rows measured")
    coordinates: int = fact("coordinates of a row")
    rotations: tuple[Rotation, ...] = fact("whether a step is a rotation")
    products: Products = fact("whether a dot product depends on the distance alone")


@dataclass(frozen=True, kw_only=True)
class Positions:
    """The positional encoding of a run; parts that it does not have are null or empty."""

    encoding: str = fact("name of the encoding")
    step: int = fact("training step", unit="steps")
    words: tuple[str, ...] = fact("findings in sentences")
    table: LearnedTable | None = fact("learned table")
    biases: tuple[Bias, ...] = fact("trained biases")
    identities: Mapping[str, Identities] = fact(
        "of the sinusoidal encoding, of the trained rows (learned), and of the rows at step 0 (start)"
    )
    rotation_error: float | None = fact("largest error of the sinusoid's known rotation")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The size of the model for which encodings are pictured."""

    positions: int = fact("positions")
    d_model: int = fact("width of the model")
    n_heads: int = fact("heads")
    d_head: int = fact("width of a head")


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """One encoding before training."""

    encoding: str = fact("name of the encoding")
    hook: str = fact("hook with an effect: embed, rotate, bias or none")
    columns: str = fact("meaning of the picture's columns")
    words: str = fact("description of the picture")
    values: tuple[tuple[float, ...], ...] = fact("one row per position; empty if the encoding has no effect")


@dataclass(frozen=True, kw_only=True)
class Patterns:
    """Every registered encoding at one size, before training."""

    sizes: Sizes = fact("size of the model")
    patterns: tuple[Pattern, ...] = fact("a picture of each encoding")
