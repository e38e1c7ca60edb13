"""What `headway.tasks.base` asks of a task, held for every registered one."""

import json
from collections import Counter
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.config import Choice, options_of
from headway.errors import InputError
from headway.tasks import TASKS, Examples, make_task
from headway.tasks.splits import SPLITS, fixed_split, fresh_batch, overlaps, problem_keys, split_of

POSITION_KINDS = ("index", "coupled", "abacus")

VARIANTS = {
    "addition": (
        {},
        {"digits": 5, "sampling": "carry-chains", "order": "least-significant-first"},
        {"digits": 2, "base": 16, "leading_zeros": True},
    ),
    "addition-text": (
        {},
        {"order": "least-significant-first", "max_characters": 15},
        {"order": "least-significant-first", "operand_order": "least-significant-first", "max_characters": 16},
        {"operand_order": "least-significant-first", "max_characters": 12},
    ),
    "sortedness": ({}, {"min_length": 2, "max_length": 11, "negatives": "adjacent"}, {"negatives": "mixed"}),
    "copy": ({}, {"min_length": 3, "max_length": 7, "values": 4}),
    "sorting": ({}, {"min_length": 5, "max_length": 9, "values": 100}),
    "parity": ({"min_length": 8, "max_length": 14},),
}
"""Options under which a task is tested; a task that is not listed is tested with its defaults."""

CASES = [(name, options) for name in TASKS.names() for options in VARIANTS.get(name, ({},))]
every_task = pytest.mark.parametrize(
    ("name", "options"), CASES, ids=[f"{name}-{number}" for number, (name, _) in enumerate(CASES)]
)


def right_addition(options, record):
    """The target of an addition record, by Python's own integers."""
    value, places = sum(to_integer(part, options.base) for part in halves(record["input"])), []
    for _ in range(options.digits + 1):
        value, digit = divmod(value, options.base)
        places.append(digit)
    return record | {"target": places if options.order.startswith("least") else places[::-1]}


def right_addition_text(options, record):
    turn = -1 if options.operand_order.startswith("least") else 1
    a, b = (number[::turn] for number in record["input"].removesuffix(" = ").split(" + "))
    total = str(int(a) + int(b))
    return record | {"target": total[::-1] if options.order.startswith("least") else total}


def right_sortedness(options, record):
    sequence = record["sequence"]
    return {"sequence": sequence, "is_sorted": int(sequence == sorted(sequence)), "length": len(sequence)}


def right_copy(options, record):
    return record | {"target": list(record["input"])}


def right_sorting(options, record):
    return record | {"target": sorted(record["input"])}


def right_parity(options, record):
    return record | {"target": record["input"].count(1) % 2}


def halves(tokens):
    middle = len(tokens) // 2
    return tokens[:middle], tokens[middle + 1 :]


def to_integer(digits, base):
    value = 0
    for digit in digits:
        value = value * base + digit
    return value


REFERENCES = {
    "addition": right_addition,
    "addition-text": right_addition_text,
    "sortedness": right_sortedness,
    "copy": right_copy,
    "parity": right_parity,
    "sorting": right_sorting,
}
"""For each task, the right record to an input, found without the code of the task."""


@cache
def _task(name, options):
    return make_task(Choice(name=name, options=json.loads(options)))


def task_of(name, options):
    return _task(name, json.dumps(options))


def drawn(task, n=40, seed=12):
    return task.draw(np.random.default_rng(seed), n)


def records(task, examples):
    return [task.to_record(s, t) for s, t in zip(examples.source, examples.target, strict=True)]


def all_right(task, examples):
    """Whether every target is the oracle's; the padding after it may be wider."""
    return records(task, examples) == records(task, Examples(examples.source, task.answer(examples.source)))


def cut(task, row):
    """One row as a batch of its own, without padding."""
    return row[row != task.vocabulary.pad][None]


def as_tensors(task, n=6):
    """Sources, and prefixes that begin with BOS; None for a task that writes no answer."""
    examples = drawn(task, n)
    source = torch.from_numpy(np.ascontiguousarray(examples.source))
    if task.kind == "class":
        return source, None
    target = torch.from_numpy(np.ascontiguousarray(examples.target))
    return source, torch.cat([torch.full((n, 1), task.vocabulary.bos), target], dim=1)


