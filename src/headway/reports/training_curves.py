"""Loss and accuracy against the training step, of one run or of several."""

import math
from collections.abc import Sequence
from typing import Literal

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from headway.callbacks import CurvePoint
from headway.reports.documents import Curves
from headway.reports.panels import drawing, new_figure, percent_axis
from headway.reports.style import COLOURS, GREY, SMALL, set_style, tick

Measure = Literal["loss", "accuracy"]
MOST_POINTS = 400
"""Largest number of points of a training curve, which keeps the file small."""


@drawing
def training_curves(names: Sequence[str], metrics: Sequence[Curves], *, narrow: bool = False) -> Figure:
    """Left the loss, thin in training and thick in validation; right the accuracy in validation."""
    figure = new_figure("Training", "thin: each training batch · thick: validation", narrow=narrow)
    if narrow:
        loss, right = figure.subplots(2, 1, width_ratios=[2.4], height_ratios=[1.4, 1.4])
    else:
        loss, right = figure.subplots(1, 2, width_ratios=[3.1, 3.1], height_ratios=[1.7])
    lines = []
    for index, one in enumerate(metrics):
        look = {**set_style(index), "marker": "", "linewidth": 1.3}
        thin = one.training[:: max(1, len(one.training) // MOST_POINTS)]
        loss.plot(*_points(thin, "loss"), color=look["color"], linewidth=0.4, alpha=0.5)
        loss.plot(*_points(one.validation, "loss"), **look)
        lines += right.plot(*_points(one.validation, "accuracy"), **{**look, "marker": "o", "markersize": 2})
    if any(value > 0 for one in metrics for value in _points(one.validation, "loss")[1]):
        loss.set_yscale("log")
        loss.yaxis.set_major_locator(LogLocator(numticks=6))
        loss.yaxis.set_major_formatter(tick)
        loss.yaxis.set_minor_formatter(NullFormatter())
    loss.set(xlabel="step", ylabel="loss")
    right.set(xlabel="step", ylabel="validation accuracy", ylim=(-0.03, 1.03))
    percent_axis(right.yaxis)
    right.axhline(1, color=GREY, linewidth=0.4)
    if 1 < len(names) <= len(COLOURS):
        figure.legend(lines, names, loc="outside lower left", fontsize=SMALL)
    return figure


def _points(rows: Sequence[CurvePoint], key: Measure) -> tuple[list[int], list[float]]:
    """Steps and values of the rows with a finite value."""
    found = [(row["step"], row[key]) for row in rows if isinstance(row.get(key), (int, float))]
    kept = [(step, value) for step, value in found if math.isfinite(value)]
    return [step for step, _ in kept], [float(value) for _, value in kept]
