"""The sets made for one length: what they hold, and that nobody trained on them."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ks_2samp

from headway.config import Choice
from headway.errors import InputError
from headway.evaluation import load
from headway.length_analysis.sets import _draw, length_set, plan_lengths
from headway.tasks import TASKS, Examples, Task, make_task
from headway.tasks.files import make_splits
from headway.tasks.splits import SPLITS, problem_keys, split_of
from headway.training import train
from tests.length_analysis.small_runs import SORTEDNESS, small_sortedness, small_text
from tests.tiny import config

NATURAL = make_task(Choice(name="sortedness", options={"negatives": "adjacent"}))
PARITY = make_task(Choice(name="parity", options={}))


def inverted(task: Task, n: int = 3_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of many unsorted examples: the gap of the inverted pair, and the steps right before and after it.

    A pair x a b y, inverted x b a y, has the steps a - x and y - b; at an end they are -1.
    """
    drawn = task.draw(np.random.default_rng(7), n)
    source = drawn.source[drawn.target == 0]
    lengths = task.features(source)["length"]
    left, rows = np.argmax(np.diff(source, axis=1) < 0, axis=1), np.arange(len(source))
    a, b = source[rows, left + 1], source[rows, left]
    before = np.where(left > 0, a - source[rows, np.maximum(left - 1, 0)], -1)
    after = np.where(left + 2 < lengths, source[rows, np.minimum(left + 2, source.shape[1] - 1)] - b, -1)
    return b - a, before, after


@pytest.mark.parametrize("length", [32, 256])
def test_matched_inversions_are_distributed_as_at_the_training_lengths_and_natural_ones_are_not(length: int) -> None:
    here, matched = inverted(NATURAL), inverted(NATURAL.for_lengths("matched", length))
    for one, other in zip(here, matched, strict=True):
        assert ks_2samp(one, other).pvalue > 0.01
    natural = inverted(NATURAL.for_lengths("adjacent", length))
    assert ks_2samp(here[0], natural[0]).pvalue < 1e-10


def test_the_share_of_gaps_of_one_is_what_the_docs_say() -> None:
    shares = [(inverted(NATURAL.for_lengths(name, 256))[0] == 1).mean() for name in ("adjacent", "matched")]
    assert shares == pytest.approx([0.92, 0.11], abs=0.02)  # three standard errors of 1,500 pairs


def test_a_matched_set_at_a_training_length_repeats_nothing() -> None:
    ties = [NATURAL.for_lengths(name, 12).draw(np.random.default_rng(3), 2_000) for name in ("adjacent", "matched")]
    shares = [NATURAL.features(drawn.source)["ties"].mean() / 11 for drawn in ties]
    assert shares[0] == pytest.approx(shares[1], abs=0.01)


def test_matched_rows_of_two_elements_can_be_made_longer() -> None:
    task = make_task(Choice(name="sortedness", options={"min_length": 2, "max_length": 2}))
    drawn = task.for_lengths("matched", 9).draw(np.random.default_rng(0), 40)
    assert drawn.source.shape == (40, 9)
    assert (task.features(drawn.source)["descents"] == 1 - drawn.target).all()


@pytest.mark.parametrize("length", [4, 6, 7, 40])
@pytest.mark.parametrize("name", ["swaps", "adjacent", "matched"])
def test_a_set_of_sortedness_is_balanced_and_of_one_length(name: str, length: int) -> None:
    trained = small_sortedness()
    found = length_set(trained, name, length, 50)
    features = trained.task.features(found.source)
    assert found.target.mean() == 0.5
    assert (features["length"] == length).all()
    assert (found.target == trained.task.answer(found.source)).all()
    assert len(set(problem_keys(trained.task, found.source))) == 50
    if name != "swaps":
        assert (features["descents"] == 1 - found.target).all()


def test_sums_have_exactly_so_many_characters() -> None:
    trained = small_text()
    assert plan_lengths(trained).trained == (12, 14)
    found = length_set(trained, "sums", 28, 30)
    assert (trained.task.features(found.source)["characters"] == 28).all()
    assert (found.target == trained.task.answer(found.source)).all()


@pytest.mark.parametrize("trained", [small_sortedness(), small_text()], ids=lambda trained: trained.task.name)
def test_no_example_of_a_set_can_have_been_trained_on(trained) -> None:  # type: ignore[no-untyped-def]
    plan, task, data = plan_lengths(trained), trained.task, trained.config.data
    known = set(problem_keys(task, make_splits(task, data)["train"].source))
    for name in plan.sets:
        for length in (*plan.trained, plan.longer[0]):
            found = length_set(trained, name, length, 30)
            assert not known & set(problem_keys(task, found.source))
            if length <= plan.longest:
                assert (split_of(task, found.source, data.seed) == SPLITS.index("test")).all()


def test_all_seeds_and_all_negatives_share_a_set_and_another_data_seed_does_not() -> None:
    trained = small_sortedness()
    found = length_set(trained, "adjacent", 9, 20)
    other_seed = replace(trained, config=replace(trained.config, seed=3))
    assert (length_set(other_seed, "adjacent", 9, 20).source == found.source).all()
    mixed = replace(trained, task=make_task(Choice(name="sortedness", options=_options(negatives="mixed"))))
    assert (length_set(mixed, "adjacent", 9, 20).source == found.source).all()
    data = replace(trained.config.data, seed=1)
    other_data = replace(trained, config=replace(trained.config, data=data))
    assert (length_set(other_data, "adjacent", 9, 20).source != found.source).any()


