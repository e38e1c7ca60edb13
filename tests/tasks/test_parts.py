"""Parts of a sum against sets written by hand, and against loops over strings that flip one carry after another."""

import doctest
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headway.tasks.examples
from headway.tasks.addition import Addition, AdditionOptions
from headway.tasks.addition_text import CHARACTERS, AdditionText, AdditionTextOptions

MOST, LEAST = "most-significant-first", "least-significant-first"


@cache
def task_of(**options):
    return Addition(AdditionOptions(**options))


@cache
def text_task_of(order):
    return AdditionText(AdditionTextOptions(order=order))


def places(number, base):
    """Digits of an integer, units first."""
    found = []
    while number or not found:
        number, digit = divmod(number, base)
        found.append(digit)
    return found


def padded(digits, width):
    return digits + [0] * (width - len(digits))


def as_sets(part):
    """The keys of each query of one example."""
    return [set(np.flatnonzero(row).tolist()) for row in part]


def flipped_sum(first, second, base, flipped):
    """Digits of the sum, units first, when the carry out of one column is the opposite of the right one."""
    carry, digits = 0, []
    for column in range(max(len(first), len(second)) + 1):
        here = sum(number[column] for number in (first, second) if column < len(number))
        carry, digit = divmod(here + carry, base)
        digits.append(digit)
        carry = 1 - carry if column == flipped else carry
    return digits


def deciding_columns(first, second, base):
    """For each column of the sum, the columns whose carry, if it were wrong, would make its digit wrong."""
    right = flipped_sum(first, second, base, None)
    wrong = [flipped_sum(first, second, base, column) for column in range(len(right) - 1)]
    return [{d for d, digits in enumerate(wrong) if digits[c] != right[c]} for c in range(len(right))]


def reference(symbols, answer, base, falling, start):
    """The parts as sets of keys, by the words in `PARTS`; the prefix begins at index `start`.

    `symbols` are the tokens of the source, digits as integers; `answer` are the digits of the sum, units first.
    """
    plus = symbols.index("+")
    numbers = {"first_operand": range(plus), "second_operand": range(plus, len(symbols))}
    digits = {name: [i for i in span if isinstance(symbols[i], int)] for name, span in numbers.items()}
    key = {i: len(places) - 1 - nth for places in digits.values() for nth, i in enumerate(places)}
    query, source = dict(key), set(key)
    written = list(range(len(answer)))[:: -1 if falling else 1]
    for step, column in enumerate(written):
        query[start + step] = column
        key[start + step + 1] = column
    deciding = deciding_columns(*([symbols[i] for i in reversed(places)] for places in digits.values()), base)
    tokens = [*range(len(symbols)), *range(start, start + len(answer) + 2)]
    parts = {name: {q: set(places) for q in tokens} for name, places in digits.items()}
    parts["operator"] = {q: {plus} for q in tokens}
    parts["boundary"] = {q: {0, len(symbols) - 1, start} for q in tokens}
    parts["diagonal"] = {q: {k for k in key if key[k] == query[q]} for q in query}
    parts["previous_column"] = {q: {k for k in key if key[k] == query[q] - 1} for q in query}
    parts["carry"] = {q: {k for k in source if key[k] in deciding[query[q]]} for q in query}
    return parts


def check(task, source, rows, base):
    """Hold every part of every row to the reference; the prefix holds the whole answer, EOS and padding."""
    target = task.answer(source)
    prefix = np.pad(target, ((0, 0), (1, 0)), constant_values=task.vocabulary.bos)
    parts = task.parts(source, prefix)
    assert parts.keys() == task.PARTS.keys()
    for row, (symbols, answer) in enumerate(rows):
        expected = reference(symbols, answer, base, task.options.order == MOST, source.shape[1])
        assert parts.keys() == expected.keys()
        for name, part in parts.items():
            assert as_sets(part[row]) == [expected[name].get(q, set()) for q in range(part.shape[1])], name


