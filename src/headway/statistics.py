"""Every interval and test used anywhere in headway.

Paired counts compare two models on the same n questions: `lost` are those that only the first answers,
`gained` those that only the second does. The drop of accuracy is P(lost) - P(gained), estimated by
(lost - gained) / n. Counts may be integers or arrays, which broadcast.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import beta, binom, norm
from scipy.stats import t as student

Counts = int | np.integer | np.ndarray
Shares = float | np.floating | np.ndarray


ENOUGH_SEEDS = 6
"""From six seeds on the range of all of them holds their median with 95 % (1 - 2 / 2 ** 6 = 96.9 %); fewer describe."""


def wilson_interval(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson score interval for a proportion; (0, 1) when nothing was counted.

    With z the normal quantile and p = successes / n, the ends are
    (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n).

    >>> [round(end, 4) for end in wilson_interval(95, 100)]
    [0.8882, 0.9785]
    """
    _check_successes(successes, n)
    if n == 0:
        return (0.0, 1.0)
    z = float(norm.ppf(0.5 + confidence / 2))
    p = successes / n
    centre = p + z * z / (2 * n)
    half = z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    scale = 1 + z * z / n
    # At p = 0 and p = 1 one end is exactly 0 or 1; rounding must not push it past.
    low = 0.0 if successes == 0 else max(0.0, (centre - half) / scale)
    high = 1.0 if successes == n else min(1.0, (centre + half) / scale)
    return (low, high)


def clopper_pearson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Exact interval for a proportion, which covers it at least as often as `confidence` says.

    With α = 1 - confidence, the ends are the α/2 quantile of Beta(successes, n - successes + 1) and the
    1 - α/2 quantile of Beta(successes + 1, n - successes); (0, 1) when nothing was counted.

    >>> [round(end, 4) for end in clopper_pearson(95, 100)]
    [0.8872, 0.9836]
    """
    _check_successes(successes, n)
    tail = (1 - confidence) / 2
    low = 0.0 if successes == 0 else float(beta.ppf(tail, successes, n - successes + 1))
    high = 1.0 if successes == n else float(beta.isf(tail, successes + 1, n - successes))
    return (low, high)


def t_interval(values: Sequence[float] | np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """Student's t interval for a mean, such as over seeds; (-inf, inf) for fewer than two values.

    The ends are mean ± t s / √m, with s the standard deviation of the m values (divisor m - 1) and t the
    quantile of Student's distribution with m - 1 degrees of freedom. It takes the values to be normal.

    >>> [round(end, 4) for end in t_interval([0.90, 0.92, 0.97])]
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


def median_interval(values: Sequence[float] | np.ndarray, confidence: float = 0.95) -> tuple[float, float] | None:
    """Interval of the median from order statistics, whatever the distribution; None where too few values are there.

    The ends are the k-th smallest and the k-th largest of m values, with k the largest number for which
    2 P(X < k) ≤ 1 - confidence, X ~ Binomial(m, 1/2). For 95 % that takes 6 values, and then they are the extremes.

    >>> median_interval([16, 32, 64, 64, 128, 256]), median_interval([16, 32, 64, 64, 128])
    ((16.0, 256.0), None)
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    m = len(ordered)
    k = next(k for k in range(m + 2) if 2 * binom.cdf(k, m, 0.5) > 1 - confidence)
    return None if k == 0 else (float(ordered[k - 1]), float(ordered[m - k]))


def difference_interval(differences: np.ndarray, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Interval of the mean of paired differences, along the last axis, for differences of size about 1.

    A difference of 1 and one of -1 are added before mean and spread are taken, as Bonett and Price (2012) do for
    paired proportions, so that examples which all agree do not make it certain.

    >>> [round(float(end), 4) for end in difference_interval(np.zeros(98))]
    [-0.0279, 0.0279]
    """
    values = np.asarray(differences, dtype=np.float64)
    ends = np.ones((*values.shape[:-1], 1))
    values = np.concatenate([values, ends, -ends], axis=-1)
    half = norm.ppf(0.5 + confidence / 2) * values.std(-1, ddof=1) / values.shape[-1] ** 0.5
    return np.asarray(values.mean(-1) - half), np.asarray(values.mean(-1) + half)


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


def binomial_between(low: int, high: int, n: int, share: float) -> float:
    """P(low ≤ X ≤ high) for X ~ Binomial(n, share): how often a guesser's count of right answers falls there.

    >>> round(binomial_between(50, 50, 100, 0.5), 4), binomial_between(0, 100, 100, 0.5)
    (0.0796, 1.0)
    """
    _check_share("share", share, 0)
    return float(binom.cdf(high, n, share) - binom.cdf(low - 1, n, share))


