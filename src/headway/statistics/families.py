"""Correction of p-values over a family of tests."""

from collections.abc import Sequence

import numpy as np

from headway.statistics.counts import check_share


def holm(p: Sequence[float] | np.ndarray) -> np.ndarray:
    """Holm's adjusted p-values: if those at most α are rejected, P(any true hypothesis is rejected) ≤ α.

    The k-th smallest of m, counted from 0, becomes the largest of (m - j) p_(j) over j ≤ k, or 1 if that is more.

    >>> holm([0.01, 0.04, 0.03, 0.005])
    array([0.03, 0.06, 0.06, 0.02])
    """
    values = np.asarray(p, dtype=float)
    if values.ndim != 1:
        raise ValueError(f"p must have one axis, got {values.ndim}")
    check_share("p", values, 0)
    order = np.argsort(values)
    steps = np.arange(len(values), 0, -1) * values[order]
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(steps))
    return adjusted


def holm_at_once(p: Sequence[float] | np.ndarray, true_at_once: int, frees: Sequence[bool] | np.ndarray) -> np.ndarray:
    """Holm's adjusted p-values where at most `true_at_once` of the hypotheses can be true together (Shaffer 1986).

    Each rejected hypothesis that is marked in `frees` lowers that number by one. The k-th smallest becomes the largest
    of m_j p_(j) over j ≤ k, with m_j the number left before step j. If all can be true and all are marked, it is
    `holm`.

    >>> holm_at_once([0.01, 0.04, 0.03, 0.005], 2, [True, False, False, False])
    array([0.02, 0.04, 0.03, 0.01])
    """
    values, marks = np.asarray(p, dtype=float), np.asarray(frees, dtype=bool)
    if values.ndim != 1 or values.shape != marks.shape:
        raise ValueError(f"p and frees must have one axis of one length, got {values.shape} and {marks.shape}")
    check_share("p", values, 0)
    order = np.argsort(values, kind="stable")
    left = true_at_once - np.cumsum(marks[order]) + marks[order]
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(np.maximum(left, 1) * values[order]))
    return adjusted
