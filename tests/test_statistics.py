"""Intervals and tests agree with SciPy's own, with published values, and with slow code that follows a definition."""

from math import comb, log, sqrt

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import binom, binomtest, multinomial, norm, sem, ttest_ind
from scipy.stats import t as student

from headway.statistics import (
    above_share,
    binomial_between,
    clopper_pearson,
    difference_interval,
    differs_by_more,
    drop_above,
    equivalence,
    flip_test,
    holm,
    holm_at_once,
    mcnemar,
    mean_interval,
    mean_is_zero,
    median_interval,
    newcombe_interval,
    paired,
    paired_interval,
    ratio_interval,
    two_way_shares,
    welch_interval,
    wilson_interval,
)

counts = st.integers(1, 1_000_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
confidences = st.sampled_from([0.5, 0.9, 0.95, 0.999])


def pairs_up_to(most):
    """Lost, gained and n, with lost + gained at most n."""
    sizes = st.integers(1, most).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
    return sizes.flatmap(lambda size: st.tuples(st.integers(0, size[0]), st.just(size[0]), st.just(size[1]))).map(
        lambda pair: (pair[0], pair[1] - pair[0], pair[2])
    )


pairs = pairs_up_to(1_000_000)
p_values = st.lists(st.floats(0, 1), max_size=12)


@given(counts, confidences)
def test_the_wilson_interval_agrees_with_scipy(count, confidence):
    successes, n = count
    expected = binomtest(successes, n).proportion_ci(confidence_level=confidence, method="wilson")
    # Both add and subtract numbers near 1, so they agree to a few roundings of 1 (2.2e-16 each).
    assert wilson_interval(successes, n, confidence) == pytest.approx((expected.low, expected.high), abs=1e-14, rel=0)


@given(counts, confidences)
def test_the_clopper_pearson_interval_agrees_with_scipy(count, confidence):
    successes, n = count
    expected = binomtest(successes, n).proportion_ci(confidence_level=confidence, method="exact")
    # SciPy finds each end as a root, to 2e-12.
    assert clopper_pearson(successes, n, confidence) == pytest.approx((expected.low, expected.high), abs=1e-11, rel=0)


@pytest.mark.parametrize("interval", [wilson_interval, clopper_pearson])
@given(count=counts)
def test_an_interval_holds_the_proportion_and_stays_within_0_and_1(interval, count):
    successes, n = count
    low, high = interval(successes, n)
    assert 0 <= low <= successes / n <= high <= 1


@pytest.mark.parametrize("interval", [wilson_interval, clopper_pearson])
def test_the_ends_are_exact_when_all_or_none_succeed(interval):
    assert interval(0, 810_000)[0] == 0.0
    assert interval(810_000, 810_000)[1] == 1.0


@pytest.mark.parametrize("interval", [wilson_interval, clopper_pearson])
def test_nothing_counted_says_nothing(interval):
    assert interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize("interval", [wilson_interval, clopper_pearson])
@pytest.mark.parametrize(("successes", "n"), [(4, 3), (-1, 3), (1, 0)])
def test_impossible_counts_are_refused(interval, successes, n):
    with pytest.raises(ValueError, match=rf"^successes must lie in 0\.\.{n}, got {successes}$"):
        interval(successes, n)


def test_the_clopper_pearson_interval_covers_every_proportion_at_least_as_often_as_it_says():
    n, proportions = 30, np.linspace(0, 1, 201)
    low, high = np.array([clopper_pearson(successes, n, 0.9) for successes in range(n + 1)]).T[:, :, None]
    covered = (low <= proportions) & (proportions <= high)
    assert (covered * binom.pmf(np.arange(n + 1)[:, None], n, proportions)).sum(0).min() >= 0.9


@given(st.integers(0, 2000), st.integers(0, 2000))
def test_mcnemar_agrees_with_the_binomial_test_of_scipy(lost, gained):
    assume(lost + gained > 0)
    # Both sum the same binomial tail, SciPy's from either side; tails of thousands of terms agree to 9 digits.
    assert mcnemar(lost, gained) == pytest.approx(binomtest(lost, lost + gained).pvalue, rel=1e-9)


def test_mcnemar_without_discordant_pairs_is_1():
    assert mcnemar(0, 0) == 1


def slow_paired_interval(lost, gained, n, confidence):
    """Tango's interval from its definition: P(gained) by maximising the likelihood, each end by a root finder."""

    def likelihood(q, delta):
        chances = [(lost, q + delta), (gained, q), (n - lost - gained, 1 - 2 * q - delta)]
        return sum(count * log(max(chance, 1e-300)) for count, chance in chances if count)

    def score(delta):
        bounds = (max(0, -delta), (1 - delta) / 2)
        q = minimize_scalar(lambda q: -likelihood(q, delta), bounds=bounds, options={"xatol": 1e-12}).x
        return (lost - gained - n * delta) / sqrt(n * (2 * q + delta - delta**2))

    def end(target):
        lowest, highest = -1 + 1e-9, 1 - 1e-9
        if score(lowest) < target:
            return -1
        if score(highest) > target:
            return 1
        return brentq(lambda delta: score(delta) - target, lowest, highest)

    z = norm.ppf(0.5 + confidence / 2)
    return end(z), end(-z)


@given(pairs_up_to(300), confidences)
def test_the_paired_interval_agrees_with_slow_code_that_follows_the_definition(pair, confidence):
    # A maximum is flat, so a search finds it to about the root of 1e-16.
    assert paired_interval(*pair, confidence) == pytest.approx(slow_paired_interval(*pair, confidence), abs=1e-6)


@pytest.mark.parametrize(
    ("pair", "confidence", "expected"),
    [
        ((9, 3, 32), 0.95, (-0.027, 0.390)),  # Tango (1998), a crossover trial
        ((0, 1, 44), 0.90, (-0.096, 0.037)),  # Tango (1998), two ways to disinfect contact lenses
        ((1, 7, 21), 0.95, (-0.517, -0.026)),  # Fagerland, Lydersen and Laake (2014), airway hyper-responsiveness
    ],
)
def test_the_paired_interval_agrees_with_published_values(pair, confidence, expected):
    # They are printed to three digits.
    assert paired_interval(*pair, confidence) == pytest.approx(expected, abs=0.0005)


@given(counts, confidences)
def test_with_none_gained_the_upper_end_is_that_of_wilson(count, confidence):
    lost, n = count
    # Wilson's formula adds numbers near 1, so it is right to a few roundings of 1 (2.2e-16 each).
    expected = pytest.approx(wilson_interval(lost, n, confidence)[1], abs=1e-14, rel=0)
    assert paired_interval(lost, 0, n, confidence)[1] == expected


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_without_discordant_pairs_the_ends_are_known(confidence):
    n, z = np.array([1, 7, 2000, 810_000]), norm.ppf(0.5 + confidence / 2)
    low, high = paired_interval(0, 0, n, confidence)
    assert np.array_equal(low, -high)
    # Bisection stops 1e-18 from the end; the score is rounded to a few times 1e-16 of itself.
    assert high == pytest.approx(z**2 / (n + z**2), rel=1e-14, abs=1e-18)


@given(pairs, confidences)
def test_the_paired_interval_holds_the_estimate_and_stays_within_1(pair, confidence):
    lost, gained, n = pair
    low, high = paired_interval(*pair, confidence)
    assert -1 <= low <= (lost - gained) / n <= high <= 1


def test_the_paired_interval_reaches_1_when_all_are_lost_or_gained():
    n = np.array([1, 7, 2000, 810_000])
    assert np.all(paired_interval(n, 0, n)[1] == 1)
    assert np.all(paired_interval(0, n, n)[0] == -1)


def test_the_paired_interval_of_nothing_says_nothing():
    assert paired_interval(0, 0, 0) == (-1, 1)
    assert drop_above(0, 0, 0, 0.01) == equivalence(0, 0, 0, 0.01) == 1


@given(pairs, confidences)
def test_swapping_lost_and_gained_negates_and_swaps_the_ends(pair, confidence):
    lost, gained, n = pair
    low, high = paired_interval(lost, gained, n, confidence)
    assert paired_interval(gained, lost, n, confidence) == (-high, -low)


@given(pairs)
def test_the_paired_interval_of_90_percent_lies_inside_that_of_95(pair):
    inner, outer = paired_interval(*pair, 0.90), paired_interval(*pair, 0.95)
    assert outer[0] <= inner[0] <= inner[1] <= outer[1]
    assert inner[1] - inner[0] < outer[1] - outer[0]


@given(pairs, st.integers(2, 100))
def test_the_same_shares_of_more_questions_give_an_interval_inside(pair, times):
    outer, inner = paired_interval(*pair), paired_interval(*(times * count for count in pair))
    assert outer[0] <= inner[0] <= inner[1] <= outer[1]
    assert inner[1] - inner[0] < outer[1] - outer[0]


def test_paired_counts_broadcast():
    lost, gained, margins = np.arange(6)[:, None, None], np.arange(5)[:, None], np.array([0.01, 0.1, 0.3])
    low, high = paired_interval(lost, gained, 9)
    p, above, within = (
        mcnemar(lost, gained),
        drop_above(lost, gained, 9, margins),
        equivalence(lost, gained, 9, margins),
    )
    assert low.shape == high.shape == p.shape == (6, 5, 1)
    assert above.shape == within.shape == (6, 5, 3)
    for i, j, k in np.ndindex(6, 5, 3):
        assert (low[i, j, 0], high[i, j, 0]) == paired_interval(i, j, 9)
        assert p[i, j, 0] == mcnemar(i, j)
        assert above[i, j, k] == drop_above(i, j, 9, margins[k])
        assert within[i, j, k] == equivalence(i, j, 9, margins[k])


@pytest.mark.parametrize(
    ("lost", "gained"), [(0.01, 0.01), (0.02, 0), (0.05, 0.02), (0.3, 0.1), (0.004, 0.002), (0.002, 0.3)]
)
def test_the_paired_interval_of_2000_questions_covers_the_drop_95_times_in_100(lost, gained):
    drawn = np.random.default_rng(0).multinomial(2000, [lost, gained, 1 - lost - gained], size=10_000)
    low, high = paired_interval(drawn[:, 0], drawn[:, 1], 2000)
    # 10,000 draws find a share of 0.95 to 0.002 (one standard error); counts are whole, which adds the rest.
    assert 0.93 <= np.mean((low <= lost - gained) & (lost - gained <= high)) <= 0.97


def test_the_paired_interval_covers_a_drop_of_a_fraction_of_a_question_where_that_of_wilson_does_not():
    n, lost, expected = 2000, np.arange(30), np.linspace(0.05, 0.3, 26)
    chances = binom.pmf(lost, n, expected[:, None] / n)

    def coverage(low, high):
        return (chances * ((n * low <= expected[:, None]) & (expected[:, None] <= n * high))).sum(1).min()

    # One question lost puts Wilson's lower end at 0.18 questions, but Tango's below 0: that one may be chance.
    assert coverage(*np.array([wilson_interval(count, n) for count in range(30)]).T) < 0.85
    assert coverage(*paired_interval(lost, 0, n)) > 0.9999


def slow_drop_above(lost, gained, n, threshold):
    """The tail from its definition: P(gained) by maximising the likelihood, then every pair of counts added up."""

    def likelihood(q):
        chances = [(lost, q + threshold), (gained, q), (n - lost - gained, 1 - 2 * q - threshold)]
        return sum(count * log(max(chance, 1e-300)) for count, chance in chances if count)

    bounds = (max(0, -threshold), (1 - threshold) / 2)
    q = minimize_scalar(lambda q: -likelihood(q), bounds=bounds, method="bounded", options={"xatol": 1e-13}).x
    ls, gs = np.meshgrid(np.arange(n + 1), np.arange(n + 1))
    inside = (ls + gs <= n) & (ls - gs >= lost - gained)
    ls, gs = ls[inside], gs[inside]
    return multinomial.pmf(np.stack([ls, gs, n - ls - gs], -1), n, [q + threshold, q, 1 - 2 * q - threshold]).sum()


@settings(max_examples=60, deadline=None)
@given(pairs_up_to(60), st.sampled_from([-0.3, -0.1, -0.01, 0.01, 0.05, 0.1, 0.4]))
def test_a_drop_above_a_threshold_agrees_with_slow_code_that_follows_the_definition(pair, threshold):
    # A maximum is flat, so a search finds q to about the root of 1e-16, and the tail to about as much.
    assert drop_above(*pair, threshold) == pytest.approx(slow_drop_above(*pair, threshold), abs=2e-6)


@pytest.mark.parametrize("n", [300, 2_000, 20_000])
@pytest.mark.parametrize("threshold", [0.01, 0.1, 0.5])
def test_with_none_gained_the_tail_is_that_of_a_binomial(n, threshold):
    lost = np.unique(np.linspace(0, 2 * n * threshold / (1 + threshold), 12).astype(int))
    lost = lost[lost <= n]
    expected = binom.sf(lost - 1, n, threshold)
    # Summed term by term up to 100 expected changes; a saddlepoint beyond is right to 1 part in 1,000 of a tail.
    assert drop_above(lost, 0, n, threshold) == pytest.approx(expected, rel=1e-3, abs=1e-20)
    below = drop_above(0, lost, n, -threshold)
    assert below == pytest.approx(binom.cdf(lost, n, threshold), rel=1e-3, abs=1e-20)


def test_sums_and_saddlepoints_agree_where_both_can_be_had(monkeypatch):
    lost, gained = (np.ravel(one) for one in np.meshgrid(np.arange(20, 140, 7), np.arange(0, 60, 7)))
    thresholds = np.array([-0.01, 0.01, 0.03])[:, None]
    honest = drop_above(lost, gained, 2_000, thresholds)
    monkeypatch.setattr(paired, "MOST_SUMMED", 1_000)
    summed = drop_above(lost, gained, 2_000, thresholds)
    assert np.abs(honest / summed - 1).max() < 1e-3
    monkeypatch.setattr(paired, "MOST_SUMMED", 15)
    assert np.abs(drop_above(lost, gained, 2_000, thresholds) / summed - 1).max() < 0.02
    assert np.abs(honest - summed).max() > 0, "beyond 100 changes it is a saddlepoint"


@pytest.mark.parametrize("n", [500, 2_000, 5_000])
@pytest.mark.parametrize("threshold", [0.01, 0.1])
@pytest.mark.parametrize("gained", [0.0, 0.0005, 0.002, 0.02, 0.1])
def test_at_the_border_small_p_values_are_as_rare_as_they_say(n, threshold, gained):
    """Exact sums over all counts at the p-value that a family of 96 drops asks for, in both tails."""
    wanted = 0.05 / 192

    def around(share):
        spread = 6.5 * sqrt(n * share * (1 - share)) + 12
        return np.arange(max(0, int(n * share - spread)), int(n * share + spread) + 1)

    ls, gs = np.meshgrid(around(gained + threshold), around(gained) if gained else [0])
    chances = binom.pmf(gs, n, gained) * binom.pmf(ls, n - gs, (gained + threshold) / (1 - gained))
    ls, gs, chances = (one[chances > 1e-12] for one in (ls, gs, chances))
    for p in (drop_above(ls, gs, n, threshold), drop_above(gs, ls, n, -threshold)):
        assert chances[p <= wanted].sum() <= 1.01 * wanted


def test_the_normal_tail_of_the_score_is_not_what_a_family_can_use():
    n, threshold, lost, wanted = 2_000, 0.01, np.arange(100), 0.05 / 192
    scores = (lost - n * threshold) / sqrt(n * threshold * (1 - threshold))
    chances = binom.pmf(lost, n, threshold)
    assert chances[norm.sf(scores) <= wanted].sum() > 2.5 * wanted
    assert chances[drop_above(lost, 0, n, threshold) <= wanted].sum() <= wanted


@given(pairs, st.lists(st.floats(-1, 1), min_size=2, max_size=10).map(sorted))
def test_the_higher_the_threshold_the_higher_the_p_value(pair, thresholds):
    # Sums and saddlepoints meet at 100 changes, where they differ by 1 part in 1,000; P(gained) is estimated anew.
    p = drop_above(*pair, np.array(thresholds))
    assert (np.diff(p) >= -1e-3 * p[:-1] - 1e-12).all()


@given(pairs, st.floats(0.001, 1))
def test_models_are_equivalent_where_neither_is_better_by_the_margin(pair, margin):
    lost, gained, n = pair
    expected = max(float(drop_above(lost, gained, n, -margin)), float(drop_above(gained, lost, n, -margin)))
    assert equivalence(*pair, margin) == expected == equivalence(gained, lost, n, margin)


@pytest.mark.parametrize("call", [paired_interval, lambda *pair: drop_above(*pair, 0.1)])
def test_impossible_paired_counts_are_refused(call):
    with pytest.raises(ValueError, match=r"^lost must be at least 0, got -1$"):
        call(-1, 0, 10)
    with pytest.raises(ValueError, match=r"^gained must be at least 0, got -2$"):
        call(np.array([1, 1]), np.array([3, -2]), 10)
    with pytest.raises(ValueError, match=r"^n must be at least 0, got -3$"):
        call(0, 0, -3)
    with pytest.raises(ValueError, match=r"^lost \+ gained must be at most n, got 6 \+ 5 > 10$"):
        call(np.array([1, 6]), 5, 10)


def test_mcnemar_refuses_negative_counts():
    with pytest.raises(ValueError, match=r"^gained must be at least 0, got -1$"):
        mcnemar(3, -1)


def test_shares_that_no_accuracy_differs_by_are_refused():
    with pytest.raises(ValueError, match=r"^threshold must lie in -1\.\.1, got 1\.5$"):
        drop_above(1, 0, 10, 1.5)
    with pytest.raises(ValueError, match=r"^margin must lie in 0\.\.1, got -0\.1$"):
        equivalence(1, 0, 10, np.array([0.1, -0.1]))


def test_holm_agrees_with_an_example_worked_by_hand():
    # In order: 4 · 0.005, 3 · 0.01, 2 · 0.03, then 1 · 0.04, which the step before raises to 0.06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02], rel=1e-15)
    assert holm([0.6, 0.5]) == pytest.approx([1, 1])
    assert holm([]).shape == (0,)


@given(p_values)
def test_holm_agrees_with_slow_code_that_looks_at_all_pairs(p):
    def step(value):
        return value * sum(other >= value for other in p)

    expected = [min(1, max(step(other) for other in p if other <= value)) for value in p]
    assert holm(p) == pytest.approx(expected, rel=1e-15)


@given(p_values)
def test_where_all_can_be_true_at_once_it_is_holm(p):
    assert holm_at_once(p, len(p), [True] * len(p)) == pytest.approx(holm(p), rel=1e-15)
    assert (holm_at_once(p, 2, [False] * len(p)) == np.minimum(1, 2 * np.array(p))).all()


def test_fewer_that_can_be_true_at_once_ask_for_less_and_only_marked_ones_free_the_rest():
    p = [0.001, 0.01, 0.02]
    assert holm_at_once(p, 2, [True, True, False]) == pytest.approx([0.002, 0.01, 0.02])
    assert holm_at_once(p, 2, [False, True, True]) == pytest.approx([0.002, 0.02, 0.02])
    with pytest.raises(ValueError, match="one axis of one length"):
        holm_at_once(p, 2, [True])


@given(p_values)
def test_holm_raises_p_values_no_further_than_bonferroni_and_keeps_their_order(p):
    adjusted, p = holm(p), np.array(p)
    assert np.all((p <= adjusted) & (adjusted <= np.minimum(1, len(p) * p)))
    assert np.all(np.diff(adjusted[np.argsort(p)]) >= 0)


@pytest.mark.parametrize("false", [0, 5, 9])
def test_holm_errs_in_at_most_5_of_100_families(false):
    p = np.random.default_rng(0).random((4000, 10))
    p[:, :false] *= 1e-4
    wrong = [holm(family)[false:].min() <= 0.05 for family in p]
    # Three standard errors of a share of 0.05 of 4,000.
    assert np.mean(wrong) <= 0.05 + 0.0104


@pytest.mark.parametrize(
    ("p", "message"),
    [([0.5, 1.5], r"^p must lie in 0\.\.1, got 1\.5$"), ([float("nan")], "^p must lie in 0..1, got nan$")],
)
def test_holm_refuses_what_is_no_p_value(p, message):
    with pytest.raises(ValueError, match=message):
        holm(p)


def test_holm_refuses_more_than_one_family():
    with pytest.raises(ValueError, match=r"^p must have one axis, got 2$"):
        holm(np.full((2, 3), 0.5))


def test_the_interval_of_differences_covers_their_mean_and_is_never_certain() -> None:
    random = np.random.default_rng(3)
    for shares in ((0.02, 0.9, 0.06, 0.02), (0.3, 0.4, 0.2, 0.1)):
        values = random.choice([-1, 0, 1, 2], p=shares, size=(4_000, 400))
        low, high = difference_interval(values)
        true = float(np.dot([-1, 0, 1, 2], shares))
        assert 0.93 <= float(((low <= true) & (true <= high)).mean()) <= 0.97
    low, high = difference_interval(np.ones(50))
    assert float(low) < 1.0 <= float(high) + 0.05


def test_the_interval_of_differences_turns_with_its_sign() -> None:
    values = np.random.default_rng(4).integers(-1, 3, size=(5, 30))
    low, high = difference_interval(values)
    turned_low, turned_high = difference_interval(-values)
    np.testing.assert_allclose(turned_low, -high, rtol=1e-12)
    np.testing.assert_allclose(turned_high, -low, rtol=1e-12)


@pytest.mark.parametrize(("m", "interval"), [(5, None), (6, (0, 5)), (8, (0, 7)), (9, (1, 7)), (20, (5, 14))])
def test_the_interval_of_a_median_is_made_of_order_statistics(m: int, interval: tuple[float, float] | None) -> None:
    """As in every table of the sign test: for 95 % the second smallest of 9 values and the sixth smallest of 20."""
    assert median_interval(np.random.default_rng(m).permutation(m)) == interval
    assert median_interval([]) is None


def test_the_interval_of_a_median_covers_it_at_least_as_often_as_it_says() -> None:
    drawn = np.random.default_rng(0).exponential(size=(3_000, 11))
    ends = [median_interval(row) for row in drawn]
    inside = [end is not None and end[0] <= np.log(2) <= end[1] for end in ends]
    # The exact coverage for 11 values is 0.988; four standard errors of 3,000 are 0.008.
    assert abs(np.mean(inside) - 0.988) < 0.008


def test_the_interval_of_a_median_keeps_the_error_of_the_examples_too() -> None:
    own = [wilson_interval(right, 100) for right in (90, 91, 93, 95, 97, 100)]
    assert median_interval([0.9, 0.91, 0.93, 0.95, 0.97, 1.0], own=own) == (own[0][0], 1.0)
    nine = [wilson_interval(right, 100) for right in range(90, 99)]
    assert median_interval(np.arange(90, 99) / 100, own=nine) == (nine[1][0], nine[-2][1])
    equal = median_interval([1.0] * 8, own=[wilson_interval(500, 500)] * 8)
    assert equal == wilson_interval(500, 500), "equal seeds are as sure as one set of examples, and no surer"
    assert median_interval([1.0] * 5, own=[wilson_interval(500, 500)] * 5) is None
    with pytest.raises(ValueError, match="6 values have 6 intervals of their own, got 5"):
        median_interval([1.0] * 6, own=[(0.9, 1.0)] * 5)


@pytest.mark.parametrize(("ones", "twos"), [(0, 0), (6, 0), (5, 2), (0, 4), (7, 3)])
def test_the_flip_test_counts_every_way_of_throwing_signs(ones: int, twos: int) -> None:
    sizes = np.array([1] * ones + [2] * twos)
    signs = 1 - 2 * ((np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes))) & 1)
    sums = (signs * sizes).sum(1)
    for found in range(-(ones + 2 * twos), ones + 2 * twos + 1):
        # Where the sum is 0 both tails hold it, and p is cut at 1.
        assert flip_test(found, ones, twos) == pytest.approx((np.abs(sums) >= abs(found)).mean())


