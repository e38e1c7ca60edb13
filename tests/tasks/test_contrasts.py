"""Contrasts of sums against Python's own integers, and their list against a search through small domains."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from headway.tasks.addition import Addition, AdditionOptions
from headway.tasks.addition_text import AdditionText, AdditionTextOptions
from headway.tasks.contrasts import SumPairs

MOST, LEAST = "most-significant-first", "least-significant-first"

SHAPES = [(3, 10, False), (2, 10, True), (4, 3, False), (3, 3, True), (4, 2, False), (3, 2, True), (1, 7, False)]
"""(digits, base, leading zeros)."""


@cache
def task_of(digits, base, leading_zeros, order=MOST):
    return Addition(AdditionOptions(digits=digits, base=base, leading_zeros=leading_zeros, order=order))


@cache
def text_task_of(**options):
    return AdditionText(AdditionTextOptions(**options))


def drawn(task, n=60, seed=7):
    return task.contrasts(np.random.default_rng(seed), n)


def operands_of(task, source):
    """Both numbers of each row as tuples of digits, units first."""
    tokens = [row[row < 10] if isinstance(task, AdditionText) else row[row < task.base] for row in source]
    return [(tuple(row[: len(row) // 2][::-1].tolist()), tuple(row[len(row) // 2 :][::-1].tolist())) for row in tokens]


def to_integer(digits, base):
    return sum(digit * base**place for place, digit in enumerate(digits))


def carries_into(pair, base, column):
    """Whether the digits below the column overflow."""
    return sum(to_integer(number[:column], base) for number in pair) >= base**column


def sum_digits(pair, base):
    total = sum(to_integer(number, base) for number in pair)
    return [total // base**place % base for place in range(len(pair[0]) + 1)]


def column_sum(pair, column):
    return pair[0][column] + pair[1][column]


def changed_columns(one, other):
    return [place for a, b in zip(one, other, strict=True) for place in range(len(a)) if a[place] != b[place]]


def journeys(one, other, base):
    """The (column, origin) of the carries that this pair, without and with, can show."""
    found = []
    digits = len(one[0])
    for column, origin in ((c, o) for c in range(1, digits + 1) for o in range(c)):
        arises = column_sum(other, origin) >= base and not carries_into(one, base, origin + 1)
        travels = all(column_sum(one, between) == base - 1 for between in range(origin + 1, column))
        stops = column == digits or column_sum(one, column) != base - 1
        if changed_columns(one, other) == [origin] and arises and travels and stops:
            found.append((column, origin))
    return found


def names_by_search(digits, base, leading_zeros):
    """The names of all contrasts that some pair of the domain shows."""
    numbers = [row for row in product(range(base), repeat=digits) if leading_zeros or row[-1] > 0]
    names = set()
    for a, b in product(numbers, repeat=2):
        for place, digit in product(range(digits), range(base)):
            changed = (*a[:place], digit, *a[place + 1 :])
            if digit == a[place] or changed not in numbers:
                continue
            one, other = (a, b), (changed, b)
            names |= {f"carry into column {c} from column {o}" for c, o in journeys(one, other, base)}
            apart = [
                c for c, (x, y) in enumerate(zip(sum_digits(one, base), sum_digits(other, base), strict=True)) if x != y
            ]
            names |= {f"digits of column {place}"} if apart == [place] else set()
    return names


@pytest.mark.parametrize(
    ("digits", "base", "leading_zeros"),
    [
        (1, 2, False),
        (1, 2, True),
        (2, 2, False),
        (3, 2, False),
        (3, 2, True),
        (1, 3, False),
        (2, 3, False),
        (2, 4, True),
    ],
)
def test_a_contrast_is_left_out_only_where_no_pair_shows_it(digits, base, leading_zeros):
    names = [contrast.name for contrast in drawn(task_of(digits, base, leading_zeros), 8)]
    assert len(set(names)) == len(names)
    assert set(names) == names_by_search(digits, base, leading_zeros)


def test_the_contrasts_of_two_digits_have_these_names_in_this_order():
    assert [(c.name, c.about, c.token) for c in drawn(task_of(2, 10, False))] == [
        ("carry into column 1 from column 0", "carry", 1),
        ("carry into column 2 from column 1", "carry", 0),
        ("carry into column 2 from column 0", "carry", 0),
        ("digits of column 0", "digits", 2),
        ("digits of column 1", "digits", 1),
    ]
    assert [c.token for c in drawn(task_of(2, 10, False, LEAST))] == [1, 2, 2, 0, 1]


def pairs_of(task, contrast):
    """Each row's operands without and with the carry, however they stand in base and patch_source."""
    base, patch_source = (operands_of(task, examples.source) for examples in (contrast.base, contrast.patch_source))
    return [(d, b) if row % 2 else (b, d) for row, (b, d) in enumerate(zip(base, patch_source, strict=True))]


