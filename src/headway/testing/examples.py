"""Checks of a task's examples: drawing, answers, splits and records."""

import json
from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch

from headway.tasks.attack_families import ListedFamily
from headway.tasks.base import Task
from headway.tasks.examples import Examples
from headway.tasks.splits import SPLITS, fixed_split, fresh_batch, overlaps, problem_keys, split_of
from headway.testing.material import (
    all_right,
    cut,
    drawn,
    records,
    refused,
    task_check,
)


@task_check
def the_oracle_agrees_with_what_draw_gives(task: Task) -> None:
    examples = drawn(task)
    assert len(examples) == 40
    assert np.array_equal(task.answer(examples.source), examples.target)


@task_check
def an_answer_does_not_depend_on_the_rows_beside_it(task: Task) -> None:
    examples = drawn(task, 12)
    for source, target in zip(examples.source, examples.target, strict=True):
        alone = task.answer(cut(task, source))[0]
        assert np.array_equal(alone, target if task.kind == "class" else cut(task, target)[0])


@task_check
def special_tokens_are_tokens_of_their_own(task: Task) -> None:
    vocabulary = task.vocabulary
    special = [token for token in (vocabulary.pad, vocabulary.bos, vocabulary.eos) if token is not None]
    assert len(set(special)) == len(special)
    assert all(0 <= token < len(vocabulary) for token in special)
    assert len(set(vocabulary.tokens)) == len(vocabulary) == len(vocabulary.tokens)


@task_check
def special_tokens_are_never_symbols_of_an_example(task: Task) -> None:
    vocabulary, examples = task.vocabulary, drawn(task, 200)
    special = {vocabulary.pad, vocabulary.bos, vocabulary.eos}
    for row in examples.source.tolist():
        symbols = row[: row.index(vocabulary.pad)] if vocabulary.pad in row else row
        assert symbols
        assert not special & set(symbols)
        assert set(row[len(symbols) :]) <= {vocabulary.pad}
        assert all(0 <= token < len(vocabulary) for token in symbols)


@task_check
def a_target_is_symbols_then_one_eos_then_padding_or_else_a_class(task: Task) -> None:
    vocabulary, target = task.vocabulary, drawn(task, 200).target
    if task.kind == "class":
        assert target.shape == (200,)
        assert set(target.tolist()) == set(range(task.n_classes))
        return
    for row in target.tolist():
        end = row.index(vocabulary.eos)
        assert end > 0
        assert not {vocabulary.pad, vocabulary.bos} & set(row[:end])
        assert set(row[end + 1 :]) <= {vocabulary.pad}


@task_check
def no_answer_is_longer_than_the_task_says(task: Task) -> None:
    for source in drawn(task, 100).source:
        alone = cut(task, source)
        longest = task.longest_answer(alone.shape[1])
        assert (longest == 0) if task.kind == "class" else (task.answer(alone).shape[1] <= longest)


@task_check
def the_generator_alone_decides_what_is_drawn(task: Task) -> None:
    one, again, other = drawn(task, seed=3), drawn(task, seed=3), drawn(task, seed=4)
    assert np.array_equal(one.source, again.source)
    assert not np.array_equal(one.source, other.source)


@task_check
def a_problem_and_its_split_do_not_depend_on_the_rows_beside_it(task: Task) -> None:
    source = drawn(task, 30).source
    alone = [cut(task, row) for row in source]
    assert problem_keys(task, source) == [problem_keys(task, row)[0] for row in alone]
    assert split_of(task, source, 7).tolist() == [split_of(task, row, 7)[0] for row in alone]


@task_check
def the_same_data_seed_gives_the_same_splits_and_another_gives_others(task: Task) -> None:
    for split in SPLITS:
        one, again, other = (fixed_split(task, split, 15, seed) for seed in (4, 4, 5))
        assert np.array_equal(one.source, again.source)
        assert np.array_equal(one.target, again.target)
        assert not np.array_equal(one.source, other.source)


@task_check
def splits_are_disjoint_on_problems_for_every_data_seed(task: Task, data_seeds: Sequence[int] = (0, 641)) -> None:
    for data_seed in data_seeds:
        splits = {split: fixed_split(task, split, n, data_seed) for split, n in zip(SPLITS, (90, 23, 31), strict=True)}
        assert overlaps(task, {str(split): examples for split, examples in splits.items()}) == {}
        keys = {split: set(problem_keys(task, examples.source)) for split, examples in splits.items()}
        assert sum(map(len, keys.values())) == len(set.union(*keys.values()))
        for index, split in enumerate(SPLITS):
            assert set(split_of(task, splits[split].source, data_seed).tolist()) == {index}


@task_check
def a_fixed_split_holds_different_examples_equally_many_of_each_group(task: Task) -> None:
    examples = fixed_split(task, "train", 131, 8)
    assert len({tuple(cut(task, row)[0].tolist()) for row in examples.source}) == len(examples) == 131
    assert all_right(task, examples)
    groups = Counter(task.strata(examples.source).tolist())
    assert set(groups) == set(task.groups())
    assert max(groups.values()) - min(groups.values()) <= 1


@task_check
def a_fresh_batch_never_leaves_the_train_split(
    task: Task, steps: Sequence[tuple[int, int, int]] = ((0, 0, 0), (641, 3, 50))
) -> None:
    for data_seed, seed, step in steps:
        batch = fresh_batch(task, 37, data_seed, seed, step)
        assert len(batch) == 37
        assert set(split_of(task, batch.source, data_seed).tolist()) == {0}
        assert all_right(task, batch)


