"""A heat map of all groups against all lengths, with a panel for each set."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from headway.reports.length_groups import Group, lengths_of, point, seeds_remark, set_name, sets_of, trained_range, unit
from headway.reports.panels import colour_bar, drawing, heat_map, name_cells, new_figure, share_scale, tiles
from headway.reports.style import GREY, INK

FEWEST = 3
"""Smallest number of groups for which a map is drawn."""
CELL = (0.36, 0.2)
"""Size of a cell in inches."""


def is_mapped(groups: Sequence[Group]) -> bool:
    return len(groups) >= FEWEST


@drawing
def length_map(groups: Sequence[Group]) -> Figure:
    """A panel for each set: rows are groups, columns lengths, the colour is the median accuracy over seeds."""
    sets = sets_of(groups)
    lengths = sorted({length for name in sets for length in lengths_of(groups, name)})
    within = sum(length <= trained_range(groups)[1] for length in lengths)
    figure = new_figure(
        "Accuracy of every combination at every length",
        "median over seeds, per cent",
        seeds_remark(groups),
        "right of the line: past training",
        "grey names: no seed mastered the training lengths" if any(g.masters is not None for g in groups) else "",
    )
    size, scale = (CELL[0] * len(lengths), CELL[1] * len(groups)), share_scale()
    panels = tiles(figure, len(sets), min(2, len(sets)), size, xlabel=unit(groups))
    for axes, name in zip(panels, sets, strict=True):
        found = [[point(group, name, length) for length in lengths] for group in groups]
        shares = [[np.nan if one is None else one.median for one in row] for row in found]
        heat_map(axes, shares, scale, percents=True)
        axes.plot([within, within], [0, len(groups)], color=INK, lw=1.2)  # lengths right of it were not trained
        axes.set_title(set_name(name), weight="bold")
        name_cells(axes, [row_name(group) for group in groups], [f"{length:,}" for length in lengths])
        for label, group in zip(axes.get_yticklabels(), groups, strict=False):
            label.set_color(INK if group.masters != 0 else GREY)
    colour_bar(panels, scale, "accuracy", height=2.0)
    return figure


def row_name(group: Group) -> str:
    """The group's name, and the number of seeds that mastered the training lengths unless all did."""
    count = group.masters
    if count is None or count == group.seeds:
        return group.name
    return f"{group.name} ({count} of {group.seeds} mastered)"
