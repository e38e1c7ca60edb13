"""What is said of lengths: how far past training a set holds, which accuracies are sure, and which set is told."""

from headway.narration.lengths import decline, held, marked, weakest_set
from tests.results.made_up import length_row, lengths_of

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
