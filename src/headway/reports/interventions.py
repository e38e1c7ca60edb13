"""Figure of activation patching: flip rates of heads, and their controls."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from headway.errors import InputError, suggestion
from headway.narration.method import METHOD
from headway.narration.numbers import percent
from headway.reports.panels import (
    colour_bar,
    drawing,
    heat_map,
    ink_on,
    name_cells,
    new_figure,
    share_scale,
    write_cell,
)
from headway.reports.style import GREY, LABEL, SMALL
from headway.results.heads import HeadAnalysis
from headway.results.patching import Contrast

ROW = 0.2
"""Height of one row in inches."""
MOST_INTERVALS = 9
"""Largest number of contrasts for which cells show the interval."""
SIGNS = {"carry alone": "●", "carry and digits": "○", "unspecific": "×", "undecided": "?"}
"""The sign in a cell for each reading of its control; none if nothing flips."""


@drawing
def interventions(found: HeadAnalysis, about: str, *, moving: bool = False) -> Figure:
    """Flip rate of every head in every contrast about one thing, grouped by site, the rate written in each cell.

    Where the contrasts have controls, a sign in each cell says what the patch is shown to move. With `moving`, rows
    are left out that surely move nothing: whose every interval ends below the limit of a finding.
    """
    contrasts = contrasts_about(found, about)
    every = rows_by_site(found, contrasts)
    sites = rows_that_move(every, contrasts) if moving else every
    left_out = sum(map(len, every)) - sum(map(len, sites))
    narrow = len(contrasts) > MOST_INTERVALS
    keys = [f"{SIGNS[one]} {one}".replace(" ", "\N{NO-BREAK SPACE}") for one in signs_in(contrasts)]
    figure = new_figure(
        f"Interventions on the {about}",
        "share of pairs whose answer becomes the source's" + ("" if narrow else ", with 95 % intervals"),
        f"against sources with the same {about}: {'  '.join(keys)}" if keys else "",
        f"not shown: {left_out} rows that surely stay under {percent(METHOD.moves_above)}" if left_out else "",
    )
    cell = (0.55 if narrow else 0.98) + (0.12 if keys else 0.0)
    heights = [ROW * len(rows) for rows in sites]
    grid = figure.subplots(len(sites), 1, squeeze=False, height_ratios=heights, width_ratios=[cell * len(contrasts)])
    panels = list(grid[:, 0])
    scale = share_scale()
    for axes, rows in zip(panels, sites, strict=True):
        heat(axes, rows, contrasts, scale)
        last = axes is panels[-1]
        name_cells(axes, [row_name(found, who) for who in rows], contrast_names(contrasts) if last else [])
    axes.tick_params(axis="x", labelrotation=90 if narrow else 0, labelsize=SMALL)
    colour_bar(panels, scale, "flip rate")
    return figure


def contrasts_about(found: HeadAnalysis, about: str) -> list[Contrast]:
    chosen = [contrast for contrast in found.interventions.contrasts if contrast.about == about]
    if not chosen:
        raise InputError(f"no intervention is about {about!r}; {suggestion(about, found.interventions.subjects)}")
    return chosen


def rows_by_site(found: HeadAnalysis, contrasts: Sequence[Contrast]) -> list[list[str]]:
    """The patched groups by site: its heads, then all of them together; larger groups last."""
    who = list(dict.fromkeys(row.who for contrast in contrasts for row in contrast.rows))
    site_of = {head.name: head.site for head in found.heads}
    groups: dict[str, list[str]] = {}
    for name in sorted(who, key=lambda name: name not in site_of):
        site = site_of.get(name, name)
        groups.setdefault(site if site in site_of.values() else "", []).append(name)
    larger = groups.pop("", [])
    return [*groups.values(), larger] if larger else list(groups.values())


def rows_that_move(sites: Sequence[Sequence[str]], contrasts: Sequence[Contrast]) -> list[list[str]]:
    """The rows whose interval reaches the limit of a finding in some contrast; all of them where none does."""
    cells = {who: [contrast.row(who) for contrast in contrasts] for rows in sites for who in rows}
    moving = {
        who: any(one is not None and one.interval[1] > METHOD.moves_above for one in row) for who, row in cells.items()
    }
    kept = [[who for who in rows if moving[who]] for rows in sites]
    return [rows for rows in kept if rows] or [list(rows) for rows in sites]


def row_name(found: HeadAnalysis, who: str) -> str:
    """The name of a row; a site stands for all of its heads."""
    return f"all of {who}" if who in {head.site for head in found.heads} else who


def heat(axes: Axes, rows: Sequence[str], contrasts: Sequence[Contrast], scale: ScalarMappable) -> None:
    """Rates as colours and numbers, with the interval if there is room; a dash if nothing was measured."""
    cells = [[contrast.row(who) for contrast in contrasts] for who in rows]
    heat_map(axes, [[None if cell is None else cell.rate for cell in line] for line in cells], scale, gap=0.6)
    wide = len(contrasts) <= MOST_INTERVALS
    for row, line in enumerate(cells):
        for column, cell in enumerate(line):
            if cell is None:
                write_cell(axes, row, column, "–", GREY, size=LABEL)
                continue
            ink, (low, high) = ink_on(scale, cell.rate), cell.interval
            rate: dict[str, Any] = {"across": 0.36, "ha": "right"} if wide else {}
            write_cell(axes, row, column, f"{cell.rate:.2f}", ink, size=LABEL, **rate)
            if wide:
                write_cell(axes, row, column, f"{low:.2f}–{high:.2f}", ink, 0.43, ha="left", size=SMALL * 0.9)
            if sign := sign_of(contrasts[column], rows[row]):
                write_cell(axes, row, column, sign, ink, 0.08)


def signs_in(contrasts: Sequence[Contrast]) -> list[str]:
    """The readings of all cells, in the order of their signs."""
    there = {row.reading for contrast in contrasts if contrast.control for row in contrast.control.rows}
    return [reading for reading in SIGNS if reading in there]


def sign_of(contrast: Contrast, who: str) -> str:
    """The sign of one group's reading; empty without a control, or if nothing flips."""
    rows = contrast.control.rows if contrast.control else ()
    return next((SIGNS.get(row.reading, "") for row in rows if row.who == who), "")


def contrast_names(contrasts: Sequence[Contrast]) -> list[str]:
    """Each contrast in a few lines, with its number of usable pairs."""
    width = 30 if len(contrasts) > MOST_INTERVALS else 14
    return ["\n".join([*wrap(contrast.name, width), f"{contrast.usable:,} pairs"]) for contrast in contrasts]
