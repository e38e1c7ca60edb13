"""Sortedness: labels against `sorted`, and the three kinds of unsorted sequences."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import InputError
from headway.tasks.sortedness import Sortedness, SortednessOptions
from headway.tasks.splits import problem_keys

NEGATIVES = ("swaps", "adjacent", "mixed")


@cache
def task_of(**options):
    return Sortedness(SortednessOptions(**options))


def sequences(task, source):
    return [[value for value in row if value != task.vocabulary.pad] for row in source.tolist()]


def unsorted_rows(task, seed, n):
    examples = task.draw(np.random.default_rng(seed), n)
    return sequences(task, examples.source[examples.target == 0])


def inversions(row):
    return sum(a > b for a, b in combinations(row, 2))


def swaps_needed(row):
    """The fewest swaps that sort a row of different values: its length less its cycles."""
    order = sorted(range(len(row)), key=row.__getitem__)
    seen, cycles = set(), 0
    for start in order:
        cycles += start not in seen
        while start not in seen:
            seen.add(start)
            start = order[start]
    return len(row) - cycles


@given(
    st.integers(0, 2**32),
    st.sampled_from(NEGATIVES),
    st.tuples(st.integers(2, 9), st.integers(0, 7)),
    st.sampled_from([2, 3, 100]),
)
def test_labels_agree_with_sorted_and_half_of_the_rows_are_sorted(seed, negatives, lengths, values):
    low, more = lengths
    task = task_of(min_length=low, max_length=low + more, values=values, negatives=negatives)
    examples = task.draw(np.random.default_rng(seed), 21)
    rows = sequences(task, examples.source)
    assert examples.target.tolist() == [int(row == sorted(row)) for row in rows]
    assert abs(2 * examples.target.sum() - 21) == 1
    assert all(low <= len(row) <= low + more and max(row) < values for row in rows)


def test_every_length_of_the_range_is_drawn_and_both_labels_have_them_alike():
    examples = task_of().draw(np.random.default_rng(1), 4_000)
    lengths = task_of().features(examples.source)["length"]
    assert set(lengths.tolist()) == set(range(8, 17))
    mean = [lengths[examples.target == label].mean() for label in (0, 1)]
    # Lengths 8 to 16 have a standard deviation of 2.6; five standard errors of 2,000 rows are 0.3.
    assert mean == pytest.approx([12, 12], abs=0.3)


def test_values_cover_0_to_99():
    source = task_of().draw(np.random.default_rng(1), 1_000).source
    assert set(source.ravel().tolist()) - {task_of().vocabulary.pad} == set(range(100))


def test_adjacent_negatives_have_exactly_one_inversion():
    for values in (2, 5, 100):
        task = task_of(negatives="adjacent", min_length=2, max_length=11, values=values)
        assert {inversions(row) for row in unsorted_rows(task, 2, 400)} == {1}


def test_the_inversion_of_adjacent_negatives_stands_anywhere():
    task = task_of(negatives="adjacent", min_length=9, max_length=9)
    places = [int(np.argmax(np.diff(row) < 0)) for row in unsorted_rows(task, 2, 800)]
    assert set(places) == set(range(8))


def test_swapped_negatives_are_unsorted_and_at_most_the_promised_swaps_away_from_sorted():
    task = task_of(negatives="swaps", min_length=4, max_length=15, values=65_536)
    rows = [row for row in unsorted_rows(task, 3, 800) if len(set(row)) == len(row)]
    assert len(rows) > 350
    for row in rows:
        assert 1 <= swaps_needed(row) <= max(2, len(row) // 3)
    for length in range(4, 16):
        assert max(swaps_needed(row) for row in rows if len(row) == length) == max(2, length // 3)


def test_mixed_negatives_are_of_both_kinds_in_about_equal_parts():
    task = task_of(negatives="mixed", min_length=30, max_length=33)
    rows = unsorted_rows(task, 4, 2_000)
    share = np.mean([inversions(row) == 1 for row in rows])
    # Ten swaps leave a single inversion next to never; five standard errors of 1,000 rows are 0.08.
    assert share == pytest.approx(0.5, abs=0.08)


def test_ties_are_sorted():
    task = task_of()
    assert task.answer(np.array([[2, 7, 7, 31, 90], [2, 7, 31, 7, 90], [5, 5, 5, 5, 5]])).tolist() == [1, 0, 1]


def test_padding_changes_neither_answer_nor_features_nor_problem():
    task = task_of()
    source = np.array([[4, 2, 2, 9], [1, 1, 3, 8]])
    padded = np.pad(source, ((0, 0), (0, 3)), constant_values=task.vocabulary.pad)
    assert task.answer(padded).tolist() == task.answer(source).tolist() == [0, 1]
    assert problem_keys(task, padded) == problem_keys(task, source)
    for features in (task.features(source), task.features(padded)):
        found = {name: column.tolist() for name, column in features.items()}
        assert found == {"length": [4, 4], "descents": [1, 0], "largest_descent": [2, 0], "ties": [1, 1]}


def test_another_order_is_another_problem():
    task = task_of()
    assert len(set(problem_keys(task, np.array([[1, 2, 3], [1, 3, 2], [2, 1, 3]])))) == 3


@pytest.mark.parametrize("length", [2, 32, 256])
def test_a_length_can_be_fixed(length):
    task = task_of(negatives="mixed").at_length(length)
    examples = task.draw(np.random.default_rng(5), 9)
    assert {len(row) for row in sequences(task, examples.source)} == {length}
    assert task.options.negatives == "mixed"


def test_the_default_lengths_have_test_sets():
    assert task_of().test_lengths() == (32, 64, 128, 256)


def test_lengths_that_cannot_be_are_refused():
    with pytest.raises(InputError, match=r"^sortedness at length 1 has no unsorted sequences; at least 2 needed$"):
        task_of().at_length(1)
    with pytest.raises(InputError, match=r"^task\.min_length = 9 is larger than task\.max_length = 5$"):
        task_of(min_length=9, max_length=5)


def test_groups_are_the_two_labels():
    examples = task_of().draw(np.random.default_rng(5), 9)
    assert task_of().groups() == (0, 1)
    assert (task_of().strata(examples.source) == examples.target).all()


def test_a_record_is_the_one_of_the_course():
    task = task_of()
    source = np.array([2, 7, 31, 7, 90, 100, 100])
    record = {"sequence": [2, 7, 31, 7, 90], "is_sorted": 0, "length": 5}
    assert task.to_record(source, task.answer(source[None])[0]) == record
    assert task.from_record(record) == ([2, 7, 31, 7, 90], 0)
    assert task.show(source) == "2 7 31 7 90"
    assert task.show(source, np.array(0)) == "2 7 31 7 90 -> 0"


def test_a_sequence_of_one_is_sorted():
    assert task_of().from_record({"sequence": [7], "is_sorted": 1, "length": 1}) == ([7], 1)


def test_the_parts_of_a_sequence_with_two_inversions():
    task = task_of()
    source = np.array([[2, 31, 7, 7, 90, 8], [5, 6, 100, 100, 100, 100]])
    parts = task.parts(source, None)
    found = {
        name: [[set(np.flatnonzero(keys).tolist()) for keys in row] for row in part] for name, part in parts.items()
    }
    nothing = [set()] * 4
    assert found["inversion"] == [[{1, 2, 4, 5}] * 6, [set(), set(), *nothing]]
    assert found["diagonal"] == [[{0}, {1}, {2}, {3}, {4}, {5}], [{0}, {1}, *nothing]]
    assert found["next_element"] == [[{1}, {2}, {3}, {4}, {5}, set()], [{1}, set(), *nothing]]
    assert found["previous_element"] == [[set(), {0}, {1}, {2}, {3}, {4}], [set(), {0}, *nothing]]
    assert found["boundary"] == [[{0, 5}] * 6, [{0, 1}, {0, 1}, *nothing]]


@given(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=7), min_size=1, max_size=4))
def test_an_inversion_is_both_elements_of_a_descent(rows):
    task = task_of()
    width = max(map(len, rows))
    inversion = task.parts(np.array([row + [100] * (width - len(row)) for row in rows]), None)["inversion"]
    for row, part in zip(rows, inversion, strict=True):
        keys = {k for left in range(len(row) - 1) if row[left] > row[left + 1] for k in (left, left + 1)}
        assert [set(np.flatnonzero(seen).tolist()) for seen in part[: len(row)]] == [keys] * len(row)
        assert not part[len(row) :].any()


@pytest.mark.parametrize(("length", "values"), [(16, 100), (2, 2), (5, 2), (3, 65_536)])
def test_the_contrast_is_one_rising_pair_swapped_half_each_way(length, values):
    task = task_of(min_length=2, max_length=length, values=values)
    (contrast,) = task.contrasts(np.random.default_rng(6), 300)
    assert (contrast.name, contrast.about, contrast.token) == ("one adjacent inversion", "inversion", 0)
    assert contrast.base.source.shape == contrast.patch_source.source.shape == (300, length)
    assert contrast.base.target.tolist() == [1, 0] * 150
    assert contrast.patch_source.target.tolist() == [0, 1] * 150
    for pair in zip(contrast.base.source.tolist(), contrast.patch_source.source.tolist(), strict=True):
        swapped, ordered = sorted(pair, key=lambda row: row == sorted(row))
        assert ordered == sorted(swapped)
        assert inversions(swapped) == 1


def test_the_swapped_pair_of_the_contrast_stands_anywhere():
    (contrast,) = task_of(min_length=9, max_length=9).contrasts(np.random.default_rng(2), 600)
    apart = contrast.base.source != contrast.patch_source.source
    assert set(np.argmax(apart, axis=1).tolist()) == set(range(8))


def test_a_class_is_the_only_answer_to_name():
    assert task_of().answer_names(1) == ["class"]


def test_bands_have_many_ties_and_small_gaps_and_every_width() -> None:
    whole, bands = (task_of(spread=spread, negatives="adjacent") for spread in ("whole", "bands"))
    examples = bands.draw(np.random.default_rng(0), 4_000)
    assert examples.target.mean() == 0.5
    assert np.array_equal(bands.answer(examples.source), examples.target)
    inside = np.where(examples.source == bands.vocabulary.pad, -1, examples.source)
    highest, lowest = inside.max(1), np.where(inside < 0, 99, inside).min(1)
    assert (lowest.min(), highest.max()) == (0, 99)
    spread = highest - lowest + 1
    # Half of the bands are log-uniform from 2 to 100: a tenth of all rows come from less than 4.4 values.
    assert 0.08 < (spread < 4.4).mean() < 0.16
    assert 0.4 < (spread > 60).mean() < 0.6
    natural = whole.draw(np.random.default_rng(0), 4_000).source
    ties = [(task.features(source)["ties"] > 0).mean() for task, source in ((whole, natural), (bands, examples.source))]
    assert ties[1] > 1.15 * ties[0]


def test_sets_for_lengths_are_natural_whatever_training_draws() -> None:
    for name in ("swaps", "adjacent", "matched"):
        one, other = (task_of(spread=spread).for_lengths(name, 32) for spread in ("whole", "bands"))
        drawn = [task.draw(np.random.default_rng(1), 20).source for task in (one, other)]
        assert np.array_equal(*drawn)


@given(st.sampled_from(["swaps", "adjacent"]), st.integers(2, 9), st.integers(0, 1_000))
def test_pieces_are_neighbours_of_the_sequence_with_its_answer(negatives, length, seed):
    task = task_of(negatives=negatives, min_length=9, max_length=9, values=20)
    whole = task.draw(np.random.default_rng(seed), 12)
    pieces = task.pieces(np.random.default_rng(seed), whole.source, length)
    assert (task.answer(pieces) == whole.target).all()
    for piece, row in zip(pieces.tolist(), whole.source.tolist(), strict=True):
        assert piece in [row[start : start + length] for start in range(10 - length)]


def test_every_piece_that_has_the_answer_can_be_cut():
    task = task_of(min_length=6, max_length=6)
    source = np.array([[1, 2, 9, 3, 10, 11], [1, 2, 3, 4, 5, 6]])
    found = {tuple(map(tuple, task.pieces(np.random.default_rng(seed), source, 3))) for seed in range(200)}
    assert {one for one, _ in found} == {(2, 9, 3), (9, 3, 10)}
    assert {other[0] for _, other in found} == {1, 2, 3, 4}
