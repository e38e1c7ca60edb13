"""Heat maps of the means of a sweep's grid."""

import json
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, PercentFormatter

from headway.reports.panels import (
    colour_bar,
    colour_scale,
    drawing,
    heat_map,
    ink_on,
    letters_width,
    new_figure,
    share_scale,
    tiles,
    write_cell,
)
from headway.reports.settings import (
    SHARES,
    first_of,
    in_order,
    metric_name,
    panel_name,
    remarks,
    short_value,
    text_of,
    varying,
)
from headway.reports.style import LABEL, RED, SMALL
from headway.results.comparison import Comparison, Row

MOST_PANELS = 12
"""Largest number of maps; a remark gives the number of others."""
LARGEST_MAP = (9.5, 11.0)
"""Size of a map in inches up to which values are written into its cells."""


@drawing
def grid(found: Comparison) -> Figure:
    """A map of the two settings with the most values, one for each combination of the others."""
    down, across, *others = varying(found)
    combinations = list(product(*(in_order(found.vary[key]) for key in others)))
    shown = combinations[:MOST_PANELS]
    rows, columns = in_order(found.vary[down]), in_order(found.vary[across])
    cells = {_place(*(row.settings.get(key) for key in (*others, down, across))): row for row in found.rows}
    written, cell = cell_size(found, len(rows), len(columns))
    interval = written > 1 and any(row.interval for row in found.rows)
    hatched = not written and any(row.failed and row.mean is None for row in found.rows)
    figure = new_figure(
        f"Mean {metric_name(found)} over seeds",
        *remarks(found),
        "below each mean the 95 % interval of the median" if interval else "hatched: all failed" if hatched else "",
        first_of(len(shown), len(combinations), "maps"),
    )
    # A map is at least as wide and as high as its labels.
    width = max(cell[0] * len(columns), letters_width([across, *(panel_name(others, one) for one in shown)], LABEL))
    height = max(cell[1] * len(rows), letters_width([down], LABEL))
    beside = max(1, min(len(shown), int(LARGEST_MAP[0] // (width + 0.3))))
    scale = scale_of(found)
    panels = tiles(figure, len(shown), beside, (width, height), ylabel=down)
    for axes, one in zip(panels, shown, strict=True):
        draw_map(axes, [[cells.get(_place(*one, r, c)) for c in columns] for r in rows], found, scale, written)
        axes.set_title(panel_name(others, one))
        axes.set_xlabel(across)
        axes.tick_params(labelbottom=True)
        turned = letters_width(map(text_of, columns), LABEL) > width / len(columns)
        name_some(axes.xaxis, columns, width if turned else float("inf"))
        axes.tick_params(axis="x", labelrotation=90 if turned else 0)
        name_some(axes.yaxis, rows, height)
    share = found.metric in SHARES
    form = {"format": PercentFormatter(1, symbol=" %")} if share else {"ticks": MaxNLocator(3)}
    colour_bar(panels, scale, metric_name(found), height=min(2.0, max(height, 0.6)), **form)
    return figure


def cell_size(found: Comparison, rows: int, columns: int) -> tuple[int, tuple[float, float]]:
    """The number of lines in a cell (all, only the mean, or none), and its size in inches."""
    for written in (3, 1):
        texts = [cell_lines(row, found)[:written] for row in found.rows]
        widest = letters_width((line for lines in texts for line in lines), SMALL)
        cell = max(0.5, widest + 0.1), 0.08 + 0.125 * max(map(len, texts))
        if cell[0] * columns <= LARGEST_MAP[0] and cell[1] * rows <= LARGEST_MAP[1]:
            return written, cell
    return 0, (min(0.25, LARGEST_MAP[0] / columns), min(0.16, LARGEST_MAP[1] / rows))


def cell_lines(row: Row, found: Comparison) -> list[str]:
    """The text of a cell: the mean, the interval of the median, and the number of failed seeds."""
    if row.mean is None:
        return ["failed" if row.failed else "–"]
    lines = [short_value(row.mean, found.metric)]
    if row.interval:
        lines.append(" to ".join(short_value(end, found.metric) for end in row.interval))
    if row.failed:
        lines.append(f"{row.failed} failed")
    return lines


def draw_map(
    axes: Axes, cells: Sequence[Sequence[Row | None]], found: Comparison, scale: ScalarMappable, written: int
) -> None:
    """Colours of the means; a cell whose trials all failed is hatched, one without results is white."""
    means = [[np.nan if row is None or row.mean is None else row.mean for row in line] for line in cells]
    heat_map(axes, means, scale, 1.0 if written else 0.0)
    for down, line in enumerate(cells):
        for across, row in enumerate(line):
            if row is None:
                continue
            gone = row.mean is None and row.failed
            if gone:
                axes.add_patch(Rectangle((across, down), 1, 1, facecolor="white", edgecolor=RED, hatch="////", lw=0))
            if written:
                text = "\n".join(cell_lines(row, found)[:written])
                box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0} if gone else None
                write_cell(axes, down, across, text, ink_on(scale, row.mean), linespacing=1.15, bbox=box)


def name_some(axis: Any, values: Sequence[Any], room: float) -> None:
    """Label the middle of cells with their values, as many as fit."""
    places = range(0, len(values), max(1, int(np.ceil(0.14 * len(values) / room))))
    axis.set_ticks([place + 0.5 for place in places], [text_of(values[place]) for place in places])


def scale_of(found: Comparison) -> ScalarMappable:
    """0 to 1 for a share; the range of the means otherwise."""
    if found.metric in SHARES:
        return share_scale()
    means = [row.mean for row in found.rows if row.mean is not None] or [0.0]
    return colour_scale(min(means), max(means) if max(means) > min(means) else min(means) + 1)


def _place(*values: Any) -> str:
    return json.dumps(values, sort_keys=True)
