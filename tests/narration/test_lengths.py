"""What is said of lengths: how far past training a set holds, which accuracies are sure, and which set is told."""

from dataclasses import replace
from typing import Any

import pytest

from headway.narration.lengths import decline, held, in_short, marked, weakest_set
from headway.narration.mechanism import crops
from headway.results.mechanism import Crops, Mechanism, ModelAtLength
from headway.statistics import wilson_interval
from tests.results.made_up import length_row, lengths_of, mechanism_of

ROWS = [length_row(length, 1.0 if length <= 32 else 0.4) for length in (8, 16, 32, 64)]
SETS = {"swaps": 1.0, "matched": 0.8, "adjacent": 0.7}


def test_the_length_held_is_counted_in_longest_training_lengths() -> None:
    """Trained on 8 to 16."""
    told = [str(held(lengths_of(ROWS, held={"swaps": reached}), "swaps")) for reached in (0, 16, 32, 64)]
    assert told == [
        "On random swaps it holds at no length.",
        "On random swaps it holds to 16.",
        "On random swaps it holds to 32, 2 times the longest training length.",
        "On random swaps it holds to 64, 4 times the longest training length, the longest that was tested.",
    ]


def test_an_accuracy_is_marked_as_sure_by_the_end_of_its_interval() -> None:
    """The Wilson intervals of 100 of 100, 997 of 1,000 and 994 of 1,000 begin at 96.3, 99.1 and 98.7 %."""
    rows = [
        length_row(16, 1.0, n=100),
        length_row(16, 0.997),
        length_row(16, 0.994),
        length_row(16, 0.997, constant="0"),
    ]
    assert [str(marked(row, 0.99)) for row in rows] == ["100 %", "99.7 %+", "99.4 %", "99.7 %+*"]


def test_the_weakest_set_is_told_and_of_equally_weak_ones_the_strictest() -> None:
    rows = [length_row(length, accuracy, name) for name, accuracy in SETS.items() for length in (16, 64)]
    found = lengths_of(rows, held={"swaps": 64, "matched": 16, "adjacent": 16})
    assert weakest_set(found) == "adjacent"
    assert str(decline(found)) == "; on one adjacent inversion its accuracy is 70 % at 16 and 70 % at 64"


def test_of_too_few_examples_nothing_is_said_about_the_length_held() -> None:
    """381 examples without an error begin at 99.001 %, 380 at 98.999 %."""
    rows = [length_row(length, 1.0) for length in (8, 16, 32)]
    told = [str(in_short(lengths_of(rows, held={"swaps": 0}, n=n))) for n in (380, 381)]
    assert told[0].startswith(
        "Trained on 8 to 16 elements, it is not shown to hold at any length, for which 380 examples are too few"
    )
    assert told[1].startswith("Trained on 8 to 16 elements, it holds at no length")


def counted(right: int, n: int) -> dict[str, Any]:
    return {"n": n, "wrong": n - right, "accuracy": right / n, "interval": wilson_interval(right, n)}


def failing_at_64(right: int, crops: Crops | None) -> Mechanism:
    """A model that is always right at 16, and on so many of 400 at 64."""
    rest: dict[str, Any] = {"margin": 2.0, "margin_interval": (1.0, 3.0), "n_attention": 60}
    rows = [
        ModelAtLength(**counted(500, 500), **rest, length=16, trained=True, crops=None),
        ModelAtLength(**counted(right, 400), **rest, length=64, trained=False, crops=crops),
    ]
    return replace(mechanism_of(64), lengths=tuple(rows))


@pytest.mark.parametrize(
    ("rise", "told"),
    [
        (10.0, "of 50.0 points lost, length alone costs 10.0 (8.0 to 12.0), and their content the rest."),
        (49.9, "of 50.0 points lost, length alone costs 49.9 (47.9 to 51.9), and their content the rest."),
        (50.0, "of 50.0 points lost, length alone costs 50.0 (48.0 to 52.0)."),
        (60.0, "of 50.0 points lost, length alone costs 60.0 (58.0 to 62.0)."),
    ],
)
def test_content_costs_the_rest_only_where_a_rest_is_left(rise: float, told: str) -> None:
    margin: dict[str, Any] = {"margin": 2.0, "margin_interval": (1.0, 3.0)}
    cropped = Crops(**counted(240, 400), **margin, rise=rise, rise_interval=(rise - 2, rise + 2))
    (sentence,) = crops(failing_at_64(200, cropped))
    assert str(sentence).endswith(f" from the same sequences it is 60 % (55.1 % to 64.7 %): {told}")
    assert str(sentence).startswith("On crops of 16 from")


def test_without_crops_nothing_is_said_of_the_cost_of_length() -> None:
    assert list(crops(failing_at_64(200, None))) == []
    assert list(crops(mechanism_of(None))) == []