def sums_of(pairs, base, digits):
    """Source tokens of fixed width, and each row as symbols with its answer's digits."""
    rows = []
    for a, b in pairs:
        numbers = [padded(places(number, base), digits)[::-1] for number in (a, b)]
        rows.append(([*numbers[0], "+", *numbers[1]], padded(places(a + b, base), digits + 1)))
    source = np.array([[base if symbol == "+" else symbol for symbol in symbols] for symbols, _ in rows])
    return source, rows


@st.composite
def fixed_sums(draw):
    base, digits = draw(st.sampled_from([2, 3, 10])), draw(st.integers(1, 5))
    digit = st.integers(0, base - 1)
    pairs = []
    for _ in range(draw(st.integers(1, 3))):
        a = draw(st.lists(digit, min_size=digits, max_size=digits))
        # Half of the columns sum to base - 1, so that carries have somewhere to travel.
        b = [draw(st.just(base - 1 - below) | digit) for below in a]
        pairs.append(tuple(sum(d * base**place for place, d in enumerate(number)) for number in (a, b)))
    return base, digits, pairs


text_pairs = st.lists(
    st.tuples(st.integers(0, 99_999), st.integers(0, 999)) | st.tuples(st.integers(0, 999), st.just(9_990)),
    min_size=1,
    max_size=4,
)


@given(fixed_sums(), st.sampled_from([MOST, LEAST]))
def test_parts_agree_with_loops_that_flip_every_carry(case, order):
    base, digits, pairs = case
    task = task_of(base=base, digits=digits, order=order, leading_zeros=True)
    check(task, *sums_of(pairs, base, digits), base)


@given(text_pairs, st.sampled_from([MOST, LEAST]))
def test_parts_of_texts_of_unequal_length_agree_with_the_same_loops(pairs, order):
    task = text_task_of(order)
    texts = [f"{a} + {b} = " for a, b in pairs]
    width = max(map(len, texts))
    source = np.full((len(texts), width), task.vocabulary.pad)
    for row, text in enumerate(texts):
        source[row, : len(text)] = [CHARACTERS.index(character) for character in text]
    symbols = [[int(c) if c.isdigit() else c for c in text] for text in texts]
    check(task, source, [(s, places(a + b, 10)) for s, (a, b) in zip(symbols, pairs, strict=True)], 10)


A, B = {0, 1, 2}, {4, 5, 6}
"""Where the digits of the operands stand in 3 7 4 + 8 1 4."""


def parts_of(a, b, order):
    """The parts of one three-digit sum, seen while its last digit is written: the prefix is BOS and four digits."""
    task = task_of(order=order)
    source, _ = sums_of([(a, b)], 10, 3)
    prefix = np.concatenate([[[task.vocabulary.bos]], task.answer(source)[:, :-1]], axis=1)
    return {name: as_sets(part[0]) for name, part in task.parts(source, prefix).items()}


def test_the_parts_of_374_plus_814_most_significant_first():
    # Tokens 0 to 6 are 3 7 4 + 8 1 4, token 7 is BOS, and 8 to 11 are 1 1 8 8.
    parts = parts_of(374, 814, MOST)
    hundreds, tens, units = {0, 4, 9}, {1, 5, 10}, {2, 6, 11}
    source = [hundreds, tens, units, set(), hundreds, tens, units]
    assert parts["diagonal"] == [*source, {8}, hundreds, tens, units, set()]
    below = [tens, units, set(), set(), tens, units, set()]
    assert parts["previous_column"] == [*below, hundreds, tens, units, set(), set()]
    decides = [{1, 5}, {2, 6}, set(), set(), {1, 5}, {2, 6}, set()]
    assert parts["carry"] == [*decides, {0, 4}, {1, 5}, {2, 6}, set(), set()]
    assert parts["boundary"] == [{0, 6, 7}] * 12
    assert parts["operator"] == [{3}] * 12
    assert parts["first_operand"] == [A] * 12
    assert parts["second_operand"] == [B] * 12


