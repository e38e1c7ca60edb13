"""Numbers of a few seeds, whatever their distribution, and tables of settings."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import binom

ENOUGH_SEEDS = 6
"""From six seeds on the range of all of them holds their median with 95 % (1 - 2 / 2 ** 6 = 96.9 %); fewer describe."""


def median_interval(
    values: Sequence[float] | np.ndarray,
    confidence: float = 0.95,
    *,
    own: Sequence[Sequence[float]] | np.ndarray | None = None,
) -> tuple[float, float] | None:
    """Interval of the median from order statistics, whatever the distribution; None where too few values are there.

    The ends are the k-th smallest and the k-th largest of m values, with k the largest number for which
    2 P(X < k) ≤ 1 - confidence, X ~ Binomial(m, 1/2). For 95 % that takes 6 values, and then they are the extremes.

    Values that were measured on examples have an error of their own, which all share if they share the examples. With
    `own`, the interval of each value, the ends are the k-th smallest lower end and the k-th largest upper end: both
    errors are kept, and equal values do not make them certain.

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
    """How much of the differences in a table its rows explain, its columns, and neither alone; zeros if all is equal.

    They are the shares of the sum of squares around the mean: that of the row means, that of the column means, and the
    rest, which is what a row does only with some columns.

    >>> two_way_shares([[0, 1], [0, 1]]), two_way_shares([[0, 0], [0, 1]])
    ((0.0, 1.0, 0.0), (0.3333333333333333, 0.3333333333333333, 0.3333333333333334))
    """
    values = np.asarray(table, dtype=float)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"a table with two axes needed, got shape {values.shape}")
    apart = values - values[0, 0]
    apart = apart - apart.mean()
    total = float(np.square(apart).sum())
    if total == 0:
        return (0.0, 0.0, 0.0)
    rows, columns = (float(np.square(apart.mean(1 - axis)).mean()) * values.size / total for axis in (0, 1))
    return rows, columns, max(0.0, 1 - rows - columns)
