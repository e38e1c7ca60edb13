"""Two identities of the sinusoid, and how nearly other vectors of positions have them.

- A step is a rotation: PE(p + k) = R_k PE(p), with one orthogonal R_k for all p.
- A dot product knows the distance alone: PE(p) . PE(q) depends on p - q only.

For the sinusoid R_k is known and the first is checked as it stands. For any vectors, the sinusoid's among them, the
best orthogonal map is fitted on three quarters of the pairs (p, p + k) and judged on the others: with fewer rows than
coordinates there is always a map that fits the pairs it was fitted on.
"""

import numpy as np
from jaxtyping import Float

from headway.results.positions import Identities, Products, Rotation

SHIFTS = (1, 2, 4, 8)
"""The k for which a map is fitted."""
FEWEST_PAIRS = 8
FOLDS = 4
"""Every fourth pair is held out, four times over, so that each is predicted once."""
CHECKED = 256
"""Positions and shifts on which the known rotation is checked."""

Rows = Float[np.ndarray, "row coordinate"]


def measure_identities(rows: Rows) -> Identities:
    """Both identities of consecutive positions' vectors."""
    shifts = [shift for shift in SHIFTS if len(rows) - shift >= FEWEST_PAIRS]
    rotations = tuple(
        Rotation(shift=shift, pairs=len(rows) - shift, residual_share=short(residual_share(rows, shift)))
        for shift in shifts
    )
    products = measure_products(rows)
    return Identities(rows=len(rows), coordinates=rows.shape[1], rotations=rotations, products=products)


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
        distances=tuple(range(1, len(rows))),
        mean=tuple(short(group.mean()) for group in groups),
        low=tuple(short(group.min()) for group in groups),
        high=tuple(short(group.max()) for group in groups),
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
