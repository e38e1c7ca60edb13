"""Intervals and tests for means over many examples, their differences and ratios."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import binom, norm
from scipy.stats import t as student

from headway.statistics.counts import Counts, Shares, as_counts, normal_quantile

SIZES = np.arange(-2, 3)
"""The values that `mean_is_zero` counts."""


def mean_interval(values: Sequence[float] | np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """Student's t interval for the mean of many examples; (-inf, inf) for fewer than two.

    The ends are mean ± t s / √m, with s the standard deviation of the m values (divisor m - 1) and t the quantile of
    Student's distribution with m - 1 degrees of freedom. For a few seeds use `median_interval`.

    >>> [round(end, 4) for end in mean_interval([0.90, 0.92, 0.97])]
    [0.8404, 1.0196]
    """
    if len(values) < 2:
        return (-np.inf, np.inf)
    # Measured from the first value, equal values differ by exactly 0, whatever the rounding of their mean.
    first = float(values[0])
    shifted = np.asarray(values, dtype=float) - first
    mean = first + float(shifted.mean())
    error = float(shifted.std(ddof=1)) / len(values) ** 0.5
    half = float(student.ppf(0.5 + confidence / 2, len(values) - 1)) * error
    return (mean - half, mean + half)


def difference_interval(differences: np.ndarray, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Interval of the mean of paired differences, along the last axis, for differences of size about 1.

    One difference of 1 and one of -1 are added first, as Bonett and Price (2012) do for paired proportions, so that the
    interval has a width even if all differences are 0.

    >>> [round(float(end), 4) for end in difference_interval(np.zeros(98))]
    [-0.0279, 0.0279]

    """
    values = np.asarray(differences, dtype=np.float64)
    ends = np.ones((*values.shape[:-1], 1))
    values = np.concatenate([values, ends, -ends], axis=-1)
    half = normal_quantile(confidence) * values.std(-1, ddof=1) / values.shape[-1] ** 0.5
    return np.asarray(values.mean(-1) - half), np.asarray(values.mean(-1) + half)


def ratio_interval(before: np.ndarray, after: np.ndarray, confidence: float = 0.95) -> tuple[float, float] | None:
    """Interval for the ratio of two means over the same examples, mean(after) / mean(before); None if either is 0.

    The delta method on the logarithm: its standard error is that of the mean of after / mean(after) - before /
    mean(before), so that contributions of an example to both means cancel. It assumes nearly normal means. If a few
    rare examples contribute most of a mean, a sample may lack them, and the interval covers less than its confidence.

    >>> [round(end, 3) for end in ratio_interval(np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 5.0, 5.0, 9.0]))]
    [1.759, 2.507]

    """
    before, after = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    if before.shape != after.shape or before.ndim != 1 or len(before) < 2:
        raise ValueError(f"needs two lists of the same length, at least 2, got {before.shape} and {after.shape}")
    if not (before.mean() > 0 and after.mean() > 0):
        return None
    spread = np.std(after / after.mean() - before / before.mean(), ddof=1) / np.sqrt(len(before))
    reach = np.exp(normal_quantile(confidence) * spread)
    ratio = after.mean() / before.mean()
    return float(ratio / reach), float(ratio * reach)


