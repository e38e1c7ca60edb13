"""What rows of accuracy against length add up to: the certified length, and whether the model answers at all.

A row is one set at one length, as it stands in lengths.json.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headway.statistics import wilson_interval

THRESHOLD = 0.99
"""A length is held when the lower end of the interval of accuracy is at least this."""

Row = Mapping[str, Any]


def certified_length(rows: Sequence[Row], threshold: float = THRESHOLD) -> int:
    """The largest tested L such that every tested length up to L is held; 0 if the shortest is not.

    >>> held, failed = {"interval": [0.995, 1]}, {"interval": [0.98, 1]}
    >>> certified_length([{"length": 64, **failed}, {"length": 32, **held}, {"length": 128, **held}])
    32
    """
    longest = 0
    for row in sorted(rows, key=lambda row: int(row["length"])):
        if row["interval"][0] < threshold:
            break
        longest = int(row["length"])
    return longest


def certified_lengths(rows: Sequence[Row], threshold: float = THRESHOLD) -> dict[str, int]:
    """The certified length of every set."""
    names = dict.fromkeys(row["negatives"] for row in rows)
    return {name: certified_length([row for row in rows if row["negatives"] == name], threshold) for name in names}


def fewest_examples(threshold: float = THRESHOLD) -> int:
    """The smallest n at which a model without a single error is certified.

    >>> fewest_examples(0.99)
    381
    """
    return next(n for n in range(1, 1_000_000) if wilson_interval(n, n)[0] >= threshold)


def constant_answer(rows: Sequence[Row]) -> dict[str, Any] | None:
    """The one answer that the model gives in every set from some tested length on, and that length; else None.

    >>> rows = [{"length": 16, "constant": None}, {"length": 32, "constant": "1"}, {"length": 64, "constant": "1"}]
    >>> constant_answer(rows)
    {'answer': '1', 'from': 32}
    """
    start, answer = None, None
    for length in sorted({row["length"] for row in rows}, reverse=True):
        answers = {row["constant"] for row in rows if row["length"] == length}
        if None in answers or len(answers | {answer} - {None}) > 1:
            break
        start, answer = length, answers.pop()
    return None if start is None else {"answer": answer, "from": start}
