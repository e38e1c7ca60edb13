"""Mechanism against length: one cell a head, with where it looks and what is lost without it at each length."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from headway.reports.length_groups import COLOURS, DASHES, MARKERS, set_name
from headway.reports.settings import below_heading, heading, remark_lines
from headway.reports.style import (
    BLUE,
    EDGE,
    GREY,
    INK,
    LABEL,
    PALE,
    RED,
    SMALL,
    axes_at,
    number,
    style,
    text_width,
    write,
)
from headway.results.mechanism import Compared, HeadAcrossLengths, Mechanism

Place = tuple[float, float]
"""Inches from the left and from the top."""

WIDE, SCORES, EFFECT, ACCURACY = 1.6, 0.95, 0.5, 0.75
"""Inches: a cell's width, and the heights of its two panels and of the panel above all cells."""
LEFT, GAP, BETWEEN, FOOT = 0.72, 0.2, 0.12, 0.42
"""Inches: left of the first cell, between cells side by side, inside a cell, and below one."""
LINE = 0.17
MOST_ACROSS = 6
SHADE = "#eeeeee"
"""Behind the lengths that training saw."""
EFFECTS = {"zero": (BLUE, "o", "-"), "mean": (RED, "s", (0, (4, 1.5)))}
LINEAR = 1.0
"""Effects are drawn linearly up to here, and logarithmically beyond."""


