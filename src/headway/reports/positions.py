"""Figures of positions: learned tables, trained biases, the two identities, and all encodings."""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from headway.narration.numbers import percent
from headway.reports.panels import (
    colour_bar,
    colour_scale,
    drawing,
    grid_lines,
    new_figure,
    note,
    shade_trained,
    tiles,
)
from headway.reports.settings import first_of
from headway.reports.style import BLUE, DOTTED, GREY, INK, LABEL, PALE, RED, SMALL, set_style
from headway.results.positions import Identities, LearnedTable, Pattern, Patterns, Positions, Products

VECTORS = {"sinusoidal": "sinusoid", "learned": "learned", "start": "learned, at step 0"}
MOST_HEADS = 7


def picture(axes: Axes, values: Any, largest: float, colours: str = "PuOr") -> None:
    """Numbers as coloured rectangles, rows downwards, with a colour bar.

    By default negative numbers are orange, positive ones purple and 0 is white, which colour-blind readers can
    distinguish.
    """
    scale = colour_scale(-largest if colours == "PuOr" else 0, largest, colours)
    image = axes.imshow(np.asarray(values), aspect="auto", interpolation="nearest")
    image.set(cmap=scale.cmap, norm=scale.norm)
    axes.spines[:].set_visible(False)
    show_scale(axes, scale)


def show_scale(axes: Axes, scale: ScalarMappable) -> None:
    colour_bar([axes], scale, ticks=MaxNLocator(3))
    axes.get_figure(root=True).axes[-1].tick_params(labelsize=SMALL, pad=2)  # type: ignore[union-attr]


# A learned table


@drawing
def learned_table(found: Positions, table: LearnedTable) -> Figure:
    """All rows of the table, how far training moved them, and a hatched bar along untrained rows."""
    values, moved = table.values, table.moved
    figure = new_figure(f"Learned positions ({found.encoding}) after step {found.step:,}", *found.words)
    height = float(np.clip(0.035 * len(values), 1.4, 4.2))
    strip, axes, beside = figure.subplots(1, 3, sharey=True, width_ratios=[0.11, 2.55, 0.75], height_ratios=[height])
    picture(axes, values, float(np.quantile(np.abs(values), 0.99)) or 1.0)
    axes.set_xlabel("coordinate")
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    strip.set(xlim=(0, 1), xticks=[], ylabel="position")
    strip.spines[:].set_visible(False)
    beside.set_xlabel("moved")
    for one in (axes, beside):
        one.tick_params(labelleft=False, left=False)
    if moved is None:
        note(beside, "step 0 is\nnot known", (0.5, 0.5), (0, 0), "axes fraction", ha="center", va="center")
    else:
        show_moved(strip, beside, moved[: len(values)])
    return figure


def show_moved(strip: Axes, beside: Axes, moved: Sequence[float]) -> None:
    """A bar for the distance that each row moved; untrained ranges are hatched, and named if there is room."""
    beside.barh(range(len(moved)), moved, height=1.0, color=BLUE, linewidth=0)
    beside.set_xlim(0, max(moved) * 1.08 or 1)
    beside.set_xticks([0, max(moved)], ["0", f"{max(moved):.2g}"] if max(moved) else ["", "0"])
    for first, last in stretches([value == 0 for value in moved]):
        how: dict[str, Any] = {"facecolor": "white", "edgecolor": RED, "hatch": "/////", "linewidth": 0}
        strip.add_patch(Rectangle((0, first - 0.5), 1, last - first + 1, **how))
        if last - first + 1 >= 0.1 * len(moved):
            text = f"rows {first:,} to {last:,}\nuntrained" if last > first else f"row {first:,}\nuntrained"
            place = (0.5, (first + last) / 2)
            note(beside, text, place, (0, 0), beside.get_yaxis_transform(), ha="center", va="center", color=RED)


def stretches(marks: Sequence[bool]) -> list[tuple[int, int]]:
    """First and last index of every run of marks.

    >>> stretches([True, True, False, True])
    [(0, 1), (3, 3)]
    """
    edges = np.flatnonzero(np.diff([0, *map(int, marks), 0]))
    return [(int(first), int(end) - 1) for first, end in zip(edges[::2], edges[1::2], strict=True)]


# Trained biases


@drawing
def biases(found: Positions, longest: int | None = None) -> Figure:
    """The bias of each head by distance; distances in training are shaded."""
    kinds = list(dict.fromkeys(bias.kind for bias in found.biases))
    heads = len([bias for bias in found.biases if bias.kind == kinds[0]])
    figure = new_figure(
        f"Bias by distance ({found.encoding}) after step {found.step:,}",
        *found.words,
        "shaded: distances that training met" if longest else "",
        first_of(min(heads, MOST_HEADS), heads, "heads"),
    )
    panels = tiles(figure, len(kinds), 1, (3.6, 1.7), xlabel="key minus query", ylabel="added to the score")
    for axes, kind in zip(panels, kinds, strict=True):
        if longest:
            shade_trained(axes, -longest + 0.5, longest - 0.5)
        for bias in [one for one in found.biases if one.kind == kind][:MOST_HEADS]:
            how: dict[str, Any] = {"linewidth": 1.2, "markersize": 3, "markevery": 8, "label": f"h{bias.head}"}
            axes.plot(bias.distances, bias.values, **how, **set_style(bias.head))
        axes.axhline(0, color=GREY, linewidth=0.5, zorder=1)
        axes.set_title(f"{kind} attention" if len(kinds) > 1 else "", weight="bold")
    panels[0].legend(loc="upper left", bbox_to_anchor=(1.01, 1), handlelength=2.4)
    return figure


