"""Links that open an input in the explorer's page."""

from urllib.parse import urlencode

import numpy as np
from jaxtyping import Int

from headway.tasks.base import Task


def explorer_link(task: Task, row: Int[np.ndarray, " width"]) -> str | None:
    """The URL fragment that opens an input in the explorer; None if the page accepts no typed inputs of the task."""
    page, tokens = task.page(), task.vocabulary.tokens
    if page["view"] != "sum":
        typed = " ".join(tokens[token] for token in row)
        return f"#{urlencode({'input': typed})}" if "values" in page else None
    base, gap = page["base"], "" if page["base"] <= 36 else " "
    numbers: list[list[str]] = [[]]
    for token in row:
        if token < base:
            numbers[-1].append(tokens[token])
        elif numbers[-1]:
            numbers.append([])
    first, second = (digits if page["operands_falling"] else digits[::-1] for digits in numbers[:2])
    return f"#{urlencode({'input': f'{gap.join(first)} + {gap.join(second)}'})}"
