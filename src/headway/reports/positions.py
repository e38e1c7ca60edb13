"""Positions: a learned table, what of it is untrained, trained biases, the identities, all encodings side by side."""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from headway.reports.length_curves import SHADE
from headway.reports.length_groups import set_style
from headway.reports.settings import below_heading, first_of, heading, remark_lines
from headway.reports.style import BLUE, EDGE, GREY, INK, LABEL, PALE, RED, SMALL, axes_at, note, style, write
from headway.results.positions import Identities, Pattern, Patterns, Positions, Products, Table

WIDTH = 5.0
"""Inches of every figure here."""
VECTORS = {"sinusoidal": "sinusoid", "learned": "learned", "start": "learned, at step 0"}
MOST_HEADS = 7


def diverging(largest: float) -> ScalarMappable:
    """Orange below 0, purple above, white at 0: told apart by the colour-blind."""
    return ScalarMappable(Normalize(-largest, largest), colormaps["PuOr"])


def show_scale(figure: Figure, scale: ScalarMappable, left: float, top: float, height: float, label: str = "") -> None:
    bar = figure.colorbar(scale, cax=axes_at(figure, left, top, 0.09, height), ticks=MaxNLocator(3))
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL, pad=2)
    bar.set_label(label, size=SMALL)


def picture(axes: Axes, values: Any, scale: ScalarMappable) -> None:
    """Numbers as colours, rows downwards, every number a rectangle with sharp edges."""
    image = axes.imshow(np.asarray(values), aspect="auto", interpolation="nearest")
    image.set(cmap=scale.cmap, norm=scale.norm)
    image.set_extent((-0.5, len(values[0]) - 0.5, len(values) - 0.5, -0.5))
    axes.spines[:].set_visible(False)


# A learned table


@style()
def learned_table(found: Positions, table: Table) -> Figure:
    """Every row of the table, how far it moved in training, and a hatched bar along rows that never did."""
    values, moved = table.values, table.moved
    height = float(np.clip(0.035 * len(values), 1.4, 4.2))
    lines = remark_lines([*found.words], WIDTH)
    top, left = below_heading(lines) + 0.2, EDGE + 0.5
    wide, mark = 2.55, 0.14
    figure = Figure((WIDTH, top + height + 0.55))
    heading(figure, f"Learned positions ({found.encoding}) after step {found.step:,}", lines)
    axes = axes_at(figure, left + mark, top, wide, height)
    scale = diverging(float(np.quantile(np.abs(values), 0.99)) or 1.0)
    picture(axes, values, scale)
    axes.set_xlabel("coordinate")
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.tick_params(labelleft=False, left=False)
    strip = axes_at(figure, left, top, mark - 0.03, height)
    strip.set(ylim=axes.get_ylim(), xlim=(0, 1), xticks=[], ylabel="position")
    strip.spines[:].set_visible(False)
    beside = axes_at(figure, left + mark + wide + 0.2, top, 0.75, height)
    beside.set(ylim=axes.get_ylim(), xlabel="moved")
    beside.tick_params(labelleft=False, left=False)
    if moved is None:
        note(beside, "step 0 is\nnot known", (0.5, 0.5), (0, 0), "axes fraction", ha="center", va="center")
    else:
        show_moved(strip, beside, moved[: len(values)])
    show_scale(figure, scale, left + mark + wide + 1.05, top, min(height, 1.4))
    return figure


def show_moved(strip: Axes, beside: Axes, moved: Sequence[float]) -> None:
    """A bar for how far each row moved; stretches that did not are hatched, and named where there is room."""
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
    """First and last place of every run of marks.

    >>> stretches([True, True, False, True])
    [(0, 1), (3, 3)]
    """
    edges = np.flatnonzero(np.diff([0, *map(int, marks), 0]))
    return [(int(first), int(end) - 1) for first, end in zip(edges[::2], edges[1::2], strict=True)]


# Trained biases


