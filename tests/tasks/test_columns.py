"""Column arithmetic against Python's own integers, and the chain sampler against the enumerated domain."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from headway.tasks.columns import (
    ChainSampler,
    add,
    carry_into,
    digit_columns,
    digit_counts,
    longest_chain,
    longest_ripple,
    lowest_origins,
    operands,
    order,
    propagates,
    written_columns,
)

SMALL = [(1, 2, True), (1, 2, False), (3, 2, True), (4, 2, False), (2, 3, True), (2, 4, False), (1, 10, False)]
"""(width, base, leading zeros) of domains that are small enough to list."""


@st.composite
def pairs_of_numbers(draw):
    """A base, a width and some pairs of digit rows, least significant first."""
    base, width, n = draw(st.integers(2, 256)), draw(st.integers(1, 130)), draw(st.integers(1, 3))
    digit = st.integers(0, base - 1) | st.just(base - 1)  # the highest digit often, so that chains get long
    rows = st.lists(st.lists(digit, min_size=width, max_size=width), min_size=n, max_size=n)
    return base, np.array(draw(rows)), np.array(draw(rows))


def to_integer(digits, base):
    return sum(int(digit) * base**place for place, digit in enumerate(digits))


def chain_of(a, b, base):
    """The longest run of carrying columns, found without `add`: column i carries when the numbers below it overflow."""
    carries = [to_integer(a[:i], base) + to_integer(b[:i], base) >= base**i for i in range(1, len(a) + 1)]
    return brute_force_chain(carries)


def brute_force_chain(carries):
    starts = range(len(carries))
    return max(length for s in starts for length in range(len(carries) - s + 1) if all(carries[s : s + length]))


def all_pairs(width, base, leading_zeros):
    """Every pair of the domain with its longest chain."""
    numbers = [row for row in product(range(base), repeat=width) if leading_zeros or row[-1] > 0]
    return {(a, b): chain_of(a, b, base) for a, b in product(numbers, repeat=2)}


@given(pairs_of_numbers())
def test_add_agrees_with_the_integers_of_python(case):
    base, a, b = case
    total, carries = add(a, b, base)
    for row in range(len(a)):
        assert to_integer(total[row], base) == to_integer(a[row], base) + to_integer(b[row], base)
    assert total.min() >= 0
    assert total.max() < base
    assert total.shape == (len(a), a.shape[1] + 1)
    assert carries.shape == a.shape


@given(pairs_of_numbers())
def test_a_column_carries_when_the_numbers_up_to_it_overflow(case):
    base, a, b = case
    _, carries = add(a, b, base)
    for width in range(1, a.shape[1] + 1, 7):
        overflow = to_integer(a[0, :width], base) + to_integer(b[0, :width], base) >= base**width
        assert carries[0, width - 1] == overflow


def test_374_plus_814_is_1188():
    total, carries = add(np.array([[4, 7, 3]]), np.array([[4, 1, 8]]), 10)
    assert total.tolist() == [[8, 8, 1, 1]]
    assert carries.tolist() == [[False, False, True]]


@given(st.integers(1, 9).flatmap(lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1)))
def test_the_longest_chain_agrees_with_a_search_over_all_stretches(rows):
    assert longest_chain(np.array(rows)).tolist() == [brute_force_chain(row) for row in rows]


@pytest.mark.parametrize(("a", "b", "chain"), [(555, 555, 3), (505, 505, 1), (123, 456, 0), (999, 1, 3), (509, 591, 3)])
def test_the_longest_chain_of_known_sums(a, b, chain):
    rows = [np.array([[int(digit) for digit in f"{number:03d}"[::-1]]]) for number in (a, b)]
    assert longest_chain(add(*rows, 10)[1]).tolist() == [chain]


@given(pairs_of_numbers())
def test_order_puts_the_smaller_number_first_and_forgets_who_came_first(case):
    base, a, b = case
    smaller, larger = order(a, b)
    for row in range(len(a)):
        numbers = sorted([to_integer(a[row], base), to_integer(b[row], base)])
        assert [to_integer(smaller[row], base), to_integer(larger[row], base)] == numbers
    swapped = order(b, a)
    assert (swapped[0] == smaller).all()
    assert (swapped[1] == larger).all()


@pytest.mark.parametrize(("width", "base", "leading_zeros"), SMALL)
def test_lengths_are_those_that_some_pair_has(width, base, leading_zeros):
    expected = sorted(set(all_pairs(width, base, leading_zeros).values()))
    assert list(ChainSampler(width, base, leading_zeros).lengths()) == expected


@pytest.mark.parametrize(("width", "base", "leading_zeros"), SMALL)
def test_each_row_has_exactly_the_chain_that_was_asked_for(width, base, leading_zeros):
    sampler = ChainSampler(width, base, leading_zeros)
    asked = np.resize(sampler.lengths(), 97)
    a, b = sampler.draw(np.random.default_rng(5), asked)
    domain = all_pairs(width, base, leading_zeros)
    assert [domain[pair] for pair in zip(map(tuple, a.tolist()), map(tuple, b.tolist()), strict=True)] == asked.tolist()


@pytest.mark.parametrize(("width", "base", "leading_zeros"), SMALL)
def test_pairs_with_a_chain_are_drawn_uniformly(width, base, leading_zeros):
    sampler = ChainSampler(width, base, leading_zeros)
    domain = all_pairs(width, base, leading_zeros)
    for chain in sampler.lengths():
        cells = [pair for pair, length in domain.items() if length == chain]
        n = 40 * len(cells)
        a, b = sampler.draw(np.random.default_rng(17 + chain), np.full(n, chain))
        counts = Counter(zip(map(tuple, a.tolist()), map(tuple, b.tolist()), strict=True))
        assert counts.keys() <= set(cells)
        if len(cells) > 1:
            # The seed is fixed; a right sampler falls below this for one seed in 10,000.
            assert chisquare([counts[cell] for cell in cells]).pvalue > 1e-4


def test_the_check_of_uniformity_notices_a_sampler_that_picks_the_top_digit_first():
    """A top digit drawn alike, then a pair with that digit: each pair has the right chain, but not the right chance."""
    domain = all_pairs(2, 4, leading_zeros=False)
    cells = [pair for pair, length in domain.items() if length == 1]
    random = np.random.default_rng(17)
    by_top = [[place for place, (a, _) in enumerate(cells) if a[-1] == top] for top in (1, 2, 3)]
    drawn = [random.choice(by_top[random.integers(3)]) for _ in range(40 * len(cells))]
    assert chisquare(np.bincount(drawn, minlength=len(cells))).pvalue < 1e-4


def test_wide_numbers_get_their_chain_too():
    sampler = ChainSampler(31, 10, leading_zeros=False)
    asked = np.array([0, 1, 14, 30, 31])
    a, b = sampler.draw(np.random.default_rng(2), asked)
    assert [chain_of(*pair, 10) for pair in zip(a.tolist(), b.tolist(), strict=True)] == asked.tolist()
    assert a[:, -1].min() >= 1
    assert b[:, -1].min() >= 1


@given(pairs_of_numbers())
def test_a_column_passes_a_carry_on_when_its_digits_sum_to_base_minus_1(case):
    base, a, b = case
    expected = [
        [x + y == base - 1 for x, y in zip(*rows, strict=True)] for rows in zip(a.tolist(), b.tolist(), strict=True)
    ]
    assert propagates(a, b, base).tolist() == expected


@given(pairs_of_numbers())
def test_the_lowest_origin_is_found_by_walking_down_while_columns_pass_on(case):
    base, a, b = case
    found = lowest_origins(a, b, base)
    assert found.shape == (len(a), a.shape[1] + 1)
    for row, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        for column in range(1, len(x) + 1):
            origin = column - 1
            while origin > 0 and x[origin] + y[origin] == base - 1:
                origin -= 1
            assert found[row, column] == origin
        assert found[row, 0] == 0


@given(pairs_of_numbers())
def test_a_carry_comes_into_a_column_when_the_numbers_below_it_overflow(case):
    base, a, b = case
    for column in range(0, a.shape[1] + 1, 7):
        overflow = [
            to_integer(x[:column], base) + to_integer(y[:column], base) >= base**column
            for x, y in zip(a, b, strict=True)
        ]
        assert carry_into(a, b, base, column).tolist() == ([int(o) for o in overflow] if column else [0] * len(a))


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=4))
def test_operands_and_their_columns_are_read_off_the_tokens(pairs):
    texts = [f"{a}+{b}" for a, b in pairs]
    width = max(map(len, texts))
    source = np.array([["0123456789+.".index(c) for c in text.ljust(width, ".")] for text in texts])
    numbers = operands(source, 10)
    assert [tuple(to_integer(digits[row], 10) for digits in numbers) for row in range(len(pairs))] == pairs
    for row, (a, b) in enumerate(pairs):
        columns = [*reversed(range(len(str(a)))), -1, *reversed(range(len(str(b))))]
        assert digit_columns(source, 10)[row].tolist() == columns + [-1] * (width - len(columns))


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=5), st.integers(7, 9))
def test_digits_are_counted_without_leading_zeros(values, width):
    rows = np.array([[value // 10**place % 10 for place in range(width)] for value in values])
    assert digit_counts(rows).tolist() == [len(str(value)) for value in values]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 12))
def test_columns_are_written_in_order_from_either_end(counts, width):
    up = [(list(range(count)) + [-1] * width)[:width] for count in counts]
    down = [(list(range(count))[::-1] + [-1] * width)[:width] for count in counts]
    assert written_columns(np.array(counts), width, falling=False).tolist() == up
    assert written_columns(np.array(counts), width, falling=True).tolist() == down


def test_columns_that_carry_by_themselves_are_no_ripple() -> None:
    a, b = np.array([[5, 5, 5], [4, 6, 3]]), np.array([[5, 5, 5], [9, 3, 8]])
    assert longest_ripple(a, b, 10).tolist() == [0, 1]
