"""Checks of a task's information about tokens: positions, parts, names, contrasts."""

import numpy as np
import torch

from headway.tasks.base import Task
from headway.tasks.examples import PositionKind
from headway.testing.material import (
    as_tensors,
    cut,
    refused,
    same_rows,
    start_of,
    task_check,
    with_prefix,
)

POSITION_KINDS: tuple[PositionKind, ...] = ("index", "coupled", "abacus")


@task_check
def positions_come_from_each_row_alone(task: Task) -> None:
    source, prefix = as_tensors(task)
    for kind in task.position_kinds():
        across, before = task.positions(kind, source, prefix)
        for row in range(len(source)):
            alone = task.positions(kind, source[row : row + 1], None if prefix is None else prefix[row : row + 1])
            assert same_rows(alone[0], across.expand(source.shape)[row])
            own = None if prefix is None or before is None else before.expand(prefix.shape)[row]
            assert same_rows(alone[1], own)


@task_check
def positions_of_the_source_do_not_depend_on_the_prefix(task: Task) -> None:
    source, prefix = as_tensors(task)
    for kind in task.position_kinds():
        across, _ = task.positions(kind, source, prefix)
        alone, before = task.positions(kind, source, None)
        assert before is None
        assert same_rows(across, alone)


@task_check
def a_token_of_the_future_never_changes_an_earlier_position(task: Task) -> None:
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
            assert same_rows(start_of(task.positions(kind, source, changed)[1], start), start_of(before, start))


@task_check
def a_longer_prefix_keeps_the_earlier_positions(task: Task) -> None:
    source, prefix = as_tensors(task)
    if prefix is None:
        assert task.longest_answer(source.shape[1]) == 0
        return
    for kind in task.position_kinds():
        across, before = task.positions(kind, source, prefix)
        for length in range(1, prefix.shape[1]):
            shorter = task.positions(kind, source, prefix[:, :length])
            assert same_rows(shorter[0], across)
            assert same_rows(shorter[1], start_of(before, length))


@task_check
def positions_are_never_negative(task: Task) -> None:
    source, prefix = as_tensors(task)
    for kind in task.position_kinds():
        for positions in task.positions(kind, source, prefix):
            assert positions is None or positions.min() >= 0


@task_check
def a_kind_of_positions_is_supplied_or_refused_by_name(task: Task) -> None:
    for kind in POSITION_KINDS:
        source, prefix = as_tensors(task)
        if kind in task.position_kinds():
            assert task.positions(kind, source, prefix)[0].shape[1] == source.shape[1]
            continue
        known = ", ".join(task.position_kinds())
        words = rf"^task '{task.name}' has no {kind} positions.*; it has: {known}$"
        with refused(words):
            task.check_positions(kind)
        with refused(words):
            task.positions(kind, source, prefix)


@task_check
def parts_are_those_that_are_described_and_every_token_is_a_query_and_a_key(task: Task) -> None:
    source, prefix = with_prefix(task)
    tokens = source.shape[1] + (0 if prefix is None else prefix.shape[1])
    parts = task.parts(source, prefix)
    assert list(parts) == list(task.PARTS)
    assert {"diagonal", "boundary"} <= set(parts)
    assert all(part.shape == (9, tokens, tokens) and part.dtype == bool for part in parts.values())
    for meaning in task.PARTS.values():
        assert meaning[0].islower() or meaning[0] == "+"
        assert meaning.endswith(".")


@task_check
def padding_belongs_to_no_part_and_some_query_sees_something_of_each(task: Task) -> None:
    source, prefix = with_prefix(task)
    padding = np.concatenate([source] if prefix is None else [source, prefix], axis=1) == task.vocabulary.pad
    assert padding.any()
    for part in task.parts(source, prefix).values():
        assert part.any()
        assert not part[padding].any()
        assert not part.swapaxes(1, 2)[padding].any()


@task_check
def parts_come_from_each_row_alone(task: Task) -> None:
    source, prefix = with_prefix(task)
    parts = task.parts(source, prefix)
    for row in range(len(source)):
        rows = [cut(task, tokens[row]) for tokens in (source, prefix) if tokens is not None]
        alone = task.parts(rows[0], rows[1] if len(rows) == 2 else None)
        places = [start + np.arange(part.shape[1]) for start, part in zip((0, source.shape[1]), rows, strict=False)]
        kept = np.concatenate(places)
        for part in parts:
            assert np.array_equal(alone[part][0], parts[part][row][np.ix_(kept, kept)])


@task_check
def the_boundary_is_the_first_and_last_token_of_the_source_and_bos(task: Task) -> None:
    source, prefix = with_prefix(task)
    boundary = task.parts(source, prefix)["boundary"]
    for row, tokens in enumerate(source.tolist()):
        length = tokens.index(task.vocabulary.pad)
        expected = {0, length - 1} | ({len(tokens)} if prefix is not None else set())
        assert set(np.flatnonzero(boundary[row, 0]).tolist()) == expected
        assert (boundary[row] == boundary[row].any(1, keepdims=True) * boundary[row, 0]).all()


@task_check
def every_place_has_a_name_of_its_own(task: Task) -> None:
    for width in (1, 4, 40):
        answer, source = task.answer_names(width), task.token_names(width)
        assert len(set(answer)) == len(answer) == (1 if task.kind == "class" else width)
        assert len(set(source)) == len(source) == width
        assert task.token_names(width - 1) == source[:-1]
        assert task.kind == "class" or task.answer_names(width - 1) == answer[:-1]


@task_check
def a_contrast_goes_both_ways_and_the_generator_alone_decides_it(task: Task) -> None:
    one, again, other = (task.contrasts(np.random.default_rng(seed), 500) for seed in (3, 3, 4))
    assert [contrast.name for contrast in one] == [contrast.name for contrast in other]
    for first, second, third in zip(one, again, other, strict=True):
        assert np.array_equal(first.base.source, second.base.source)
        assert np.array_equal(first.patch_source.source, second.patch_source.source)
        assert not np.array_equal(first.base.source, third.base.source)
        sides = (first.base.source.tolist(), first.patch_source.source.tolist())
        assert sum(base < patch_source for base, patch_source in zip(*sides, strict=True)) == 250


@task_check
def contrasts_hold_right_answers_of_one_length_that_differ_at_their_token(task: Task) -> None:
    contrasts = task.contrasts(np.random.default_rng(3), 12)
    assert len({contrast.name for contrast in contrasts}) == len(contrasts)
    for contrast in contrasts:
        sides = (contrast.base, contrast.patch_source)
        for examples in sides:
            assert len(examples) == 12
            assert np.array_equal(task.answer(examples.source), examples.target)
            assert (examples.source != task.vocabulary.pad).all()
            assert task.kind == "class" or (examples.target != task.vocabulary.pad).all()
        assert contrast.base.source.shape == contrast.patch_source.source.shape
        base, patch_source = (side.target if task.kind == "class" else side.target[:, contrast.token] for side in sides)
        assert (base != patch_source).all()
        assert task.kind == "sequence" or contrast.token == 0
