"""Accuracy by what makes an example hard, at every length."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from headway.reports.length_groups import Group, lengths_of, rows_of, seeds_remark, set_name, sets_of, trained_range
from headway.reports.settings import below_heading, first_of, heading, remark_lines
from headway.reports.style import EDGE, INK, SMALL, axes_at, colour_bar, heat_map, share_scale, style

WORDS = {
    "gap": "gap of the inverted pair",
    "longest_ripple": "columns that one carry must pass",
    "longest_unstarted_ripple": "columns of 9 that no carry reaches",
    "longest_chain": "longest chain of carries",
}
ONLY_OF = {"longest_unstarted_ripple": "ripple"}
"""What is drawn for one set alone: the one that has twins without a carry."""
MOST_MAPS = 12
FEW = 100
"""Cells with fewer examples say how many."""
CELL = (0.33, 0.23)
"""Inches of a cell."""
BETWEEN = 0.3

Bin = tuple[int, int]
"""A range of values: the smallest and the largest in it, as the document has them."""


class Cell(NamedTuple):
    """The share of right answers, and the examples behind it; means over seeds."""

    share: float
    n: float


def sets_by(groups: Sequence[Group]) -> list[tuple[str, str]]:
    """(what examples are told apart by, set) for every map that there are numbers for."""
    found = []
    for name in sets_of(groups):
        found += [
            (by, name) for by in dict.fromkeys(by for row in rows_of(groups, name) for by in row.by if row.by[by])
        ]
    return [one for one in found if one[0] not in ONLY_OF or ONLY_OF[one[0]] == one[1]]


@style()
def maps(groups: Sequence[Group], by: str, name: str) -> Figure:
    """A map for each group: rows are values, columns lengths, the colour the share of right answers."""
    shown = groups[:MOST_MAPS]
    columns = columns_of(groups, name)
    counted = [count(group, by, name, columns) for group in shown]
    bins = sorted({one for cells in counted for one, _ in cells})
    width, height = CELL[0] * len(columns), CELL[1] * len(bins)
    beside = 2 if len(shown) > 1 else 1
    left, above = EDGE + 0.62, 0.24
    end = left + beside * (width + BETWEEN) - BETWEEN
    across = max(end + 0.75, 4.4)
    small = any(found.n < FEW for cells in counted for found in cells.values())
    remarks = [
        set_name(name),
        seeds_remark(groups),
        "unsorted sequences only" if by == "gap" else "",
        f"cells of fewer than {FEW} examples a seed say how many" if small else "",
        first_of(len(shown), len(groups), "groups"),
    ]
    lines = remark_lines(remarks, across)
    start, step = below_heading(lines), above + height + 0.14
    figure = Figure((across, start - (-len(shown) // beside) * step + 0.45))
    heading(figure, f"Right answers by {WORDS.get(by, by)}", lines)
    scale = share_scale()
    for place, (group, cells) in enumerate(zip(shown, counted, strict=True)):
        line, column = divmod(place, beside)
        axes = axes_at(figure, left + column * (width + BETWEEN), start + above + line * step, width, height)
        draw_map(axes, [[cells.get((one, some[0])) for some in columns] for one in bins], scale)
        axes.set_title(group.name if len(groups) > 1 else "", loc="left", pad=3, weight="bold")
        name_cells(axes, columns, bins, rows=column == 0, below=place + beside >= len(shown))
        if column == 0:
            axes.set_ylabel(WORDS.get(by, by) if height > 1.4 else by.replace("_", " ") if height > 0.8 else "")
    colour_bar(figure, scale, "right answers", end + 0.15, start + above, max(height, 0.8))
    return figure


def columns_of(groups: Sequence[Group], name: str) -> list[list[int]]:
    """The trained lengths share a column; each length past them has its own."""
    lengths, longest = lengths_of(groups, name), trained_range(groups)[1]
    trained = [one for one in lengths if one <= longest]
    return [trained] * bool(trained) + [[one] for one in lengths if one > longest]


def count(group: Group, by: str, name: str, columns: Sequence[Sequence[int]]) -> dict[tuple[Bin, int], Cell]:
    """The cell of each (bin, first length of its column): counts are added within a seed, seeds are averaged."""
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
    heat_map(axes, np.ma.masked_invalid(shares), scale, 0.8)
    for down, row in enumerate(cells):
        for across, found in enumerate(row):
            if found is None:
                continue
            ink = INK if sum(scale.to_rgba(np.asarray([found.share]))[0][:3] * (0.299, 0.587, 0.114)) > 0.5 else "white"
            small = found.n < FEW
            how: dict[str, Any] = {"ha": "center", "va": "center", "color": ink}
            axes.text(across + 0.5, down + (0.36 if small else 0.5), whole_percent(found.share), size=SMALL, **how)
            if small:
                axes.text(across + 0.5, down + 0.78, f"n {found.n:.0f}", size=4.6, **how)


def whole_percent(share: float) -> str:
    """Percent in whole numbers; 100 and 0 only where they are exact.

    >>> [whole_percent(share) for share in (1.0, 0.998, 0.5, 0.001, 0.0)]
    ['100', '>99', '50', '<1', '0']
    """
    if 0.995 <= share < 1:
        return ">99"
    return "<1" if 0 < share < 0.005 else f"{100 * share:.0f}"


def name_cells(axes: Axes, columns: Sequence[Sequence[int]], bins: Sequence[Bin], *, rows: bool, below: bool) -> None:
    names = [f"{some[0]}–{some[-1]}" if len(some) > 1 else f"{some[0]:,}" for some in columns]
    axes.set_xticks(np.arange(len(columns)) + 0.5, names if below else [])
    axes.set_yticks(np.arange(len(bins)) + 0.5, [_bin_name(one) for one in bins] if rows else [])
    axes.tick_params(length=0, pad=2)
    if below:
        axes.set_xlabel("length")


def _bin_name(one: Bin) -> str:
    return str(one[0]) if one[0] == one[1] else f"{one[0]}–{one[1]}"