@pytest.mark.parametrize("share", [(0.0, 0.01, 0.01, 0.0), (0.003, 0.01, 0.01, 0.003), (0.0, 0.02, 0.0, 0.01)])
def test_a_mean_of_0_is_denied_as_rarely_as_the_p_value_says(share: tuple[float, ...]) -> None:
    chances = [*share[:2], 1 - sum(share), *share[2:]]
    drawn = np.random.default_rng(0).multinomial(2_000, chances, size=200_000)
    cases, where = np.unique(drawn, axis=0, return_inverse=True)
    p = mean_is_zero(cases)[where.ravel()]
    for limit in (0.05, 0.001):
        assert (p <= limit).mean() <= limit * (1 + 3 / sqrt(limit * len(p)))
    if share[2] == 0:  # a few +2 against many -1: throwing signs alone takes the tails to be alike
        flips = flip_test(cases @ np.arange(-2, 3), cases[:, 1] + cases[:, 3], cases[:, 0] + cases[:, 4])[where.ravel()]
        assert (flips <= 0.001).mean() > 0.0011


@given(st.lists(st.integers(0, 40), min_size=5, max_size=5))
def test_the_test_of_a_mean_turns_with_its_sign_and_is_never_surer_than_the_flip_test(counts: list[int]) -> None:
    table = np.array([counts])
    p = mean_is_zero(table)[0]
    assert p == pytest.approx(mean_is_zero(table[:, ::-1])[0], rel=1e-6)
    flips = flip_test(int(table[0] @ np.arange(-2, 3)), counts[1] + counts[3], counts[0] + counts[4])
    assert 1 >= p >= float(flips)


