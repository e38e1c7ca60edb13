"""Means of paired differences of any size: a real-valued metric before and after a change, on the same examples.

Student's t takes the mean for normal. Differences between two models are often skewed: a few examples hold most of the
change. Then one tail of t is too thin, by much at the small p-values that a family of tests asks for. Hall's (1992)
cubic transformation removes the skewness to the next order, but trusts an estimated skewness where tails are heavy on
both sides. Here an interval is the hull of both, and a p-value the larger of both.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from headway.statistics.counts import Shares


@dataclass(frozen=True)
class Moments:
    """Mean, standard deviation (divisor n - 1) and skewness of n paired differences; arrays of one shape."""

    mean: np.ndarray
    deviation: np.ndarray
    skewness: np.ndarray
    n: np.ndarray

    def __neg__(self) -> "Moments":
        return Moments(np.asarray(-self.mean), self.deviation, np.asarray(-self.skewness), self.n)


def moments_of(differences: np.ndarray, largest: float | None = None) -> Moments:
    """The moments along the last axis, of at least two differences.

    Where a difference can be no larger than `largest`, one of that size each way is added, as Bonett and Price (2012)
    do for proportions, so that examples which all agree do not make the mean certain.

    >>> found = moments_of(np.array([0.0, 0.0, 3.0]))
    >>> [round(float(x), 4) for x in (found.mean, found.deviation, found.skewness)]
    [1.0, 1.7321, 0.7071]
    """
    values = np.asarray(differences, dtype=np.float64)
    if largest is not None:
        ends = np.full((*values.shape[:-1], 1), float(largest))
        values = np.concatenate([values, ends, -ends], axis=-1)
    n = values.shape[-1]
    if n < 2:
        raise ValueError(f"at least 2 differences needed, got {n}")
    # Measured from the first value, equal values differ by exactly 0, whatever the rounding of their mean.
    first = values[..., :1]
    shifted = values - first
    middle = shifted.mean(-1, keepdims=True)
    apart = shifted - middle
    square, cube = np.asarray(np.square(apart).mean(-1)), np.asarray((apart**3).mean(-1))
    skewness = np.divide(cube, square**1.5, out=np.zeros_like(cube), where=square > 0)
    mean = np.asarray((first + middle)[..., 0])
    return Moments(mean, np.asarray(np.sqrt(square * n / (n - 1))), skewness, np.full(mean.shape, n))


def mean_above(found: Moments, threshold: Shares) -> np.ndarray:
    """One-sided p-value of "the mean is above the threshold" against "it is at most that".

    With T = (mean - threshold) √n / s and a = skewness / √n it is the larger of P(t > T), t of Student's distribution
    with n - 1 degrees of freedom, and P(t > T + a T² / 3 + a² T³ / 27 + a / 6), Hall's. Differences that are all equal
    leave no doubt: 0 or 1.

    >>> mean_above(moments_of(np.array([0.0, 1.0, 2.0, 7.0])), np.array([0.0, 1.0])).round(4)
    array([0.1031, 0.2029])
    """
    error = found.deviation / np.sqrt(found.n)
    apart = found.mean - threshold
    certain = np.where(apart > 0, 0.0, 1.0)
    score = apart / np.where(error > 0, error, 1.0)
    p = [student.sf(one, found.n - 1) for one in (score, _unskewed(score, found))]
    return np.asarray(np.where(error > 0, np.maximum(*p), certain))


def mean_differs(found: Moments) -> np.ndarray:
    """Two-sided p-value of "the mean is not 0": twice the smaller one-sided one.

    >>> mean_differs(moments_of(np.array([[-1.0, 0.0, 1.0], [4.0, 5.0, 6.0]]))).round(4)
    array([1.    , 0.0131])
    """
    return np.asarray(np.minimum(1, 2 * np.minimum(mean_above(found, 0.0), mean_above(-found, 0.0))))


def values_interval(found: Moments, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Interval of the mean: the hull of Student's and Hall's. A single point where all differences are equal.

    >>> low, high = values_interval(moments_of(np.array([0.0, 0.0, 0.0, 0.0, 0.0, 5.0])))
    >>> round(float(low), 3), round(float(high), 3)
    (-1.309, 7.641)
    """
    error = found.deviation / np.sqrt(found.n)
    reach = student.ppf(0.5 + confidence / 2, found.n - 1)
    low = found.mean - error * np.maximum(reach, _skewed(reach, found))
    high = found.mean - error * np.minimum(-reach, _skewed(-reach, found))
    return np.asarray(low), np.asarray(high)


def _unskewed(score: Shares, found: Moments) -> np.ndarray:
    a = found.skewness / np.sqrt(found.n)
    return np.asarray(score + a * score**2 / 3 + a**2 * score**3 / 27 + a / 6)


def _skewed(score: Shares, found: Moments) -> np.ndarray:
    """The inverse of `_unskewed`, which rises everywhere."""
    a = found.skewness / np.sqrt(found.n)
    scale = np.where(a == 0, 1.0, a)
    return np.asarray(np.where(a == 0, score, 3 / scale * (np.cbrt(1 + scale * (score - scale / 6)) - 1)))
