"""A sum is the same sum whichever way its operands are written; only the places of their digits change."""

import json
import subprocess
from functools import cache
from importlib.resources import files

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.config import Choice
from headway.errors import InputError
from headway.tasks import make_task
from headway.tasks.addition_text import CHARACTERS
from headway.tasks.ripples import FAMILIES
from headway.tasks.splits import fixed_split, overlaps, problem_keys, split_of

MOST, LEAST = "most-significant-first", "least-significant-first"
pairs = st.lists(st.tuples(*[st.integers(0, 10**30) | st.integers(0, 120)] * 2), min_size=1, max_size=5)


@cache
def task_of(operand_order, order=LEAST, **more):
    options = {"order": order, "operand_order": operand_order, **more}
    return make_task(Choice(name="addition-text", options=options))


def written(number, operand_order):
    return str(number)[:: 1 if operand_order == MOST else -1]


def rows_of(task, sums):
    texts = [" + ".join(written(n, task.options.operand_order) for n in pair) + " = " for pair in sums]
    width = max(map(len, texts))
    padding = [task.vocabulary.pad]
    return np.array([[CHARACTERS.index(c) for c in text] + padding * (width - len(text)) for text in texts])


def turned(sums, width):
    """For every row, the place in most-significant-first text of each token of least-significant-first text."""
    places = np.tile(np.arange(width), (len(sums), 1))
    for row, (a, b) in zip(places, sums, strict=True):
        first, second = len(str(a)), len(str(b))
        row[:first] = row[:first][::-1].copy()
        row[first + 3 : first + 3 + second] = row[first + 3 : first + 3 + second][::-1].copy()
    return places


def test_123_plus_456_with_the_units_first():
    task = task_of(LEAST)
    source = rows_of(task, [(123, 456)])
    assert task.show(source[0]) == "321 + 654 = "
    assert task.show(source[0], task.answer(source)[0]) == "321 + 654 = -> 975"
    assert task.to_record(source[0], task.answer(source)[0]) == {"input": "321 + 654 = ", "target": "975"}
    assert task.from_record({"input": "321 + 654 = ", "target": "975"})[0] == source[0].tolist()


@pytest.mark.parametrize("order", [MOST, LEAST])
@given(sums=pairs)
def test_the_answer_is_the_sum_of_the_integers(sums, order):
    task = task_of(LEAST, order)
    for source, target, (a, b) in zip(*(rows := rows_of(task, sums), task.answer(rows)), sums, strict=True):
        assert task.to_record(source, target)["target"] == written(a + b, order)
        assert task.from_record(task.to_record(source, target))[0] == source[source != task.vocabulary.pad].tolist()


@given(sums=pairs)
def test_problem_split_features_and_difficulty_do_not_depend_on_the_order(sums):
    one, other = task_of(MOST), task_of(LEAST)
    first, second = rows_of(one, sums), rows_of(other, sums)
    assert problem_keys(one, first) == problem_keys(other, second)
    assert split_of(one, first, 641).tolist() == split_of(other, second, 641).tolist()
    for name in ("features", "difficulty"):
        expected, found = getattr(one, name)(first), getattr(other, name)(second)
        assert {k: v.tolist() for k, v in expected.items()} == {k: v.tolist() for k, v in found.items()}


@pytest.mark.parametrize("order", [MOST, LEAST])
@given(sums=pairs)
def test_parts_are_those_of_the_turned_digits(sums, order):
    """Held to the other order, whose parts are tested against loops over Python's integers."""
    one, other = task_of(MOST, order), task_of(LEAST, order)
    first, second = rows_of(one, sums), rows_of(other, sums)
    prefix = np.pad(one.answer(first), ((0, 0), (1, 0)), constant_values=one.vocabulary.bos)
    width = first.shape[1]
    expected, found = one.parts(first, prefix), other.parts(second, prefix)
    rest = np.arange(width, width + prefix.shape[1])
    for row, places in enumerate(turned(sums, width)):
        order_of = np.concatenate([places, rest])
        for name in found:
            if name != "boundary":  # the first token of the text, whichever digit it is
                assert np.array_equal(found[name][row], expected[name][row][np.ix_(order_of, order_of)]), name


