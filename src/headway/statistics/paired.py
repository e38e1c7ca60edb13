"""Two models on the same n questions.

`lost` counts the questions that only the first model answers correctly, `gained` those that only the second does. The
drop of accuracy is P(lost) - P(gained), estimated by (lost - gained) / n. Counts may be integers or arrays, which
broadcast.
"""

import numpy as np
from scipy.stats import binom, norm

from headway.statistics.counts import Counts, Shares, as_counts, check_share, normal_quantile

MOST_SUMMED = 100
"""Expected changes up to which a tail is summed exactly; beyond it, a saddlepoint has a relative error of 1/1,000."""


def mcnemar(lost: Counts, gained: Counts) -> np.ndarray:
    """McNemar's exact two-sided p-value of "lost and gained are equally likely"; 1 where both are 0.

    It is min(1, 2 P(X ≤ min(lost, gained))) with X ~ Binomial(lost + gained, 1/2).

    >>> mcnemar(np.array([0, 2, 5]), np.array([6, 10, 5])).round(4)
    array([0.0312, 0.0386, 1.    ])
    """
    lost, gained = as_counts(lost=lost, gained=gained)
    return np.asarray(np.minimum(1, 2 * binom.cdf(np.minimum(lost, gained), lost + gained, 0.5)))


def paired_interval(lost: Counts, gained: Counts, n: Counts, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Tango's (1998) score interval for the drop of accuracy; (-1, 1) for n = 0.

    It is {δ: |T(δ)| ≤ z}, with z the normal quantile and the score
    T(δ) = (lost - gained - n δ) / √(n (2q + δ (1 - δ))). There q = (√(B² - 4AC) - B) / 2A is the maximum-likelihood
    estimate of P(gained) when the drop is δ: A = 2n, B = (2n - lost + gained) δ - lost - gained, C = -gained δ (1 - δ).
    Without discordant pairs the ends are ±z² / (n + z²). With gained = 0 the upper end is Wilson's.

    >>> low, high = paired_interval(np.array([0, 12, 40]), np.array([0, 2, 0]), np.array([2000, 50, 2000]))
    >>> np.stack([low, high]).round(4)
    array([[-0.0019,  0.0611,  0.0147],
           [ 0.0019,  0.3447,  0.0271]])
    """
    lost, gained, n = _pairs(lost, gained, n)
    z = normal_quantile(confidence)
    # The upper end is minus the lower end of the swapped counts; both are searched for at once.
    ends = _lower_end(np.stack([lost, gained]), np.stack([gained, lost]), n, z)
    return np.asarray(ends[0]), np.asarray(-ends[1])


def drop_above(lost: Counts, gained: Counts, n: Counts, threshold: Shares) -> np.ndarray:
    """One-sided p-value of "the drop is above the threshold" against "it is at most that".

    It is P(L - G ≥ lost - gained) where L and G are the random counts of lost and gained, P(lost) - P(gained) is the
    threshold, and P(gained) is the maximum-likelihood estimate q of `paired_interval`. For q = 0 that is the exact
    binomial tail. The interval's score T is not used, because its normal tails are too light: with 20 expected losses,
    p-values below 0.0003, as a family of 192 needs, would be nearly 3 times too frequent.

    >>> drop_above(np.array([2, 12, 40]), 0, 2000, 0.005).round(4)
    array([0.9995, 0.3029, 0.    ])

    """
    lost, gained, n = _pairs(lost, gained, n)
    check_share("threshold", threshold, -1)
    lost, gained, n, threshold = np.broadcast_arrays(lost, gained, n, np.asarray(threshold, dtype=float))
    # Sweeps repeat the same counts; each combination is computed once.
    cases, where = np.unique(np.stack([x.ravel() for x in (lost, gained, n, threshold)]), axis=1, return_inverse=True)
    swapped = cases[3] < 0
    first, second = np.where(swapped, cases[1], cases[0]), np.where(swapped, cases[0], cases[1])
    less = _smaller_share(first, second, cases[2], np.abs(cases[3]))
    more = less + np.abs(cases[3])
    chances = np.where(swapped, less, more), np.where(swapped, more, less)
    return _tail(cases[0] - cases[1], cases[2], *chances)[where.ravel()].reshape(lost.shape)


def equivalence(lost: Counts, gained: Counts, n: Counts, margin: Shares) -> np.ndarray:
    """P-value of "the drop lies inside (-margin, margin)": the larger of two one-sided p-values (TOST).

    The two hypotheses are "the drop is above -margin" and "the drop is below margin".

    >>> equivalence(np.array([0, 2, 12]), 0, 2000, 0.005).round(4)
    array([0.    , 0.0027, 0.792 ])
    """
    check_share("margin", margin, 0)
    return np.asarray(np.maximum(drop_above(lost, gained, n, -margin), drop_above(gained, lost, n, -margin)))


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
    """Tango's score T of a drop, as in `paired_interval`; 0 where it is 0/0."""
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
        # Two forms of one root, each used where it does not subtract nearly equal numbers.
        return np.where(b > 0, -2 * c / (b + root), (root - b) / (4 * n))


def _tail(difference: np.ndarray, n: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """P(L - G ≥ difference) for n questions that are lost with probability `first` and gained with `second`."""
    first, second = np.nan_to_num(first), np.nan_to_num(second)
    expected = n * (first + second)
    found = np.empty(len(n))
    summed = (expected <= MOST_SUMMED) | (np.abs(difference) >= n - 1)
    for rows, tail in ((summed, _summed_tail), (~summed, _saddlepoint_tail)):
        found[rows] = tail(difference[rows], n[rows], first[rows], second[rows])
    return np.clip(found, 0, 1)


def _summed_tail(difference: np.ndarray, n: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Sum over the number of changes K ~ Binomial(n, first + second), of which Binomial(K, share of first) are lost."""
    changing = np.minimum(first + second, 1)
    most = min(MOST_SUMMED + 12 * MOST_SUMMED**0.5 + 40, float(n.max(initial=0)))
    k = np.arange(int(most) + 1)
    share = np.divide(first, changing, out=np.zeros(len(n)), where=changing > 0)[:, None]
    fewest = np.ceil((k + difference[:, None]) / 2)
    tails = binom.pmf(k, n[:, None], changing[:, None]) * binom.sf(fewest - 1, k, share)
    # The probability beyond the last k is below 1e-12 and is added to the tail.
    return np.asarray(tails.sum(1) + binom.sf(k[-1], n, changing))


def _saddlepoint_tail(difference: np.ndarray, n: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Lugannani and Rice's (1980) approximation for integers; its relative error is below 1/1,000 from 100
    changes on.

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
    # Without a saddlepoint gained is 0, and the difference is reached always (if none is asked for) or never.
    return np.where(np.isfinite(found), found, np.where(difference <= n * (first - second), 1.0, 0.0))


def _pairs(lost: Counts, gained: Counts, n: Counts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Paired counts as arrays of one shape; raises if lost + gained > n."""
    lost, gained, n = as_counts(lost=lost, gained=gained, n=n)
    if (bad := lost + gained > n).any():
        shown = [int(count[bad][0]) for count in (lost, gained, n)]
        raise ValueError("lost + gained must be at most n, got {} + {} > {}".format(*shown))
    return lost, gained, n
