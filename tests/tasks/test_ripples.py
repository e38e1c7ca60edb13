"""Sums in which a carry travels, against Python's own whole numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.config import Choice
from headway.tasks import make_task
from headway.tasks.columns import longest_ripple, longest_unstarted_ripple
from headway.tasks.ripples import FAMILIES


def whole(digits: np.ndarray) -> int:
    return int("".join(map(str, digits[::-1].tolist())))


def ripples_of(a: int, b: int) -> tuple[int, int]:
    """Longest ripple and longest unstarted one, column by column with Python's arithmetic on whole numbers."""
    longest, run = [0, 0], [0, 0]
    for column in range(max(len(str(a)), len(str(b)))):
        power = 10**column
        carry = (a % power + b % power) // power
        sums_to_nine = a // power % 10 + b // power % 10 == 9
        for which, wanted in enumerate((1, 0)):
            run[which] = run[which] + 1 if sums_to_nine and carry == wanted else 0
            longest[which] = max(longest[which], run[which])
    return longest[0], longest[1]


@given(st.lists(st.tuples(st.integers(0, 99_999), st.integers(0, 99_999)), min_size=1, max_size=20))
def test_ripples_are_those_of_whole_numbers(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array([[n // 10**c % 10 for c in range(5)] for n in numbers]) for numbers in zip(*pairs, strict=True))
    expected = [ripples_of(*pair) for pair in pairs]
    assert longest_ripple(a, b, 10).tolist() == [ripple for ripple, _ in expected]
    assert longest_unstarted_ripple(a, b, 10).tolist() == [
        # Columns above both numbers are 0 + 0 and end a run, so padding changes nothing.
        unstarted
        for _, unstarted in expected
    ]


def test_neighbouring_carries_that_start_by_themselves_are_no_ripple() -> None:
    a, b = np.array([[5, 5, 5], [9, 9, 9], [1, 0, 0]]), np.array([[5, 5, 5], [1, 0, 0], [8, 9, 9]])
    assert longest_ripple(a, b, 10).tolist() == [0, 2, 0]
    assert longest_unstarted_ripple(a, b, 10).tolist() == [0, 0, 3]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(FAMILIES)), st.integers(1, 40), st.integers(1, 30), st.integers(0, 1_000))
def test_families_hold_numbers_without_leading_zeros_of_the_lengths_they_say(
    family: str, digits: int, n: int, seed: int
) -> None:
    a, b, *lengths = FAMILIES[family](np.random.default_rng(seed), n, digits)
    assert a.shape == b.shape == (n, digits)
    for numbers, length in zip((a, b), lengths, strict=True):
        assert all(len(str(whole(row))) == count for row, count in zip(numbers, length, strict=True))
    assert np.maximum(*lengths).tolist() == [digits] * n


@pytest.mark.parametrize("digits", [2, 3, 13, 125])
def test_every_second_sum_ripples_and_its_twin_does_not(digits: int) -> None:
    a, b, _, _ = FAMILIES["ripple"](np.random.default_rng(3), 400, digits)
    ripple, unstarted = longest_ripple(a, b, 10), longest_unstarted_ripple(a, b, 10)
    assert ripple[::2].max() == unstarted[1::2].max() == digits - 1
    assert (ripple[::2] >= 1).all() and (unstarted[1::2] >= 1).all()
    # A twin differs from its sum in one column, where the carry of the sum starts.
    assert (((a[::2] != a[1::2]) | (b[::2] != b[1::2])).sum(1) == 1).all()
    if digits > 8:
        assert (ripple[1::2] <= 6).all()  # a ripple elsewhere, by chance


def test_all_lengths_of_ripples_come_up_and_short_ones_do_not_drown() -> None:
    a, b, _, _ = FAMILIES["ripple"](np.random.default_rng(4), 4_000, 61)
    found = longest_ripple(a, b, 10)[::2]
    ranges = [(1, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, 60)]
    assert all(((found >= low) & (found <= high)).sum() > 150 for low, high in ranges)


def test_full_begins_with_nines_and_one_and_passes_every_column_above() -> None:
    a, b, a_length, b_length = FAMILIES["full"](np.random.default_rng(5), 300, 20)
    sums = [(whole(x), whole(y)) for x, y in zip(a, b, strict=True)]
    assert {sums[0][0], sums[0][1]} == {10**20 - 1, 1}
    assert all(max(pair) == 10**20 - 1 for pair in sums)
    assert len({pair.index(max(pair)) for pair in sums}) == 2  # written either way round
    shorter = np.minimum(a_length, b_length)
    assert (longest_ripple(a, b, 10) >= 20 - shorter).all()


def test_random_sums_hardly_ripple() -> None:
    """Why the families exist: 2,000 random sums of 125 digits have carry chains of 20, and no ripple above 7."""
    task = make_task(Choice(name="addition-text", options={})).at_length(256)
    features = task.features(task.draw(np.random.default_rng(0), 2_000).source)
    assert features["longest_ripple"].max() <= 7 < 15 <= features["longest_chain"].max()