@given(st.integers(0, 500), st.integers(0, 500))
def test_where_all_sizes_are_1_the_flip_test_is_the_sign_test(up: int, down: int) -> None:
    assert flip_test(up - down, up + down, 0) == pytest.approx(float(mcnemar(up, down)), rel=1e-9)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [((56, 70, 48, 80), (0.0524, 0.3339)), ((9, 10, 3, 10), (0.1705, 0.8090)), ((10, 10, 0, 20), (0.6791, 1.0))],
)
def test_the_interval_of_two_proportions_agrees_with_published_values(counts, expected):
    """Newcombe (1998), Table II, method 10."""
    assert newcombe_interval(*counts) == pytest.approx(expected, abs=5e-5)


def test_the_interval_of_two_proportions_turns_with_its_samples_and_says_nothing_of_nothing():
    low, high = newcombe_interval(470, 500, 290, 300)
    assert newcombe_interval(290, 300, 470, 500) == pytest.approx((-high, -low))
    assert newcombe_interval(0, 0, 3, 4) == newcombe_interval(3, 4, 0, 0) == (-1.0, 1.0)
    z = float(norm.ppf(0.95)) ** 2
    assert newcombe_interval(300, 300, 300, 300, 0.9) == pytest.approx((-z / (300 + z), z / (300 + z)))