@style()
def biases(found: Positions, longest: int | None = None) -> Figure:
    """What each head adds to a score, by the distance of the key; distances that training met are shaded."""
    kinds = list(dict.fromkeys(bias.kind for bias in found.biases))
    heads = len([bias for bias in found.biases if bias.kind == kinds[0]])
    words = [*found.words, "shaded: distances that training met" if longest else ""]
    lines = remark_lines([*words, first_of(min(heads, MOST_HEADS), heads, "heads")], WIDTH)
    top, high = below_heading(lines) + 0.15, 1.7
    figure = Figure((WIDTH, top + len(kinds) * (high + 0.25) + 0.3))
    heading(figure, f"Bias by distance ({found.encoding}) after step {found.step:,}", lines)
    for place, kind in enumerate(kinds):
        axes = axes_at(figure, EDGE + 0.5, top + place * (high + 0.25), 3.6, high)
        if longest:
            axes.axvspan(-longest + 0.5, longest - 0.5, color=SHADE, linewidth=0, zorder=0)
        for bias in [one for one in found.biases if one.kind == kind][:MOST_HEADS]:
            how: dict[str, Any] = {"linewidth": 1.2, "markersize": 3, "markevery": 8, "label": f"h{bias.head}"}
            axes.plot(bias.distances, bias.values, **how, **set_style(bias.head))
        axes.axhline(0, color=GREY, linewidth=0.5, zorder=1)
        axes.set_title(f"{kind} attention" if len(kinds) > 1 else "", loc="left", pad=3, weight="bold")
        axes.tick_params(labelbottom=place == len(kinds) - 1)
        axes.set_ylabel("added to the score")
    figure.axes[0].legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderpad=0, handlelength=2.4)
    axes.set_xlabel("key minus query")
    return figure


# The two identities


@style()
def identities(found: Positions) -> Figure:
    """Above: what the best rotation leaves of held-out rows. Below: dot products by distance, mean and range."""
    measured = {key: found.identities[key] for key in VECTORS if key in found.identities}
    first = next(iter(measured.values()))
    lines = remark_lines(
        [
            f"{first.rows} positions, {first.coordinates} coordinates",
            f"the sinusoid's own rotation is exact to {found.rotation_error:.0e}",
        ],
        WIDTH,
    )
    top, left = below_heading(lines) + 0.3, EDGE + 0.62
    wide = WIDTH - left - EDGE
    figure = Figure((WIDTH, top + 2.45 + 1.4 + 0.45))
    heading(figure, "Two identities of positions", lines)
    write(figure, EDGE, top - 0.26, "PE(p + k) = R PE(p), one rotation for all p", weight="bold")
    draw_rotations(axes_at(figure, left, top, wide - 1.35, 1.4), measured)
    below = top + 2.45
    write(figure, EDGE, below - 0.53, "PE(p) · PE(q) depends on q − p alone", weight="bold")
    each = (wide - 0.15 * (len(measured) - 1)) / max(len(measured), 2)
    for place, (key, one) in enumerate(measured.items()):
        axes = axes_at(figure, left + place * (each + 0.15), below, each, 1.4)
        draw_products(axes, one.products)
        axes.set_title(f"{VECTORS[key]}\n{_share(one.products.within_share)} not from distance", loc="left", pad=3)
        axes.set_xlabel("q − p")
    share_range(figure.axes[1:])
    return figure