def welch_interval(
    difference: Shares, errors: Sequence[Shares], sizes: Sequence[Counts], confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Welch's interval for the difference of two means, from the standard error and the size of each sample.

    The ends are the difference ± t e with e = √(e₁² + e₂²) and t the quantile of Student's distribution with
    e⁴ / (e₁⁴ / (n₁ - 1) + e₂⁴ / (n₂ - 1)) degrees of freedom.

    >>> [round(float(end), 3) for end in welch_interval(0.5, (0.1, 0.1), (11, 11))]
    [0.205, 0.795]
    """
    error, degrees = _welch(errors, sizes)
    half = student.ppf(0.5 + confidence / 2, degrees) * error
    return np.asarray(difference - half), np.asarray(difference + half)


def differs_by_more(difference: Shares, errors: Sequence[Shares], sizes: Sequence[Counts], margin: float) -> np.ndarray:
    """P-value of "two means differ by more than the margin", either way, against "by at most that" (Welch's test).

    With d the difference, e and the degrees of freedom as in `welch_interval`, it is
    P(T > (|d| - margin) / e) + P(T > (|d| + margin) / e). For samples without variance it is 0 or 1.

    >>> differs_by_more(np.array([0.1, 0.5, -0.5]), (0.1, 0.1), (11, 11), 0.1).round(4)
    array([0.5863, 0.0054, 0.0054])
    """
    error, degrees = _welch(errors, sizes)
    size = np.abs(difference)
    certain = np.where(size > margin, 0.0, 1.0)
    scale = np.where(error > 0, error, 1.0)
    p = student.sf((size - margin) / scale, degrees) + student.sf((size + margin) / scale, degrees)
    return np.asarray(np.where(error > 0, np.minimum(p, 1), certain))


def _welch(errors: Sequence[Shares], sizes: Sequence[Counts]) -> tuple[np.ndarray, np.ndarray]:
    """The standard error of a difference of means and its degrees of freedom; infinite if nothing varies."""
    squares = [np.square(np.asarray(error, dtype=float)) for error in errors]
    for size in sizes:
        if np.less(size, 2).any():
            raise ValueError(f"each mean must be of at least 2 values, got {int(np.min(size))}")
    total = squares[0] + squares[1]
    parts = sum(square**2 / (np.asarray(size) - 1.0) for square, size in zip(squares, sizes, strict=True))
    degrees = np.divide(total**2, parts, out=np.full(np.shape(total), np.inf), where=np.asarray(parts) > 0)
    return np.asarray(np.sqrt(total)), np.asarray(degrees)


def flip_test(sums: Counts, ones: Counts, twos: Counts) -> np.ndarray:
    """Two-sided p-value of "the mean of numbers in -2..2 is 0", from their sum and the numbers of absolute values 1 and
    2.

    It is P(|S| ≥ |sum|), where S sums the absolute values with random signs. It is exact if each value is as likely as
    its negative. If all absolute values are 1, it is the sign test, `mcnemar`.

    >>> flip_test(np.array([6, 8, 8]), np.array([6, 12, 4]), np.array([0, 0, 2])).round(4)
    array([0.0312, 0.0386, 0.0312])

    """
    sums, ones, twos = as_counts(sums=np.abs(sums), ones=ones, twos=twos)
    shape = sums.shape
    sums, ones, twos = sums.ravel(), ones.ravel(), twos.ravel()
    # S = (2X - ones) + 2 (2Y - twos), X and Y binomial with 1/2; the tail is summed over Y.
    y = np.arange(int(twos.max(initial=0)) + 1)
    fewest = np.ceil((sums[:, None] - 2 * (2 * y - twos[:, None]) + ones[:, None]) / 2)
    chances = binom.pmf(y, twos[:, None], 0.5) * binom.sf(fewest - 1, ones[:, None], 0.5)
    return np.asarray(np.minimum(1, 2 * chances.sum(1))).reshape(shape)


def mean_is_zero(counts: np.ndarray) -> np.ndarray:
    """Two-sided p-value of "the mean is 0" of numbers in -2..2, from the counts of -2, -1, 0, 1 and 2 (last axis).

    It is the larger of two p-values. `flip_test` is exact if each value is as likely as its negative. With numbers of
    both signs, the second is twice the tail of the sum under the probabilities p_j = counts_j / (n (1 + λ j)), the
    maximum-likelihood distribution with mean 0, which allows for skew.

    >>> mean_is_zero(np.array([[0, 10, 80, 2, 0], [0, 16, 76, 0, 8]])).round(4)
    array([0.0386, 1.    ])

    """
    table = np.asarray(counts, dtype=float)
    rows = table.reshape(-1, len(SIZES))
    rows = np.where((rows @ SIZES < 0)[:, None], rows[:, ::-1], rows)
    sums = rows @ SIZES
    found = flip_test(sums, rows[:, 1] + rows[:, 3], rows[:, 0] + rows[:, 4])
    both = (sums > 0) & (rows[:, :2].sum(1) > 0)
    found[both] = np.maximum(found[both], np.minimum(1, 2 * _balanced_tail(rows[both])))
    return found.reshape(table.shape[:-1])


def _balanced_tail(rows: np.ndarray) -> np.ndarray:
    """P(sum at least that of the counts) under the maximum-likelihood distribution with mean 0, by a saddlepoint."""
    n, x = rows.sum(1), rows @ SIZES / rows.sum(1)
    ends = -1 / np.where(rows[:, 4] > 0, 2.0, 1.0), 1 / np.where(rows[:, 0] > 0, 2.0, 1.0)

    def weights(tilt: np.ndarray) -> np.ndarray:
        return rows / np.where(rows > 0, 1 + tilt[:, None] * SIZES, 1.0)

    chances = weights(_falls_to_zero(lambda tilt: weights(tilt) @ SIZES, *ends)) / n[:, None]

    def pull(t: np.ndarray) -> np.ndarray:
        return np.asarray(((x[:, None] - SIZES) * chances * np.exp(t[:, None] * SIZES)).sum(1))

    t = _falls_to_zero(pull, np.zeros(len(n)), np.full(len(n), 30.0))
    tilted = chances * np.exp(t[:, None] * SIZES)
    m = tilted.sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        w = np.sqrt(np.maximum(2 * n * (t * x - np.log(m)), 0))
        v = (1 - np.exp(-t)) * np.sqrt(n * (tilted @ SIZES**2 / m - x * x))
        tail = norm.sf(w) + norm.pdf(w) * (1 / v - 1 / w)
    return np.where(np.isfinite(tail), tail, 0.5)


def _falls_to_zero(function: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The root of a decreasing function between `low` and `high`, by bisection."""
    for _ in range(60):
        middle = (low + high) / 2
        above = function(middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return (low + high) / 2