@pytest.mark.parametrize(("share", "other"), [(0.99, 0.97), (0.5, 0.5), (0.93, 0.99)])
def test_the_interval_of_two_proportions_covers_their_difference(share, other):
    random = np.random.default_rng(3)
    drawn = zip(random.binomial(500, share, 2_000), random.binomial(400, other, 2_000), strict=True)
    inside = [
        low <= share - other <= high for x, y in drawn for low, high in [newcombe_interval(int(x), 500, int(y), 400)]
    ]
    # 2,000 draws of 95 % have a standard deviation of 0.5 points; Newcombe's covers 94 to 97 at such shares.
    assert 0.935 < np.mean(inside) < 0.98


def two_samples(seed: int) -> tuple[float, tuple[float, float], tuple[int, int], np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    one, other = random.normal(size=9), random.normal(1, 3, size=14)
    return float(other.mean() - one.mean()), (float(sem(one)), float(sem(other))), (9, 14), one, other


@pytest.mark.parametrize("seed", range(3))
def test_two_means_are_compared_as_scipy_does(seed: int) -> None:
    difference, errors, sizes, one, other = two_samples(seed)
    expected = ttest_ind(other, one, equal_var=False)
    assert differs_by_more(difference, errors, sizes, 0.0) == pytest.approx(expected.pvalue, rel=1e-9)
    for confidence in (0.5, 0.95):
        ends = expected.confidence_interval(confidence)
        assert welch_interval(difference, errors, sizes, confidence) == pytest.approx((ends.low, ends.high), rel=1e-9)


def test_a_difference_within_the_margin_is_found_at_most_as_often_as_the_test_says() -> None:
    random = np.random.default_rng(0)
    one, other = random.normal(size=(2, 4_000, 20))
    other = 2 * other + 1  # the means differ by exactly the margin, the hardest case
    errors = (np.asarray(sem(one, axis=1)), np.asarray(sem(other, axis=1)))
    found = differs_by_more(other.mean(1) - one.mean(1), errors, (20, 20), 1.0) < 0.05
    # The other tail adds almost nothing: 0.05 and four standard errors of 4,000.
    assert abs(found.mean() - 0.05) < 0.014


def test_means_of_samples_that_do_not_vary_differ_for_sure_or_not_at_all() -> None:
    difference = np.array([0.3, 0.1, -0.3])
    assert differs_by_more(difference, (0.0, 0.0), (5, 5), 0.1).tolist() == [0, 1, 0]
    low, high = welch_interval(difference, (0.0, 0.0), (5, 5))
    assert low.tolist() == high.tolist() == difference.tolist()


def test_a_mean_of_one_value_is_not_compared() -> None:
    with pytest.raises(ValueError, match=r"^each mean must be of at least 2 values, got 1$"):
        welch_interval(0.1, (0.1, 0.1), (4, 1))


@given(counts, st.floats(0, 1))
def test_a_proportion_above_a_share_has_scipys_one_sided_p(count, share):
    successes, n = count
    expected = binomtest(successes, n, share, alternative="greater").pvalue
    assert above_share(successes, n, share) == pytest.approx(expected, rel=1e-9, abs=1e-300)


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 60), st.floats(0, 1))
def test_a_count_between_two_ends_has_the_sum_of_their_chances(n, low, width, share):
    # Not scipy's chances: they overflow for some shares below 1e-300.
    ends = range(low, min(low + width, n) + 1)
    expected = sum(comb(n, k) * share**k * (1 - share) ** (n - k) for k in ends)
    assert binomial_between(low, low + width, n, share) == pytest.approx(expected, abs=1e-12)


