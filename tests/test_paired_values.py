"""Means of paired differences of any size: against scipy, against simulation, and where nothing varies."""

import numpy as np
import pytest
from scipy import stats

from headway.statistics import mean_above, mean_differs, moments_of, values_interval

SEED = 5


def draws(name: str, rows: int, n: int) -> tuple[np.ndarray, float]:
    """Samples of a skewed or a heavy-tailed population, and its mean."""
    random = np.random.default_rng(SEED)
    if name == "skewed":
        return random.exponential(size=(rows, n)), 1.0
    if name == "rare":
        return random.exponential(size=(rows, n)) * (random.random((rows, n)) < 0.1), 0.1
    return random.standard_t(3, size=(rows, n)), 0.0


def test_without_skewness_it_is_students() -> None:
    values = np.array([-3.0, -1.0, 0.0, 1.0, 3.0]) + 0.7
    found = moments_of(values)
    assert found.skewness == pytest.approx(0, abs=1e-12)
    expected = stats.ttest_1samp(values, 0.0)
    assert float(mean_differs(found)) == pytest.approx(expected.pvalue)
    assert values_interval(found) == pytest.approx(tuple(expected.confidence_interval()))


def test_moments_are_scipys_along_the_last_axis() -> None:
    values = np.random.default_rng(SEED).exponential(size=(3, 40))
    found = moments_of(values)
    assert found.mean == pytest.approx(values.mean(1))
    assert found.deviation == pytest.approx(values.std(1, ddof=1))
    assert found.skewness == pytest.approx(stats.skew(values, axis=1))
    assert found.n.tolist() == [40] * 3


@pytest.mark.parametrize("name", ["skewed", "rare", "heavy"])
def test_each_tail_keeps_its_level_where_students_does_not(name: str) -> None:
    values, mean = draws(name, 4_000, 200)
    found = moments_of(values)
    tails = [mean_above(found, mean), mean_above(-found, -mean)]
    # 4,000 draws: a true 2.5 % is seen as at most 3.3 % in 999 of 1,000; the approximation itself is granted 0.5 %.
    assert max(float((tail < 0.025).mean()) for tail in tails) < 0.038
    low, high = values_interval(found)
    assert float(((low <= mean) & (mean <= high)).mean()) > 0.94
    if name == "rare":
        students = stats.ttest_1samp(values, mean, axis=1, alternative="less").pvalue
        assert float((students < 0.025).mean()) > 0.06, "Student's alone would be wrong here"


def test_the_interval_is_what_the_test_does_not_reject() -> None:
    found = moments_of(draws("skewed", 20, 50)[0])
    low, high = values_interval(found)
    assert mean_above(found, low) == pytest.approx(np.full(20, 0.025))
    assert mean_above(-found, -high) == pytest.approx(np.full(20, 0.025))


def test_equal_differences_leave_no_doubt_unless_a_largest_one_is_known() -> None:
    nothing = moments_of(np.zeros(100))
    assert (float(mean_differs(nothing)), *map(float, values_interval(nothing))) == (1.0, 0.0, 0.0)
    assert mean_above(nothing, np.array([-0.01, 0.0, 0.01])).tolist() == [0.0, 1.0, 1.0]
    low, high = values_interval(moments_of(np.zeros(100), largest=1.0))
    assert -high == low < -0.02, "two examples of the largest size are counted in"


def test_one_difference_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 differences needed, got 1"):
        moments_of(np.ones(1))


def test_a_mean_below_0_differs_as_surely_as_one_above() -> None:
    values = np.random.default_rng(SEED).normal(0.8, 1.0, size=60)
    up, down = float(mean_differs(moments_of(values))), float(mean_differs(moments_of(-values)))
    assert up == pytest.approx(down)
    assert up < 0.05
