"""Statistics over a few seeds, without assumptions on their distribution, and two-way tables."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import binom

ENOUGH_SEEDS = 6
"""With six values, their range contains the median with 96.9 % confidence (1 - 2 / 2 ** 6); fewer are descriptive."""


def median_interval(
    values: Sequence[float] | np.ndarray,
    confidence: float = 0.95,
    *,
    own: Sequence[Sequence[float]] | np.ndarray | None = None,
) -> tuple[float, float] | None:
    """Distribution-free interval of the median from order statistics; None if there are too few values.

    The ends are the k-th smallest and the k-th largest of m values, with k the largest number for which 2 P(X < k) ≤ 1
    - confidence, X ~ Binomial(m, 1/2). For 95 % that takes at least 6 values; with 6 the ends are the extremes.

    Values measured on examples have a sampling error, which is common to all of them if they share the examples. With
    `own`, the interval of each value, the ends are the k-th smallest lower end and the k-th largest upper end. This
    includes both errors, so that equal values still give an interval with a width.

    >>> median_interval([16, 32, 64, 64, 128, 256]), median_interval([16, 32, 64, 64, 128])
    ((16.0, 256.0), None)
    >>> low, high = median_interval([1.0] * 6, own=[(0.9981, 1.0)] * 6)
    >>> round(low, 4), high
    (0.9981, 1.0)

    """
    m = len(values)
    lows, highs = (values, values) if own is None else zip(*own, strict=True) if m else ((), ())
    if len(lows) != m:
        raise ValueError(f"{m} values have {m} intervals of their own, got {len(lows)}")
    k = next(k for k in range(m + 2) if 2 * binom.cdf(k, m, 0.5) > 1 - confidence)
    return None if k == 0 else (float(np.sort(lows)[k - 1]), float(np.sort(highs)[m - k]))


def two_way_shares(table: Sequence[Sequence[float]] | np.ndarray) -> tuple[float, float, float]:
    """The shares of the variation in a table that its rows, its columns, and neither alone explain; zeros if all is
    equal.

    They are shares of the sum of squares around the mean: of the row means, of the column means, and of the
    interaction.

    >>> two_way_shares([[0, 1], [0, 1]]), two_way_shares([[0, 0], [0, 1]])
    ((0.0, 1.0, 0.0), (0.3333333333333333, 0.3333333333333333, 0.3333333333333334))
    """
    values = np.asarray(table, dtype=float)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"needs a table with two axes, got shape {values.shape}")
    apart = values - values[0, 0]
    apart = apart - apart.mean()
    total = float(np.square(apart).sum())
    if total == 0:
        return (0.0, 0.0, 0.0)
    rows, columns = (float(np.square(apart.mean(1 - axis)).mean()) * values.size / total for axis in (0, 1))
    return rows, columns, max(0.0, 1 - rows - columns)