def same_rows(one, other):
    """Equal, where one row may stand for all."""
    return bool((one == other).all())


def test_every_registered_task_has_a_reference_here():
    assert set(REFERENCES) == set(TASKS.names())


@every_task
def test_the_oracle_agrees_with_what_draw_gives(name, options):
    task = task_of(name, options)
    examples = drawn(task)
    assert len(examples) == 40
    assert np.array_equal(task.answer(examples.source), examples.target)


@every_task
def test_the_oracle_agrees_with_the_reference(name, options):
    task = task_of(name, options)
    parsed = options_of(type(task).Options, Choice(name=name, options=options), "task")
    for record in records(task, drawn(task, 200)):
        assert record == REFERENCES[name](parsed, record)


@every_task
def test_an_answer_does_not_depend_on_the_rows_beside_it(name, options):
    task = task_of(name, options)
    examples = drawn(task, 12)
    for source, target in zip(examples.source, examples.target, strict=True):
        alone = task.answer(cut(task, source))[0]
        assert np.array_equal(alone, target if task.kind == "class" else cut(task, target)[0])


@every_task
def test_special_tokens_are_tokens_of_their_own(name, options):
    vocabulary = task_of(name, options).vocabulary
    special = [token for token in (vocabulary.pad, vocabulary.bos, vocabulary.eos) if token is not None]
    assert len(set(special)) == len(special)
    assert all(0 <= token < len(vocabulary) for token in special)
    assert len(set(vocabulary.tokens)) == len(vocabulary) == len(vocabulary.tokens)


@every_task
def test_special_tokens_are_never_symbols_of_an_example(name, options):
    task = task_of(name, options)
    vocabulary, examples = task.vocabulary, drawn(task, 200)
    special = {vocabulary.pad, vocabulary.bos, vocabulary.eos}
    for row in examples.source.tolist():
        symbols = row[: row.index(vocabulary.pad)] if vocabulary.pad in row else row
        assert symbols
        assert not special & set(symbols)
        assert set(row[len(symbols) :]) <= {vocabulary.pad}
        assert all(0 <= token < len(vocabulary) for token in symbols)


@every_task
def test_a_target_is_symbols_then_one_eos_then_padding_or_else_a_class(name, options):
    task = task_of(name, options)
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


@every_task
def test_no_answer_is_longer_than_the_task_says(name, options):
    task = task_of(name, options)
    for source in drawn(task, 100).source:
        alone = cut(task, source)
        longest = task.longest_answer(alone.shape[1])
        assert (longest == 0) if task.kind == "class" else (task.answer(alone).shape[1] <= longest)


@every_task
def test_the_generator_alone_decides_what_is_drawn(name, options):
    task = task_of(name, options)
    one, again, other = drawn(task, seed=3), drawn(task, seed=3), drawn(task, seed=4)
    assert np.array_equal(one.source, again.source)
    assert not np.array_equal(one.source, other.source)


@every_task
def test_a_problem_and_its_split_do_not_depend_on_the_rows_beside_it(name, options):
    task = task_of(name, options)
    source = drawn(task, 30).source
    alone = [cut(task, row) for row in source]
    assert problem_keys(task, source) == [problem_keys(task, row)[0] for row in alone]
    assert split_of(task, source, 7).tolist() == [split_of(task, row, 7)[0] for row in alone]


@every_task
def test_the_same_data_seed_gives_the_same_splits_and_another_gives_others(name, options):
    task = task_of(name, options)
    for split in SPLITS:
        one, again, other = (fixed_split(task, split, 15, seed) for seed in (4, 4, 5))
        assert np.array_equal(one.source, again.source)
        assert np.array_equal(one.target, again.target)
        assert not np.array_equal(one.source, other.source)


@every_task
@settings(max_examples=8)
@given(data_seed=st.integers(0, 2**40))
def test_splits_are_disjoint_on_problems_for_every_data_seed(name, options, data_seed):
    task = task_of(name, options)
    splits = {split: fixed_split(task, split, n, data_seed) for split, n in zip(SPLITS, (90, 23, 31), strict=True)}
    assert overlaps(task, splits) == {}
    keys = {split: set(problem_keys(task, examples.source)) for split, examples in splits.items()}
    assert sum(map(len, keys.values())) == len(set.union(*keys.values()))
    for index, split in enumerate(SPLITS):
        assert set(split_of(task, splits[split].source, data_seed).tolist()) == {index}


