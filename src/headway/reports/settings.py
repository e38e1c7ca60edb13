"""The text of a sweep's settings and metric in its figures."""

import json
import math
from collections.abc import Sequence
from typing import Any

from matplotlib.ticker import MaxNLocator

from headway.narration.numbers import percent, short_percent
from headway.reports.panels import percent_axis
from headway.results.comparison import Comparison

SHARES = ("accuracy", "validation_accuracy")
LONGEST = 26
"""Largest number of letters of a value."""


def varying(found: Comparison) -> list[str]:
    """Settings with more than one value; those with the most values first."""
    several = [key for key, values in found.vary.items() if len(values) > 1]
    return sorted(several, key=lambda key: -len(found.vary[key]))


def is_grid(found: Comparison, keys: Sequence[str]) -> bool:
    """Whether most combinations of values were planned; a search has few of them."""
    return 2 * len(found.rows) > math.prod(len(found.vary[key]) for key in keys)


def remarks(found: Comparison) -> list[str]:
    """Remarks on the numbers: seeds, failures, missing trials, fixed settings."""
    counts = {row.n for row in found.rows}
    seeds = f"{'up to ' if len(counts) > 1 else ''}{max(counts)} {'seed' if max(counts) == 1 else 'seeds'} a setting"
    stopped = found.trials_stopped
    missing = found.trials_planned - found.trials_finished - found.trials_failed - stopped
    fixed = [f"{key} = {text_of(values[0])}" for key, values in found.vary.items() if len(values) == 1]
    return [
        seeds + (" (fewer than 6: descriptive)" if found.descriptive else ""),
        f"{found.trials_failed:,} of {found.trials_planned:,} trials failed" if found.trials_failed else "",
        f"{stopped:,} of {found.trials_planned:,} stopped at a rung" if stopped else "",
        f"{missing:,} of {found.trials_planned:,} not finished" if missing else "",
        *fixed,
    ]


def first_of(shown: int, all: int, what: str) -> str:
    return f"the first {shown:,} of {all:,} {what}" if shown < all else ""


def text_of(value: Any) -> str:
    """A value as in a recipe; the middle of a long one is left out, because the ends distinguish values.

    >>> text_of(True), text_of({"name": "learned", "table_size": 64})
    ('true', '{"name": "lea…le_size": 64}')
    """
    text = value if isinstance(value, str) else json.dumps(value)
    half = LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]}…{text[-half:]}"


def in_order(values: Sequence[Any]) -> list[Any]:
    """Numbers by size; other values in the plan's order."""
    return sorted(values) if all(is_number(value) for value in values) else list(values)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def metric_name(found: Comparison) -> str:
    return str(found.metric).replace("_", " ")


def short_value(value: float, metric: str) -> str:
    """A number that fits into a cell; shares in per cent.

    >>> short_value(0.98765, "accuracy"), short_value(0.0001234, "loss")
    ('98.8', '0.000123')
    """
    return short_percent(value) if metric in SHARES else f"{value:.3g}"


def success_text(found: Comparison) -> str:
    """The limit of a success."""
    limit = found.success_at or 0.0
    return f"{'≤' if found.lower_is_better else '≥'} {percent(limit) if found.metric in SHARES else f'{limit:g}'}"


def value_axis(axes: Any, found: Comparison) -> None:
    """The format of the metric's values along an axis."""
    axes.set_major_locator(MaxNLocator(5))
    if found.metric in SHARES:
        percent_axis(axes, decimals=None)


def panel_name(keys: Sequence[str], values: Sequence[Any]) -> str:
    words = [key.removesuffix(".name").split(".")[-1] for key in keys]
    return ", ".join(f"{word} = {text_of(value)}" for word, value in zip(words, values, strict=True))
