"""Groups compared line by line: bars at a few lengths, and how far every seed holds."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from headway.reports.length_curves import SHADE
from headway.reports.length_groups import (
    Group,
    band_remark,
    is_class,
    lengths_held_by,
    lengths_of,
    point,
    seeds_remark,
    set_name,
    sets_of,
    threshold_of,
    trained_range,
    unit,
)
from headway.reports.settings import below_heading, heading, remark_lines
from headway.reports.style import BLUE, EDGE, INK, PALE, RED, axes_at, note, style, text_width, write
from headway.statistics import median_interval

BARS = (32, 64, 128, 256)
"""The lengths that have a bar, where they were measured."""
MOST_BARS = 4
MOST_LINES = 8
"""Groups up to which all sets share one figure."""
ROW, COLUMN, BETWEEN = 0.2, 0.62, 0.4
"""Inches: of a group, of the bars of one length, and to the next length (a number stands there)."""


def plan_sets(groups: Sequence[Group]) -> list[tuple[str, list[str]]]:
    """All sets in one figure, or one figure a set for many groups."""
    sets = sets_of(groups)
    return [("", sets)] if len(groups) <= MOST_LINES else [(one, [one]) for one in sets]


def bar_lengths(groups: Sequence[Group], name: str) -> list[int]:
    """32, 64, 128 and 256 as far as they were measured; else the first lengths past training, or the last of it."""
    there = lengths_of(groups, name)
    past = [length for length in there if length > trained_range(groups)[1]]
    return [one for one in BARS if one in past] or past[:MOST_BARS] or there[-MOST_BARS:]


@style()
def bars(groups: Sequence[Group], sets: Sequence[str]) -> Figure:
    """Accuracy of every group at a few lengths: the bar is the median seed, the line its interval, rings are seeds."""
    threshold = threshold_of(groups)
    left = EDGE + 0.1 + text_width(group.name for group in groups)
    columns = max(len(bar_lengths(groups, name)) for name in sets)
    across = max(left + columns * (COLUMN + BETWEEN) + EDGE, 4.2)
    constant = any(
        (found := point(group, name, length)) and found.constant
        for group in groups
        for name in sets
        for length in bar_lengths(groups, name)
    )
    lines = remark_lines(
        [
            seeds_remark(groups),
            "rings are seeds" if any(group.seeds > 1 for group in groups) else "",
            f"line: {band_remark(groups)}" if band_remark(groups) else "",
            "hatched: one answer to everything" if constant else "",
            f"dotted: {'chance and ' if is_class(groups) else ''}{100 * threshold:g} %",
        ],
        across,
    )
    above, height = 0.42, ROW * len(groups)
    start = below_heading(lines) - 0.08
    figure = Figure((across, start + len(sets) * (above + height + 0.12) + 0.12))
    heading(figure, "Right answers past the trained lengths", lines)
    for place, name in enumerate(sets):
        top = start + place * (above + height + 0.12)
        write(figure, EDGE, top + 0.02, set_name(name), weight="bold")
        for column, length in enumerate(bar_lengths(groups, name)):
            axes = axes_at(figure, left + column * (COLUMN + BETWEEN), top + above, COLUMN, height)
            draw_bars(axes, groups, name, length)
            axes.set_title(f"{length:,}", loc="left", pad=3)
            for line in (0.5, threshold) if is_class(groups) else (threshold,):
                axes.axvline(line, color=INK, linewidth=0.6, linestyle=(0, (1, 1.5)), zorder=4)
            axes.set_yticks(range(len(groups)), [group.name for group in groups] if column == 0 else [])
    return figure


def draw_bars(axes: Axes, groups: Sequence[Group], name: str, length: int) -> None:
    for line, group in enumerate(groups):
        found = point(group, name, length)
        if found is None:
            note(axes, "–", (1, line), (4, 0), axes.get_yaxis_transform(), va="center")
            continue
        face: dict[str, Any] = {"color": "#9cc9e6", "linewidth": 0}
        if found.constant:
            face = {"facecolor": "white", "edgecolor": RED, "hatch": "/////", "linewidth": 0.5}
        axes.barh(line, found.median, height=0.66, zorder=2, **face)
        if found.interval:
            axes.hlines(line, *found.interval, color=BLUE, linewidth=1.3, zorder=5)
        if len(found.values) > 1:
            ring: dict[str, Any] = {
                "s": 7,
                "facecolors": "none",
                "edgecolors": INK,
                "linewidths": 0.5,
                "zorder": 6,
                "clip_on": False,
            }
            axes.scatter(found.values, [line] * len(found.values), **ring)
        note(axes, percent(found.median), (1, line), (5, 0), axes.get_yaxis_transform(), va="center", color=INK)
    axes.set(xlim=(0, 1.02), ylim=(len(groups) - 0.5, -0.5), xticks=[])
    axes.tick_params(axis="y", length=0)
    axes.spines["bottom"].set_visible(False)


def percent(value: float) -> str:
    """Percent with one decimal; 100 only where nothing was wrong.

    >>> percent(1.0), percent(0.9997), percent(0.5), percent(0.0)
    ('100', '>99.9', '50.0', '0.0')
    """
    if value == 1:
        return "100"
    return ">99.9" if value >= 0.9995 else f"{100 * value:.1f}"


@style()
def lengths_held(groups: Sequence[Group], sets: Sequence[str]) -> Figure:
    """How far every seed holds: a dot is a seed, the box the median, the shade what was trained on."""
    left = EDGE + 0.1 + text_width(group.name for group in groups)
    width, height, above = 3.4, max(1.15 * ROW * len(groups), 0.3), 0.4
    step = above + height + 0.2
    across = max(left + width + 0.3, 4.8)
    several = any(group.seeds > 1 for group in groups)
    remarks = [
        f"up to it, every 95 % interval past training starts at {100 * threshold_of(groups):g} % or more",
        seeds_remark(groups),
        "dots are seeds, the box their median" if several else "",
        median_remark(groups),
    ]
    lines = remark_lines(remarks, across)
    start = below_heading(lines) - 0.08
    figure = Figure((across, start + len(sets) * step + 0.25))
    heading(figure, "Length held", lines)
    lengths = sorted({length for name in sets_of(groups) for length in lengths_of(groups, name)})
    for place, name in enumerate(sets):
        top = start + place * step
        write(figure, EDGE, top + 0.02, set_name(name), weight="bold")
        axes = axes_at(figure, left, top + above, width, height)
        draw_held(axes, groups, name, lengths)
        axes.set_yticks(range(len(groups)), [group.name for group in groups])
        axes.tick_params(labelbottom=place == len(sets) - 1)
    axes.set_xlabel(f"length held ({unit(groups)})")
    return figure


def median_remark(groups: Sequence[Group]) -> str:
    wide = any(median_interval([0.0] * group.seeds) for group in groups)
    return "line: 95 % interval of the median" if wide else ""


def draw_held(axes: Axes, groups: Sequence[Group], name: str, lengths: Sequence[int]) -> None:
    """Octaves along the axis; a run that fails at the first length stands at 0, an octave before it."""
    shortest, longest = trained_range(groups)
    first = math.log2(min(lengths[0], shortest))
    zero = first - 1
    axes.set(xlim=(zero - 0.35, math.log2(max(lengths[-1], longest)) + 0.3), ylim=(len(groups) - 0.5, -0.5))
    axes.axvspan(math.log2(shortest) - 0.08, math.log2(longest) + 0.08, color=SHADE, linewidth=0, zorder=0)
    octaves = range(math.ceil(first), math.floor(axes.get_xlim()[1]) + 1)
    axes.set_xticks([zero, *octaves], ["0", *(f"{2**one:,}" for one in octaves)])
    for times in (1, 4, 16, 64):
        if math.log2(times * longest) < axes.get_xlim()[1]:
            text = "trained" if times == 1 else f"{times} ×"
            axes.axvline(math.log2(times * longest), color=PALE, linewidth=0.7, zorder=0.5)
            note(axes, text, (math.log2(times * longest), 1), (0, 2), axes.get_xaxis_transform(), ha="center")
    for line, group in enumerate(groups):
        held = lengths_held_by(group, name)
        if not held:
            note(axes, "not measured", (zero, line), (-4, 0), "data", va="center")
            continue
        places = [place_of(value, zero) for value in [*held, float(np.median(held)), *(median_interval(held) or ())]]
        seeds, middle, ends = places[: len(held)], places[len(held)], places[len(held) + 1 :]
        box: dict[str, Any] = {"facecolor": "#cfe6f5", "edgecolor": BLUE, "linewidth": 0.8, "zorder": 3}
        if len(held) > 1:
            axes.add_patch(Rectangle((middle - 0.16, line - 0.42), 0.32, 0.84, **box))
        axes.hlines([line] if ends else [], *(ends or (0, 0)), color=BLUE, linewidth=1.2, zorder=2.5)
        axes.scatter(seeds, spread(seeds, line), s=9, color=INK, linewidths=0, zorder=4)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", color=PALE, linewidth=0.4)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)


def place_of(length: float, zero: float) -> float:
    return math.log2(length) if length else zero


def spread(places: Sequence[float], line: float) -> list[float]:
    """Heights of dots: those at one place stand above each other, evenly about the line."""
    heights = []
    for index, place in enumerate(places):
        alike = [other for other in range(len(places)) if places[other] == place]
        step = min(0.17, 0.7 / len(alike))
        heights.append(line + step * (alike.index(index) - (len(alike) - 1) / 2))
    return heights