def above_share(successes: int, n: int, share: float) -> float:
    """Exact one-sided p-value of "the proportion is above the share": P(X ≥ successes), X ~ Binomial(n, share).

    >>> round(above_share(60, 100, 0.5), 4)
    0.0284
    """
    _check_successes(successes, n)
    _check_share("share", share, 0)
    return float(binom.sf(successes - 1, n, share))


def mcnemar(lost: Counts, gained: Counts) -> np.ndarray:
    """McNemar's exact two-sided p-value of "lost and gained are equally likely"; 1 where both are 0.

    It is min(1, 2 P(X ≤ min(lost, gained))) with X ~ Binomial(lost + gained, 1/2).

    >>> mcnemar(np.array([0, 2, 5]), np.array([6, 10, 5])).round(4)
    array([0.0312, 0.0386, 1.    ])
    """
    lost, gained = _counts(lost=lost, gained=gained)
    return np.asarray(np.minimum(1, 2 * binom.cdf(np.minimum(lost, gained), lost + gained, 0.5)))


def paired_interval(lost: Counts, gained: Counts, n: Counts, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Tango's (1998) score interval for the drop of accuracy; (-1, 1) where nothing was counted.

    It is {δ: |T(δ)| ≤ z}, with z the normal quantile and the score
    T(δ) = (lost - gained - n δ) / √(n (2q + δ (1 - δ))). There q = (√(B² - 4AC) - B) / 2A is the maximum-likelihood
    estimate of P(gained) when the drop is δ: A = 2n, B = (2n - lost + gained) δ - lost - gained, C = -gained δ (1 - δ).
    It needs no discordant pair: with none the ends are ±z² / (n + z²). With none gained the upper end is Wilson's.

    >>> low, high = paired_interval(np.array([0, 12, 40]), np.array([0, 2, 0]), np.array([2000, 50, 2000]))
    >>> np.stack([low, high]).round(4)
    array([[-0.0019,  0.0611,  0.0147],
           [ 0.0019,  0.3447,  0.0271]])
    """
    lost, gained, n = _pairs(lost, gained, n)
    z = float(norm.ppf(0.5 + confidence / 2))
    # The upper end is minus the lower end of the swapped counts; both are searched for at once.
    ends = _lower_end(np.stack([lost, gained]), np.stack([gained, lost]), n, z)
    return np.asarray(ends[0]), np.asarray(-ends[1])


def drop_above(lost: Counts, gained: Counts, n: Counts, threshold: Shares) -> np.ndarray:
    """One-sided p-value of "the drop is above the threshold" against "it is at most that": 1 - Φ(T(threshold)).

    T is the score of `paired_interval`, so p < (1 - confidence) / 2 exactly where the interval's lower end is
    above the threshold. Where T is 0/0 the counts speak for neither side, and p = 1/2.

    >>> drop_above(np.array([2, 12, 40]), 0, 2000, 0.005).round(4)
    array([0.9944, 0.263 , 0.    ])
    """
    lost, gained, n = _pairs(lost, gained, n)
    _check_share("threshold", threshold, -1)
    return np.asarray(norm.sf(_score(lost, gained, n, threshold)))


def equivalence(lost: Counts, gained: Counts, n: Counts, margin: Shares) -> np.ndarray:
    """P-value of "the drop lies inside (-margin, margin)": the larger of two one-sided p-values (TOST).

    They are those of "the drop is above -margin" and "the drop is below margin". So p < 0.05 exactly where the
    90 % `paired_interval` lies inside (-margin, margin).

    >>> equivalence(np.array([0, 2, 12]), 0, 2000, 0.005).round(4)
    array([0.0008, 0.0056, 0.737 ])
    """
    _check_share("margin", margin, 0)
    return np.asarray(np.maximum(drop_above(lost, gained, n, -margin), drop_above(gained, lost, n, -margin)))


def newcombe_interval(
    successes: int, n: int, other_successes: int, other_n: int, confidence: float = 0.95
) -> tuple[float, float]:
    """Newcombe's (1998) score interval for the difference of two independent proportions, the first less the other.

    With (l, u) the Wilson interval of p = successes / n, and (l', u') that of the other, the ends are
    p - p' - √((p - l)² + (u' - p')²) and p - p' + √((u - p)² + (p' - l')²); (-1, 1) where either has counted nothing.
    Two proportions are equivalent within a margin at 5 % (two one-sided tests) where the 90 % interval lies inside it.

    >>> [round(end, 4) for end in newcombe_interval(56, 70, 48, 80)]
    [0.0524, 0.3339]
    """
    low, high = wilson_interval(successes, n, confidence)
    other_low, other_high = wilson_interval(other_successes, other_n, confidence)
    if n == 0 or other_n == 0:
        return (-1.0, 1.0)
    share, other = successes / n, other_successes / other_n
    down = ((share - low) ** 2 + (other_high - other) ** 2) ** 0.5
    up = ((high - share) ** 2 + (other - other_low) ** 2) ** 0.5
    return (share - other - down, share - other + up)


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
    P(T > (|d| - margin) / e) + P(T > (|d| + margin) / e). Samples that do not vary leave no doubt: 0 or 1.

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
    """The standard error of a difference of means and its degrees of freedom; a normal's where nothing varies."""
    squares = [np.square(np.asarray(error, dtype=float)) for error in errors]
    for size in sizes:
        if np.less(size, 2).any():
            raise ValueError(f"each mean must be of at least 2 values, got {int(np.min(size))}")
    total = squares[0] + squares[1]
    parts = sum(square**2 / (np.asarray(size) - 1.0) for square, size in zip(squares, sizes, strict=True))
    degrees = np.divide(total**2, parts, out=np.full(np.shape(total), np.inf), where=np.asarray(parts) > 0)
    return np.asarray(np.sqrt(total)), np.asarray(degrees)


def holm(p: Sequence[float] | np.ndarray) -> np.ndarray:
    """Holm's adjusted p-values: if those at most α are rejected, P(any true hypothesis is rejected) ≤ α.

    The k-th smallest of m, counted from 0, becomes the largest of (m - j) p_(j) over j ≤ k, or 1 if that is more.

    >>> holm([0.01, 0.04, 0.03, 0.005])
    array([0.03, 0.06, 0.06, 0.02])
    """
    values = np.asarray(p, dtype=float)
    if values.ndim != 1:
        raise ValueError(f"p must have one axis, got {values.ndim}")
    _check_share("p", values, 0)
    order = np.argsort(values)
    steps = np.arange(len(values), 0, -1) * values[order]
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(steps))
    return adjusted


