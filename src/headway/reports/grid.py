"""The grid of a sweep as maps of its means."""

import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, PercentFormatter

from headway.reports.settings import (
    NARROWEST,
    SHARES,
    Row,
    below_heading,
    first_of,
    heading,
    in_order,
    metric_name,
    panel_name,
    remark_lines,
    remarks,
    short_value,
    text_of,
    varying,
)
from headway.reports.style import (
    EDGE,
    INK,
    RED,
    SMALL,
    Document,
    axes_at,
    heat_map,
    share_scale,
    style,
    text_width,
)

MOST_PANELS = 12
"""Maps that are drawn; the remark says how many more there are."""
BETWEEN, WIDEST = 0.3, 9.5
"""Inches between maps, and the room for maps side by side."""
LARGEST_MAP = (9.5, 11.0)
"""Inches of a map up to which its cells are large enough to be written in."""


@style()
def grid(found: Document) -> Figure:
    """A map of the two settings with the most values, one for each combination of the others."""
    down, across, *others = varying(found)
    combinations = list(product(*(in_order(found["vary"][key]) for key in others)))
    shown = combinations[:MOST_PANELS]
    rows, columns = in_order(found["vary"][down]), in_order(found["vary"][across])
    cells = {_place(row["settings"], (*others, down, across)): row for row in found["rows"]}
    sizes = _MapSizes(found, down, across, [panel_name(others, one) for one in shown])
    left, scale = EDGE + 0.3 + sizes.row_names, scale_of(found)
    end = left + sizes.beside * (sizes.width + BETWEEN)
    lines = remark_lines(
        [*remarks(found), sizes.remark, first_of(len(shown), len(combinations), "maps")], max(end + 0.7, NARROWEST)
    )
    start = below_heading(lines)
    figure = Figure((max(end + 0.7, NARROWEST), start - (-len(shown) // sizes.beside) * sizes.step))
    heading(figure, f"Mean {metric_name(found)} over seeds", lines)
    for place, one in enumerate(shown):
        line, column = divmod(place, sizes.beside)
        top = start + sizes.title + line * sizes.step
        axes = axes_at(figure, left + column * (sizes.width + BETWEEN), top, sizes.width, sizes.height)
        draw_map(axes, [[cells.get(_place_of(*one, r, c)) for c in columns] for r in rows], found, scale, sizes)
        axes.set_title(panel_name(others, one), loc="left", pad=3)
        _name_cells(axes, [] if column else rows, columns, sizes)
        axes.set(xlabel=across, ylabel="" if column else down)
    _show_scale(figure, scale, found, end, start + sizes.title, sizes.height)
    return figure


class _MapSizes:
    """Inches of one map and of what stands around it, and how much is written in a cell: all, the mean, nothing."""

    def __init__(self, found: Document, down: str, across: str, titles: Sequence[str]):
        rows, columns = found["vary"][down], found["vary"][across]
        for self.written in (3, 1, 0):
            texts = [cell_lines(row, found)[: self.written] for row in found["rows"]]
            widest = text_width((line for lines in texts for line in lines), SMALL)
            cell = max(0.5, widest + 0.14), 0.08 + 0.125 * max(map(len, texts))
            if self.written and cell[0] * len(columns) <= LARGEST_MAP[0] and cell[1] * len(rows) <= LARGEST_MAP[1]:
                break
        else:
            cell = min(0.25, LARGEST_MAP[0] / len(columns)), min(0.16, LARGEST_MAP[1] / len(rows))
        # A map is at least as wide and as high as what is written along it.
        self.width = max(cell[0] * len(columns), text_width([across]), text_width(titles))
        self.height = max(cell[1] * len(rows), text_width([down]))
        self.cell = self.width / len(columns), self.height / len(rows)
        names = text_width(map(text_of, columns))
        self.turned = names + 0.08 > self.cell[0]
        self.row_names = text_width(map(text_of, rows))
        self.title = 0.22 * any(titles)
        self.beside = max(1, min(len(titles), int(WIDEST // (self.width + BETWEEN))))
        self.step = self.title + self.height + (names if self.turned else 0.12) + 0.5
        interval = self.written > 1 and any(row["interval"] for row in found["rows"])
        hatched = not self.written and any(row["failed"] and row["mean"] is None for row in found["rows"])
        self.remark = (
            "below each mean the 95 % interval of the median" if interval else "hatched: all failed" if hatched else ""
        )


def cell_lines(row: Row, found: Document) -> list[str]:
    """What is written in a cell: the mean, the interval of the median, and how many seeds failed."""
    if row["mean"] is None:
        return ["failed" if row["failed"] else "–"]
    lines = [short_value(row["mean"], found["metric"])]
    if row["interval"]:
        lines.append(" to ".join(short_value(end, found["metric"]) for end in row["interval"]))
    if row["failed"]:
        lines.append(f"{row['failed']} failed")
    return lines


def draw_map(
    axes: Axes, cells: Sequence[Sequence[Row | None]], found: Document, scale: ScalarMappable, sizes: _MapSizes
) -> None:
    """Colours of the means; a cell whose trials all failed is crossed, one without results is white."""
    means = [[np.nan if row is None or row["mean"] is None else row["mean"] for row in line] for line in cells]
    heat_map(axes, np.ma.masked_invalid(means), scale, 1.0 if sizes.written else 0.0)
    for down, line in enumerate(cells):
        for across, row in enumerate(line):
            if row is not None and row["mean"] is None and row["failed"]:
                axes.add_patch(Rectangle((across, down), 1, 1, facecolor="white", edgecolor=RED, hatch="////", lw=0))
            if row is not None and sizes.written:
                _write_cell(axes, across, down, cell_lines(row, found)[: sizes.written], _ink_on(row["mean"], scale))


def _write_cell(axes: Axes, across: int, down: int, lines: Sequence[str], ink: str) -> None:
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0} if lines[0] == "failed" else None
    place = (across + 0.5, down + 0.5)
    axes.text(*place, "\n".join(lines), ha="center", va="center", size=SMALL, color=ink, linespacing=1.15, bbox=box)


def _ink_on(value: float | None, scale: ScalarMappable) -> str:
    """Dark letters on light cells, light ones on dark."""
    if value is None:
        return INK
    red, green, blue, _ = scale.to_rgba(np.asarray([value]))[0]
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"


def _name_cells(axes: Axes, rows: Sequence[Any], columns: Sequence[Any], sizes: _MapSizes) -> None:
    """Values along both sides, as many as have room."""
    every = max(1, int(np.ceil(0.14 / sizes.cell[0]))) if sizes.turned else 1
    places = range(0, len(columns), every)
    axes.set_xticks([place + 0.5 for place in places], [text_of(columns[place]) for place in places])
    axes.tick_params(axis="both", length=0)
    axes.tick_params(axis="x", labelrotation=90 if sizes.turned else 0)
    every = max(1, int(np.ceil(0.14 / sizes.cell[1])))
    places = range(0, len(rows), every)
    axes.set_yticks([place + 0.5 for place in places], [text_of(rows[place]) for place in places])


def scale_of(found: Document) -> ScalarMappable:
    """0 to 1 for a share; from the smallest to the largest mean for anything else."""
    if found["metric"] in SHARES:
        return share_scale()
    means = [row["mean"] for row in found["rows"] if row["mean"] is not None] or [0.0]
    high = max(means) if max(means) > min(means) else min(means) + 1
    return ScalarMappable(Normalize(min(means), high), colormaps["viridis"].with_extremes(bad="white"))


def _show_scale(figure: Figure, scale: ScalarMappable, found: Document, left: float, top: float, height: float) -> None:
    height = min(max(height, 0.6), 2.0)
    share = found["metric"] in SHARES
    bar = figure.colorbar(
        scale,
        cax=axes_at(figure, left, top, 0.11, height),
        ticks=[0, 0.5, 1] if share else MaxNLocator(3),
        format=PercentFormatter(1, symbol=" %") if share else None,
    )
    bar.set_label(metric_name(found))
    bar.outline.set_visible(False)


def _place(settings: Mapping[str, Any], keys: Sequence[str]) -> str:
    return _place_of(*(settings.get(key) for key in keys))


def _place_of(*values: Any) -> str:
    return json.dumps(values, sort_keys=True)
