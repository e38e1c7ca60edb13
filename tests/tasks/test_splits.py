"""Splits are disjoint by construction, a leak is counted, and a split that is too small says so."""

from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from headway.config import Choice
from headway.errors import InputError
from headway.tasks import Examples, make_task
from headway.tasks.splits import SPLITS, fingerprint, fixed_split, fresh_batch, overlaps, problem_keys, split_of

rows = st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=8)


@cache
def task_of(name, **options):
    return make_task(Choice(name=name, options=options))


def filled(ragged, extra=0):
    width = max(map(len, ragged)) + extra + 1
    return np.array([row + [-1] * (width - len(row)) for row in ragged])


@given(rows, st.integers(0, 2**63 - 1), st.integers(1, 4))
def test_a_fingerprint_depends_on_what_a_row_holds_and_not_on_the_filling(ragged, salt, extra):
    assert (fingerprint(filled(ragged), salt) == fingerprint(filled(ragged, extra), salt)).all()
    alone = [int(fingerprint(filled([row]), salt)[0]) for row in ragged]
    assert fingerprint(filled(ragged), salt).tolist() == alone


@given(rows, st.integers(0, 2**63 - 1))
def test_different_rows_have_different_fingerprints(ragged, salt):
    different = {tuple(row) for row in ragged}
    assert len(set(fingerprint(filled(ragged), salt).tolist())) == len(different)


def test_fingerprints_fall_evenly_into_ten_shares():
    numbers = np.arange(20_000)[:, None]
    tenth = fingerprint(numbers, 641) % np.uint64(10)
    # The salt is fixed; a good hash falls below this for one salt in 10,000.
    assert chisquare(np.bincount(tenth.astype(int), minlength=10)).pvalue > 1e-4


def test_every_problem_of_a_small_domain_has_one_split_and_the_splits_cover_it():
    task = task_of("addition", digits=2)
    source = np.concatenate([part.source for part in task.domain()])
    splits = {key: set() for key in problem_keys(task, source)}
    for key, split in zip(problem_keys(task, source), split_of(task, source, 5).tolist(), strict=True):
        splits[key].add(SPLITS[split])
    assert len(splits) == 90 * 91 // 2
    assert {len(found) for found in splits.values()} == {1}
    assert set.union(*splits.values()) == set(SPLITS)


def test_another_data_seed_gives_other_splits():
    task = task_of("addition", digits=2)
    source = np.concatenate([part.source for part in task.domain()])
    same = (split_of(task, source, 5) == split_of(task, source, 6)).mean()
    assert same == pytest.approx(0.8**2 + 2 * 0.1**2, abs=0.03)  # chance agreement of shares 8, 1 and 1 in ten


@pytest.mark.parametrize("split", SPLITS)
def test_a_whole_split_can_be_asked_for_and_one_more_is_refused_with_the_count(split):
    task = task_of("addition", digits=1)
    source = np.concatenate([part.source for part in task.domain()])
    n = int((split_of(task, source, 641) == SPLITS.index(split)).sum())
    examples = fixed_split(task, split, n, 641)
    assert len({tuple(row) for row in examples.source.tolist()}) == len(examples) == n
    words = rf"^data\.{split} = {n + 1}, and task 'addition' has only {n} different {split} examples with these options"
    with pytest.raises(InputError, match=words):
        fixed_split(task, split, n + 1, 641)


@pytest.mark.parametrize(
    ("name", "options"), [("sortedness", {}), ("addition", {"sampling": "carry-chains"}), ("addition-text", {})]
)
@pytest.mark.parametrize("n", [1, 2])
def test_a_tiny_split_of_a_large_task_is_never_called_exhausted(name, options, n):
    task = task_of(name, **options)
    for data_seed in range(40):
        assert len(fixed_split(task, "test", n, data_seed)) == n


def test_a_balanced_split_has_equally_many_of_each_chain():
    task = task_of("addition", digits=4, sampling="carry-chains")
    examples = fixed_split(task, "validation", 103, 7)
    counts = Counter(task.strata(examples.source).tolist())
    assert counts == {0: 21, 1: 21, 2: 21, 3: 20, 4: 20}


def test_a_split_is_in_random_order():
    target = fixed_split(task_of("sortedness"), "train", 200, 7).target
    assert 60 <= int((np.diff(target) != 0).sum()) <= 140  # 99.5 changes expected, six standard deviations of 7