def test_shares_outside_0_to_1_are_refused():
    with pytest.raises(ValueError, match=r"^share must lie in 0\.\.1, got 1\.5$"):
        above_share(1, 2, 1.5)
    with pytest.raises(ValueError, match=r"^share must lie in 0\.\.1, got -1$"):
        binomial_between(0, 1, 2, -1.0)


# Ratios of means


def test_the_interval_of_a_ratio_of_paired_means_covers_it_19_times_in_20() -> None:
    """Losses of lognormal examples, three quarters of whose logarithm both share; 2,000 samples of 200.

    The standard error of a coverage of 0.95 is then 0.005; three of them, and 0.01 for tails that are not normal.
    """
    random = np.random.default_rng(0)
    shared = random.normal(size=(2_000, 200))
    before, after = (np.exp(0.75 * shared + 0.25 * random.normal(size=shared.shape)) for _ in range(2))
    after *= 3
    ends = np.array([ratio_interval(*pair) for pair in zip(before, after, strict=True)])
    covered = ((ends[:, 0] <= 3) & (ends[:, 1] >= 3)).mean()
    assert covered == pytest.approx(0.95, abs=0.025)
    unpaired = np.array([ratio_interval(one, random.permutation(two)) for one, two in zip(before, after, strict=True)])
    assert np.ptp(ends, axis=1).mean() < 0.5 * np.ptp(unpaired, axis=1).mean(), "pairs tell more"


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=20), st.floats(0.1, 10))
def test_twice_as_much_of_everything_is_a_ratio_of_two_without_doubt(losses: list[float], factor: float) -> None:
    assert ratio_interval(np.array(losses), factor * np.array(losses)) == pytest.approx((factor, factor))


