"""Two identities of the sinusoidal encoding, and how nearly other position vectors satisfy them.

- A step is a rotation: PE(p + k) = R_k PE(p), with one orthogonal R_k for all p.
- A dot product depends on the distance alone: PE(p) . PE(q) is a function of p - q.

For the sinusoidal encoding R_k is known, and the first identity is checked directly. For any vectors, the best
orthogonal map is fitted on three quarters of the pairs (p, p + k) and tested on the rest, because with fewer rows than
coordinates some map always fits the training pairs.
"""

import numpy as np
from jaxtyping import Float

from headway.results.positions import Identities, Products, Rotation

SHIFTS = (1, 2, 4, 8)
"""The k for which a map is fitted."""
FEWEST_PAIRS = 8
FOLDS = 4
"""Cross-validation folds: each pair is predicted once."""
CHECKED = 256
"""Number of positions and shifts on which the known rotation is checked."""

Rows = Float[np.ndarray, "row coordinate"]


def measure_identities(rows: Rows) -> Identities:
    """Both identities, measured on the vectors of consecutive positions."""
    shifts = [shift for shift in SHIFTS if len(rows) - shift >= FEWEST_PAIRS]
    rotations = tuple(
        Rotation(shift=shift, pairs=len(rows) - shift, residual_share=short(residual_share(rows, shift)))
        for shift in shifts
    )
    products = measure_products(rows)
    return Identities(rows=len(rows), coordinates=rows.shape[1], rotations=rotations, products=products)


def residual_share(rows: Rows, shift: int) -> float:
    """Squared error of held-out rows p + k, as a share of their squared distance from the mean of the training rows."""
    before, after = rows[:-shift], rows[shift:]
    fold = np.arange(len(before)) % FOLDS
    error = spread = 0.0
    for held in range(FOLDS):
        out = fold == held
        turned = before[out] @ best_rotation(before[~out], after[~out])
        error += float(((after[out] - turned) ** 2).sum())
        spread += float(((after[out] - after[~out].mean(0)) ** 2).sum())
    return error / spread if spread else 0.0  # equal rows: the identity map is exact


def best_rotation(before: Rows, after: Rows) -> Float[np.ndarray, "coordinate coordinate"]:
    """The orthogonal matrix that maps `before` closest to `after` (Schönemann's solution of the Procrustes problem)."""
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
    """The largest |PE(p + k) - R_k PE(p)| over p and k up to half of the rows, with the sinusoid's known R_k.

    Sine and cosine of one frequency w are one complex number, which R_k multiplies by exp(i k w).
    """
    planes = rows[:, 1 : d_model - d_model % 2 : 2] + 1j * rows[:, 0 : d_model - d_model % 2 : 2]
    frequency = 10_000.0 ** (-np.arange(0, 2 * planes.shape[1], 2) / d_model)
    half = len(rows) // 2
    shift = np.arange(half)
    turned = planes[:half, None] * np.exp(1j * shift[:, None] * frequency)
    gap = planes[np.arange(half)[:, None] + shift] - turned
    return float(np.maximum(np.abs(gap.real), np.abs(gap.imag)).max())


def short(value: float) -> float:
    """Round to four significant digits.

    >>> short(0.123456), short(123456.0)
    (0.1235, 123500.0)
    """
    return float(f"{value:.4g}")