@style()
def draw_mechanism(found: Mechanism) -> Figure:
    """Attention and effect of every head against length; full markers are changes, a red frame is the first of them."""
    heads = found.heads
    across = columns(heads)
    down = -(-len(heads) // across)
    scores = score_styles(found)
    width = max(LEFT + across * WIDE + (across - 1) * GAP + EDGE, 6.2)
    remark = remark_lines(remarks(found), width)
    legend = legend_lines(scores, width)
    top = below_heading(remark) + 0.1
    cells = top + ACCURACY + 0.62
    cell = SCORES + BETWEEN + EFFECT + FOOT
    figure = Figure((width, cells + down * cell + 0.05 + LINE * len(legend) + EDGE))
    heading(figure, title(found), remark)
    accuracy_panel(axes_at(figure, LEFT, top, width - LEFT - EDGE, ACCURACY), found)
    limits = effect_limits(heads)
    for index, head in enumerate(heads):
        row, column = divmod(index, across)
        place = LEFT + column * (WIDE + GAP), cells + row * cell
        last = index + across >= len(heads)
        draw_cell(figure, found, head, scores, place, limits, named=column == 0, last=last)
    draw_legend(figure, legend, cells + down * cell + 0.05)
    return figure


def title(found: Mechanism) -> str:
    first = found.first
    if first is None:
        return "Heads against length: none changes"
    return f"Heads against length: {first.head} changes first, at {first.length}"


def remarks(found: Mechanism) -> list[str]:
    """What a reader must know beside the lines."""
    large, first = found.large, found.first
    counts = [row.n for row in found.lengths]
    cut = any(row.crops is not None for row in found.lengths)
    size = f"{min(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,}"
    change = ""
    if first is not None:
        what = f"without it ({first.what})" if first.about == "effect" else words(first.what)
        change = f"{what}: {number(first.before)} {found.against(first.length)}, {number(first.after)} there"
    return [
        change,
        f"set: {set_name(found.set_name)}, {size} examples a length",
        f"full markers: changed by more than {large.attention:g} (effects: {large.effect:g}), "
        f"Holm over {found.family:,} comparisons",
        "whiskers and bands are 95 % intervals",
        f"accuracy, dashed: pieces of {found.reference} out of the same sequences" if cut else "",
    ]


def words(score: str) -> str:
    return score.replace("_", " ")


def columns(heads: Sequence[HeadAcrossLengths]) -> int:
    """As many cells side by side as the widest layer has heads; of more than six, half of them or a third."""
    layers = [head.head.rpartition(".")[0] for head in heads]
    widest = max(layers.count(layer) for layer in layers)
    return -(-widest // -(-widest // MOST_ACROSS))


def score_styles(found: Mechanism) -> dict[str, dict[str, Any]]:
    """Colour, marker and dashes of each score that any head has; entropy is grey, as it is no part of an example."""
    there = dict.fromkeys(score for head in found.heads for score in head.scores)
    parts = [score for score in there if score != "entropy"]
    styles = {
        score: {
            "color": COLOURS[index % len(COLOURS)],
            "marker": MARKERS[index % len(MARKERS)],
            "linestyle": DASHES[index % len(DASHES)],
        }
        for index, score in enumerate(parts)
    }
    if "entropy" in there:
        styles["entropy"] = {"color": GREY, "marker": "d", "linestyle": (0, (1, 1.2))}
    return styles


# Panels


def accuracy_panel(axes: Axes, found: Mechanism) -> None:
    """Accuracy of the whole model, and where it fails."""
    rows = found.lengths
    lengths = [row.length for row in rows]
    low, high = zip(*(row.interval for row in rows), strict=True)
    axes.fill_between(lengths, low, high, color=PALE, linewidth=0)
    axes.plot(lengths, [row.accuracy for row in rows], color=INK, marker="o", markersize=3, linewidth=1.1)
    cut = [(row.length, row.crops.accuracy) for row in rows if row.crops is not None]
    if cut:
        axes.plot(
            *zip(*cut, strict=True), color=BLUE, marker="s", markersize=2.6, linewidth=0.9, linestyle=(0, (4, 1.5))
        )
    axes.set_ylim(min(0.45, *low), 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    axes.yaxis.set_major_locator(FixedLocator([0, 0.5, 1]))
    axes.set_ylabel("accuracy")
    length_axis(axes, found, labelled=True)
    if found.fails_at is not None:
        axes.axvline(found.fails_at, color=RED, linewidth=0.8, linestyle=(0, (2, 1.5)))
        axes.annotate(
            f" fails at {found.fails_at}",
            (found.fails_at, 1.0),
            color=RED,
            size=SMALL,
            va="bottom",
            xytext=(0, 1),
            textcoords="offset points",
            annotation_clip=False,
        )


def draw_cell(
    figure: Figure,
    found: Mechanism,
    head: HeadAcrossLengths,
    scores: Mapping[str, Mapping[str, Any]],
    place: Place,
    limits: tuple[float, float],
    *,
    named: bool,
    last: bool,
) -> None:
    """One head: its scores, and below them its effects."""
    left, top = place
    upper = axes_at(figure, left, top, WIDE, SCORES)
    lower = axes_at(figure, left, top + SCORES + BETWEEN, WIDE, EFFECT)
    first = found.first is not None and found.first.head == head.head
    upper.set_title(head.head, loc="left", y=1, pad=3, weight="bold", color=RED if first else INK)
    lengths = [row.length for row in found.lengths]
    for score, along in head.scores.items():
        draw_line(upper, lengths, along, **scores[score])
    for kind, effects in head.effects.items():
        colour, marker, dashes = EFFECTS.get(kind, (INK, "D", "-"))
        draw_line(lower, lengths, effects, color=colour, marker=marker, linestyle=dashes)
    for axes in (upper, lower):
        axes.axhline(0, color=GREY, linewidth=0.5, zorder=1)
    upper.set_ylim(*score_limits(found.heads))
    upper.yaxis.set_major_locator(FixedLocator([0, 0.5, 1]))
    lower.set_yscale("symlog", linthresh=LINEAR)
    lower.set_ylim(*limits)
    lower.yaxis.set_major_locator(
        FixedLocator([tick for tick in (-10, -1, 0, 1, 10) if limits[0] <= tick <= limits[1]])
    )
    lower.yaxis.set_minor_locator(NullLocator())
    lower.yaxis.set_major_formatter(lambda value, _: f"{value:g}".replace("-", "−"))
    length_axis(upper, found, labelled=False)
    length_axis(lower, found, labelled=True)
    for axes, label in ((upper, "attention"), (lower, "effect")):
        axes.tick_params(axis="y", labelleft=named)
        axes.set_ylabel(label if named else "")
        if first:
            axes.spines[:].set(visible=True, color=RED, linewidth=1.3)
    lower.set_xlabel(found.unit if last else "")


def draw_line(axes: Axes, lengths: Sequence[int], along: Sequence[Compared | None], **how: Any) -> None:
    """Means with their intervals; markers are full where the number has changed."""
    there = [(length, row) for length, row in zip(lengths, along, strict=True) if row is not None]
    places, rows = [length for length, _ in there], [row for _, row in there]
    axes.vlines(places, *zip(*(row.interval for row in rows), strict=True), color=how["color"], linewidth=0.8)
    axes.plot(places, [row.value for row in rows], color=how["color"], linestyle=how["linestyle"], linewidth=0.9)
    for length, row in there:
        face = how["color"] if row.changed else "white"
        axes.plot(
            [length],
            [row.value],
            marker=how["marker"],
            color=how["color"],
            markerfacecolor=face,
            markersize=4.2 if row.changed else 2.6,
            markeredgewidth=0.7,
            zorder=3,
        )


def length_axis(axes: Axes, found: Mechanism, *, labelled: bool) -> None:
    """Lengths in steps of doubling, those that training saw shaded."""
    lengths = [row.length for row in found.lengths]
    axes.set_xscale("log", base=2)
    low, high = lengths[0] / 1.25, lengths[-1] * 1.25
    axes.set_xlim(low, high)
    axes.axvspan(low, found.reference, color=SHADE, linewidth=0, zorder=0)
    shown = sparse(lengths, found.reference)
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.tick_params(axis="x", labelbottom=labelled)


def sparse(lengths: Sequence[int], reference: int) -> list[int]:
    """The reference and lengths at least four times apart from it and from each other.

    >>> sparse([8, 16, 32, 64, 128, 256], 16)
    [16, 64, 256]
    """
    shown = [reference]
    for length in lengths:
        if length >= 4 * shown[-1]:
            shown.append(length)
    return shown


def score_limits(heads: Sequence[HeadAcrossLengths]) -> tuple[float, float]:
    values = [row.value for head in heads for along in head.scores.values() for row in along if row is not None]
    return min([-0.15, *values]) - 0.05, 1.08


def effect_limits(heads: Sequence[HeadAcrossLengths]) -> tuple[float, float]:
    """The same for all heads, so that cells compare."""
    ends = [end for head in heads for along in head.effects.values() for row in along for end in row.interval]
    return 1.2 * min(-0.3, *ends), 1.2 * max(1.0, *ends)


# The legend


def legend_lines(scores: Mapping[str, Mapping[str, Any]], width: float) -> list[list[tuple[str, dict[str, Any]]]]:
    """Entries, in as many lines as they need: the scores, and on a line of their own the effects."""
    lines: list[list[tuple[str, dict[str, Any]]]] = [[]]
    used = 0.0
    for score, how in scores.items():
        label = "entropy, share of the largest" if score == "entropy" else words(score)
        needs = 0.45 + text_width([label])
        if lines[-1] and used + needs > width - LEFT - EDGE:
            lines.append([])
            used = 0.0
        lines[-1].append((label, dict(how)))
        used += needs
    effects = {kind: dict(zip(("color", "marker", "linestyle"), how, strict=True)) for kind, how in EFFECTS.items()}
    return [*lines, [(f"margin lost without it, {kind} ablation", how) for kind, how in effects.items()]]


def draw_legend(figure: Figure, lines: Sequence[Sequence[tuple[str, dict[str, Any]]]], top: float) -> None:
    across, down = figure.get_size_inches()
    for index, entries in enumerate(lines):
        left, y = LEFT, top + LINE * (index + 0.5)
        for label, how in entries:
            ends = [left / across, (left + 0.28) / across]
            figure.add_artist(
                Line2D(ends, [1 - y / down] * 2, **how, linewidth=0.9, markersize=3, markerfacecolor="white")
            )
            write(figure, left + 0.34, y, label, size=LABEL, va="center")
            left += 0.45 + text_width([label])