def test_a_ratio_to_nothing_has_no_interval() -> None:
    nothing, something = np.zeros(3), np.ones(3)
    assert ratio_interval(nothing, something) is ratio_interval(something, nothing) is None
    with pytest.raises(ValueError, match=r"needs two lists of the same length, at least 2, got \(3,\) and \(2,\)"):
        ratio_interval(nothing, np.ones(2))


def test_under_skew_the_test_of_a_mean_doubles_its_tail() -> None:
    """One -2 against many gains in 2,000: the flip test takes both signs for alike; the second tail counts twice."""
    counts, sizes = np.array([1, 0, 1982, 13, 4]), np.arange(-2, 3)
    # The distribution with mean 0 that the counts make likeliest, and how often it gives so large a sum.
    tilt = brentq(lambda t: float((counts * sizes / (1 + t * sizes)).sum()), 0, 0.5 - 1e-9)
    chances = counts / (1 + tilt * sizes) / counts.sum()
    drawn = np.random.default_rng(1).multinomial(counts.sum(), chances / chances.sum(), size=400_000)
    tail = float((drawn @ sizes >= counts @ sizes).mean())
    found = float(mean_is_zero(counts[None])[0])
    assert found > 4 * float(flip_test(19, 13, 5)), "the second p-value is the larger one here"
    # 930 of 400,000 are expected: a standard error of 3 %. The saddlepoint itself is off by about 2 %.
    assert found == pytest.approx(2 * tail, rel=0.15)


def test_shares_of_a_table_belong_to_its_rows_and_columns() -> None:
    assert two_way_shares([[0, 0], [1, 1]]) == pytest.approx((1, 0, 0))
    assert two_way_shares([[0, 1], [0, 1]]) == pytest.approx((0, 1, 0))


def test_the_interval_of_a_mean_is_students() -> None:
    values = np.array([0.90, 0.92, 0.97])
    expected = student.interval(0.95, 2, loc=values.mean(), scale=sem(values))
    assert mean_interval(values) == pytest.approx(expected)
