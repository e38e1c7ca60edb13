"""Intervals and tests for proportions."""

from scipy.stats import beta, binom

from headway.statistics.counts import check_share, check_successes, normal_quantile


def wilson_interval(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson score interval for a proportion; (0, 1) for n = 0.

    With z the normal quantile and p = successes / n, the ends are
    (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n).

    >>> [round(end, 4) for end in wilson_interval(95, 100)]
    [0.8882, 0.9785]
    """
    check_successes(successes, n)
    if n == 0:
        return (0.0, 1.0)
    z = normal_quantile(confidence)
    p = successes / n
    centre = p + z * z / (2 * n)
    half = z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    scale = 1 + z * z / n
    # At p = 0 and p = 1 one end is exactly 0 or 1; rounding must not push it past.
    low = 0.0 if successes == 0 else max(0.0, (centre - half) / scale)
    high = 1.0 if successes == n else min(1.0, (centre + half) / scale)
    return (low, high)


def clopper_pearson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's exact interval for a proportion; its coverage is at least `confidence`.

    With α = 1 - confidence, the ends are the α/2 quantile of Beta(successes, n - successes + 1) and the
    1 - α/2 quantile of Beta(successes + 1, n - successes); (0, 1) for n = 0.

    >>> [round(end, 4) for end in clopper_pearson(95, 100)]
    [0.8872, 0.9836]
    """
    check_successes(successes, n)
    tail = (1 - confidence) / 2
    low = 0.0 if successes == 0 else float(beta.ppf(tail, successes, n - successes + 1))
    high = 1.0 if successes == n else float(beta.isf(tail, successes + 1, n - successes))
    return (low, high)


def newcombe_interval(
    successes: int, n: int, other_successes: int, other_n: int, confidence: float = 0.95
) -> tuple[float, float]:
    """Newcombe's (1998) score interval for the difference of two independent proportions, the first less the other.

    With (l, u) the Wilson interval of p = successes / n, and (l', u') that of the other, the ends are
    p - p' - √((p - l)² + (u' - p')²) and p - p' + √((u - p)² + (p' - l')²); (-1, 1) if either n is 0.
    Two proportions are equivalent within a margin at 5 % (two one-sided tests) if the 90 % interval lies inside it.

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


def binomial_between(low: int, high: int, n: int, share: float) -> float:
    """P(low ≤ X ≤ high) for X ~ Binomial(n, share), such as the number of right guesses.

    >>> round(binomial_between(50, 50, 100, 0.5), 4), binomial_between(0, 100, 100, 0.5)
    (0.0796, 1.0)
    """
    check_share("share", share, 0)
    return float(binom.cdf(high, n, share) - binom.cdf(low - 1, n, share))


def above_share(successes: int, n: int, share: float) -> float:
    """Exact one-sided p-value of "the proportion is above the share": P(X ≥ successes), X ~ Binomial(n, share).

    >>> round(above_share(60, 100, 0.5), 4)
    0.0284
    """
    check_successes(successes, n)
    check_share("share", share, 0)
    return float(binom.sf(successes - 1, n, share))
