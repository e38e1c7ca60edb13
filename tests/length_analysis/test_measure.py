"""Accuracy against length on models whose answers are known in advance."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import headway as hw
from headway import evaluation
from headway.errors import InputError
from headway.evaluation import Trained, evaluate_examples
from headway.length_analysis.measure import by_doubling, measure_lengths
from headway.length_analysis.sets import length_set
from headway.results.evaluation import WrongExample
from headway.results.lengths import ConstantAnswer, Lengths
from headway.results.schema import read
from headway.statistics import wilson_interval
from tests.head_analysis.small import untrained
from tests.length_analysis.small_runs import (
    ENOUGH,
    SORTEDNESS,
    fails_at,
    is_sorted,
    planted,
    planted_sums,
    small_sortedness,
    small_text,
)

AT = [32, 64, 128]
SETS = ("swaps", "adjacent", "matched", "plateaus", "descents")
BOTH = SETS[:3]
"""Those that hold both classes."""


def constant_model() -> Trained:
    """Weights of 0 everywhere, and a readout that prefers class 1."""
    trained = untrained(SORTEDNESS)
    with torch.no_grad():
        for weight in trained.model.parameters():
            weight.zero_()
        trained.model.readout.bias.copy_(torch.tensor([0.0, 1.0]))
    return trained


def test_a_planted_constant_model_holds_no_length_and_is_called_constant() -> None:
    found = measure_lengths(constant_model(), at=AT, n=ENOUGH)
    assert found.held == dict.fromkeys(SETS, 0)  # also on plateaus, all of which are sorted
    assert found.length_held == 0
    assert found.constant == ConstantAnswer(answer="1", start=4)
    assert {row.constant for row in found.rows} == {"1"}
    for row in (row for row in found.rows if row.set_name in BOTH):
        assert (row.accuracy, row.balanced_accuracy, row.constant) == (0.5, 0.5, "1")
        assert (row.answer_shares, row.target_shares) == ({"0": 0.0, "1": 1.0}, {"0": 0.5, "1": 0.5})


def test_a_planted_oracle_holds_to_the_longest_length() -> None:
    found = measure_lengths(planted(is_sorted), at=AT, n=ENOUGH)
    assert found.held == dict.fromkeys(SETS, 128)
    assert found.constant is None
    assert {row.wrong for row in found.rows} == {0}
    assert [row.length for row in found.rows] == [4, 5, 6, *AT] * 5
    assert [row.trained for row in found.rows[:6]] == [True] * 3 + [False] * 3


def test_a_length_below_training_counts_and_is_not_called_trained() -> None:
    found = measure_lengths(planted(fails_at(3)), at=[3], n=ENOUGH)
    assert [(row.length, row.trained) for row in found.rows[:2]] == [(3, False), (4, True)]
    assert (found.length_held, found.certified_length) == (6, 0)
    assert found.not_held["swaps"] == (3,)


def test_a_model_that_fails_at_64_holds_to_32_even_where_128_is_right() -> None:
    found = measure_lengths(planted(fails_at(64)), at=AT, n=ENOUGH)
    assert found.held == dict.fromkeys(SETS, 32)
    assert found.at(128, "adjacent").wrong == 0 < found.at(64, "adjacent").wrong


def test_a_model_that_fails_inside_the_training_lengths_says_so() -> None:
    for failing, shortest in ((5, 4), (4, 0)):
        found = measure_lengths(planted(fails_at(failing)), at=[12], n=ENOUGH)
        assert (found.length_held, found.certified_length) == (12, shortest)
        assert found.not_held["adjacent"] == (failing,)


def test_answers_that_become_one_past_training_are_called_constant_from_there() -> None:
    def rule(source: torch.Tensor) -> torch.Tensor:
        return is_sorted(source) if source.shape[1] < 32 else torch.zeros(len(source), dtype=torch.long)

    found = measure_lengths(planted(rule), at=[16, 32, 64], n=ENOUGH)
    assert found.constant == ConstantAnswer(answer="0", start=32)
    assert found.held == dict.fromkeys(SETS, 16)  # also on descents, none of which is sorted


def test_accuracy_by_gap_counts_unsorted_examples_alone() -> None:
    """A model that misses inversions of 1 and 2, and nothing else."""

    def rule(source: torch.Tensor) -> torch.Tensor:
        return (source.diff(dim=1) >= -2).all(1).long()

    found = measure_lengths(planted(rule), at=[40], n=200)
    row = found.at(40, "adjacent")
    accuracy = {entry.high: entry.accuracy for entry in row.by["gap"]}
    assert accuracy.pop(1) == accuracy.pop(2) == 0
    assert set(accuracy.values()) == {1.0} and max(accuracy) >= 8
    assert sum(entry.n for entry in row.by["gap"]) == 100
    assert sum(entry.wrong for entry in row.by["gap"]) == row.wrong


def test_a_model_that_fails_on_ripples_above_3_alone_is_caught_and_random_sums_do_not_see_it() -> None:
    """It drops a carry that has passed three columns; 400 random sums of any tested length never notice."""
    task = small_text().task

    def rule(source: np.ndarray) -> np.ndarray:
        right = task.answer(source)
        tired = task.features(source)["longest_ripple"] > 3
        wrong = np.where(right == 0, 9, right)
        return np.where(tired[:, None], wrong, right)

    found = measure_lengths(planted_sums(rule), at=[24, 32], n=ENOUGH)
    assert found.held["sums"] == 32
    assert found.held["ripple"] <= 14 and found.length_held <= 14
    parts = found.at(32, "ripple").by
    by_ripple = {row.high: (row.n, row.wrong) for row in parts["longest_ripple"]}
    assert all(wrong == 0 for value, (_, wrong) in by_ripple.items() if value <= 3)
    assert all(wrong == n > 5 for value, (n, wrong) in by_ripple.items() if value > 3) and max(by_ripple) >= 8
    assert sum(row.wrong for row in parts["longest_unstarted_ripple"]) == 0
    assert found.at(32, "ripple").decoded.real_disagreements == 0


def test_a_family_is_measured_whole_at_the_shortest_length_and_its_errors_are_shown() -> None:
    """A model that is wrong on eleven plateaus of 171,700: a sample of 400 would hardly see one."""

    def rule(source: torch.Tensor) -> torch.Tensor:
        first, middle, last = source[:, 0], source[:, source.shape[1] // 2 - 1], source[:, -1]
        odd = (first == 58) & (last == 69) & (middle >= 59) & (middle <= 69)
        return is_sorted(source) * (1 - odd.long())

    found = measure_lengths(planted(rule), at=[8], n=ENOUGH)
    row = found.at(4, "plateaus")
    assert (row.n, row.whole, row.wrong) == (171_700, True, 11)
    assert row.wrong_examples[0] == WrongExample(example="58 59 69 69 -> 1", answered="0")
    sampled = found.at(8, "plateaus")
    assert (sampled.n, sampled.whole) == (ENOUGH, False)
    few = measure_lengths(planted(rule), at=[8], n=ENOUGH, whole=0)
    assert (few.at(4, "plateaus").n, few.at(4, "plateaus").whole) == (ENOUGH, False)


def test_a_rare_set_with_fewer_members_is_held_by_its_interval_alone() -> None:
    """Of the sums 999 + m, about 100 are in the test split: too few to say that a length is held."""
    found = measure_lengths(planted_sums(small_text().task.answer), at=[20], n=ENOUGH)
    row = found.at(12, "full")
    assert row.exhausted and 50 < row.n < 200
    assert found.held == dict.fromkeys(("sums", "ripple", "full", "nines"), 20)
    assert found.not_held == {"sums": (), "ripple": (), "full": (12,), "nines": ()}


def test_ranges_double_from_4_on_and_leave_out_what_is_empty() -> None:
    value, right = np.array([-1, 0, 1, 5, 8, 9, 33]), np.array([0, 1, 0, 1, 0, 1, 1], dtype=bool)
    found = by_doubling(value, right)
    assert [(row.low, row.high, row.n, row.wrong) for row in found] == [
        (0, 0, 1, 0),
        (1, 1, 1, 1),
        (5, 8, 2, 1),
        (9, 16, 1, 0),
        (33, 64, 1, 0),
    ]
    assert found[2].interval == wilson_interval(1, 2)
    assert by_doubling(np.array([], dtype=int), np.array([], dtype=bool)) == ()


def test_written_answers_are_measured_in_parallel_and_decoded_for_real() -> None:
    trained = small_text()
    found = measure_lengths(trained, at=[20], n=30)
    assert found.unit == "characters" and found.held == dict.fromkeys(("sums", "ripple", "full", "nines"), 0)
    row = found.at(20)
    assert (row.answer_shares, row.constant, row.decoded.n) == (None, None, 30)
    assert row.decoded.real_disagreements == 0
    assert sum(entry.n for entry in row.by["longest_ripple"] + row.by["longest_unstarted_ripple"]) == 30
    examples = length_set(trained, "sums", 20, 30)
    assert row.wrong == evaluate_examples(trained, "sums", iter([examples]), 30).wrong


def test_a_decoder_that_writes_something_else_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = evaluation.decode
    monkeypatch.setattr(evaluation, "decode", lambda *given, **how: (decode(*given, **how) + 1) % 10)
    assert measure_lengths(small_text(), at=[20], n=10).at(20).decoded.real_disagreements > 0


def test_the_document_round_trips_says_what_it_is_of_and_shows_itself() -> None:
    found = measure_lengths(small_sortedness(), at=[9], n=20)
    document = found.to_json()
    assert read(Lengths, json.loads(json.dumps(document, allow_nan=False)), "lengths.json") == found
    said = {key: document[key] for key in ("form", "task", "seed", "encoding", "pooling", "negatives_trained", "n")}
    assert said == {
        "form": 1,
        "task": "sortedness",
        "seed": 0,
        "encoding": "sinusoidal",
        "pooling": "mean",
        "negatives_trained": "swaps",
        "n": 20,
    }
    assert (document["training"], document["threshold"]) == ({"shortest": 4, "longest": 6}, 0.99)
    shown = found._repr_html_() or ""
    assert "<th>9</th>" in shown and "matched" in shown


def test_heads_are_compared_across_lengths_when_asked() -> None:
    found = measure_lengths(small_sortedness(), at=[9], n=40, mechanism=True)
    assert found.mechanism is not None
    assert [row.length for row in found.mechanism.lengths] == [6, 9]


def test_progress_ends_at_the_whole() -> None:
    told: list[tuple[int, int]] = []
    measure_lengths(small_sortedness(), at=[9], n=20, whole=0, progress=lambda *now: told.append(now))
    total = 5 * 20 * (4 + 5 + 6 + 9)
    assert told[-1] == (total, total)
    assert [done for done, _ in told] == sorted({done for done, _ in told})


def test_hw_lengths_is_the_room_and_its_function() -> None:
    assert hw.lengths(small_sortedness(), at=[9], n=20) == measure_lengths(small_sortedness(), at=[9], n=20)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: measure_lengths(small_sortedness(), n=1), "--n 1; 2 to 1,000,000 examples of a set needed"),
        (lambda: read(Lengths, {"form": 9}, "lengths.json"), "lengths.json: form is 9; 1 needed"),
        (
            lambda: measure_lengths(small_sortedness(), at=[9], n=20).at(8, "swaps"),
            "'swaps' was not measured at 8; measured: swaps at 4, swaps at 5",
        ),
        (
            lambda: measure_lengths(replace(small_sortedness(), task=_one_length())),
            "task 'addition' has one length; there is nothing to measure against it",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused_in_words(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=message):
        call()


def _one_length():  # type: ignore[no-untyped-def]
    from headway.config import Choice
    from headway.tasks import make_task

    return make_task(Choice(name="addition", options={}))