@pytest.mark.parametrize("order", [MOST, LEAST])
@pytest.mark.parametrize(("digits", "base", "leading_zeros"), SHAPES)
def test_a_carry_arises_travels_and_stops_where_its_name_says(digits, base, leading_zeros, order):
    task = task_of(digits, base, leading_zeros, order)
    for contrast in (contrast for contrast in drawn(task) if contrast.about == "carry"):
        column, origin = (int(word) for word in contrast.name.split() if word.isdigit())
        for without, having in pairs_of(task, contrast):
            assert (column, origin) in journeys(without, having, base)
            assert carries_into(having, base, column)
            assert not carries_into(without, base, column)
            assert sum_digits(without, base)[column + 1 :] == sum_digits(having, base)[column + 1 :]
            assert leading_zeros or min(number[-1] for number in (*without, *having)) > 0


def check_control(task, contrast, base):
    """Every control source has another digit in the same cell as the contrast's, the same carry, the same token."""
    origin = int(contrast.name.split()[-1])
    control = contrast.control
    sides = (contrast.base, contrast.patch_source, control.source)
    for row, (one, source, other) in enumerate(zip(*(operands_of(task, side.source) for side in sides), strict=True)):
        if not control.there[row]:
            assert one == other
            continue
        assert changed_columns(one, other) == [origin]
        assert [a == b for a, b in zip(one, other, strict=True)] == [a == b for a, b in zip(one, source, strict=True)]
        assert [carries_into(one, base, c) for c in range(1, len(one[0]) + 1)] == [
            carries_into(other, base, c) for c in range(1, len(one[0]) + 1)
        ]
        assert sum_digits(one, base)[:origin] == sum_digits(other, base)[:origin]
        assert sum_digits(one, base)[origin + 1 :] == sum_digits(other, base)[origin + 1 :]
    rows = control.there
    assert np.array_equal(task.answer(control.source.source), control.source.target)
    assert np.array_equal(contrast.base.target[:, contrast.token], control.source.target[:, contrast.token])
    assert (contrast.base.target[rows, control.token] != control.source.target[rows, control.token]).all()


@pytest.mark.parametrize("order", [MOST, LEAST])
@pytest.mark.parametrize(("digits", "base", "leading_zeros"), SHAPES)
def test_a_control_changes_a_digit_and_no_carry(digits, base, leading_zeros, order):
    task = task_of(digits, base, leading_zeros, order)
    for contrast in drawn(task):
        if contrast.about == "digits":
            assert contrast.control is None
        elif contrast.control is None:  # another digit is another carry
            assert base == 2 or (base == 3 and contrast.name.endswith(f"column {digits - 1}") and not leading_zeros)
        else:
            check_control(task, contrast, base)
            sources = operands_of(task, contrast.control.source.source)
            assert leading_zeros or min(number[-1] for pair in sources for number in pair) > 0


@pytest.mark.parametrize("order", [MOST, LEAST])
def test_controls_of_texts_change_a_digit_and_no_carry(order):
    task = text_task_of(max_characters=32, order=order)
    carries = [contrast for contrast in drawn(task) if contrast.about == "carry"]
    assert len(carries) == 3
    for contrast in carries:
        check_control(task, contrast, 10)


def test_most_bases_of_ten_have_a_control_and_it_takes_any_digit_that_keeps_the_carry():
    for contrast in drawn(task_of(3, 10, False), 2_000):
        if contrast.about == "carry":
            assert 0.7 < contrast.control.there.mean() < 1
            places = [
                place for place in range(7) if (contrast.control.source.source != contrast.base.source)[:, place].any()
            ]
            assert len(places) == 2, "either operand's digit of the origin"
            for place in places:
                assert set(range(1, 9)) <= set(contrast.control.source.source[:, place].tolist())


