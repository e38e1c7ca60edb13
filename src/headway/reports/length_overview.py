"""The figure of the first screen of a report on lengths: accuracy against length, on the set that decides."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from headway.narration.lengths import STRICTEST
from headway.narration.numbers import percent
from headway.reports.length_curves import Panel, draw_line, length_axis, mark_limits
from headway.reports.length_groups import (
    MOST_IN_A_PANEL,
    Group,
    accuracy,
    is_class,
    lengths_of,
    point,
    set_name,
    sets_of,
    threshold_of,
    trained_range,
    unit,
)
from headway.reports.panels import colour_bar, drawing, heat_map, name_cells, new_figure, share_scale, tiles
from headway.reports.style import INK, SMALL, set_style

MOST_SETS = 2
MOST_ROWS = 18
"""Combinations that the map of the first screen has room for: those that are right most often past training."""


def deciding_sets(groups: Sequence[Group]) -> list[str]:
    """The strictest set first, then another."""
    sets = sets_of(groups)
    return sorted(sets, key=lambda name: name != STRICTEST)[:MOST_SETS]


@drawing
def overview_of_lengths(groups: Sequence[Group], *, narrow: bool = False) -> Figure:
    """Curves on the one or two sets that decide; of many combinations a map of the first of these."""
    if len(groups) > MOST_IN_A_PANEL:
        return draw_map(groups, narrow=narrow)
    sets = deciding_sets(groups)
    figure = new_figure("", narrow=narrow)
    names = [group.name for group in groups]
    panels = [Panel(set_name(one), one, groups, names) for one in sets]
    beside, size = (1, (2.3, 1.5)) if narrow else (len(sets), (6.4 / len(sets), 2.35))
    drawn = tiles(figure, len(sets), beside, size, xlabel=f"length ({unit(groups)})", ylabel="right answers")
    limits = {percent(threshold_of(groups)): threshold_of(groups)} | ({"chance": 0.5} if is_class(groups) else {})
    for axes, panel in zip(drawn, panels, strict=True):
        axes.set_title(panel.title, weight="bold")
        length_axis(axes, groups, panels, every=2 if narrow else 1)
        for index, group in enumerate(groups):
            draw_line(axes, group, panel.set, accuracy, set_style(index))
        axes.set_ylim(-0.03, 1.03)
        mark_limits(axes, limits)
    if len(groups) > 1:
        lines = [Line2D([], [], markersize=4, linewidth=1.4, label=one, **set_style(i)) for i, one in enumerate(names)]
        figure.legend(handles=lines, loc="outside lower left", ncols=1 if narrow else 3, handlelength=3.2)
    return figure


def draw_map(groups: Sequence[Group], *, narrow: bool) -> Figure:
    """Rows are combinations, those that are right most often past training first; columns are lengths."""
    name = deciding_sets(groups)[0]
    lengths, longest = lengths_of(groups, name), trained_range(groups)[1]
    shown = [length for length in lengths if length >= longest] or lengths
    found = {group.name: [point(group, name, length) for length in shown] for group in groups}
    shares = {key: [np.nan if one is None else one.median for one in row] for key, row in found.items()}
    rows = sorted(shares, key=lambda key: -np.nansum(shares[key][1:]))[:MOST_ROWS]
    left = len(groups) - len(rows)
    figure = new_figure("", narrow=narrow)
    cell = (0.27, 0.17) if narrow else (min(0.62, 4.4 / len(shown)), min(0.2, 2.9 / len(rows)))
    size = cell[0] * len(shown), cell[1] * len(rows)
    beyond = "" if narrow else f", trained on up to {longest:,}"
    (axes,) = tiles(figure, 1, 1, size, xlabel=f"length ({unit(groups)}){beyond}")
    heat_map(axes, [shares[key] for key in rows], share_scale(), percents=True)
    axes.set_title(f"Right answers in per cent: {set_name(name)}", weight="bold")
    names = [key if len(key) < 24 or not narrow else f"{key[:22]}…" for key in rows]
    name_cells(axes, names, [f"{length:,}" for length in shown])
    axes.tick_params(labelsize=SMALL)
    axes.plot([1, 1], [0, len(rows)], color=INK, lw=1.2)
    if left:
        axes.annotate(f"and {left} more", (0, 0), (-4, -14), "axes fraction", "offset points", ha="right", size=SMALL)
    if not narrow:
        colour_bar([axes], share_scale(), "accuracy")
    return figure