# The two identities


@drawing
def identities(found: Positions) -> Figure:
    """Above: the unexplained share of held-out rows. Below: dot products by distance, mean and range."""
    measured = {key: found.identities[key] for key in VECTORS if key in found.identities}
    first = next(iter(measured.values()))
    figure = new_figure(
        "Two identities of positions",
        f"{first.rows} positions, {first.coordinates} coordinates",
        f"the sinusoid's own rotation is exact to {found.rotation_error:.0e}",
    )
    columns = max(len(measured), 2)
    grid = figure.add_gridspec(2, columns, width_ratios=[4.0 / columns] * columns, height_ratios=[1.4, 1.4])
    rotations = figure.add_subplot(grid[0, :-1])
    draw_rotations(rotations, measured)
    panels = [figure.add_subplot(grid[1, place]) for place in range(len(measured))]
    for place, (axes, (key, one)) in enumerate(zip(panels, measured.items(), strict=True)):
        draw_products(axes, one.products)
        axes.set_title(f"\n\n{VECTORS[key]}\n{_share(one.products.within_share)} not from distance")
        axes.set_xlabel("q − p")
        axes.tick_params(labelleft=place == 0)
    for axes, above, text in (
        (rotations, 5, "PE(p + k) = R PE(p), one rotation for all p"),
        (panels[0], 28, "PE(p) · PE(q) depends on q − p alone"),
    ):
        how: dict[str, Any] = {"color": INK, "size": LABEL, "weight": "bold", "in_layout": above < 20}
        note(axes, text, (0, 1), (0, above), "axes fraction", **how)
    share_range(panels)
    return figure


def draw_rotations(axes: Axes, measured: Mapping[str, Identities]) -> None:
    """The unexplained share of the variance, on a logarithmic scale; 1 is no better than the mean."""
    lowest = 1e-8
    for index, (key, one) in enumerate(measured.items()):
        shifts = [entry.shift for entry in one.rotations]
        shares = [max(entry.residual_share, lowest) for entry in one.rotations]
        axes.plot(np.log2(shifts), shares, markersize=4, linewidth=1.2, label=VECTORS[key], **set_style(index))
    axes.set_yscale("log")
    axes.set_ylim(lowest / 3, 10)
    axes.set_yticks([1e-8, 1e-6, 1e-4, 1e-2, 1], ["≤ 1e-8", "1e-6", "1e-4", "1 %", "100 %"])
    axes.minorticks_off()
    axes.axhline(1, color=INK, linewidth=0.7, linestyle=DOTTED, zorder=1)
    note(axes, "no better than the mean", (1, 1), (-2, -3), axes.get_yaxis_transform(), ha="right", va="top")
    shifts = sorted({entry.shift for one in measured.values() for entry in one.rotations})
    axes.set_xticks(np.log2(shifts), [str(shift) for shift in shifts])
    axes.set(xlabel="k", ylabel="left of held-out rows")
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1), handlelength=2.4).set_in_layout(False)
    grid_lines(axes)


def draw_products(axes: Axes, products: Products) -> None:
    axes.fill_between(products.distances, products.low, products.high, color=BLUE, alpha=0.25, linewidth=0)
    axes.plot(products.distances, products.mean, color=BLUE, linewidth=1.2)
    axes.axhline(0, color=GREY, linewidth=0.5, zorder=1)
    axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))


def share_range(panels: Sequence[Axes]) -> None:
    """The same vertical range in every panel, labelled once."""
    low, high = (pick(axes.get_ylim()[end] for axes in panels) for end, pick in ((0, min), (1, max)))
    for axes in panels:
        axes.set_ylim(low, high)
    panels[0].set_ylabel("dot product")


def _share(value: float) -> str:
    return "0 %" if value < 1e-6 else percent(value)


# All encodings


@drawing
def encodings(found: Patterns) -> Figure:
    """A picture of each untrained encoding, with a row for each position."""
    sizes = found.sizes
    figure = new_figure(
        f"What every encoding does with {sizes.positions} positions",
        "before training",
        f"d_model {sizes.d_model}, {sizes.n_heads} heads of {sizes.d_head}",
        "rows are positions (of the query, for a bias)",
    )
    panels = tiles(figure, len(found.patterns), min(3, len(found.patterns)), (1.15, 1.15))
    words = [wrap(pattern.words, 24) for pattern in found.patterns]
    above = 4 + 8 * max(map(len, words))
    for axes, pattern, lines in zip(panels, found.patterns, words, strict=True):
        axes.set_title(pattern.encoding, weight="bold", pad=above)
        note(axes, "\n".join(lines), (0, 1), (0, above - 2), "axes fraction", va="top", linespacing=1.1)
        axes.tick_params(labelbottom=True)
        draw_pattern(axes, pattern)
    return figure


def draw_pattern(axes: Axes, pattern: Pattern) -> None:
    values = pattern.values
    if not values:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set(visible=True, color=PALE)
        note(axes, "nothing", (0.5, 0.5), (0, 0), "axes fraction", ha="center", va="center", size=LABEL)
        return
    signed = pattern.hook != "bias" or float(np.min(values)) < 0
    picture(axes, values, float(np.abs(values).max()), "PuOr" if signed else "viridis")
    axes.set_xlabel(pattern.columns, size=SMALL, labelpad=1)
    axes.xaxis.set_major_locator(MaxNLocator(2, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
