"""The parts of a written sum: which digits are in the same column, and which decide a carry."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Int

from headway.tasks.base import Task
from headway.tasks.columns import digit_columns, lowest_origins, operands
from headway.tasks.examples import Part, Prefix, Rows, Vocabulary, joined, seen_by_all

SUM_PARTS: Mapping[str, str] = {
    "diagonal": "the digits of the query's own column; a token of the answer so far stands for the digit to be written "
    "next. For the tens of the sum 3 7 4 + 8 1 4 these are the 7 and the 1.",
    "boundary": Task.PARTS["boundary"],
    "previous_column": "the digits one column less significant, where a carry comes from. For the tens of the sum "
    "3 7 4 + 8 1 4 these are the two 4s, and the 8 of the answer if that is written first.",
    "first_operand": "the digits of the first number. In 3 7 4 + 8 1 4 these are the 3, the 7 and the 4 before the +.",
    "second_operand": "the digits of the second number. In 3 7 4 + 8 1 4 these are the 8, the 1 and the 4 after the +.",
    "operator": "the + between the numbers, the fourth token of 3 7 4 + 8 1 4.",
    "carry": "the digits of the columns whose carry decides the query's digit: the column below, and those further "
    "down as long as all between sum to base - 1 and so pass a carry on. For the hundreds of the sum 3 6 4 + 8 3 9 "
    "these are the 6 and the 3, which sum to 9, and so also the 4 and the 9.",
}
"""The parts of addition tasks. `boundary` is as in every task; `diagonal` is replaced."""


def sum_parts(
    source: Rows,
    prefix: Prefix | None,
    written: Int[np.ndarray, "batch _"],
    vocabulary: Vocabulary,
    base: int,
    falling: bool = True,
) -> dict[str, Part]:
    """The parts in `SUM_PARTS` that other tasks do not have; tokens below `base` are digits, and `base` is +.

    `written` is the column of each answer token, as in `written_columns`. The row of a query is all false if no key
    belongs to the part. `falling`: whether operands have their most significant digit first.

        source  3 7 4 + 8 1 4   prefix  BOS 1 1 8      (most significant first; the last 8 is still to be written)
        column  2 1 0   2 1 0   query     3 2 1 0
                                key         3 2 1
        diagonal as seen from BOS: the first 1 of the answer; from the first 1: the 3, the source's 8 and the second 1
        carry as seen from BOS: the 3 and the source's 8, and no more, because 3 + 8 is not 9

    """
    tokens = joined(source, prefix)
    present = tokens != vocabulary.pad
    query, key = token_columns(source, prefix, written, vocabulary, base, falling)
    down, across = query[:, :, None], key[:, None, :]
    inside = np.arange(tokens.shape[1]) < source.shape[1]
    number, second = (key >= 0) & inside, np.cumsum(tokens == base, axis=1) > 0
    origin = np.take_along_axis(lowest_origins(*operands(source, base, falling), base), np.maximum(query, 0), axis=1)
    return {
        "diagonal": (down == across) & (down >= 0),
        "previous_column": (down == across + 1) & (across >= 0),
        "first_operand": seen_by_all(present, number & ~second),
        "second_operand": seen_by_all(present, number & second),
        "operator": seen_by_all(present, (tokens == base) & inside),
        "carry": (origin[:, :, None] <= across) & (across < down) & number[:, None, :],
    }


def token_columns(
    source: Rows,
    prefix: Prefix | None,
    written: Int[np.ndarray, "batch _"],
    vocabulary: Vocabulary,
    base: int,
    falling: bool = True,
) -> tuple[Int[np.ndarray, "batch token"], Int[np.ndarray, "batch token"]]:
    """The column of every token as a query and as a key; -1 if it has none.

    As a query a token of the prefix has the column of the digit to be written next, as a key that of the digit it
    holds: for 5 + 7 and the prefix BOS 1 these are 1 0 as queries, and -1 1 as keys.
    """
    column = digit_columns(source, base, falling)
    if prefix is None:
        return column, column
    ended = (prefix == vocabulary.eos) | (prefix == vocabulary.pad)
    held = np.pad(written, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
    query, key = np.where(ended, -1, written), np.where(prefix < base, held, -1)
    return joined(column, query), joined(column, key)