def test_the_parts_of_374_plus_814_least_significant_first():
    # Token 7 is BOS, and 8 to 11 are 8 8 1 1.
    parts = parts_of(374, 814, LEAST)
    units, tens, hundreds = {2, 6, 8}, {1, 5, 9}, {0, 4, 10}
    assert parts["diagonal"][7:] == [units, tens, hundreds, {11}, set()]
    assert parts["previous_column"][7:] == [set(), units, tens, hundreds, set()]
    assert parts["carry"][7:] == [set(), {2, 6}, {1, 5}, {0, 4}, set()]


def test_a_carry_comes_from_further_down_where_a_column_sums_to_9():
    parts = parts_of(364, 839, MOST)
    assert parts["carry"][7:] == [{0, 4}, {1, 2, 5, 6}, {2, 6}, set(), set()]
    assert parts["carry"][:4] == [{1, 2, 5, 6}, {2, 6}, set(), set()]


def test_where_all_columns_pass_on_all_decide_the_top_digit():
    assert parts_of(333, 666, MOST)["carry"][7] == A | B


def test_the_parts_of_a_text_are_those_of_the_longer_answer():
    # "95 + 7 = " are tokens 0 to 8, BOS is 9, and 10 to 12 are 1 0 2.
    task = text_task_of(MOST)
    source = np.array([[CHARACTERS.index(c) for c in "95 + 7 = "]])
    parts = task.parts(source, np.array([[task.vocabulary.bos, 1, 0, 2]]))
    found = {name: as_sets(part[0]) for name, part in parts.items()}
    assert found["diagonal"][9:] == [{10}, {0, 11}, {1, 5, 12}, set()]
    assert found["previous_column"][9:] == [{0, 11}, {1, 5, 12}, set(), set()]
    assert found["carry"][9:] == [{0, 1, 5}, {1, 5}, set(), set()]
    assert found["boundary"] == [{0, 8, 9}] * 13
    assert found["operator"] == [{3}] * 13


@pytest.mark.parametrize("order", [MOST, LEAST])
def test_parts_without_a_prefix_are_those_of_the_source_alone(order):
    for task in (task_of(order=order), text_task_of(order)):
        examples = task.draw(np.random.default_rng(4), 9)
        width = examples.source.shape[1]
        prefix = np.pad(examples.target, ((0, 0), (1, 0)), constant_values=task.vocabulary.bos)
        whole = task.parts(examples.source, prefix)
        for name, part in task.parts(examples.source, None).items():
            assert np.array_equal(part, whole[name][:, :width, :width])


@pytest.mark.parametrize("order", [MOST, LEAST])
def test_a_wrong_answer_that_ends_early_has_no_column_from_its_end_on(order):
    task = task_of(order=order)
    source, _ = sums_of([(374, 814)], 10, 3)
    v = task.vocabulary
    parts = task.parts(source, np.array([[v.bos, 1, v.eos, v.pad, v.pad]]))
    assert parts["diagonal"][0, 7:9].any(axis=1).all()
    for name in ("diagonal", "previous_column", "carry"):
        assert not parts[name][0, 9:].any()
        assert not parts[name][0, :, 9:].any()


def test_a_plus_that_the_answer_holds_is_no_operator():
    task = task_of()
    source, _ = sums_of([(374, 814)], 10, 3)
    parts = task.parts(source, np.array([[task.vocabulary.bos, 1, task.plus, 8]]))
    assert as_sets(parts["operator"][0]) == [{3}] * 11
    assert as_sets(parts["diagonal"][0])[8:] == [{0, 4}, {1, 5, 10}, {2, 6}]


def test_examples_in_docstrings_are_right():
    found = doctest.testmod(headway.tasks.examples)
    assert found.attempted > 0
    assert found.failed == 0
