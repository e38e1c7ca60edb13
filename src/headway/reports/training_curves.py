"""Loss and accuracy against the training step, of one run or of several."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from headway.reports.length_groups import COLOURS, DASHES
from headway.reports.style import EDGE, GREY, axes_at, head_line, style

WIDE, HIGH, LEFT, TOP, BETWEEN = 3.1, 1.7, 0.62, 0.55, 0.75
"""Inches of a panel, of what is left free beside and above it, and between the two."""
MOST_POINTS = 400
"""Points of a training curve: the eye sees no more, and the file stays small."""
LEGEND_LINE = 0.16


@style()
def training_curves(names: Sequence[str], metrics: Sequence[Mapping[str, Any]]) -> Figure:
    """Left the loss, thin in training and thick in validation; right the accuracy in validation."""
    legend = LEGEND_LINE * len(names) if 1 < len(names) <= len(COLOURS) else 0.0
    figure = Figure((LEFT + 2 * WIDE + BETWEEN + EDGE, TOP + HIGH + 0.5 + legend))
    head_line(figure, "Training", "thin: each training batch · thick: validation")
    loss = axes_at(figure, LEFT, TOP, WIDE, HIGH)
    right = axes_at(figure, LEFT + WIDE + BETWEEN, TOP, WIDE, HIGH)
    lines = []
    for index, one in enumerate(metrics):
        look = {"color": COLOURS[index % len(COLOURS)], "linestyle": DASHES[index % len(DASHES)]}
        thin = one["training"][:: max(1, len(one["training"]) // MOST_POINTS)]
        loss.plot(*_points(thin, "loss"), color=look["color"], linewidth=0.4, alpha=0.5)
        loss.plot(*_points(one["validation"], "loss"), linewidth=1.3, **look)
        lines += right.plot(*_points(one["validation"], "accuracy"), linewidth=1.3, marker="o", markersize=2, **look)
    if any(value > 0 for one in metrics for value in _points(one["validation"], "loss")[1]):
        loss.set_yscale("log")
        loss.yaxis.set_major_locator(LogLocator(numticks=6))
        loss.yaxis.set_major_formatter(
            FuncFormatter(lambda value, place: f"{value:g}")
        )  # no formulas: a name may have $
        loss.yaxis.set_minor_formatter(NullFormatter())
    loss.set(xlabel="step", ylabel="loss")
    right.set(xlabel="step", ylabel="validation accuracy", ylim=(-0.03, 1.03))
    right.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    right.axhline(1, color=GREY, linewidth=0.4)
    if legend:
        figure.legend(lines, names, loc="lower left", fontsize=6.5)
    return figure


def _points(rows: Sequence[Mapping[str, Any]], key: str) -> tuple[list[int], list[float]]:
    """Steps and values of the rows that have a finite one."""
    found = [(row["step"], row[key]) for row in rows if isinstance(row.get(key), (int, float))]
    kept = [(step, value) for step, value in found if math.isfinite(value)]
    return [step for step, _ in kept], [float(value) for _, value in kept]
