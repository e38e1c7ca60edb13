"""Heat maps of accuracy by difficulty, at every length."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from headway.reports.length_groups import Group, lengths_of, rows_of, seeds_remark, set_name, sets_of, trained_range
from headway.reports.panels import (
    colour_bar,
    drawing,
    heat_map,
    ink_on,
    name_cells,
    new_figure,
    share_scale,
    tiles,
    write_cell,
)
from headway.reports.settings import first_of

WORDS = {
    "gap": "gap of the inverted pair",
    "longest_ripple": "columns that one carry must pass",
    "longest_unstarted_ripple": "columns of 9 that no carry reaches",
    "longest_chain": "longest chain of carries",
}
ONLY_OF = {"longest_unstarted_ripple": "ripple"}
"""Features that are drawn for one set alone: the set with twins without a carry."""
MOST_MAPS = 12
FEW = 100
"""Cells with fewer examples show their number."""
CELL = (0.33, 0.23)
"""Size of a cell in inches."""

Bin = tuple[int, int]
"""A range of values: the smallest and the largest in it, as in the document."""


class Cell(NamedTuple):
    """Accuracy and number of examples; means over seeds."""

    share: float
    n: float


def sets_by(groups: Sequence[Group]) -> list[tuple[str, str]]:
    """(feature, set) for every map that has data."""
    found = []
    for name in sets_of(groups):
        found += [
            (by, name) for by in dict.fromkeys(by for row in rows_of(groups, name) for by in row.by if row.by[by])
        ]
    return [one for one in found if one[0] not in ONLY_OF or ONLY_OF[one[0]] == one[1]]


@drawing
def maps(groups: Sequence[Group], by: str, name: str) -> Figure:
    """A map for each group: rows are values, columns lengths, the colour is accuracy."""
    shown = groups[:MOST_MAPS]
    columns = columns_of(groups, name)
    counted = [count(group, by, name, columns) for group in shown]
    bins = sorted({one for cells in counted for one, _ in cells})
    small = any(found.n < FEW for cells in counted for found in cells.values())
    figure = new_figure(
        f"Right answers by {WORDS.get(by, by)}",
        set_name(name),
        seeds_remark(groups),
        "unsorted sequences only" if by == "gap" else "",
        f"cells of fewer than {FEW} examples a seed say how many" if small else "",
        first_of(len(shown), len(groups), "groups"),
    )
    size, scale = (CELL[0] * len(columns), CELL[1] * len(bins)), share_scale()
    label = WORDS.get(by, by) if size[1] > 1.4 else by.replace("_", " ") if size[1] > 0.8 else ""
    panels = tiles(figure, len(shown), min(2, len(shown)), size, xlabel="length", ylabel=label)
    for axes, group, cells in zip(panels, shown, counted, strict=True):
        draw_map(axes, [[cells.get((one, some[0])) for some in columns] for one in bins], scale)
        axes.set_title(group.name if len(groups) > 1 else "", weight="bold")
        name_cells(axes, [span(*one) for one in bins], [span(some[0], some[-1]) for some in columns])
    colour_bar(panels, scale, "right answers", height=2.0)
    return figure


def columns_of(groups: Sequence[Group], name: str) -> list[list[int]]:
    """The trained lengths share a column; each longer length has its own."""
    lengths, longest = lengths_of(groups, name), trained_range(groups)[1]
    trained = [one for one in lengths if one <= longest]
    return [trained] * bool(trained) + [[one] for one in lengths if one > longest]


def count(group: Group, by: str, name: str, columns: Sequence[Sequence[int]]) -> dict[tuple[Bin, int], Cell]:
    """The cell of each (bin, first length of its column): counts are summed within a seed, seeds are averaged."""
    first = {length: some[0] for some in columns for length in some}
    seeds: dict[tuple[Bin, int], list[tuple[float, int]]] = {}
    for run in group.runs:
        own: dict[tuple[Bin, int], list[int]] = {}
        for row in run.of_set(name).values():
            for entry in row.by.get(by, ()):
                total = own.setdefault(((entry.low, entry.high), first[row.length]), [0, 0])
                total[0] += entry.n
                total[1] += entry.wrong
        for place, (n, wrong) in own.items():
            if n:
                seeds.setdefault(place, []).append((1 - wrong / n, n))
    return {place: Cell(*map(float, np.mean(found, axis=0))) for place, found in seeds.items()}


def draw_map(axes: Axes, cells: Sequence[Sequence[Cell | None]], scale: ScalarMappable) -> None:
    shares = [[np.nan if found is None else found.share for found in row] for row in cells]
    heat_map(axes, shares, scale, percents=True)
    for down, row in enumerate(cells):
        for across, found in enumerate(row):
            if found is not None and found.n < FEW:
                write_cell(axes, down, across, f"n {found.n:.0f}", ink_on(scale, found.share), down=0.86, size=4.6)


def span(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,}–{last:,}"
