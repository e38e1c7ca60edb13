"""Failures planted inside the families are found, on models whose margin tells nothing of where they are."""

import numpy as np
import pytest

from headway.attacks.attack import attack
from headway.tasks.columns import longest_ripple, operands
from tests.attacks.planted import (
    ADDITION,
    COPY,
    PARITY,
    SORTEDNESS,
    SORTING,
    TEXT,
    TEXT_DECODER,
    Bad,
    nothing,
    right_but,
)

FOREVER = 3_600.0
"""Seconds: it is the number of tries that ends these searches."""


def digits_of(source: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many digits the first and the second number have."""
    second = np.cumsum(source == 10, axis=1) > 0
    return ((source < 10) & ~second).sum(1), ((source < 10) & second).sum(1)


def follow(*values: int) -> Bad:
    """Whether these values stand side by side in a row."""
    return lambda source: np.array([any(_starts(row, values, place) for place in range(len(row))) for row in source])


def _starts(row: np.ndarray, values: tuple[int, ...], place: int) -> bool:
    return tuple(row[place : place + len(values)].tolist()) == values


PLANTED = {
    "a bad neighbourhood": (SORTEDNESS, [8], follow(57, 12), 200_000),
    "a bad neighbourhood of three, in order": (SORTEDNESS, [8], follow(3, 50, 99), 600_000),
    "ripples above 20 columns": (TEXT, [64], lambda source: longest_ripple(*operands(source, 10), 10) > 20, 5_000),
    "one length of the first operand": (TEXT, [32], lambda source: digits_of(source)[0] == 7, 5_000),
    "one pair of operand lengths": (
        TEXT_DECODER,
        [32],
        lambda source: (digits_of(source)[0] == 4) & (digits_of(source)[1] == 11),
        20_000,
    ),
    "repeats": (COPY, [16], lambda source: (source == source[:, :1]).all(1), 20_000),
    "a boundary value": (ADDITION, None, lambda source: (source[:, :3] == [1, 0, 0]).all(1), 20_000),
    "an extreme value beside its opposite": (SORTEDNESS, [12], follow(0, 99), 20_000),
    "one descent at the very end": (
        SORTEDNESS,
        [64],
        lambda source: np.argmax(np.diff(source) < 0, 1) == source.shape[1] - 2,
        20_000,
    ),
    "all ones": (PARITY, [12], lambda source: (source == 1).all(1), 20_000),
    "falling order": (SORTING, [16], lambda source: (np.diff(source) <= 0).all(1), 20_000),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_failure_inside_a_family_is_found_and_shown(name: str) -> None:
    settings, lengths, bad, tries = PLANTED[name]
    trained = right_but(settings, bad)
    found = attack(trained, at=lengths, seconds=FOREVER, tries=tries)
    assert found.broken, found.families
    assert found.smallest_margin == -1
    for one in found.counterexamples:
        source, _ = trained.task.from_record(dict(one.record))
        assert bad(np.array([source]))[0]
        assert one.expected != one.answered


def test_a_needle_outside_every_family_is_missed_and_what_was_tried_is_said() -> None:
    needle = [[13, 2, 77, 31, 64, 8, 90, 41]]
    found = attack(
        right_but(SORTEDNESS, lambda source: (source == needle).all(1)), at=[8], seconds=FOREVER, tries=20_000
    )
    assert not found.broken
    assert (found.found, found.smallest_margin, found.ended) == (0, 1, "tries")
    assert found.tried >= 20_000
    assert sum(row.drawn + row.climbed for row in found.families) == found.tried


def test_a_model_without_a_failure_is_not_accused() -> None:
    found = attack(right_but(ADDITION, nothing), seconds=FOREVER, tries=5_000)
    assert (found.broken, found.found, found.unconfirmed, found.lengths, found.unit) == (False, 0, 0, (), None)