def _options(**changes: object) -> dict[str, object]:
    return {**{key: value for key, value in SORTEDNESS["task"].items() if key != "name"}, **changes}


def test_a_run_trained_on_files_is_not_asked_what_stands_in_them(tmp_path: Path) -> None:
    """Files that hold nearly all sequences of three elements of 0-2, of any split, leave only the others to ask."""
    task = make_task(Choice(name="sortedness", options={"min_length": 3, "max_length": 3, "values": 3}))
    free = [[0, 0, 1], [0, 1, 2], [1, 0, 2], [0, 2, 1]]
    rows = [list(row) for row in product(range(3), repeat=3) if list(row) not in free]
    for name, some in {"train": rows[3:], "val": rows[:3], "test": free}.items():
        records = [task.to_record(np.array(row), task.answer(np.array([row]))[0]) for row in some]
        (tmp_path / f"{name}.json").write_text(json.dumps(records))
    settings = config(SORTEDNESS, task={"min_length": 2, "max_length": 7, "values": 3})
    train(settings, tmp_path / "run", device="cpu", data=tmp_path, until=1)
    trained = load(tmp_path / "run", device="cpu")
    found = length_set(trained, "adjacent", 3, 4)
    assert sorted(found.source.tolist()) == sorted(free)
    assert plan_lengths(trained).trained == (3,), "the files have one length, whatever the recipe says"


def test_at_replaces_the_longer_lengths_and_keeps_the_trained_ones() -> None:
    plan = plan_lengths(small_sortedness(), [20, 9, 5, 3])
    assert (plan.trained, plan.longer) == ((3, 4, 5, 6), (9, 20))
    assert plan_lengths(small_sortedness()).longer == (12, 24, 48, 96, 192, 384)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: plan_lengths(small_sortedness(), [1]), "--at 1; a length from 2 to 65,536 needed"),
        (lambda: plan_lengths(small_sortedness(), [65_537]), "--at 65537; a length from 2 to 65,536 needed"),
        (lambda: plan_lengths(small_text(), [33]), "no inputs of exactly 33 characters; an even number from 8 up"),
        (
            lambda: length_set(small_sortedness(), "adjacnt", 9, 4),
            "no set 'adjacnt' of a length; did you mean adjacent?",
        ),
        (
            lambda: length_set(small_text(), "swaps", 16, 4),
            "addition-text has no set 'swaps' of a length; known: full, nines, ripple, sums",
        ),
        (
            lambda: _draw(PARITY, "uniform", 1, 2, 0, frozenset(problem_keys(PARITY, np.array([[0], [1]])))),
            "task 'parity' has no example at length 1 that training did not see",
        ),
        (
            lambda: make_task(Choice(name="addition", options={})).length_plan(),
            "task 'addition' has one length; there is nothing to measure against it",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_words(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        make()


@pytest.mark.parametrize("name", [name for name in TASKS.names() if name != "addition"])
def test_every_task_with_lengths_draws_every_set_of_its_plan(name: str) -> None:
    task = make_task(Choice(name=name, options={}))
    plan = task.length_plan()
    assert plan.longest < min(plan.longer) and max(plan.trained) == plan.longest
    for kind in plan.sets:
        for length in (plan.trained[0], plan.longer[0]):
            drawn: Examples = task.for_lengths(kind, length).draw(np.random.default_rng(1), 12)
            reached = task.features(drawn.source)[plan.feature]
            assert reached.max() == length if kind == "full" else (reached == length).all()  # 9...9 + 1 is shorter
            assert all(len(value) == 12 for value in task.difficulty(drawn.source).values())


def test_a_set_with_fewer_examples_than_asked_for_is_taken_as_it_is() -> None:
    found = length_set(small_text(), "sums", 8, 2_000)
    assert 2 < len(found) < 2_000
    assert len(np.unique(found.source, axis=0)) == len(found)


def test_parity_lists_every_member_of_its_sets_and_nothing_else() -> None:
    task = PARITY
    rows = np.array(list(product((0, 1), repeat=7)))
    ones = rows.sum(1)
    members = {"uniform": rows, "few-ones": rows[ones <= 3], "mostly-ones": rows[ones >= 4]}
    for name, right in members.items():
        (listed,) = task.list_set(name, 7)
        assert sorted(map(tuple, listed.source)) == sorted(map(tuple, right))
        assert task.set_size(name, 7) == len(right)
        assert (listed.target == listed.source.sum(1) % 2).all()
    assert task.set_size("uniform", 24) is None
    with pytest.raises(InputError, match="cannot be listed"):
        task.list_set("uniform", 24)


def test_drawn_descents_are_never_sorted() -> None:
    """Of 2,000 pairs drawn from 100 values, 20 would be ties if these were not left out."""
    drawn = NATURAL.for_lengths("descents", 32).draw(np.random.default_rng(1), 2_000)
    assert drawn.target.max() == 0


@pytest.mark.parametrize("name", ["plateaus", "descents"])
def test_a_set_of_runs_has_as_many_members_as_it_says(name: str) -> None:
    task = make_task(Choice(name="sortedness", options={"values": 6})).for_lengths(name, 9)
    listed = np.concatenate([examples.source for examples in task.members()])
    assert len({tuple(row) for row in listed.tolist()}) == len(listed) == task.size()
