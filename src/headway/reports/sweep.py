"""Figures of a sweep, its grid and its learning curves, from a comparison and the trials' metrics."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headway.reports.grid import MOST_PANELS, grid
from headway.reports.panels import drawing, grid_lines, name_rows, new_figure, note, percent_axis, tiles, write_columns
from headway.reports.settings import (
    first_of,
    in_order,
    is_grid,
    is_number,
    metric_name,
    panel_name,
    remarks,
    success_text,
    text_of,
    value_axis,
    varying,
)
from headway.reports.style import BLUE, GREY, INK, LABEL, RED, NamedFigures, save, tick
from headway.results.comparison import Comparison, Row
from headway.runs import RunDirectory, SweepDirectory

Curve = Sequence[tuple[int, float]]
"""(step, validation accuracy) of one trial."""
MOST_ROWS, MOST_CURVES = 60, 12
"""Largest numbers of settings that are drawn as dots and with curves; a remark gives the number of others."""


def draw_sweep(found: Comparison, directory: SweepDirectory) -> list[Path]:
    """Write the figures of the metric, and the curves if trials have any, as PNG and SVG; returns their paths."""
    directory.figures.mkdir(parents=True, exist_ok=True)
    curves = [read_curves(row, directory) for row in found.rows[:MOST_CURVES]]
    figures = sweep_figures(found, curves)
    return [path for name, draw in figures for path in save(draw(), directory.figures, name)]


def sweep_figures(found: Comparison, curves: Sequence[Sequence[Curve]]) -> NamedFigures:
    keys = varying(found)
    metric = found.metric
    if len(keys) < 2:
        yield f"settings-{metric}", partial(dots, found)
    elif is_grid(found, keys):
        yield f"grid-{metric}", partial(grid, found)
    else:
        yield f"search-{metric}", partial(search, found)
    if any(curve for one in curves for curve in one):
        yield "curves", partial(learning, found, curves)


def read_curves(row: Row, directory: SweepDirectory) -> list[Curve]:
    return [read_curve(directory.trial(name)) for name in row.trials]


def read_curve(run: RunDirectory) -> Curve:
    """Validation accuracy against step; empty for a trial without validations."""
    return [(row["step"], row["validation"]["accuracy"]) for row in run.metrics() if "validation" in row]


# One setting: every seed


@drawing
def dots(found: Comparison) -> Figure:
    """One line per setting: a ring for each seed, the median as a bar, its 95 % interval as a line."""
    rows = found.rows[:MOST_ROWS]
    key = next(iter(varying(found)), None)
    figure = new_figure(
        f"{metric_name(found).capitalize()} of every seed",
        *remarks(found),
        first_of(len(rows), len(found.rows), "settings"),
    )
    label = f"{metric_name(found)}: rings are seeds, the bar is their median, the line its 95 % interval"
    (axes,) = tiles(figure, 1, 1, (4.0, 0.24 * len(rows)), xlabel=label)
    name_rows(axes, [text_of(row.settings.get(key)) if key else "all seeds" for row in rows])
    for place, row in enumerate(rows):
        draw_seeds(axes, place, row)
    value_axis(axes.xaxis, found)
    write_columns([axes], [[_row_remark(row, found) for row in rows]])
    if key:
        note(axes, key, (0, 1), (-4, 5), "axes fraction", ha="right", size=LABEL)
    return figure


def draw_seeds(axes: Axes, place: int, row: Row) -> None:
    values = [value for value in row.values if value is not None]
    if row.interval:
        axes.hlines(place, *row.interval, color=BLUE, linewidth=1.4, zorder=2)
    if values:
        axes.vlines(median(values), place - 0.3, place + 0.3, color=BLUE, linewidth=2, zorder=3)
    axes.scatter(values, [place] * len(values), s=14, facecolors="none", edgecolors=INK, linewidths=0.7, zorder=4)


def _row_remark(row: Row, found: Comparison) -> str:
    ended = row.n + row.failed
    parts = []
    if row.successes is not None and ended:
        parts.append(f"{row.successes} of {ended} {success_text(found)}")
    if row.failed:
        parts.append(f"{row.failed} failed")
    if row.stopped:
        parts.append(f"stopped at step {row.stopped_at:,}")
    return ", ".join(parts) or ("" if ended else "not finished")


# A search: each setting separately


@drawing
def search(found: Comparison) -> Figure:
    """A panel for each setting with every tried combination at its value; a cross below marks a failed one.

    A grey ring marks one that stopped at a rung, at its mean there.
    """
    keys = varying(found)[:MOST_PANELS]
    failed = any(row.mean is None and row.failed for row in found.rows)
    figure = new_figure(
        f"Mean {metric_name(found)} of every setting that was tried",
        *remarks(found),
        "a grey ring is a setting that stopped at a rung, after fewer steps" if found.trials_stopped else "",
        "a cross is a setting whose trials all failed" if failed else "",
        first_of(len(keys), len(varying(found)), "varied settings"),
    )
    panels = tiles(figure, len(keys), min(3, len(keys)), (2.5, 1.7), ylabel=metric_name(found))
    for axes, key in zip(panels, keys, strict=True):
        draw_tried(axes, key, found)
        axes.tick_params(labelbottom=True)
    return figure


def draw_tried(axes: Axes, key: str, found: Comparison) -> None:
    values = in_order(found.vary[key])
    numbers = all(is_number(value) for value in values)
    places: list[Any] = [
        row.settings.get(key) if numbers else values.index(row.settings.get(key)) for row in found.rows
    ]
    means = [row.mean for row in found.rows]
    there = [(place, mean) for place, mean in zip(places, means, strict=True) if mean is not None]
    gone = [place for place, row in zip(places, found.rows, strict=True) if row.mean is None and row.failed]
    axes.scatter([one for one, _ in there], [mean for _, mean in there], s=14, color=BLUE, alpha=0.7, linewidths=0)
    rings = [(place, row.stopped_mean) for place, row in zip(places, found.rows, strict=True) if row.stopped]
    heights: list[Any] = [mean for _, mean in rings]
    axes.scatter([one for one, _ in rings], heights, s=12, facecolors="none", edgecolors=GREY, linewidths=0.7)
    across = axes.get_xaxis_transform()
    axes.scatter(gone, [0.03] * len(gone), s=16, marker="x", color=RED, linewidths=1, transform=across)
    if numbers and values[0] > 0 and values[-1] / values[0] >= 30:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(tick)
    elif numbers:
        axes.xaxis.set_major_locator(MaxNLocator(4))
    else:
        axes.set_xticks(range(len(values)), [text_of(value) for value in values], rotation=90)
    value_axis(axes.yaxis, found)
    axes.set_xlabel(key)


# How they learned


@drawing
def learning(found: Comparison, curves: Sequence[Sequence[Curve]]) -> Figure:
    """A panel for each setting in the table's order: a thin line per seed, a ring at its end, a cross if it failed."""
    rows = found.rows[: len(curves)]
    figure = new_figure(
        "Validation accuracy while training",
        "a line is a seed, with a ring where it ended, or a cross where it failed",
        first_of(len(rows), len(found.rows), "settings of the table"),
    )
    longest = max((step for one in curves for curve in one for step, _ in curve[-1:]), default=1)
    panels = tiles(figure, len(rows), min(4, len(rows)), (2.0, 1.35), xlabel="step")
    for axes, row, one in zip(panels, rows, curves, strict=True):
        draw_curves(axes, row, one)
        axes.set(xlim=(0, longest * 1.03 or 1), ylim=(-0.03, 1.05))
        axes.set_title("\n".join(_setting_lines(row, varying(found))))
    return figure


def draw_curves(axes: Axes, row: Row, curves: Sequence[Curve]) -> None:
    for curve, value in zip(curves, row.values, strict=True):
        if curve:
            axes.plot(*zip(*curve, strict=True), color=BLUE, linewidth=0.8, alpha=0.7)
            marker, colour = ("o", BLUE) if value is not None else ("x", RED)
            axes.plot(*curve[-1], marker, color=colour, markersize=3.5, markeredgewidth=0.9, markerfacecolor="white")
    grid_lines(axes)
    axes.set_yticks([0, 0.5, 1])
    percent_axis(axes.yaxis)
    axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))
    if not any(curves):
        text = f"stopped at step {row.stopped_at:,}" if row.stopped else "no curve"
        note(axes, text, (0.5, 0.5), (0, 0), "axes fraction", ha="center", color=GREY)


def _setting_lines(row: Row, keys: Sequence[str]) -> list[str]:
    return [panel_name([key], [row.settings.get(key)]) for key in keys] or ["all seeds"]
