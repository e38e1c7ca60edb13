"""Every group against every length as one map, a panel for each set: which encodings hold, at a glance."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headway.reports.length_gaps import whole_percent
from headway.reports.length_groups import Group, lengths_of, point, seeds_remark, set_name, sets_of, trained_range, unit
from headway.reports.settings import below_heading, heading, remark_lines
from headway.reports.style import (
    EDGE,
    GREY,
    INK,
    SMALL,
    axes_at,
    colour_bar,
    heat_map,
    share_scale,
    style,
    text_width,
)

FEWEST = 3
"""Groups from which on a map says more than curves."""
CELL = (0.36, 0.2)
"""Inches of a cell."""
BETWEEN, ABOVE = 0.3, 0.24
SIDE_BY_SIDE = 2


def is_mapped(groups: Sequence[Group]) -> bool:
    return len(groups) >= FEWEST


@style()
def length_map(groups: Sequence[Group]) -> Figure:
    """A panel for each set: rows are groups, columns lengths, the colour the median accuracy over seeds."""
    sets = sets_of(groups)
    lengths = sorted({length for name in sets for length in lengths_of(groups, name)})
    names = [row_name(group) for group in groups]
    width, height = CELL[0] * len(lengths), CELL[1] * len(groups)
    beside = min(SIDE_BY_SIDE, len(sets))
    left = EDGE + 0.1 + text_width(names)
    end = left + beside * (width + BETWEEN) - BETWEEN
    across = max(end + 0.75, 4.4)
    lines = remark_lines(remarks(groups), across)
    start, step = below_heading(lines), ABOVE + height + 0.16
    figure = Figure((across, start - (-len(sets) // beside) * step + 0.45))
    heading(figure, "Accuracy of every combination at every length", lines)
    for place, name in enumerate(sets):
        line, column = divmod(place, beside)
        axes = axes_at(figure, left + column * (width + BETWEEN), start + ABOVE + line * step, width, height)
        found = [[point(group, name, length) for length in lengths] for group in groups]
        shares = [[np.nan if one is None else one.median for one in row] for row in found]
        heat_map(axes, np.ma.masked_invalid(shares), share_scale(), 0.8)
        write_shares(axes, shares)
        within = sum(length <= trained_range(groups)[1] for length in lengths)
        axes.plot([within, within], [0, len(groups)], color=INK, lw=1.2)  # what is right of it was not trained
        axes.set_title(fitting(set_name(name), width), loc="left", pad=3, weight="bold")
        below = place + beside >= len(sets)
        axes.set_xticks(np.arange(len(lengths)) + 0.5, [f"{length:,}" for length in lengths] if below else [])
        axes.set_yticks(np.arange(len(groups)) + 0.5, [] if column else names)
        axes.tick_params(length=0, pad=2)
        for label, group in zip(axes.get_yticklabels(), groups, strict=False):
            label.set_color(INK if group.masters != 0 else GREY)
        if below:
            axes.set_xlabel(unit(groups))
    colour_bar(figure, share_scale(), "accuracy", end + 0.15, start + ABOVE, max(min(height, 2.0), 0.8))
    return figure


def fitting(title: str, width: float) -> str:
    """The title, cut at a comma or after a word where it is wider than its panel."""
    if text_width([title]) * 1.12 <= width:  # bold type is wider
        return title
    words = title.partition(", ")[0].split()
    while len(words) > 1 and text_width([" ".join(words) + " …"]) * 1.12 > width:
        words.pop()
    return " ".join(words) + (" …" if " ".join(words) != title else "")


def write_shares(axes: Axes, shares: Sequence[Sequence[float]]) -> None:
    scale = share_scale()
    for down, row in enumerate(shares):
        for across, share in enumerate(row):
            if np.isnan(share):
                continue
            ink = INK if sum(scale.to_rgba(np.asarray([share]))[0][:3] * (0.299, 0.587, 0.114)) > 0.5 else "white"
            place = (across + 0.5, down + 0.5)
            axes.text(*place, whole_percent(share), size=SMALL, ha="center", va="center", color=ink)


def row_name(group: Group) -> str:
    """The group, and how many of its seeds mastered the training lengths where not all did."""
    count = group.masters
    if count is None or count == group.seeds:
        return group.name
    return f"{group.name} ({count} of {group.seeds} mastered)"


def remarks(groups: Sequence[Group]) -> list[str]:
    judged = any(group.masters is not None for group in groups)
    return [
        "median over seeds, per cent",
        seeds_remark(groups),
        "right of the line: past training",
        "grey names: no seed mastered the training lengths" if judged else "",
    ]