@every_task
def test_a_fixed_split_holds_different_examples_equally_many_of_each_group(name, options):
    task = task_of(name, options)
    examples = fixed_split(task, "train", 131, 8)
    assert len({tuple(cut(task, row)[0].tolist()) for row in examples.source}) == len(examples) == 131
    assert all_right(task, examples)
    groups = Counter(task.strata(examples.source).tolist())
    assert set(groups) == set(task.groups())
    assert max(groups.values()) - min(groups.values()) <= 1


@every_task
@settings(max_examples=8)
@given(data_seed=st.integers(0, 2**40), seed=st.integers(0, 99), step=st.integers(0, 10**6))
def test_a_fresh_batch_never_leaves_the_train_split(name, options, data_seed, seed, step):
    task = task_of(name, options)
    batch = fresh_batch(task, 37, data_seed, seed, step)
    assert len(batch) == 37
    assert set(split_of(task, batch.source, data_seed).tolist()) == {0}
    assert all_right(task, batch)


@every_task
def test_a_fresh_batch_is_a_function_of_seed_and_step(name, options):
    task = task_of(name, options)
    one, again = fresh_batch(task, 9, 641, 3, 50), fresh_batch(task, 9, 641, 3, 50)
    assert np.array_equal(one.source, again.source)
    for seed, step in ((3, 51), (4, 50)):
        assert not np.array_equal(one.source, fresh_batch(task, 9, 641, seed, step).source)


@every_task
def test_nothing_is_drawn_wider_than_the_task_says_and_something_is_as_wide(name, options):
    task = task_of(name, options)
    shapes = [(x.source.shape[1], *x.target.shape[1:]) for x in (drawn(task, n, n) for n in (1, 2, 5, 5_000))]
    assert tuple(np.max(shapes, axis=0)) == task.widths()


@every_task
def test_every_step_of_fresh_batches_has_the_same_widths(name, options):
    task = task_of(name, options)
    for step in range(5):
        batch = fresh_batch(task, 2, 0, 1, step)
        assert (batch.source.shape[1], *batch.target.shape[1:]) == task.widths()
        assert all_right(task, batch)


@every_task
def test_a_record_survives_json(name, options):
    task = task_of(name, options)
    examples = drawn(task)
    for record, source, target in zip(records(task, examples), examples.source, examples.target, strict=True):
        read_source, read_target = task.from_record(json.loads(json.dumps(record)))
        assert read_source == cut(task, source)[0].tolist()
        assert read_target == (int(target) if task.kind == "class" else cut(task, target)[0].tolist())


@every_task
def test_features_are_whole_numbers_one_a_row_and_do_not_depend_on_the_rows_beside(name, options):
    task = task_of(name, options)
    source = drawn(task, 11).source
    features = task.features(source)
    assert features
    for row in range(11):
        alone = task.features(cut(task, source[row]))
        assert {key: int(column[row]) for key, column in features.items()} == {k: int(v[0]) for k, v in alone.items()}


@every_task
def test_groups_are_those_that_are_drawn(name, options):
    task = task_of(name, options)
    assert set(task.strata(drawn(task, 400).source).tolist()) == set(task.groups())


@every_task
def test_positions_come_from_each_row_alone(name, options):
    task = task_of(name, options)
    source, prefix = as_tensors(task)
    for kind in task.position_kinds():
        across, before = task.positions(kind, source, prefix)
        for row in range(len(source)):
            alone = task.positions(kind, source[row : row + 1], None if prefix is None else prefix[row : row + 1])
            assert same_rows(alone[0], across.expand(source.shape)[row])
            assert prefix is None or same_rows(alone[1], before.expand(prefix.shape)[row])


@every_task
def test_positions_of_the_source_do_not_depend_on_the_prefix(name, options):
    task = task_of(name, options)
    source, prefix = as_tensors(task)
    for kind in task.position_kinds():
        across, _ = task.positions(kind, source, prefix)
        alone, before = task.positions(kind, source, None)
        assert before is None
        assert same_rows(across, alone)


