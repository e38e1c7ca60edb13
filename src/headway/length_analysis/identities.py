"""Two identities of the sinusoid, and how nearly other vectors of positions have them.

- A step is a rotation: PE(p + k) = R_k PE(p), with one orthogonal R_k for all p.
- A dot product knows the distance alone: PE(p) . PE(q) depends on p - q only.

For the sinusoid R_k is known and the first is checked as it stands. For any vectors, the sinusoid's among them, the
best orthogonal map is fitted on three quarters of the pairs (p, p + k) and judged on the others: with fewer rows than
coordinates there is always a map that fits the pairs it was fitted on.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

SHIFTS = (1, 2, 4, 8)
"""The k for which a map is fitted."""
FEWEST_PAIRS = 8
FOLDS = 4
"""Every fourth pair is held out, four times over, so that each is predicted once."""
CHECKED = 256
"""Positions and shifts on which the known rotation is checked."""

Rows = Float[np.ndarray, "row coordinate"]


@dataclass(frozen=True)
class Rotation:
    """How much of the variance of held-out rows is left by the best rotation: 0 is none, 1 no better than the mean."""

    shift: int
    pairs: int
    residual_share: float


@dataclass(frozen=True)
class Products:
    """Dot products of all pairs p < q: `within_share` of their variance lies between pairs of one distance.

    It is 0 where the distance decides. Products that have nothing to do with the distance have `unrelated` of it.
    """

    pairs: int
    within_share: float
    unrelated: float
    distances: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True)
class Identities:
    """Both identities, measured on the rows of one table."""

    rows: int
    coordinates: int
    rotations: list[Rotation]
    products: Products

    @classmethod
    def from_json(cls, table: dict[str, Any]) -> "Identities":
        rotations = [Rotation(**one) for one in table["rotations"]]
        return cls(table["rows"], table["coordinates"], rotations, Products(**table["products"]))


def measure_identities(rows: Rows) -> Identities:
    """Both identities of consecutive positions' vectors."""
    shifts = [shift for shift in SHIFTS if len(rows) - shift >= FEWEST_PAIRS]
    rotations = [Rotation(shift, len(rows) - shift, short(residual_share(rows, shift))) for shift in shifts]
    return Identities(len(rows), rows.shape[1], rotations, measure_products(rows))


def residual_share(rows: Rows, shift: int) -> float:
    """Squared error of held-out rows p + k, as a share of their squared distance from the mean of the fitted ones."""
    before, after = rows[:-shift], rows[shift:]
    fold = np.arange(len(before)) % FOLDS
    error = spread = 0.0
    for held in range(FOLDS):
        out = fold == held
        turned = before[out] @ best_rotation(before[~out], after[~out])
        error += float(((after[out] - turned) ** 2).sum())
        spread += float(((after[out] - after[~out].mean(0)) ** 2).sum())
    return error / spread if spread else 0.0  # equal rows are turned into each other by doing nothing


def best_rotation(before: Rows, after: Rows) -> Float[np.ndarray, "coordinate coordinate"]:
    """The orthogonal matrix that takes `before` nearest to `after` (Schönemann's solution of Procrustes' problem)."""
    left, _, right = np.linalg.svd(before.T @ after)
    return np.asarray(left @ right)


def measure_products(rows: Rows) -> Products:
    """How far the dot products of different positions depend on their distance alone."""
    first, second = np.triu_indices(len(rows), 1)
    products, distance = (rows @ rows.T)[first, second], second - first
    groups = [products[distance == one] for one in range(1, len(rows))]
    total = float(((products - products.mean()) ** 2).sum())
    within = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    return Products(
        pairs=len(products),
        within_share=short(within / total) if total else 0.0,
        unrelated=short(1 - (len(groups) - 1) / (len(products) - 1)),
        distances=list(range(1, len(rows))),
        mean=[short(group.mean()) for group in groups],
        low=[short(group.min()) for group in groups],
        high=[short(group.max()) for group in groups],
    )


def rotation_error(rows: Rows, d_model: int) -> float:
    """The largest |PE(p + k) - R_k PE(p)| over half of the rows as p and as k, with the sinusoid's own R_k.

    Sine and cosine of a plane are one complex number, which R_k multiplies by exp(i k w).
    """
    planes = rows[:, 1 : d_model - d_model % 2 : 2] + 1j * rows[:, 0 : d_model - d_model % 2 : 2]
    frequency = 10_000.0 ** (-np.arange(0, 2 * planes.shape[1], 2) / d_model)
    half = len(rows) // 2
    shift = np.arange(half)
    turned = planes[:half, None] * np.exp(1j * shift[:, None] * frequency)
    gap = planes[np.arange(half)[:, None] + shift] - turned
    return float(np.maximum(np.abs(gap.real), np.abs(gap.imag)).max())


def short(value: float) -> float:
    """Four digits that count.

    >>> short(0.123456), short(123456.0)
    (0.1235, 123500.0)
    """
    return float(f"{value:.4g}")
