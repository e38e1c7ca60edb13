"""Every interval and test used anywhere in headway.

Paired counts compare two models on the same n questions: `lost` are those that only the first answers,
`gained` those that only the second does. The drop of accuracy is P(lost) - P(gained), estimated by
(lost - gained) / n. Counts may be integers or arrays, which broadcast.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import beta, binom, norm
from scipy.stats import t as student

Counts = int | np.integer | np.ndarray
Shares = float | np.floating | np.ndarray


MOST_SUMMED = 100
"""Expected changes up to which a tail is summed term by term; beyond, a saddlepoint gives it to 1 part in 1,000."""
SIZES = np.arange(-2, 3)
"""What `mean_is_zero` counts."""
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
    >>> low, high = median_interval([1.0] * 6, own=[wilson_interval(2000, 2000)] * 6)
    >>> round(low, 4), high
    (0.9981, 1.0)
    """
    m = len(values)
    lows, highs = (values, values) if own is None else zip(*own, strict=True) if m else ((), ())
    if len(lows) != m:
        raise ValueError(f"{m} values have {m} intervals of their own, got {len(lows)}")
    k = next(k for k in range(m + 2) if 2 * binom.cdf(k, m, 0.5) > 1 - confidence)
    return None if k == 0 else (float(np.sort(lows)[k - 1]), float(np.sort(highs)[m - k]))


