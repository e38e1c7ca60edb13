"""Figures that compare groups line by line: bars at a few lengths, and the length held by every seed."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from headway.narration.numbers import percent, short_percent
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
from headway.reports.panels import drawing, name_rows, new_figure, note, shade_trained, tiles, write_columns
from headway.reports.style import BLUE, DOTTED, INK, LABEL, PALE, RED
from headway.statistics import median_interval

BARS = (32, 64, 128, 256)
"""The lengths with a bar, if they were measured."""
MOST_BARS = 4
MOST_LINES = 8
"""Largest number of groups for which all sets share one figure."""
ROW = 0.2
"""Height of a group in inches."""


def plan_sets(groups: Sequence[Group]) -> list[tuple[str, list[str]]]:
    """All sets in one figure, or one figure per set if there are many groups."""
    sets = sets_of(groups)
    return [("", sets)] if len(groups) <= MOST_LINES else [(one, [one]) for one in sets]


def bar_lengths(groups: Sequence[Group], name: str) -> list[int]:
    """32, 64, 128 and 256 if measured; otherwise the first lengths beyond training, or the last trained ones."""
    there = lengths_of(groups, name)
    past = [length for length in there if length > trained_range(groups)[1]]
    return [one for one in BARS if one in past] or past[:MOST_BARS] or there[-MOST_BARS:]


@drawing
def bars(groups: Sequence[Group], sets: Sequence[str]) -> Figure:
    """Accuracy of every group at a few lengths: the bar is the median seed, the line its interval, rings are seeds."""
    threshold = threshold_of(groups)
    lengths = {name: bar_lengths(groups, name) for name in sets}
    found = [point(group, name, length) for group in groups for name in sets for length in lengths[name]]
    figure = new_figure(
        "Right answers past the trained lengths",
        seeds_remark(groups),
        "rings are seeds" if any(group.seeds > 1 for group in groups) else "",
        f"line: {band_remark(groups)}" if band_remark(groups) else "",
        "hatched: one answer to everything" if any(one and one.constant for one in found) else "",
        f"dotted: {'chance and ' if is_class(groups) else ''}{percent(threshold)}",
    )
    columns = max(map(len, lengths.values()))
    ratios = {"width_ratios": [0.62] * columns, "height_ratios": [ROW * len(groups)] * len(sets)}
    grid = figure.add_gridspec(len(sets), columns, **ratios)
    for row, name in enumerate(sets):
        for column, length in enumerate(lengths[name]):
            axes = figure.add_subplot(grid[row, column])
            name_rows(axes, [group.name for group in groups])
            axes.tick_params(labelleft=column == 0)
            draw_bars(axes, groups, name, length)
            for line in (0.5, threshold) if is_class(groups) else (threshold,):
                axes.axvline(line, color=INK, linewidth=0.6, linestyle=DOTTED, zorder=4)
            axes.set_title(f"\n{length:,}")
            if column == 0:
                how: dict[str, Any] = {"color": INK, "size": LABEL, "weight": "bold", "in_layout": False}
                note(axes, set_name(name), (0, 1), (0, 14), "axes fraction", **how)
    return figure


def draw_bars(axes: Axes, groups: Sequence[Group], name: str, length: int) -> None:
    """The bars of one set at one length, with the numbers beside them."""
    found = [point(group, name, length) for group in groups]
    for line, one in enumerate(found):
        if one is None:
            continue
        hatched: dict[str, Any] = {"facecolor": "white", "edgecolor": RED, "hatch": "/////", "linewidth": 0.5}
        axes.barh(line, one.median, height=0.66, zorder=2, **(hatched if one.constant else {"color": "#9cc9e6"}))
        if one.interval:
            axes.hlines(line, *one.interval, color=BLUE, linewidth=1.3, zorder=5)
        if len(one.values) > 1:
            how: dict[str, Any] = {"facecolors": "none", "edgecolors": INK, "clip_on": False}
            axes.scatter(one.values, [line] * len(one.values), s=7, linewidths=0.5, zorder=6, **how)
    write_columns([axes], [["–" if one is None else short_percent(one.median) for one in found]])
    axes.set(xlim=(0, 1.02), xticks=[])
    axes.spines[:].set_visible(False)


@drawing
def lengths_held(groups: Sequence[Group], sets: Sequence[str]) -> Figure:
    """The length held by every seed: a dot is a seed, the box the median, the shade the training lengths."""
    wide = any(median_interval([0.0] * group.seeds) for group in groups)
    figure = new_figure(
        "Length held",
        f"up to it, every 95 % interval past training starts at {percent(threshold_of(groups))} or more",
        seeds_remark(groups),
        "dots are seeds, the box their median" if any(group.seeds > 1 for group in groups) else "",
        "line: 95 % interval of the median" if wide else "",
    )
    lengths = sorted({length for name in sets_of(groups) for length in lengths_of(groups, name)})
    size = (3.4, max(1.15 * ROW * len(groups), 0.3))
    for axes, name in zip(tiles(figure, len(sets), 1, size, xlabel=f"length held ({unit(groups)})"), sets, strict=True):
        name_rows(axes, [group.name for group in groups])
        draw_held(axes, groups, name, lengths)
        axes.set_title(set_name(name), weight="bold", pad=13)
    return figure


def draw_held(axes: Axes, groups: Sequence[Group], name: str, lengths: Sequence[int]) -> None:
    """A logarithmic axis; a run that fails at the first length is at 0, one octave before it."""
    shortest, longest = trained_range(groups)
    first = math.log2(min(lengths[0], shortest))
    zero, end = first - 1, math.log2(max(lengths[-1], longest)) + 0.3
    axes.set_xlim(zero - 0.35, end)
    shade_trained(axes, math.log2(shortest) - 0.08, math.log2(longest) + 0.08)
    octaves = range(math.ceil(first), math.floor(end) + 1)
    axes.set_xticks([zero, *octaves], ["0", *(f"{2**one:,}" for one in octaves)])
    for times in (1, 4, 16, 64):
        if (place := math.log2(times * longest)) < end:
            axes.axvline(place, color=PALE, linewidth=0.7, zorder=0.5)
            text = "trained" if times == 1 else f"{times} ×"
            note(axes, text, (place, 1), (0, 2), axes.get_xaxis_transform(), ha="center")
    for line, group in enumerate(groups):
        if held := lengths_held_by(group, name):
            draw_seeds(axes, held, line, zero)
        else:
            note(axes, "not measured", (zero, line), (-4, 0), "data", va="center")
    axes.grid(axis="y", color=PALE, linewidth=0.4)
    axes.set_axisbelow(True)


def draw_seeds(axes: Axes, held: Sequence[int], line: int, zero: float) -> None:
    """A dot for each seed, a box for their median, a line for its interval."""
    seeds, (middle,), ends = (
        [math.log2(value) if value else zero for value in some]
        for some in (held, [float(np.median(held))], median_interval(held) or ())
    )
    if len(held) > 1:
        box: dict[str, Any] = {"facecolor": "#cfe6f5", "edgecolor": BLUE, "linewidth": 0.8, "zorder": 3}
        axes.add_patch(Rectangle((middle - 0.16, line - 0.42), 0.32, 0.84, **box))
    if ends:
        axes.hlines(line, ends[0], ends[1], color=BLUE, linewidth=1.2, zorder=2.5)
    axes.scatter(seeds, spread(seeds, line), s=9, color=INK, linewidths=0, zorder=4)


def spread(places: Sequence[float], line: float) -> list[float]:
    """Heights of dots: equal values are spread evenly around the line."""
    alike, seen, heights = Counter(places), Counter[float](), []
    for place in places:
        step = min(0.17, 0.7 / alike[place])
        heights.append(line + step * (seen[place] - (alike[place] - 1) / 2))
        seen[place] += 1
    return heights