@every_task
def test_a_token_of_the_future_never_changes_an_earlier_position(name, options):
    task = task_of(name, options)
    source, prefix = as_tensors(task)
    if prefix is None:
        assert task.positions("index", source, None)[1] is None
        return
    random = np.random.default_rng(7)
    for kind in task.position_kinds():
        before = task.positions(kind, source, prefix)[1]
        for start in range(1, prefix.shape[1]):
            changed = prefix.clone()
            changed[:, start:] = torch.from_numpy(random.integers(0, len(task.vocabulary), changed[:, start:].shape))
            assert same_rows(task.positions(kind, source, changed)[1][:, :start], before[:, :start])


@every_task
def test_a_longer_prefix_keeps_the_earlier_positions(name, options):
    task = task_of(name, options)
    source, prefix = as_tensors(task)
    if prefix is None:
        assert task.longest_answer(source.shape[1]) == 0
        return
    for kind in task.position_kinds():
        across, before = task.positions(kind, source, prefix)
        for length in range(1, prefix.shape[1]):
            shorter = task.positions(kind, source, prefix[:, :length])
            assert same_rows(shorter[0], across)
            assert same_rows(shorter[1], before[:, :length])


@every_task
def test_positions_are_never_negative(name, options):
    task = task_of(name, options)
    source, prefix = as_tensors(task)
    for kind in task.position_kinds():
        for positions in task.positions(kind, source, prefix):
            assert positions is None or positions.min() >= 0


@every_task
@pytest.mark.parametrize("kind", POSITION_KINDS)
def test_a_kind_of_positions_is_supplied_or_refused_by_name(name, options, kind):
    task = task_of(name, options)
    source, prefix = as_tensors(task)
    if kind in task.position_kinds():
        assert task.positions(kind, source, prefix)[0].shape[1] == source.shape[1]
        return
    known = ", ".join(task.position_kinds())
    for ask in (lambda: task.check_positions(kind), lambda: task.positions(kind, source, prefix)):
        with pytest.raises(InputError, match=rf"^task '{name}' has no {kind} positions.*; it has: {known}$"):
            ask()


@every_task
def test_an_answer_is_right_only_as_a_whole_and_what_follows_its_end_does_not_count(name, options):
    task = task_of(name, options)
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


@every_task
def test_the_domain_is_listed_once_or_refused(name, options):
    task = task_of(name, options)
    size = task.domain_size()
    if size is None:
        with pytest.raises(InputError, match=rf"^the domain of {name} is too large to list; choose train, validation"):
            next(iter(task.domain()))
        return
    first = next(iter(task.domain(chunk=50)))
    assert len(first) == min(50, size)
    assert np.array_equal(task.answer(first.source), first.target)


@every_task
def test_a_length_is_exact_or_refused(name, options):
    task = task_of(name, options)
    if not task.test_lengths():
        with pytest.raises(InputError, match=rf"^{name} has one length; it cannot be set to 12$"):
            task.at_length(12)
    for length in (12, *task.test_lengths()) if task.test_lengths() else ():
        source = drawn(task.at_length(length), 5).source
        assert source.shape == (5, length)
        assert (source != task.vocabulary.pad).all()


@every_task
def test_an_example_is_shown_on_one_line_with_and_without_its_answer(name, options):
    task = task_of(name, options)
    examples = drawn(task, 3)
    for source, target in zip(examples.source, examples.target, strict=True):
        question, both = task.show(source), task.show(source, target)
        assert question
        assert both.startswith(question)
        assert len(both) > len(question)
        assert "\n" not in both
        assert not any(word in both for word in ("PAD", "BOS", "EOS"))


@every_task
def test_parts_of_different_width_are_joined_without_changing_an_example(name, options):
    task = task_of(name, options)
    examples = drawn(task, 9)
    rows = [Examples(cut(task, s), task.answer(cut(task, s))) for s in examples.source]
    joined = Examples.join(rows, task.vocabulary.pad)
    assert records(task, joined) == records(task, examples)


def with_prefix(task, n=9):
    """Sources and whole prefixes as arrays, both with two columns of padding more than any row needs."""
    source, prefix = as_tensors(task, n)
    more = ((0, 0), (0, 2))
    wider = [np.pad(r.numpy(), more, constant_values=task.vocabulary.pad) for r in (source, prefix) if r is not None]
    return wider[0], None if prefix is None else wider[1]