def test_both_kinds_of_digit_places_are_the_significance():
    task = task_of(LEAST)
    source = torch.from_numpy(rows_of(task, [(95, 7), (1, 234)]))
    prefix = torch.full((2, 4), task.vocabulary.bos)
    expected = [[1, 2, 0, 0, 0, 1, 0, 0, 0, 0], [1, 0, 0, 0, 1, 2, 3, 0, 0, 0]]
    abacus, coupled = (task.positions(kind, source, prefix) for kind in ("abacus", "coupled"))
    assert abacus[0].tolist() == coupled[0].tolist() == expected
    # An abacus place is that of the digit a token holds, a coupled one that of the digit to be written next.
    assert abacus[1].tolist() == [[0, 1, 2, 3]]
    assert coupled[1].tolist() == [[1, 2, 3, 4]]
    answer_first = task_of(LEAST, MOST)
    assert answer_first.position_kinds() == ("index", "abacus")


@pytest.mark.parametrize("family", ["sums", *FAMILIES])
def test_sets_of_a_length_hold_the_same_sums_in_either_order(family):
    one, other = (task_of(order).for_lengths(family, 64).draw(np.random.default_rng(5), 40) for order in (MOST, LEAST))
    assert problem_keys(task_of(MOST), one.source) == problem_keys(task_of(LEAST), other.source)
    assert np.array_equal(one.target, other.target)


def test_splits_and_contrasts_are_the_same_sums():
    one, other = task_of(MOST), task_of(LEAST)
    assert problem_keys(one, fixed_split(one, "train", 50, 3).source) == problem_keys(
        other, fixed_split(other, "train", 50, 3).source
    )
    drawn = [task.contrasts(np.random.default_rng(2), 20) for task in (one, other)]
    for first, second in zip(*drawn, strict=True):
        assert (first.name, first.token) == (second.name, second.token)
        for part in ("base", "patch_source"):
            expected, found = getattr(first, part), getattr(second, part)
            assert problem_keys(one, expected.source) == problem_keys(other, found.source)
            assert np.array_equal(expected.target, found.target)
    tests = {split: fixed_split(other, split, 60, 641) for split in ("train", "validation", "test")}
    assert overlaps(other, tests) == {}


@pytest.mark.parametrize("text", ["3210 + 4 = ", "4 + 00 = "])
def test_an_operand_whose_top_digit_is_0_is_refused(text):
    with pytest.raises(InputError, match=r"^operand \d*0 is written least significant digit first and ends with 0$"):
        task_of(LEAST).from_record({"input": text, "target": "127"})
    assert task_of(LEAST).from_record({"input": "01 + 0 = ", "target": "01"})


PAGE = """
const found = PAGES.map((page) => {
  const run = {
    task: { name: "addition-text", kind: "sequence", longest: 32, page },
    vocabulary: { tokens: [..."0123456789+= ", "BOS", "EOS", "PAD"], bos: 13, eos: 14 },
    examples: [{ source: [1, 12, 10, 12, 2] }],
  };
  const read = PageTasks.read(run, "95+7");
  return { ...read, answer: PageTasks.rightAnswer(run, read.source), refused: PageTasks.read(run, "095+7").problem };
});
console.log(JSON.stringify(found));
"""


def test_the_explorer_takes_numbers_as_people_write_them_and_says_how_the_model_reads_them():
    page = files("headway").joinpath("explorer/page/app-tasks.js").read_text(encoding="utf-8")
    said = [dict(task_of(order).page()) for order in (MOST, LEAST)]
    script = f"{page}\nconst PAGES = {json.dumps(said)};\n{PAGE}"
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)
    most, least = json.loads(done.stdout)
    assert "".join(CHARACTERS[token] for token in most["source"]) == "95 + 7 = "
    assert "".join(CHARACTERS[token] for token in least["source"]) == "59 + 7 = "
    assert most["text"] == least["text"] == "95 + 7"
    assert most["answer"] == least["answer"] == [2, 0, 1, 14]
    assert most["note"] == ""
    assert least["note"] == "The model reads each number with its units first: 59 + 7."
    assert most["refused"] == least["refused"] == "A number does not begin with 0 here, unless it is 0."
