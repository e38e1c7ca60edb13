"""Heads whose output is patched in from another example: how often the answer follows, and against a control."""

from collections.abc import Iterable, Sequence
from itertools import chain
from textwrap import wrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from headway.errors import InputError, suggestion
from headway.reports.style import (
    EDGE,
    GREY,
    SMALL,
    axes_at,
    colour_bar,
    head_line,
    heat_map,
    share_scale,
    style,
    text_width,
)
from headway.results.heads import HeadAnalysis
from headway.results.patching import Contrast, Patched

ROW, TOP, BETWEEN = 0.2, 0.7, 0.1
"""Inches: one row, above the first row, and between two sites."""
MOST_INTERVALS = 9
"""Contrasts up to which a cell has room for the interval."""
SIGNS = {"carry alone": "●", "carry and digits": "○", "unspecific": "×", "undecided": "?"}
"""What stands in a cell for each reading of its control; nothing where nothing is moved."""


@style()
def interventions(found: HeadAnalysis, about: str) -> Figure:
    """Flip rate of every head in every contrast about one thing, grouped by site, the rate written in each cell.

    Where the contrasts have controls, a sign in each cell says what the patch is shown to move.
    """
    contrasts = contrasts_about(found, about)
    sites = rows_by_site(found, contrasts)
    names, narrow = contrast_names(contrasts), len(contrasts) > MOST_INTERVALS
    signs = signs_in(contrasts)
    width = len(contrasts) * ((0.55 if narrow else 0.98) + (0.12 if signs else 0.0))
    left = EDGE + 0.1 + text_width(row_name(found, who) for rows in sites for who in rows)
    height = ROW * sum(map(len, sites)) + BETWEEN * (len(sites) - 1)
    foot = 0.2 + (0.2 if signs else 0.0)
    across, down = max(left + width + 0.85, 5.2), TOP + height + names_height(names, narrow) + foot
    figure = Figure((across, down))
    remark = "share of pairs whose answer becomes the source's" + ("" if narrow else ", with 95 % intervals")
    head_line(figure, f"Interventions on the {about}", remark)
    if signs:
        key = "   ".join(f"{SIGNS[reading]} {reading}" for reading in signs)
        note = f"against sources with the same {about}:   {key}"
        figure.text(EDGE / across, 0.1 / down, note, size=SMALL, color=GREY, va="bottom")
    scale, top = share_scale(), TOP
    for rows in sites:
        axes = axes_at(figure, left, top, width, ROW * len(rows))
        heat(axes, rows, contrasts, scale)
        axes.set_yticks(np.arange(len(rows)) + 0.5, [row_name(found, who) for who in rows])
        top += ROW * len(rows) + BETWEEN
    axes.tick_params(labelbottom=True)
    axes.set_xticks(np.arange(len(names)) + 0.5, names, rotation=90 if narrow else 0, size=SMALL)
    colour_bar(figure, scale, "flip rate", left + width + 0.18, TOP, min(1.4, height))
    return figure


def contrasts_about(found: HeadAnalysis, about: str) -> list[Contrast]:
    chosen = [contrast for contrast in found.interventions.contrasts if contrast.about == about]
    if not chosen:
        raise InputError(f"no intervention is about {about!r}; {suggestion(about, found.interventions.subjects)}")
    return chosen


def rows_by_site(found: HeadAnalysis, contrasts: Sequence[Contrast]) -> list[list[str]]:
    """Who is exchanged, a list for each site: its heads, then all of them at once; larger groups come last."""
    who = list(dict.fromkeys(row.who for contrast in contrasts for row in contrast.rows))
    site_of = {head.name: head.site for head in found.heads}
    groups: dict[str, list[str]] = {}
    for name in sorted(who, key=lambda name: name not in site_of):
        site = site_of.get(name, name)
        groups.setdefault(site if site in site_of.values() else "", []).append(name)
    larger = groups.pop("", [])
    return [*groups.values(), larger] if larger else list(groups.values())


def row_name(found: HeadAnalysis, who: str) -> str:
    """A site is all of its heads at once."""
    return f"all of {who}" if who in {head.site for head in found.heads} else who


def heat(axes: Axes, rows: Sequence[str], contrasts: Sequence[Contrast], scale: ScalarMappable) -> None:
    cells = [[contrast.row(who) for contrast in contrasts] for who in rows]
    rates = np.array([[np.nan if cell is None else cell.rate for cell in line] for line in cells], dtype=float)
    heat_map(axes, np.ma.masked_invalid(rates), scale, gap=0.6)
    axes.tick_params(length=0, labelbottom=False)
    axes.set_xticks([])
    for row, line in enumerate(cells):
        for column, cell in enumerate(line):
            sign = sign_of(contrasts[column], rows[row])
            write_cell(axes, row, column, cell, scale, with_interval=len(contrasts) <= MOST_INTERVALS, sign=sign)


def signs_in(contrasts: Sequence[Contrast]) -> list[str]:
    """The readings that any cell of the contrasts has, in the order of their signs."""
    there = {row.reading for contrast in contrasts if contrast.control for row in contrast.control.rows}
    return [reading for reading in SIGNS if reading in there]


def sign_of(contrast: Contrast, who: str) -> str:
    """The sign of one group's reading; nothing without a control, or where nothing is moved."""
    rows = contrast.control.rows if contrast.control else ()
    return next((SIGNS.get(row.reading, "") for row in rows if row.who == who), "")


def write_cell(
    axes: Axes, row: int, column: int, cell: Patched | None, scale: ScalarMappable, with_interval: bool, sign: str = ""
) -> None:
    if cell is None:
        axes.text(column + 0.5, row + 0.5, "–", ha="center", va="center", color=GREY)
        return
    ink = ink_on(scale.to_rgba(np.array(cell.rate)))
    if sign:
        axes.text(column + 0.08, row + 0.5, sign, ha="center", va="center", size=SMALL, color=ink)
    if not with_interval:
        axes.text(column + 0.5, row + 0.5, f"{cell.rate:.2f}", ha="center", va="center", color=ink)
        return
    low, high = cell.interval
    axes.text(column + 0.36, row + 0.5, f"{cell.rate:.2f}", ha="right", va="center", color=ink)
    axes.text(column + 0.43, row + 0.5, f"{low:.2f}–{high:.2f}", va="center", size=SMALL * 0.9, color=ink)


def ink_on(colour: Iterable[float]) -> str:
    """Black or white, whichever stands out from the colour."""
    red, green, blue, _ = colour
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"


def contrast_names(contrasts: Sequence[Contrast]) -> list[str]:
    """Each contrast in a few lines, with the number of pairs that come out right on both sides."""
    width = 30 if len(contrasts) > MOST_INTERVALS else 14
    return ["\n".join([*wrap(contrast.name, width), f"{contrast.usable:,} pairs"]) for contrast in contrasts]


def names_height(names: Sequence[str], upwards: bool) -> float:
    """Inches that the names take below the cells."""
    lines = [name.split("\n") for name in names]
    return text_width(chain(*lines), SMALL) if upwards else 0.12 * max(map(len, lines))