@every_task
def test_parts_are_those_that_are_described_and_every_token_is_a_query_and_a_key(name, options):
    task = task_of(name, options)
    source, prefix = with_prefix(task)
    tokens = source.shape[1] + (0 if prefix is None else prefix.shape[1])
    parts = task.parts(source, prefix)
    assert list(parts) == list(task.PARTS)
    assert {"diagonal", "boundary"} <= set(parts)
    assert all(part.shape == (9, tokens, tokens) and part.dtype == bool for part in parts.values())
    for meaning in task.PARTS.values():
        assert meaning[0].islower() or meaning[0] == "+"
        assert meaning.endswith(".")


@every_task
def test_padding_belongs_to_no_part_and_some_query_sees_something_of_each(name, options):
    task = task_of(name, options)
    source, prefix = with_prefix(task)
    padding = np.concatenate([source] if prefix is None else [source, prefix], axis=1) == task.vocabulary.pad
    assert padding.any()
    for part in task.parts(source, prefix).values():
        assert part.any()
        assert not part[padding].any()
        assert not part.swapaxes(1, 2)[padding].any()


@every_task
def test_parts_come_from_each_row_alone(name, options):
    task = task_of(name, options)
    source, prefix = with_prefix(task)
    parts = task.parts(source, prefix)
    for row in range(len(source)):
        rows = [cut(task, tokens[row]) for tokens in (source, prefix) if tokens is not None]
        alone = task.parts(rows[0], rows[1] if len(rows) == 2 else None)
        places = [start + np.arange(part.shape[1]) for start, part in zip((0, source.shape[1]), rows, strict=False)]
        kept = np.concatenate(places)
        for part in parts:
            assert np.array_equal(alone[part][0], parts[part][row][np.ix_(kept, kept)])


@every_task
def test_the_boundary_is_the_first_and_last_token_of_the_source_and_bos(name, options):
    task = task_of(name, options)
    source, prefix = with_prefix(task)
    boundary = task.parts(source, prefix)["boundary"]
    for row, tokens in enumerate(source.tolist()):
        length = tokens.index(task.vocabulary.pad)
        expected = {0, length - 1} | ({len(tokens)} if prefix is not None else set())
        assert set(np.flatnonzero(boundary[row, 0]).tolist()) == expected
        assert (boundary[row] == boundary[row].any(1, keepdims=True) * boundary[row, 0]).all()


@every_task
def test_every_place_has_a_name_of_its_own(name, options):
    task = task_of(name, options)
    for width in (1, 4, 40):
        answer, source = task.answer_names(width), task.token_names(width)
        assert len(set(answer)) == len(answer) == (1 if task.kind == "class" else width)
        assert len(set(source)) == len(source) == width
        assert task.token_names(width - 1) == source[:-1]
        assert task.kind == "class" or task.answer_names(width - 1) == answer[:-1]


@every_task
def test_contrasts_hold_right_answers_of_one_length_that_differ_at_their_token(name, options):
    task = task_of(name, options)
    contrasts = task.contrasts(np.random.default_rng(3), 12)
    assert len({contrast.name for contrast in contrasts}) == len(contrasts)
    for contrast in contrasts:
        sides = (contrast.base, contrast.donor)
        for examples in sides:
            assert len(examples) == 12
            assert np.array_equal(task.answer(examples.source), examples.target)
            assert (examples.source != task.vocabulary.pad).all()
            assert task.kind == "class" or (examples.target != task.vocabulary.pad).all()
        assert contrast.base.source.shape == contrast.donor.source.shape
        assert all(record == REFERENCES[name](task.options, record) for side in sides for record in records(task, side))
        base, donor = (side.target if task.kind == "class" else side.target[:, contrast.token] for side in sides)
        assert (base != donor).all()
        assert task.kind == "sequence" or contrast.token == 0


@every_task
def test_a_contrast_goes_both_ways_and_the_generator_alone_decides_it(name, options):
    task = task_of(name, options)
    one, again, other = (task.contrasts(np.random.default_rng(seed), 500) for seed in (3, 3, 4))
    assert [contrast.name for contrast in one] == [contrast.name for contrast in other]
    for first, second, third in zip(one, again, other, strict=True):
        assert np.array_equal(first.base.source, second.base.source)
        assert np.array_equal(first.donor.source, second.donor.source)
        assert not np.array_equal(first.base.source, third.base.source)
        sides = (first.base.source.tolist(), first.donor.source.tolist())
        assert sum(base < donor for base, donor in zip(*sides, strict=True)) == 250
