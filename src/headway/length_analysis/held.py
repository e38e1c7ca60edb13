"""What rows of accuracy against length add up to: the length held, and whether the model answers at all.

A row is one set at one length, as it stands in lengths.json. Lengths are tested on samples (or on whole sets where
these can be listed), so a length that is held is measured, not proved.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headway.statistics import wilson_interval

THRESHOLD = 0.99
"""A length is held when the lower end of the interval of accuracy is at least this."""

Row = Mapping[str, Any]


def is_held(row: Row, threshold: float = THRESHOLD) -> bool:
    """Whether a set is surely answered at a length; where every member was asked, accuracy itself decides.

    A model that answers the same to everything (`constant`) holds nothing, though it be right on a set of one class.
    """
    if row.get("constant") is not None:
        return False
    return bool((row["accuracy"] if row.get("whole") else row["interval"][0]) >= threshold)


def held_from_shortest(rows: Sequence[Row], threshold: float = THRESHOLD) -> int:
    """The largest tested L such that every tested length up to L is held; 0 if the shortest is not.

    >>> held, failed = {"interval": [0.995, 1]}, {"interval": [0.98, 1]}
    >>> held_from_shortest([{"length": 64, **failed}, {"length": 32, **held}, {"length": 128, **held}])
    32
    """
    longest = 0
    for row in sorted(rows, key=lambda row: int(row["length"])):
        if not is_held(row, threshold):
            break
        longest = int(row["length"])
    return longest


def length_held(rows: Sequence[Row], threshold: float = THRESHOLD) -> int:
    """The largest tested length past training up to which every one past training is held.

    Where none is, the largest training length up to which all are, or 0. A training length that is not held does not
    count against longer ones that are; `not_held` names it.

    >>> rows = [{"length": 8, "interval": [0.97, 1], "trained": True}]
    >>> rows += [{"length": 32, "interval": [0.995, 1], "trained": False}]
    >>> length_held(rows), held_from_shortest(rows)
    (32, 0)
    """
    longest = max((row["length"] for row in rows if row["trained"]), default=0)
    past = [row for row in rows if row["length"] > longest]
    trained = [row for row in rows if row["trained"]]
    return held_from_shortest(past, threshold) or held_from_shortest(trained, threshold)


def not_held(rows: Sequence[Row], threshold: float = THRESHOLD) -> list[int]:
    """The tested lengths below the length held that are not held themselves."""
    reached = length_held(rows, threshold)
    return sorted(row["length"] for row in rows if row["length"] < reached and not is_held(row, threshold))


def by_set(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of every set."""
    names = dict.fromkeys(row["negatives"] for row in rows)
    return {name: [row for row in rows if row["negatives"] == name] for name in names}


def fewest_examples(threshold: float = THRESHOLD) -> int:
    """The smallest n at which a model without a single error holds a length.

    >>> fewest_examples(0.99)
    381
    """
    return next(n for n in range(1, 1_000_000) if wilson_interval(n, n)[0] >= threshold)


def constant_answer(rows: Sequence[Row]) -> dict[str, Any] | None:
    """The one answer that the model gives in every set from some tested length on, and that length; else None.

    Only sets that ask for more than one answer count: in the others one answer may be right.

    >>> rows = [{"length": 16, "constant": None}, {"length": 32, "constant": "1"}, {"length": 64, "constant": "1"}]
    >>> constant_answer(rows)
    {'answer': '1', 'from': 32}
    """
    asked = [row for row in rows if not row.get("one_class")]
    start, answer = None, None
    for length in sorted({row["length"] for row in asked}, reverse=True):
        answers = {row["constant"] for row in asked if row["length"] == length}
        if None in answers or len(answers | {answer} - {None}) > 1:
            break
        start, answer = length, answers.pop()
    return None if start is None else {"answer": answer, "from": start}