def draw_rotations(axes: Axes, measured: Mapping[str, Identities]) -> None:
    """The share of variance that is left, on a scale of powers of ten; 1 is no better than the mean."""
    lowest = 1e-8
    for index, (key, one) in enumerate(measured.items()):
        shifts = [entry.shift for entry in one.rotations]
        shares = [max(entry.residual_share, lowest) for entry in one.rotations]
        axes.plot(np.log2(shifts), shares, markersize=4, linewidth=1.2, label=VECTORS[key], **set_style(index))
    axes.set_yscale("log")
    axes.set_ylim(lowest / 3, 10)
    axes.set_yticks([1e-8, 1e-6, 1e-4, 1e-2, 1], ["≤ 1e-8", "1e-6", "1e-4", "1 %", "100 %"])
    axes.yaxis.set_minor_locator(MaxNLocator(1))
    axes.minorticks_off()
    axes.axhline(1, color=INK, linewidth=0.7, linestyle=(0, (1, 1.5)), zorder=1)
    note(axes, "no better than the mean", (1, 1), (-2, -3), axes.get_yaxis_transform(), ha="right", va="top")
    shifts = sorted({entry.shift for one in measured.values() for entry in one.rotations})
    axes.set_xticks(np.log2(shifts), [str(shift) for shift in shifts])
    axes.set(xlabel="k", ylabel="left of held-out rows")
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1), borderpad=0, handlelength=2.4)
    axes.grid(axis="y", color=PALE, linewidth=0.5)


def draw_products(axes: Axes, products: Products) -> None:
    axes.fill_between(products.distances, products.low, products.high, color=BLUE, alpha=0.25, linewidth=0)
    axes.plot(products.distances, products.mean, color=BLUE, linewidth=1.2)
    axes.axhline(0, color=GREY, linewidth=0.5, zorder=1)


def share_range(panels: Sequence[Axes]) -> None:
    """The same heights in every panel, written once."""
    low, high = (pick(axes.get_ylim()[end] for axes in panels) for end, pick in ((0, min), (1, max)))
    for place, axes in enumerate(panels):
        axes.set_ylim(low, high)
        axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))
        axes.tick_params(labelleft=place == 0)
    panels[0].set_ylabel("dot product")


def _share(value: float) -> str:
    return "0 %" if value < 1e-6 else f"{100 * value:.2g} %"


# All encodings


@style()
def encodings(found: Patterns) -> Figure:
    """A picture for each encoding, a row for each position; nothing is trained."""
    patterns, sizes = found.patterns, found.sizes
    beside, size, gap, above = 3, 1.15, 0.55, 0.55
    lines = remark_lines(
        [
            "before training",
            f"d_model {sizes.d_model}, {sizes.n_heads} heads of {sizes.d_head}",
            "rows are positions (of the query, for a bias)",
        ],
        WIDTH + 0.5,
    )
    top, left = below_heading(lines), EDGE + 0.38
    across = left + beside * (size + gap)
    figure = Figure((across, top - (-len(patterns) // beside) * (size + above + 0.3) + 0.12))
    heading(figure, f"What every encoding does with {sizes.positions} positions", lines)
    for place, pattern in enumerate(patterns):
        line, column = divmod(place, beside)
        start, down = left + column * (size + gap), top + above + line * (size + above + 0.3)
        axes = axes_at(figure, start, down, size, size)
        words = "\n".join(wrap(pattern.words, 24))
        write(figure, start, down - 0.45, pattern.encoding, weight="bold")
        write(figure, start, down - 0.31, words, size=SMALL, color=GREY, linespacing=1.1)
        draw_pattern(figure, axes, pattern, (start + size + 0.05, down, size))
        axes.tick_params(labelleft=column == 0, left=column == 0)
    return figure


def draw_pattern(figure: Figure, axes: Axes, pattern: Pattern, bar: tuple[float, float, float]) -> None:
    values = pattern.values
    if not values:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set(visible=True, color=PALE)
        note(axes, "nothing", (0.5, 0.5), (0, 0), "axes fraction", ha="center", va="center", size=LABEL)
        return
    largest = float(np.abs(values).max())
    if pattern.hook != "bias" or float(np.min(values)) < 0:
        scale = diverging(largest)
    else:
        scale = ScalarMappable(Normalize(0, largest), colormaps["viridis"])
    picture(axes, values, scale)
    axes.set_xlabel(pattern.columns, size=SMALL, labelpad=1)
    axes.xaxis.set_major_locator(MaxNLocator(2, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    show_scale(figure, scale, *bar)