def mean_interval(values: Sequence[float] | np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """Student's t interval for the mean of many examples; (-inf, inf) for fewer than two.

    The ends are mean ± t s / √m, with s the standard deviation of the m values (divisor m - 1) and t the quantile of
    Student's distribution with m - 1 degrees of freedom. Not for a few seeds: `median_interval` is.

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


def flip_test(sums: Counts, ones: Counts, twos: Counts) -> np.ndarray:
    """Two-sided p-value of "the mean of numbers in -2..2 is 0", from their sum and how many are of size 1 and 2.

    It is P(|S| ≥ |sum|) where S adds up the sizes, each with a sign thrown like a coin: exact where a value is as
    likely as its negative. Where all sizes are 1 it is the sign test, `mcnemar`.

    >>> flip_test(np.array([6, 8, 8]), np.array([6, 12, 4]), np.array([0, 0, 2])).round(4)
    array([0.0312, 0.0386, 0.0312])
    """
    sums, ones, twos = _counts(sums=np.abs(sums), ones=ones, twos=twos)
    shape = sums.shape
    sums, ones, twos = sums.ravel(), ones.ravel(), twos.ravel()
    # S = (2X - ones) + 2 (2Y - twos), X and Y binomial with 1/2; the tail is summed over Y.
    y = np.arange(int(twos.max(initial=0)) + 1)
    fewest = np.ceil((sums[:, None] - 2 * (2 * y - twos[:, None]) + ones[:, None]) / 2)
    chances = binom.pmf(y, twos[:, None], 0.5) * binom.sf(fewest - 1, ones[:, None], 0.5)
    return np.asarray(np.minimum(1, 2 * chances.sum(1))).reshape(shape)


def mean_is_zero(counts: np.ndarray) -> np.ndarray:
    """Two-sided p-value of "the mean is 0" of numbers in -2..2, from how many are -2, -1, 0, 1 and 2 (the last axis).

    It is the larger of two. `flip_test` is exact where a value is as likely as its negative, and takes its tails to be
    alike. Where there are numbers of both signs, twice the tail of the sum is taken too if each value had the chance
    p_j = counts_j / (n (1 + λ j)), which is the most likely one with mean 0; that knows a few 2 from many -1.

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
    """P(sum at least that of the counts) under the most likely chances with mean 0, as `_saddlepoint_tail` has it."""
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
    """Where a function that falls from above 0 at `low` to below it at `high` is 0, by halving."""
    for _ in range(60):
        middle = (low + high) / 2
        above = function(middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return (low + high) / 2


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
    """One-sided p-value of "the drop is above the threshold" against "it is at most that".

    It is P(L - G ≥ lost - gained) where L and G count what n questions lose and gain, if P(lost) - P(gained) is the
    threshold and P(gained) is the maximum-likelihood estimate q of `paired_interval`. Where q is 0 that is the exact
    binomial tail. The score T of the interval has a normal's tails: with 20 losses expected, p-values below 0.0003,
    which a family of 192 asks for, would come nearly 3 times as often as they say.

    >>> drop_above(np.array([2, 12, 40]), 0, 2000, 0.005).round(4)
    array([0.9995, 0.3029, 0.    ])
    """
    lost, gained, n = _pairs(lost, gained, n)
    _check_share("threshold", threshold, -1)
    lost, gained, n, threshold = np.broadcast_arrays(lost, gained, n, np.asarray(threshold, dtype=float))
    # Sweeps hold the same counts again and again; each is worked out once.
    cases, where = np.unique(np.stack([x.ravel() for x in (lost, gained, n, threshold)]), axis=1, return_inverse=True)
    swapped = cases[3] < 0
    first, second = np.where(swapped, cases[1], cases[0]), np.where(swapped, cases[0], cases[1])
    less = _smaller_share(first, second, cases[2], np.abs(cases[3]))
    more = less + np.abs(cases[3])
    chances = np.where(swapped, less, more), np.where(swapped, more, less)
    return _tail(cases[0] - cases[1], cases[2], *chances)[where.ravel()].reshape(lost.shape)


def equivalence(lost: Counts, gained: Counts, n: Counts, margin: Shares) -> np.ndarray:
    """P-value of "the drop lies inside (-margin, margin)": the larger of two one-sided p-values (TOST).

    They are those of "the drop is above -margin" and "the drop is below margin".

    >>> equivalence(np.array([0, 2, 12]), 0, 2000, 0.005).round(4)
    array([0.    , 0.0027, 0.792 ])
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


def holm_at_once(p: Sequence[float] | np.ndarray, true_at_once: int, frees: Sequence[bool] | np.ndarray) -> np.ndarray:
    """Holm's adjusted p-values where at most `true_at_once` of the hypotheses can be true together (Shaffer 1986).

    Each one marked in `frees` that is rejected lowers that number by one. The k-th smallest becomes the largest of
    m_j p_(j) over j ≤ k, with m_j the number that is left before step j. If all can be true and all free, it is `holm`.

    >>> holm_at_once([0.01, 0.04, 0.03, 0.005], 2, [True, False, False, False])
    array([0.02, 0.04, 0.03, 0.01])
    """
    values, marks = np.asarray(p, dtype=float), np.asarray(frees, dtype=bool)
    if values.ndim != 1 or values.shape != marks.shape:
        raise ValueError(f"p and frees must have one axis of one length, got {values.shape} and {marks.shape}")
    _check_share("p", values, 0)
    order = np.argsort(values, kind="stable")
    left = true_at_once - np.cumsum(marks[order]) + marks[order]
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(np.maximum(left, 1) * values[order]))
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
    q = _smaller_share(lost, gained, n, delta)
    difference = lost - gained - n * delta
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.where(difference == 0, 0.0, difference / np.sqrt(n * (2 * q + delta * (1 - delta))))
    return np.where(swapped, -score, score)


def _smaller_share(lost: np.ndarray, gained: np.ndarray, n: np.ndarray, delta: Shares) -> np.ndarray:
    """The maximum-likelihood estimate q of P(gained) if P(lost) is q + delta, with delta not negative."""
    b = (2 * n - lost + gained) * delta - lost - gained
    c = -gained * delta * (1 - delta)
    root = np.sqrt(b * b - 8 * n * c)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Two ways to write one root; each is used where it does not subtract nearly equal numbers.
        return np.where(b > 0, -2 * c / (b + root), (root - b) / (4 * n))


def _tail(difference: np.ndarray, n: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """P(L - G ≥ difference) where n questions are each lost with chance `first`, gained with `second`; one axis."""
    first, second = np.nan_to_num(first), np.nan_to_num(second)
    expected = n * (first + second)
    found = np.empty(len(n))
    summed = (expected <= MOST_SUMMED) | (np.abs(difference) >= n - 1)
    for rows, tail in ((summed, _summed_tail), (~summed, _saddlepoint_tail)):
        found[rows] = tail(difference[rows], n[rows], first[rows], second[rows])
    return np.clip(found, 0, 1)


def _summed_tail(difference: np.ndarray, n: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The sum over how many change, K ~ Binomial(n, first + second), of which Binomial(K, first's share) are lost."""
    changing = np.minimum(first + second, 1)
    most = min(MOST_SUMMED + 12 * MOST_SUMMED**0.5 + 40, float(n.max(initial=0)))
    k = np.arange(int(most) + 1)
    share = np.divide(first, changing, out=np.zeros(len(n)), where=changing > 0)[:, None]
    fewest = np.ceil((k + difference[:, None]) / 2)
    tails = binom.pmf(k, n[:, None], changing[:, None]) * binom.sf(fewest - 1, k, share)
    # What lies beyond the last k is less than 1e-12, and counts as if it were all in the tail.
    return np.asarray(tails.sum(1) + binom.sf(k[-1], n, changing))


def _saddlepoint_tail(difference: np.ndarray, n: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Lugannani and Rice's (1980) approximation for whole numbers; from 100 changes on right to 1 part in 1,000.

    With M(t) = 1 - first - second + first e^t + second e^-t and M'/M = x = difference / n at t:
    w = sign(t) √(2n (t x - log M)), v = (1 - e^-t) √(n (log M)''), and the tail is 1 - Φ(w) + φ(w) (1 / v - 1 / w).
    """
    x, rest, mean, both = difference / n, 1 - first - second, first - second, first + second
    a, b, c = (1 - x) * first, -x * rest, -(1 + x) * second
    variance = both - mean**2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        root = np.sqrt(b * b - 4 * a * c)
        u = np.where(b > 0, -2 * c / (b + root), (root - b) / (2 * a))
        log_m = np.log1p(first * (u - 1) + second * (1 / u - 1))
        w = np.sign(u - 1) * np.sqrt(np.maximum(2 * n * (np.log(u) * x - log_m), 0))
        v = (1 - 1 / u) * np.sqrt(n * ((first * u + second / u) / np.exp(log_m) - x * x))
        # Near the mean 1 / v - 1 / w is 0/0; there it is (1 / 2 - skewness / 6) in units of the spread.
        limit = (1 / 2 - (mean - 3 * both * mean + 2 * mean**3) / (6 * variance)) / np.sqrt(n * variance)
        found = norm.sf(w) + norm.pdf(w) * np.where(np.abs(w) < 0.05, limit, 1 / v - 1 / w)
    # Without a saddlepoint nothing is gained, and at least so much is lost always (no difference asked) or never.
    return np.where(np.isfinite(found), found, np.where(difference <= n * (first - second), 1.0, 0.0))


def ratio_interval(before: np.ndarray, after: np.ndarray, confidence: float = 0.95) -> tuple[float, float] | None:
    """Interval for the ratio of two means over the same examples, mean(after) / mean(before); None if either is 0.

    The delta method on the logarithm: its standard error is that of the mean of after / mean(after) - before /
    mean(before), so that what an example adds to both means cancels. It takes the means for nearly normal. Where a few
    rare examples hold most of a mean, a sample may lack them, and the interval covers less than it says.

    >>> [round(end, 3) for end in ratio_interval(np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 5.0, 5.0, 9.0]))]
    [1.759, 2.507]
    """
    before, after = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    if before.shape != after.shape or before.ndim != 1 or len(before) < 2:
        raise ValueError(f"two lists of the same length from 2 up needed, got {before.shape} and {after.shape}")
    if not (before.mean() > 0 and after.mean() > 0):
        return None
    spread = np.std(after / after.mean() - before / before.mean(), ddof=1) / np.sqrt(len(before))
    reach = np.exp(norm.ppf(0.5 + confidence / 2) * spread)
    ratio = after.mean() / before.mean()
    return float(ratio / reach), float(ratio * reach)


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
