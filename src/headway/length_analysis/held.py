"""What rows of accuracy against length add up to: the length held, and whether the model answers at all.

A row is one set at one length, as it stands in lengths.json. Lengths are tested on samples (or on whole sets where
these can be listed), so a length that is held is measured, not proved.
"""

from collections.abc import Sequence

from headway.results.lengths import ConstantAnswer, LengthRow
from headway.statistics import wilson_interval

THRESHOLD = 0.99
"""A length is held when the lower end of the interval of accuracy is at least this."""


def is_held(row: LengthRow, threshold: float = THRESHOLD) -> bool:
    """Whether a set is surely answered at a length; where every member was asked, accuracy itself decides.

    A model that answers the same to everything (`constant`) holds nothing, though it be right on a set of one class.
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
    """The largest tested length past training up to which every one past training is held.

    Where none is, the largest training length up to which all are, or 0. A training length that is not held does not
    count against longer ones that are; `not_held` names it.
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
    """The rows of every set."""
    names = dict.fromkeys(row.set_name for row in rows)
    return {name: [row for row in rows if row.set_name == name] for name in names}


def fewest_examples(threshold: float = THRESHOLD) -> int:
    """The smallest n at which a model without a single error holds a length.

    >>> fewest_examples(0.99)
    381
    """
    return next(n for n in range(1, 1_000_000) if wilson_interval(n, n)[0] >= threshold)


def constant_answer(rows: Sequence[LengthRow]) -> ConstantAnswer | None:
    """The one answer that the model gives in every set from some tested length on, and that length; else None.

    Only sets that ask for more than one answer count: in the others one answer may be right.
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
