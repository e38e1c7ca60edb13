"""Summaries of accuracy against length: the length held, and whether the model gives a constant answer.

A row is one set at one length, as in lengths.json. Lengths are tested on samples, or on all examples where these can be
enumerated, so a held length is measured, not proved.
"""

import math
from collections.abc import Sequence

from headway.results.lengths import ConstantAnswer, LengthRow
from headway.statistics import normal_quantile

THRESHOLD = 0.99
"""A length is held when the lower end of the interval of accuracy is at least this."""


def is_held(row: LengthRow, threshold: float = THRESHOLD) -> bool:
    """Whether the accuracy of a set at a length is at least the threshold, by its lower bound, or exactly for a whole
    set.

    A model with one answer for every input (`constant`) holds no length, even if it is right on a set of one class.
    """
    return row.constant is None and (row.accuracy if row.whole else row.interval[0]) >= threshold


def held_from_shortest(rows: Sequence[LengthRow], threshold: float = THRESHOLD) -> int:
    """The largest tested L such that every tested length up to L is held; 0 if the shortest is not."""
    longest = 0
    for row in sorted(rows, key=lambda row: row.length):
        if not is_held(row, threshold):
            break
        longest = row.length
    return longest


def length_held(rows: Sequence[LengthRow], threshold: float = THRESHOLD) -> int:
    """The largest tested length L beyond training such that every tested length between training and L is held.

    If there is none: the largest training length up to which all are held, or 0. A training length that is not held
    does not count against longer ones that are; `not_held` lists it.
    """
    trained = [row for row in rows if row.trained]
    longest = max((row.length for row in trained), default=0)
    past = [row for row in rows if row.length > longest]
    return held_from_shortest(past, threshold) or held_from_shortest(trained, threshold)


def not_held(rows: Sequence[LengthRow], threshold: float = THRESHOLD) -> tuple[int, ...]:
    """The tested lengths below the length held that are not held themselves."""
    reached = length_held(rows, threshold)
    return tuple(sorted(row.length for row in rows if row.length < reached and not is_held(row, threshold)))


def by_set(rows: Sequence[LengthRow]) -> dict[str, list[LengthRow]]:
    """The rows grouped by set."""
    names = dict.fromkeys(row.set_name for row in rows)
    return {name: [row for row in rows if row.set_name == name] for name in names}


def fewest_examples(threshold: float = THRESHOLD, confidence: float = 0.95) -> int:
    """The smallest n for which a model without errors holds a length: then the interval begins at n / (n + z²).

    >>> fewest_examples(0.99)
    381
    """
    z = normal_quantile(confidence)
    return max(1, math.ceil(z * z * threshold / (1 - min(threshold, 1 - 1e-9))))


def constant_answer(rows: Sequence[LengthRow]) -> ConstantAnswer | None:
    """The model's single answer in every set from some tested length on, and that length; None if answers vary.

    Only sets with more than one right answer count; in the others a single answer may be right.
    """
    asked = [row for row in rows if not row.one_class]
    found = None
    for length in sorted({row.length for row in asked}, reverse=True):
        answers = {row.constant for row in asked if row.length == length}
        answer = answers.pop()
        if answers or answer is None or (found is not None and found.answer != answer):
            break
        found = ConstantAnswer(answer=answer, start=length)
    return found