@pytest.mark.parametrize("order", [MOST, LEAST])
@pytest.mark.parametrize(("digits", "base", "leading_zeros"), SHAPES)
def test_digits_of_a_column_change_that_digit_of_the_answer_alone(digits, base, leading_zeros, order):
    task = task_of(digits, base, leading_zeros, order)
    for contrast in (contrast for contrast in drawn(task) if contrast.about == "digits"):
        column = int(contrast.name.split()[-1])
        for one, other in pairs_of(task, contrast):
            assert changed_columns(one, other) == [column]
            assert leading_zeros or min(number[-1] for number in (*one, *other)) > 0
        apart = contrast.base.target != contrast.patch_source.target
        assert (apart.sum(1) == 1).all()
        assert apart[:, contrast.token].all()


@pytest.mark.parametrize(("digits", "base", "leading_zeros"), [(3, 10, False), (3, 3, True)])
def test_either_operand_changes_and_a_carry_may_come_from_below_in_both_versions(digits, base, leading_zeros):
    task = task_of(digits, base, leading_zeros)
    for contrast in drawn(task, 200):
        pairs = pairs_of(task, contrast)
        first = [one[0] != other[0] for one, other in pairs]
        assert 60 <= sum(first) <= 140  # 100 expected; five and a half standard deviations of 7
        column = changed_columns(*pairs[0])[0]
        assert {carries_into(one, base, column) for one, _ in pairs} == ({False, True} if column else {False})


def test_digits_drawn_for_a_contrast_cover_all_that_are_allowed():
    task = task_of(3, 10, False)
    for contrast in drawn(task, 2_000):
        source = np.concatenate([contrast.base.source, contrast.patch_source.source])
        for place in (0, 1, 2, 4, 5, 6):
            assert set(range(1, 9)) <= set(source[:, place].tolist())


@pytest.mark.parametrize("order", [MOST, LEAST])
@pytest.mark.parametrize(("characters", "digits"), [(32, 3), (12, 3), (11, 2), (8, 1)])
def test_contrasts_of_texts_keep_the_length_of_the_sum(characters, digits, order):
    task = text_task_of(max_characters=characters, order=order)
    contrasts = drawn(task)
    carries = [f"carry into column {c} from column {o}" for c in range(1, digits) for o in reversed(range(c))]
    assert [c.name for c in contrasts] == [*carries, *(f"digits of column {c}" for c in range(digits))]
    for contrast in contrasts:
        column = int(contrast.name.split()[3])
        assert contrast.token == (digits - 1 - column if order == MOST else column)
        assert contrast.base.source.shape == contrast.patch_source.source.shape == (60, 2 * digits + 6)
        assert contrast.base.target.shape == contrast.patch_source.target.shape == (60, digits + 1)
        for one, other in pairs_of(task, contrast):
            assert sum_digits(one, 10)[digits] == sum_digits(other, 10)[digits] == 0
            assert digits == 1 or min(number[-1] for number in (*one, *other)) > 0
            origin = int(contrast.name.split()[-1])
            assert changed_columns(one, other) == [origin]
            assert contrast.about == "digits" or (column, origin) in journeys(one, other, 10)
        if contrast.about == "digits":
            assert ((contrast.base.target != contrast.patch_source.target).sum(1) == 1).all()


def test_contrasts_of_an_exact_length_are_no_longer_than_it():
    shapes = {c.base.source.shape for c in drawn(text_task_of(exact=10))}
    assert shapes == {(60, 10)}


@pytest.mark.parametrize("lowest_top", [0, 1])
def test_base_5_is_enough_for_sums_without_overflow(lowest_top):
    pairs, random = SumPairs(3, 5, lowest_top, overflow=False), np.random.default_rng(5)
    for versions in (pairs.digit(random, 500, 2), pairs.carry(random, 500, 2, 0)):
        for a, b in versions:
            assert (a @ 5 ** np.arange(3) + b @ 5 ** np.arange(3)).max() < 5**3