def _lower_end(lost: np.ndarray, gained: np.ndarray, n: np.ndarray, z: float) -> np.ndarray:
    """The smallest drop whose score is at most z, by bisection from -1 to the estimate, as the score falls."""
    outside = np.full(lost.shape, -1.0)
    inside = np.divide(lost - gained, n, out=np.ones(lost.shape), where=n > 0)
    # 60 halvings of at most 2 leave 2e-18; from 54 on, the middle of -1 and its neighbour rounds to -1 itself.
    for _ in range(60):
        middle = (outside + inside) / 2
        above = _score(lost, gained, n, middle) > z
        outside, inside = np.where(above, middle, outside), np.where(above, inside, middle)
    return inside


def _score(lost: np.ndarray, gained: np.ndarray, n: np.ndarray, drop: Shares) -> np.ndarray:
    """Tango's score T of a drop, as `paired_interval` has it; 0 where it is 0/0."""
    # Negating the drop swaps lost and gained and negates T. With δ ≥ 0, C ≤ 0: q is real and not negative.
    swapped = np.less(drop, 0)
    lost, gained = np.where(swapped, gained, lost), np.where(swapped, lost, gained)
    delta = np.abs(drop)
    b = (2 * n - lost + gained) * delta - lost - gained
    c = -gained * delta * (1 - delta)
    root = np.sqrt(b * b - 8 * n * c)
    difference = lost - gained - n * delta
    with np.errstate(divide="ignore", invalid="ignore"):
        # Two ways to write one root; each is used where it does not subtract nearly equal numbers.
        q = np.where(b > 0, -2 * c / (b + root), (root - b) / (4 * n))
        score = np.where(difference == 0, 0.0, difference / np.sqrt(n * (2 * q + delta * (1 - delta))))
    return np.where(swapped, -score, score)


def _pairs(lost: Counts, gained: Counts, n: Counts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Paired counts as arrays of one shape, refused where lost + gained > n."""
    lost, gained, n = _counts(lost=lost, gained=gained, n=n)
    if (bad := lost + gained > n).any():
        shown = [int(count[bad][0]) for count in (lost, gained, n)]
        raise ValueError("lost + gained must be at most n, got {} + {} > {}".format(*shown))
    return lost, gained, n


def _counts(**counts: Counts) -> tuple[np.ndarray, ...]:
    """Counts as arrays of one shape, in floating point so that products of counts do not overflow."""
    arrays = np.broadcast_arrays(*(np.asarray(count, dtype=float) for count in counts.values()))
    for name, array in zip(counts, arrays, strict=True):
        if (array < 0).any():
            raise ValueError(f"{name} must be at least 0, got {int(array.min())}")
    return tuple(arrays)


def _check_successes(successes: int, n: int) -> None:
    if not 0 <= successes <= n:
        raise ValueError(f"successes must lie in 0..{n}, got {successes}")


def _check_share(name: str, share: Shares, lowest: int) -> None:
    array = np.asarray(share)
    bad = ~((lowest <= array) & (array <= 1))
    if bad.any():
        raise ValueError(f"{name} must lie in {lowest}..1, got {array[bad][0]:g}")
