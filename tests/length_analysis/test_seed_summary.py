"""Several seeds: order statistics for lengths held, Clopper-Pearson for shares, t for means."""

from dataclasses import replace
from typing import Any

import pytest
from scipy.stats import binomtest

from headway.errors import InputError
from headway.length_analysis.held import constant_answer, fewest_examples, held_from_shortest, length_held, not_held
from headway.length_analysis.seed_summary import together
from headway.results.lengths import ConstantAnswer, LengthRow, Lengths
from headway.statistics import median_interval, wilson_interval
from tests.results.made_up import length_row, lengths_of

LENGTHS = (8, 16, 32, 64, 256, 1024)


def measured(seed: int, reached: dict[str, int], **changes: Any) -> Lengths:
    """A made-up run that is right up to a length of each set and guesses past it."""
    rows = [
        length_row(length, 1 if length <= last else 0.5 + seed / 2_000, name, n=2_000)
        for name, last in reached.items()
        for length in LENGTHS
    ]
    return lengths_of(rows, reached, run=f"run{seed}", seed=seed, n=2_000, **changes)


REACHED = [64, 1024, 0, 256, 256, 32]
SIX = [measured(seed, {"swaps": 1024, "adjacent": reached}) for seed, reached in enumerate(REACHED)]


def test_every_seed_counts_once_and_the_median_has_an_order_statistics_interval() -> None:
    found = together(SIX)
    assert (found.n_seeds, found.seeds, found.descriptive) == (6, (0, 1, 2, 3, 4, 5), False)
    adjacent = found.sets["adjacent"]
    assert (adjacent.held, adjacent.median, adjacent.interval) == (tuple(REACHED), 160.0, (0.0, 1024.0))
    assert found.length_held.held == tuple(REACHED)


def test_fewer_than_six_seeds_are_descriptive_and_have_no_interval() -> None:
    found = together(SIX[:5])
    assert found.descriptive and found.sets["adjacent"].interval is None
    assert together(SIX[:1]).rows[0].interval is None


def test_the_share_of_seeds_that_reach_a_multiple_has_an_exact_interval() -> None:
    reach = together(SIX).sets["adjacent"].reach
    assert [(row.times, row.length, row.seeds) for row in reach] == [(4, 64, 4), (16, 256, 3), (64, 1024, 1)]
    exact = binomtest(4, 6).proportion_ci(0.95, method="exact")
    assert reach[0].interval == pytest.approx((exact.low, exact.high))
    assert reach[0].share == 4 / 6


def test_a_multiple_that_nobody_was_tested_at_is_not_counted_as_unreached() -> None:
    short = [replace(one, rows=tuple(row for row in one.rows if row.length <= 64)) for one in SIX]
    assert [row.times for row in together(short).sets["adjacent"].reach] == [4]


def test_accuracies_have_the_interval_of_the_median_seed_with_both_errors() -> None:
    found = {(row.set_name, row.length): row for row in together(SIX).rows}
    row = found["adjacent", 1024]
    values = [0.5 + seed / 2_000 if reached < 1024 else 1.0 for seed, reached in enumerate(REACHED)]
    assert row.accuracies == tuple(values)
    own = [one.rows[-1].interval for one in SIX]
    assert row.interval == median_interval(values, own=own)
    assert row.interval is not None and row.median is not None
    assert row.interval[0] < min(values) <= row.median <= row.interval[1] <= 1
    assert {one.interval for one in together(SIX[:5]).rows} == {None}, "five seeds have none"
    assert row.mean == pytest.approx(sum(values) / 6)


def test_seeds_that_give_one_answer_are_counted() -> None:
    constant = measured(6, {"swaps": 0, "adjacent": 0}, constant=ConstantAnswer(answer="1", start=32))
    assert together([*SIX, constant]).constant_seeds == 1


@pytest.mark.parametrize("changes", [{"n": 500}, {"rows": SIX[0].rows[:-1]}, {"task": "addition-text"}])
def test_runs_that_were_measured_differently_are_not_mixed(changes: dict[str, Any]) -> None:
    other = replace(SIX[1], **changes)
    with pytest.raises(InputError, match="run0 and run1 were measured at different lengths or with another n"):
        together([SIX[0], other])


def test_nothing_cannot_be_put_together() -> None:
    with pytest.raises(InputError, match="no lengths were measured: there is nothing to summarise"):
        together([])


def test_held_from_the_shortest_means_every_shorter_length_too() -> None:
    rows = [length_row(length, interval=(low, 1.0)) for length, low in ((64, 1.0), (16, 0.99), (32, 0.9899))]
    assert held_from_shortest(rows) == 16
    assert held_from_shortest(rows, 0.98) == 64
    assert held_from_shortest([]) == 0


def rows_of(low_ends: dict[int, float]) -> list[LengthRow]:
    return [length_row(length, interval=(low, 1.0)) for length, low in low_ends.items()]


@pytest.mark.parametrize(
    ("low_ends", "reached", "gaps"),
    [
        ({8: 0.97, 16: 0.995, 32: 1.0, 64: 1.0}, 64, [8]),  # perfect past training: 8 must not make it 0
        ({8: 1.0, 16: 1.0, 32: 1.0, 64: 0.5, 128: 1.0}, 32, []),
        ({8: 1.0, 16: 1.0, 32: 0.5, 64: 1.0}, 16, []),
        ({8: 0.5, 16: 1.0, 32: 0.5}, 0, []),
        ({4: 0.5, 8: 1.0, 16: 1.0, 32: 1.0}, 32, [4]),
        ({}, 0, []),
    ],
)
def test_the_length_held_is_past_training_and_names_its_gaps(
    low_ends: dict[int, float], reached: int, gaps: list[int]
) -> None:
    rows = rows_of(low_ends)
    assert (length_held(rows), not_held(rows)) == (reached, tuple(gaps))


def test_a_set_of_which_every_member_was_asked_needs_no_interval() -> None:
    row = length_row(8, interval=(0.9, 1.0))
    assert length_held([row]) == 0
    assert length_held([replace(row, whole=True)]) == 8
    assert length_held([replace(row, exhausted=True)]) == 0, "those that training did not see are a sample of all"
    assert length_held([replace(row, whole=True, constant="1")]) == 0
    assert length_held([replace(row, whole=True, accuracy=0.98)]) == 0


@pytest.mark.parametrize("threshold", [0.5, 0.9, 0.99, 0.999, 0.99999])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_fewest_examples_that_hold_a_length_are_what_wilson_says(threshold: float, confidence: float) -> None:
    least = fewest_examples(threshold, confidence)
    lower = [wilson_interval(n, n, confidence)[0] for n in (least, least - 1)]
    assert lower[0] >= threshold > lower[1]


def test_no_threshold_takes_long() -> None:
    assert fewest_examples(0.0) == 1 and fewest_examples(1.0) > 1e9


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ({8: ["1", "1"], 16: ["1", "1"]}, ConstantAnswer(answer="1", start=8)),
        ({8: ["1", "1"], 16: ["0", "0"]}, ConstantAnswer(answer="0", start=16)),
        ({8: [None, "1"], 16: ["1", "1"]}, ConstantAnswer(answer="1", start=16)),
        ({8: ["1", "1"], 16: ["1", "0"]}, None),
        ({8: ["1", "1"], 16: [None, None]}, None),
    ],
)
def test_a_constant_answer_is_one_in_every_set_up_to_the_longest_length(answers: Any, found: Any) -> None:
    rows = [length_row(length, constant=one) for length, some in answers.items() for one in some]
    assert constant_answer(rows) == found