def test_two_test_sets_at_exact_lengths_lie_outside_the_training_problems():
    task = task_of("addition-text", max_characters=12)
    train, test = fixed_split(task, "train", 300, 9), fixed_split(task.at_length(12), "test", 100, 9)
    assert overlaps(task, {"train": train, "test": test}) == {}
    assert set(task.features(test.source)["characters"].tolist()) == {12}


def test_a_planted_leak_is_counted_whichever_way_round_its_operands_stand():
    task = task_of("addition")
    train, test = (fixed_split(task, split, 50, 641) for split in ("train", "test"))
    assert overlaps(task, {"train": train, "test": test}) == {}
    swapped = np.concatenate([train.source[:3, 4:], train.source[:3, 3:4], train.source[:3, :3]], axis=1)
    leaky = Examples.join([test, Examples(swapped, task.answer(swapped))], task.vocabulary.pad)
    assert overlaps(task, {"train": train, "validation": test, "test": leaky}) == {
        "train and test": 3,
        "validation and test": 50,
    }


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ([1, 2, 3, 4, 5], [7, 2, 9], 1),
        ([7, 2, 9], [1, 2, 3, 4, 5], 1),
        ([1, 2, 3, 4, 5], [2, 2, 2, 7], 3),
        ([2, 2, 2, 7], [1, 2, 3, 4, 5], 1),
        ([2, 2, 2], [2, 2], 2),
        ([1, 2], [3], None),
    ],
)
def test_an_overlap_counts_the_examples_of_the_second_split(first, second, shared):
    """Of the digits each stands for the sum of itself and 10; every example counts, also one that occurs twice."""
    task = task_of("addition", digits=2)
    sources = [
        np.array([[1, 0, task.vocabulary.tokens.index("+"), 1, digit] for digit in some]) for some in (first, second)
    ]
    splits = {name: Examples(rows, task.answer(rows)) for name, rows in zip(("train", "test"), sources, strict=True)}
    assert overlaps(task, splits) == ({} if shared is None else {"train and test": shared})


def test_a_leak_is_seen_between_batches_of_different_width():
    task = task_of("sortedness", min_length=3, max_length=9)
    train = fixed_split(task, "train", 60, 641)
    narrow = train.source[(train.source != task.vocabulary.pad).sum(1) == 4][:, :4]
    assert len(narrow) > 0
    leak = Examples(narrow, task.answer(narrow))
    assert overlaps(task, {"train": train, "test": leak}) == {"train and test": len(narrow)}


def test_fresh_batches_differ_from_step_to_step_and_from_seed_to_seed():
    task = task_of("addition", digits=9)
    batches = [fresh_batch(task, 7, 641, seed, step) for seed, step in ((0, 0), (0, 1), (1, 0))]
    rows = {tuple(row) for batch in batches for row in batch.source.tolist()}
    assert len(rows) == 21


def test_a_fresh_batch_is_full_even_where_few_draws_belong_to_the_train_split():
    task = task_of("addition", digits=1, base=2, leading_zeros=True)
    for data_seed in range(30):
        train = [split for split in split_of(task, next(task.domain()).source, data_seed).tolist() if split == 0]
        if train:
            assert len(fresh_batch(task, 50, data_seed, 0, 0)) == 50


def test_every_draw_of_a_step_has_random_numbers_of_its_own(monkeypatch):
    """Of nine sources this data seed leaves two for training, so that 400 rows are drawn in several goes."""
    task = task_of("addition", digits=1, base=3, leading_zeros=True)
    draw, states = type(task).draw, []

    def watched(self, random, n):
        if n > 1:  # one alone is drawn for its width
            states.append(random.bit_generator.state["state"]["state"])
        return draw(self, random, n)

    monkeypatch.setattr(type(task), "draw", watched)
    for seed, step in ((0, 0), (0, 1), (0, 10), (1, 0)):
        before = len(states)
        fresh_batch(task, 400, 15, seed, step)
        assert len(states) - before > 2
    assert len(set(states)) == len(states)


def test_fresh_batches_are_of_the_training_split_alone():
    task = task_of("addition", digits=2)
    drawn = np.concatenate([fresh_batch(task, 200, 641, 0, step).source for step in range(3)])
    assert set(split_of(task, drawn, 641).tolist()) == {SPLITS.index("train")}


def test_another_data_seed_draws_other_examples():
    """Of ten million problems, two independent sets of 300 share none; the same candidates would share two thirds."""
    task = task_of("addition", digits=4)
    sets = [set(problem_keys(task, fixed_split(task, "train", 300, seed).source)) for seed in (1, 2)]
    assert not sets[0] & sets[1]
