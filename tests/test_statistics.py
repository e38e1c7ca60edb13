"""Intervals agree with SciPy's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from headway.statistics import wilson_interval

counts = st.integers(1, 1_000_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts, st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_the_wilson_interval_agrees_with_scipy(count, confidence):
    successes, n = count
    expected = binomtest(successes, n).proportion_ci(confidence_level=confidence, method="wilson")
    # Both add and subtract numbers near 1, so they agree to a few roundings of 1 (2.2e-16 each).
    assert wilson_interval(successes, n, confidence) == pytest.approx((expected.low, expected.high), abs=1e-14, rel=0)


@given(counts)
def test_the_wilson_interval_holds_the_proportion_and_stays_within_0_and_1(count):
    successes, n = count
    low, high = wilson_interval(successes, n)
    assert 0 <= low <= successes / n <= high <= 1


def test_the_ends_are_exact_when_all_or_none_succeed():
    assert wilson_interval(0, 810_000)[0] == 0.0
    assert wilson_interval(810_000, 810_000)[1] == 1.0


def test_nothing_counted_says_nothing():
    assert wilson_interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("successes", "n"), [(4, 3), (-1, 3), (1, 0)])
def test_impossible_counts_are_refused(successes, n):
    with pytest.raises(ValueError, match=rf"^successes must lie in 0\.\.{n}, got {successes}$"):
        wilson_interval(successes, n)
