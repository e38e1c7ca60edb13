"""Figure of heads against length: one cell per head with its attention and its effect at each length."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from headway.narration.numbers import points
from headway.reports.length_groups import set_name
from headway.reports.panels import drawing, new_figure, note, percent_axis, shade_trained
from headway.reports.style import BLUE, DASHES, GREY, INK, PALE, RED, set_style, tick
from headway.results.mechanism import Compared, HeadAcrossLengths, Mechanism

LineStyle = Mapping[str, Any]
"""Colour, marker and dashes of a line."""
MOST_ACROSS = 6
EFFECTS = {"zero": {**set_style(0)}, "mean": {**set_style(1)}}


@drawing
def draw_mechanism(found: Mechanism) -> Figure:
    """Attention and effect of every head against length; full markers are changes, a red frame marks the first."""
    heads, scores = found.heads, score_styles(found)
    across = columns(heads)
    figure = new_figure(title(found), *remarks(found))
    heights = [0.75, *[0.95, 0.5] * -(-len(heads) // across)]
    width = max(1.6, 5.2 / across)
    grid = figure.add_gridspec(len(heights), across, height_ratios=heights, width_ratios=[width] * across)
    accuracy_panel(figure.add_subplot(grid[0, :]), found)
    for index, head in enumerate(heads):
        row, column = divmod(index, across)
        upper, lower = (figure.add_subplot(grid[1 + 2 * row + below, column]) for below in (0, 1))
        draw_head(upper, lower, found, head, scores)
        for axes, label in ((upper, "attention"), (lower, "effect")):
            axes.tick_params(axis="y", labelleft=column == 0)
            axes.set_ylabel(label if column == 0 else "")
        lower.set_xlabel(found.unit if index + across >= len(heads) else "")
    looks = {"entropy, share of the largest" if one == "entropy" else words(one): how for one, how in scores.items()}
    looks |= {f"margin lost without it, {kind} ablation": how for kind, how in EFFECTS.items()}
    face: dict[str, Any] = {"linewidth": 0.9, "markersize": 3, "markerfacecolor": "white"}
    lines = [Line2D([], [], label=label, **face, **how) for label, how in looks.items()]
    figure.legend(handles=lines, loc="outside lower left", ncols=3, handlelength=3)
    return figure


def title(found: Mechanism) -> str:
    first = found.first
    if first is None:
        return "Heads against length: none changes"
    return f"Heads against length: {first.head} changes first, at {first.length}"


def remarks(found: Mechanism) -> list[str]:
    """Remarks on the lines."""
    large, first = found.large, found.first
    counts = [row.n for row in found.lengths]
    cut = any(row.crops is not None for row in found.lengths)
    size = f"{min(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,}"
    change = ""
    if first is not None:
        what = f"without it ({first.what})" if first.about == "effect" else words(first.what)
        change = f"{what}: {points(first.before)} {found.against(first.length)}, {points(first.after)} there"
    return [
        change,
        f"set: {set_name(found.set_name)}, {size} examples a length",
        f"full markers: changed by more than {large.attention:g} (effects: {large.effect:g}), "
        f"Holm over {found.family:,} comparisons",
        "whiskers and bands are 95 % intervals",
        f"accuracy, dashed: crops of {found.reference} out of the same sequences" if cut else "",
    ]


def words(score: str) -> str:
    return score.replace("_", " ")


def columns(heads: Sequence[HeadAcrossLengths]) -> int:
    """The number of cells in a row: the heads of the widest layer, or a half or third of them if more than six."""
    layers = [head.head.rpartition(".")[0] for head in heads]
    widest = max(layers.count(layer) for layer in layers)
    return -(-widest // -(-widest // MOST_ACROSS))


def score_styles(found: Mechanism) -> dict[str, LineStyle]:
    """The line style of each score; entropy is grey, because it is not a part of an example."""
    there = dict.fromkeys(score for head in found.heads for score in head.scores)
    styles: dict[str, LineStyle] = {
        score: set_style(index) for index, score in enumerate(score for score in there if score != "entropy")
    }
    entropy = {"entropy": {"color": GREY, "marker": "d", "linestyle": DASHES[2]}}
    return styles | (entropy if "entropy" in there else {})


# Panels


def accuracy_panel(axes: Axes, found: Mechanism) -> None:
    """Accuracy of the whole model, and the first failing length."""
    rows = found.lengths
    lengths = [row.length for row in rows]
    low, high = zip(*(row.interval for row in rows), strict=True)
    axes.fill_between(lengths, low, high, color=PALE, linewidth=0)
    axes.plot(lengths, [row.accuracy for row in rows], color=INK, marker="o", markersize=3, linewidth=1.1)
    cut = [(row.length, row.crops.accuracy) for row in rows if row.crops is not None]
    if cut:
        how: dict[str, Any] = {"color": BLUE, "marker": "s", "markersize": 2.6, "linewidth": 0.9}
        axes.plot(*zip(*cut, strict=True), linestyle=DASHES[1], **how)
    axes.set(ylim=(min(0.45, *low), 1.03), yticks=[0.5, 1], ylabel="accuracy")
    percent_axis(axes.yaxis)
    length_axis(axes, found)
    if found.fails_at is not None:
        axes.axvline(found.fails_at, color=RED, linewidth=0.8, linestyle=DASHES[5])
        note(axes, f" fails at {found.fails_at}", (found.fails_at, 1.0), (0, 1), "data", color=RED, va="bottom")


def draw_head(
    upper: Axes, lower: Axes, found: Mechanism, head: HeadAcrossLengths, scores: Mapping[str, LineStyle]
) -> None:
    """One head: its scores above, its effects below; red frames mark the head that changes first."""
    first = found.first is not None and found.first.head == head.head
    upper.set_title(head.head, weight="bold", color=RED if first else INK)
    lengths = [row.length for row in found.lengths]
    for score, along in head.scores.items():
        draw_line(upper, lengths, along, scores[score])
    for kind, effects in head.effects.items():
        draw_line(lower, lengths, effects, EFFECTS.get(kind, {"color": INK, "marker": "D", "linestyle": "-"}))
    for axes in (upper, lower):
        axes.axhline(0, color=GREY, linewidth=0.5, zorder=1)
        length_axis(axes, found)
        if first:
            axes.spines[:].set(visible=True, color=RED, linewidth=1.3)
    upper.tick_params(axis="x", labelbottom=False)
    upper.set(ylim=score_limits(found.heads), yticks=[0, 0.5, 1])
    low, high = effect_limits(found.heads)
    lower.set_yscale("symlog", linthresh=1.0)  # linear up to there, logarithmic beyond
    lower.set_ylim(low, high)
    lower.yaxis.set_major_locator(FixedLocator([one for one in (-10, -1, 0, 1, 10) if low <= one <= high]))
    lower.yaxis.set_minor_locator(NullLocator())
    lower.yaxis.set_major_formatter(tick)


def draw_line(axes: Axes, lengths: Sequence[int], along: Sequence[Compared | None], look: LineStyle) -> None:
    """Means with their intervals; full markers are significant changes."""
    there = [(length, row) for length, row in zip(lengths, along, strict=True) if row is not None]
    places, rows = [length for length, _ in there], [row for _, row in there]
    axes.vlines(places, *zip(*(row.interval for row in rows), strict=True), color=look["color"], linewidth=0.8)
    axes.plot(places, [row.value for row in rows], color=look["color"], linestyle=look["linestyle"], linewidth=0.9)
    for length, row in there:
        face: dict[str, Any] = (
            {"markerfacecolor": look["color"], "markersize": 4.2}
            if row.changed
            else {"markerfacecolor": "white", "markersize": 2.6}
        )
        axes.plot([length], [row.value], **{**look, "linestyle": ""}, **face, markeredgewidth=0.7, zorder=3)


def length_axis(axes: Axes, found: Mechanism) -> None:
    """A base-2 logarithmic axis with the training lengths shaded."""
    lengths = [row.length for row in found.lengths]
    axes.set_xscale("log", base=2)
    low, high = lengths[0] / 1.25, lengths[-1] * 1.25
    axes.set_xlim(low, high)
    shade_trained(axes, low, found.reference)
    axes.xaxis.set_major_locator(FixedLocator(sparse(lengths, found.reference)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(tick)


def sparse(lengths: Sequence[int], reference: int) -> list[int]:
    """The reference, and lengths at least a factor of four apart.

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
    """Common limits for all heads."""
    ends = [end for head in heads for along in head.effects.values() for row in along for end in row.interval]
    return 1.2 * min(-0.3, *ends), 1.2 * max(1.0, *ends)
