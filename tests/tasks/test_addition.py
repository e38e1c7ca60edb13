"""Fixed-width addition: the domain, the order of the answer, the sampling, the positions and the records."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from headway.config import Choice
from headway.errors import InputError
from headway.tasks import make_task
from headway.tasks.addition import Addition, AdditionOptions
from headway.tasks.splits import problem_keys, split_of


@cache
def task_of(**options):
    return Addition(AdditionOptions(**options))


def values(task, source):
    """Both operands of each row as Python integers."""
    cut = task.digits
    return [(to_integer(row[:cut], task.base), to_integer(row[cut + 1 :], task.base)) for row in source.tolist()]


def to_integer(digits, base):
    value = 0
    for digit in digits:
        value = value * base + digit
    return value


def source_of(task, a, b):
    digits = [[x // task.base**place % task.base for place in reversed(range(task.digits))] for x in (a, b)]
    return np.array([[*digits[0], task.plus, *digits[1]]])


@pytest.fixture(scope="module")
def whole_domain():
    """All three-digit sums: sources and targets."""
    chunks = list(task_of().domain(chunk=100_003))
    return np.concatenate([part.source for part in chunks]), np.concatenate([part.target for part in chunks])


def test_the_domain_has_810_000_different_examples_with_the_right_sums(whole_domain):
    source, target = whole_domain
    powers = 10 ** np.arange(2, -1, -1)
    a, b = source[:, :3] @ powers, source[:, 4:] @ powers
    assert len(np.unique(a * 1_000 + b)) == len(source) == task_of().domain_size() == 810_000
    assert (a.min(), a.max(), b.min(), b.max()) == (100, 999, 100, 999)
    assert (target[:, :4] @ 10 ** np.arange(3, -1, -1) == a + b).all()
    assert (target[:, 4] == task_of().vocabulary.eos).all()
    assert (source[:, 3] == task_of().plus).all()


@pytest.mark.parametrize("data_seed", [0, 641])
def test_both_orders_of_every_sum_share_a_split(whole_domain, data_seed):
    source, _ = whole_domain
    swapped = np.concatenate([source[:, 4:], source[:, 3:4], source[:, :3]], axis=1)
    split = split_of(task_of(), source, data_seed)
    assert (split == split_of(task_of(), swapped, data_seed)).all()
    # Ten shares, of which validation and test have one each; 405,450 problems put each within 0.3 points.
    assert np.bincount(split) / len(split) == pytest.approx([0.8, 0.1, 0.1], abs=0.003)


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"digits": 1}, 81),
        ({"digits": 1, "leading_zeros": True}, 100),
        ({"digits": 3, "base": 2}, 16),
        ({"digits": 2, "base": 7, "leading_zeros": True}, 2401),
    ],
)
def test_small_domains_hold_every_pair_once(options, size):
    task = task_of(**options)
    pairs = [pair for part in task.domain(chunk=37) for pair in values(task, part.source)]
    low = 0 if task.options.leading_zeros else task.base ** (task.digits - 1)
    operands = range(low, task.base**task.digits)
    assert pairs == [(a, b) for a in operands for b in operands]
    assert task.domain_size() == len(pairs) == size


@pytest.mark.parametrize("digits", [4, 128])
def test_a_domain_too_large_to_list_is_refused(digits):
    task = task_of(digits=digits)
    assert task.domain_size() is None
    with pytest.raises(InputError, match=r"^the domain of addition is too large to list; choose train, validation or"):
        next(task.domain())


@given(st.integers(0, 2**32), st.sampled_from([(1, 2), (3, 10), (5, 16), (2, 256), (120, 10)]), st.booleans())
def test_the_answer_is_the_sum_in_any_base(seed, shape, leading_zeros):
    digits, base = shape
    task = task_of(digits=digits, base=base, leading_zeros=leading_zeros)
    examples = task.draw(np.random.default_rng(seed), 5)
    for (a, b), target in zip(values(task, examples.source), examples.target.tolist(), strict=True):
        assert to_integer(target[:-1], base) == a + b
        assert len(target) == digits + 2
        if not leading_zeros:
            assert min(a, b) >= base ** (digits - 1)


def test_least_significant_first_is_the_answer_reversed():
    source = task_of().draw(np.random.default_rng(1), 50).source
    forward, backward = task_of().answer(source), task_of(order="least-significant-first").answer(source)
    assert (forward[:, :-1] == backward[:, :-1][:, ::-1]).all()
    assert (forward[:, -1] == backward[:, -1]).all()


def test_the_sum_is_padded_to_one_digit_more_than_the_operands():
    task = task_of()
    source = np.concatenate([source_of(task, 507, 159), source_of(task, 374, 814)])
    assert task.answer(source).tolist() == [[0, 6, 6, 6, 12], [1, 1, 8, 8, 12]]
    assert (task.plus, task.vocabulary.bos, task.vocabulary.eos, task.vocabulary.pad) == (10, 11, 12, 13)


def test_uniform_sampling_draws_all_pairs_alike():
    task = task_of(digits=2, base=3)
    pairs = values(task, task.draw(np.random.default_rng(8), 3_600).source)
    counts = [pairs.count((a, b)) for a in range(3, 9) for b in range(3, 9)]
    # The seed is fixed; a right sampler falls below this for one seed in 10,000.
    assert chisquare(counts).pvalue > 1e-4


def test_balanced_sampling_draws_all_longest_chains_alike():
    task = task_of(sampling="carry-chains")
    source = task.draw(np.random.default_rng(8), 4_000).source
    assert task.groups() == (0, 1, 2, 3)
    assert (task.strata(source) == task.features(source)["longest_chain"]).all()
    assert chisquare(np.bincount(task.strata(source), minlength=4)).pvalue > 1e-4


def test_uniform_sampling_has_one_group():
    source = task_of().draw(np.random.default_rng(8), 20).source
    assert task_of().groups() == (0,)
    assert set(task_of().strata(source).tolist()) == {0}


@pytest.mark.parametrize(
    ("a", "b", "features"), [(555, 555, (3, 3, 1)), (505, 505, (2, 1, 1)), (123, 456, (0, 0, 0)), (109, 191, (2, 2, 0))]
)
def test_features_count_the_carries(a, b, features):
    found = task_of().features(source_of(task_of(), a, b))
    assert tuple(int(found[name][0]) for name in ("carries", "longest_chain", "carry_out")) == features


@pytest.mark.parametrize(("a", "b", "columns"), [(374, 814, 0), (364, 839, 1), (333, 666, 3), (190, 809, 3)])
def test_features_count_the_columns_that_sum_to_9(a, b, columns):
    assert task_of().features(source_of(task_of(), a, b))["propagating_columns"].tolist() == [columns]


def test_answer_tokens_are_named_by_their_columns_as_they_are_written():
    falling = ["column 3", "column 2", "column 1", "column 0", "end"]
    assert task_of().answer_names(5) == falling
    assert task_of().answer_names(2) == falling[:2]
    rising = ["column 0", "column 1", "column 2", "column 3", "end", "token 5"]
    assert task_of(order="least-significant-first").answer_names(6) == rising


def test_source_tokens_are_named_by_operand_and_column():
    assert " ".join(task_of().token_names(7)) == "a2 a1 a0 + b2 b1 b0"
    assert task_of(digits=1).token_names(4) == ["a0", "+", "b0", "3"]


def test_swapped_operands_are_one_problem_and_other_pairs_with_that_sum_are_not():
    task = task_of()
    same, other = ((374, 814), (814, 374)), ((375, 813), (384, 804), (374, 815))
    keys = {pair: problem_keys(task, source_of(task, *pair))[0] for pair in (*same, *other)}
    assert keys[same[0]] == keys[same[1]]
    assert len(set(keys.values())) == 4


def test_index_positions_count_tokens():
    source, prefix = torch.zeros(2, 7, dtype=torch.long), torch.zeros(2, 5, dtype=torch.long)
    across, before = task_of().positions("index", source, prefix)
    assert (across.tolist(), before.tolist()) == ([[0, 1, 2, 3, 4, 5, 6]], [[0, 1, 2, 3, 4]])


@pytest.mark.parametrize(
    ("order", "before"), [("most-significant-first", [4, 3, 2, 1, 0]), ("least-significant-first", [1, 2, 3, 4, 5])]
)
def test_coupled_positions_put_digits_of_one_column_together(order, before):
    source, prefix = torch.zeros(2, 7, dtype=torch.long), torch.zeros(2, 5, dtype=torch.long)
    across, found = task_of(order=order).positions("coupled", source, prefix)
    assert (across.tolist(), found.tolist()) == ([[3, 2, 1, 0, 3, 2, 1]], [before])


def test_abacus_positions_count_within_a_number_as_written():
    source, prefix = torch.zeros(2, 7, dtype=torch.long), torch.zeros(2, 5, dtype=torch.long)
    across, before = task_of().positions("abacus", source, prefix)
    assert (across.tolist(), before.tolist()) == ([[1, 2, 3, 0, 1, 2, 3]], [[0, 1, 2, 3, 4]])


@pytest.mark.parametrize(
    ("base", "shown"),
    [(10, "3 7 4 + 8 1 4 -> 1 1 8 8"), (16, "3 7 4 + 8 1 4 -> 0 b 8 8"), (40, "3 7 4 + 8 1 4 -> 0 11 8 8")],
)
def test_an_example_is_shown_with_its_digits(base, shown):
    task = task_of(base=base)
    source = np.array([3, 7, 4, base, 8, 1, 4])
    assert task.show(source, task.answer(source[None])[0]) == shown
    assert task.show(source) == "3 7 4 + 8 1 4"


def test_a_record_is_the_one_of_the_course():
    task = task_of()
    source = source_of(task, 374, 814)
    record = {"input": [3, 7, 4, 10, 8, 1, 4], "target": [1, 1, 8, 8]}
    assert task.to_record(source[0], task.answer(source)[0]) == record
    assert task.from_record(record) == ([3, 7, 4, 10, 8, 1, 4], [1, 1, 8, 8, 12])


def test_an_operand_that_begins_with_0_needs_the_option():
    record = {"input": [0, 7, 4, 10, 8, 1, 4], "target": [0, 8, 8, 8]}
    with pytest.raises(InputError, match=r"^an operand begins with 0; set task\.leading_zeros=true if that is meant$"):
        task_of().from_record(record)
    assert task_of(leading_zeros=True).from_record(record)[1] == [0, 8, 8, 8, 12]


def test_a_target_in_the_other_order_is_not_the_sum():
    record = {"input": [3, 7, 4, 10, 8, 1, 4], "target": [8, 8, 1, 1]}
    with pytest.raises(InputError, match=r"^target \[8, 8, 1, 1\] is not the sum, which is \[1, 1, 8, 8\]$"):
        task_of().from_record(record)
    assert task_of(order="least-significant-first").from_record(record)[1] == [8, 8, 1, 1, 12]


def test_addition_has_one_length():
    with pytest.raises(InputError, match=r"^addition has one length; it cannot be set to 64$"):
        task_of().at_length(64)
    assert task_of().test_lengths() == ()


@pytest.mark.parametrize(("base", "leading_zeros"), [(10, False), (10, True), (3, False), (2, False)])
def test_propagating_sampling_makes_a_third_of_the_columns_sum_to_base_minus_1(base: int, leading_zeros: bool) -> None:
    task = Addition(AdditionOptions(sampling="ripples", base=base, leading_zeros=leading_zeros, digits=3))
    source = task.draw(np.random.default_rng(0), 6_000).source
    a, b = source[:, :3], source[:, 4:]
    passes_on = (a + b == base - 1).mean(0)
    natural = (base - 2) / (base - 1) ** 2 if not leading_zeros else 1 / base
    expected = [0.0 if base == 2 else 1 / 3 + 2 / 3 * natural, *[1 / 3 + 2 / 3 / base] * 2]
    assert passes_on == pytest.approx(expected, abs=0.03)  # five standard errors of 6,000 draws
    assert min(a[:, 0].min(), b[:, 0].min()) == (0 if leading_zeros else 1)
    assert max(a.max(), b.max()) == base - 1


def test_samplings_are_read_under_the_names_they_had() -> None:
    """`balanced` and `propagating` stand in the recipes and runs of earlier versions."""
    for before, now in (("balanced", "carry-chains"), ("propagating", "ripples")):
        assert make_task(Choice(name="addition", options={"sampling": before})).options.sampling == now
    with pytest.raises(InputError, match=r"task\.sampling = 'balancd'; known: carry-chains, ripples, uniform"):
        make_task(Choice(name="addition", options={"sampling": "balancd"}))
