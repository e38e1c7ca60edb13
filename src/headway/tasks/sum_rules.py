"""For all addition tasks: rules simpler than addition, and sums with another operand."""

import numpy as np
from jaxtyping import Int

from headway.tasks.base import Task
from headway.tasks.columns import digit_columns, operands
from headway.tasks.examples import Rows, SimpleRule


def sum_rules(task: Task, base: int, *, falling: bool, operands_falling: bool) -> tuple[SimpleRule, ...]:
    """Adding without carrying, and adding the units alone.

    126 + 137 = 263  ->  253 without its carry; the units alone give only the 3
    """

    def columns(source: Rows) -> tuple[np.ndarray, np.ndarray]:
        """The right answers, and the column of each answer token; -1 for EOS and padding."""
        target = task.answer(source)
        is_digit = target < base
        step = np.cumsum(is_digit, axis=1) - 1
        return target, np.where(is_digit, is_digit.sum(1, keepdims=True) - 1 - step if falling else step, -1)

    def without_carries(source: Rows) -> Int[np.ndarray, "batch answer"]:
        a, b = operands(source, base, operands_falling)
        target, column = columns(source)
        dropped = np.pad((a + b) % base, ((0, 0), (0, 1)))
        return np.where(column >= 0, np.take_along_axis(dropped, np.maximum(column, 0), axis=1), target)

    def units_alone(source: Rows) -> Int[np.ndarray, "batch answer"]:
        target, column = columns(source)
        return np.where(column == 0, target, task.vocabulary.pad)

    carries = "Train longer, or on more sums with carries; the accuracy is that of the rule."
    return (
        SimpleRule("adds without carrying", without_carries, carries),
        SimpleRule(
            "adds the units alone",
            units_alone,
            "Train longer; the rest has not been learned yet.",
            part="last digit",
            keys=("units", "others"),
        ),
    )


def other_operands(source: Rows, base: int) -> dict[str, Rows]:
    """Every digit of one operand raised by one, with 9 becoming 1, so that there is no leading zero."""
    second = np.cumsum(source == base, axis=1) > 0
    digit = digit_columns(source, base) >= 0
    moved = np.where(source == base - 1, 1, source + 1)
    return {
        "first operand": np.where(digit & ~second, moved, source),
        "second operand": np.where(digit & second, moved, source),
    }