@task_check
def a_fresh_batch_is_a_function_of_seed_and_step(task: Task) -> None:
    one, again = fresh_batch(task, 9, 641, 3, 50), fresh_batch(task, 9, 641, 3, 50)
    assert np.array_equal(one.source, again.source)
    for seed, step in ((3, 51), (4, 50)):
        assert not np.array_equal(one.source, fresh_batch(task, 9, 641, seed, step).source)


@task_check
def nothing_is_drawn_wider_than_the_task_says_and_something_is_as_wide(task: Task) -> None:
    shapes = [(x.source.shape[1], *x.target.shape[1:]) for x in (drawn(task, n, n) for n in (1, 2, 5, 5_000))]
    assert tuple(np.max(shapes, axis=0)) == task.widths()


@task_check
def every_step_of_fresh_batches_has_the_same_widths(task: Task) -> None:
    for step in range(5):
        batch = fresh_batch(task, 2, 0, 1, step)
        assert (batch.source.shape[1], *batch.target.shape[1:]) == task.widths()
        assert all_right(task, batch)


@task_check
def a_record_survives_json(task: Task) -> None:
    examples = drawn(task)
    for record, source, target in zip(records(task, examples), examples.source, examples.target, strict=True):
        read_source, read_target = task.from_record(json.loads(json.dumps(record)))
        assert read_source == cut(task, source)[0].tolist()
        assert read_target == (int(target) if task.kind == "class" else cut(task, target)[0].tolist())


@task_check
def features_are_whole_numbers_one_a_row_and_do_not_depend_on_the_rows_beside(task: Task) -> None:
    source = drawn(task, 11).source
    features = task.features(source)
    assert features
    for row in range(11):
        alone = task.features(cut(task, source[row]))
        assert {key: int(column[row]) for key, column in features.items()} == {k: int(v[0]) for k, v in alone.items()}


@task_check
def groups_are_those_that_are_drawn(task: Task) -> None:
    assert set(task.strata(drawn(task, 400).source).tolist()) == set(task.groups())


@task_check
def an_answer_is_right_only_as_a_whole_and_what_follows_its_end_does_not_count(task: Task) -> None:
    target = torch.from_numpy(np.ascontiguousarray(drawn(task, 7).target))
    assert task.correct(target, target).all()
    if task.kind == "class":
        assert not task.correct(1 - target, target).any()
        return
    longer = torch.cat([target, torch.full((7, 2), task.vocabulary.pad)], dim=1)
    beyond = torch.where(longer == task.vocabulary.pad, 0, longer)
    assert task.correct(beyond, longer).all()
    for column in range(target.shape[1]):
        wrong = target.clone()
        wrong[:, column] += 1
        counts = target[:, column] != task.vocabulary.pad
        assert (task.correct(wrong, target) == ~counts).all()


@task_check
def the_domain_is_listed_once_or_refused(task: Task) -> None:
    size = task.domain_size()
    if size is None:
        with refused(rf"^the domain of {task.name} is too large to list; choose train, validation"):
            next(iter(task.domain()))
        return
    first = next(iter(task.domain(chunk=50)))
    assert len(first) == min(50, size)
    assert np.array_equal(task.answer(first.source), first.target)


@task_check
def a_length_is_exact_or_refused(task: Task) -> None:
    if not task.test_lengths():
        with refused(rf"^{task.name} has one length; it cannot be set to 12$"):
            task.at_length(12)
    for length in (12, *task.test_lengths()) if task.test_lengths() else ():
        source = drawn(task.at_length(length), 5).source
        assert source.shape == (5, length)
        assert (source != task.vocabulary.pad).all()


@task_check
def an_example_is_shown_on_one_line_with_and_without_its_answer(task: Task) -> None:
    examples = drawn(task, 3)
    for source, target in zip(examples.source, examples.target, strict=True):
        question, both = task.show(source), task.show(source, target)
        assert question
        assert both.startswith(question)
        assert len(both) > len(question)
        assert "\n" not in both
        assert not any(word in both for word in ("PAD", "BOS", "EOS"))


@task_check
def parts_of_different_width_are_joined_without_changing_an_example(task: Task) -> None:
    examples = drawn(task, 9)
    rows = [Examples(cut(task, s), task.answer(cut(task, s))) for s in examples.source]
    joined = Examples.join(rows, task.vocabulary.pad)
    assert records(task, joined) == records(task, examples)


@task_check
def what_is_drawn_is_valid_and_what_holds_a_special_token_is_not(task: Task) -> None:
    source = drawn(task, 60).source
    assert task.is_valid(source).all()
    alone = cut(task, source[0])
    for special in (task.vocabulary.pad, task.vocabulary.bos, task.vocabulary.eos):
        if special is not None and alone.shape[1] > 1:
            spoilt = alone.copy()
            spoilt[0, 0] = special
            assert not task.is_valid(spoilt).any()


@task_check
def attack_families_are_drawn_by_the_generator_alone_and_hold_valid_inputs(task: Task) -> None:
    length = task.test_lengths()[0] if task.test_lengths() else None
    at = task if length is None else task.at_length(length)
    families = task.attack_families(length)
    assert families
    for name, family in families.items():
        assert family.about
        if isinstance(family, ListedFamily):
            source = again = family.pick(np.arange(family.size)[:200])
        else:
            source, again = (family.draw(np.random.default_rng(3), 200) for _ in range(2))
        assert np.array_equal(source, again), name
        assert at.is_valid(source).any(), name
