"""A check that position tables have trained rows for the tested lengths."""

from collections.abc import Iterable

import numpy as np

from headway.diagnosis.examination import Examination
from headway.diagnosis.findings import Verdict, error, fine, warning
from headway.errors import InputError
from headway.randomness import generator

TABLES = ("encoding.table.weight", "encoding.inner.table.weight")
"""The parameter with one row per position: the encoding's own, or that of its inner encoding."""
EXAMPLES = 8
"""Examples per length whose positions are checked; half of all sums are one digit longer than their operands."""


def rows_untrained(seen: Examination) -> Verdict | None:
    """Every row of a position table that is used at a tested length was trained.

    A row is untrained if it equals that of step 0 exactly: no gradient reached it.
    """
    name = next((name for name in TABLES if name in (seen.subject.weights or {})), None)
    if name is None or seen.subject.weights is None or seen.subject.initial is None or not seen.subject.step:
        return None
    if name not in seen.subject.initial or not any("loss" in row for row in seen.subject.metrics):
        return None
    still = (seen.subject.weights[name] == seen.subject.initial[name].cpu()).all(1).numpy()
    needed = _needed(seen)
    rows, count = len(still), int(still.sum())
    reached = {length: some[some < rows] for length, some in needed.items()}
    noise = {length: int(still[some].sum()) for length, some in reached.items() if still[some].any()}
    clamped = [length for length, some in needed.items() if some.max() >= rows]
    numbers = {
        "rows": rows,
        "untrained": count,
        "first_untrained": int(still.argmax()) if count else None,
        "rows_trained": rows - count,
        "rows_needed": max((int(some.max()) + 1 for some in needed.values()), default=None),
        "first_length": min([*noise, *clamped], default=None),
        "untrained_read": {str(length): read for length, read in noise.items()},
    }
    table = f"{rows - count:,} of {rows:,} rows of the position table were trained"
    if not noise and not clamped:
        why = f", including all rows that {_list(needed)} use" if needed else ", and no longer input is tested"
        return fine(f"{table}{why if count else ''}.", **numbers)
    if not noise:
        first = clamped[0]
        return warning(
            f"The position table has {rows:,} rows and inputs of length {first:,} need {needed[first].max() + 1:,}: "
            "positions beyond the table use its last row.",
            "Report this with the numbers, or use a table or an encoding that reaches the tested lengths.",
            **numbers,
        )
    first = min(noise)
    words = (
        f"{table}, and inputs of length {first:,} use {noise[first]:,} untrained ones (they need row "
        f"{needed[first].max():,}; the first untrained one is {numbers['first_untrained']:,}), which are still random."
    )
    fix = (
        "Do not measure beyond the trained rows, or train them: use random offsets (max_offset) up to the longest "
        "tested number, or an encoding without a table."
    )
    measured = seen.subject.lengths is not None
    return (
        error(f"{words} These lengths were measured.", fix, **numbers) if measured else warning(words, fix, **numbers)
    )


def _needed(seen: Examination) -> dict[int, np.ndarray]:
    """The positions used at every tested length: the lengths of lengths.json, or else the task's test lengths."""
    if seen.subject.positions is None:
        return {}
    measured = seen.subject.lengths
    lengths = seen.task.test_lengths() if measured is None else [row.length for row in measured.rows]
    found = {}
    for length in sorted(set(lengths)):
        try:
            examples = seen.task.at_length(length).draw(generator(0, "doctor"), EXAMPLES)
        except InputError:
            continue  # the task has no inputs of this length
        found[length] = seen.subject.positions(examples)
    return found


def _list(lengths: Iterable[int]) -> str:
    return "lengths " + ", ".join(f"{length:,}" for length in lengths)
