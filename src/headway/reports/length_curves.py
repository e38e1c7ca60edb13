"""Curves against length: the share of right answers, and of one answer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MultipleLocator, PercentFormatter

from headway.reports.length_groups import (
    COLOURS,
    MOST_IN_A_PANEL,
    Group,
    Number,
    Point,
    accuracy,
    band_remark,
    constant_words,
    is_class,
    lengths_of,
    points,
    rows_of,
    seeds_remark,
    set_name,
    set_style,
    sets_of,
    threshold_of,
    trained_range,
    unit,
)
from headway.reports.settings import below_heading, heading, remark_lines
from headway.reports.style import EDGE, GREY, INK, PALE, SMALL, axes_at, note, style, text_width
from headway.results.lengths import LengthRow

SHADE = "#eeeeee"
"""Behind the lengths that training saw."""
WIDE, HIGH = 4.3, 1.75
"""Inches of a panel that stands alone in its line; of two side by side each has half."""
BETWEEN = 0.18
LINE = 0.17
"""Inches of one line of the legend."""


@dataclass(frozen=True)
class Panel:
    """One set and the groups that are drawn on it; `labels` tell them apart inside the panel."""

    title: str
    set: str
    groups: Sequence[Group]
    labels: Sequence[str]


def plan_panels(groups: Sequence[Group]) -> list[tuple[str, list[Panel]]]:
    """One figure with a panel for each set; for many groups a figure for each set, with panels that hold a few each."""
    sets = sets_of(groups)
    if len(groups) <= MOST_IN_A_PANEL:
        names = [group.name for group in groups]
        return [("", [Panel(set_name(one) if len(sets) > 1 else "", one, groups, names) for one in sets])]
    return [(one, split_panels(groups, one)) for one in sets]


def split_panels(groups: Sequence[Group], name: str) -> list[Panel]:
    """Groups whose names agree up to the last comma share a panel, unless there are more lines than styles."""
    if len({group.line for group in groups}) > len(COLOURS):
        return [Panel(group.name, name, [group], [""]) for group in groups]
    panels = dict.fromkeys(group.panel for group in groups)
    own = {panel: [group for group in groups if group.panel == panel] for panel in panels}
    return [Panel(panel, name, some, [group.line for group in some]) for panel, some in own.items()]


@style()
def curves(panels: Sequence[Panel]) -> Figure:
    """Accuracy against length, the trained lengths shaded; a thin line is a seed, a thick one the median."""
    groups = all_groups(panels)
    threshold = threshold_of(groups)
    hollow = any(p.constant for panel in panels for g in panel.groups for p in points(g, panel.set))
    remarks = [
        only_set(panels),
        seeds_remark(groups),
        "thin lines are seeds" if any(group.seeds > 1 for group in groups) else "",
        f"band: {band_remark(groups)}" if band_remark(groups) else "",
        "hollow: one answer to everything" if hollow else "",
    ]
    figure, places = lay_out(panels, "Right answers against length", remarks)
    lowest = min((p.median for panel in panels for g in panel.groups for p in points(g, panel.set)), default=0.0)
    bottom = max(-0.03, min(0.42, lowest - 0.06)) if is_class(groups) else -0.03
    for axes, panel in places:
        draw_lines(axes, panel, accuracy, groups)
        axes.set_ylim(bottom, 1.03)
        limit(axes, threshold, f"{100 * threshold:g} %")
        if is_class(groups):
            limit(axes, 0.5, "chance")
    return figure


@style()
def answers(panels: Sequence[Panel]) -> Figure:
    """How often the last class is answered at each length; a model that answers one class runs along an edge."""
    groups = all_groups(panels)
    label = max(label for row in rows_of(groups) for label in row.answer_shares or {})

    def read(row: LengthRow) -> float | None:
        return None if row.answer_shares is None else row.answer_shares.get(label)

    remarks = [
        only_set(panels),
        seeds_remark(groups),
        "hollow: one answer to everything",
        *constant_words(groups)[:4],
        f"and {len(constant_words(groups)) - 4} more" if len(constant_words(groups)) > 4 else "",
    ]
    figure, places = lay_out(panels, f"How often the answer is {label}", remarks)
    for axes, panel in places:
        draw_lines(axes, panel, read, groups)
        axes.set_ylim(-0.06, 1.06)
        axes.yaxis.set_major_locator(MultipleLocator(0.5))
        limit(axes, target_share(panel, label), "right")
    return figure


def target_share(panel: Panel, label: str) -> float:
    """The share of examples of that class; all sets of a run are made alike."""
    shares = [row.target_shares[label] for row in rows_of(panel.groups, panel.set) if row.target_shares]
    return sum(shares) / len(shares) if shares else 0.5


def all_groups(panels: Sequence[Panel]) -> list[Group]:
    return list({group.name: group for panel in panels for group in panel.groups}.values())


def only_set(panels: Sequence[Panel]) -> str:
    """The set, where every panel shows the same."""
    sets = {panel.set for panel in panels}
    return set_name(sets.pop()) if len(sets) == 1 else ""


def lay_out(panels: Sequence[Panel], title: str, remarks: Sequence[str]) -> tuple[Figure, list[tuple[Axes, Panel]]]:
    """A figure with a heading, one legend for all, and an empty panel for each, one or two in a line."""
    beside = 1 if len({panel.set for panel in panels}) > 1 or len(panels) == 1 else 2
    left, right = EDGE + 0.48, 0.5
    width = (WIDE - (beside - 1) * BETWEEN) / beside
    across = left + WIDE + right
    labels = list(dict.fromkeys(label for panel in panels for label in panel.labels if label))
    columns = max(1, min(3, int((across - 2 * EDGE) // (0.62 + text_width(labels)))))
    legend_lines = -(-len(labels) // columns) if len(labels) > 1 else 0
    lines = remark_lines(remarks, across)
    above = 0.22 if any(panel.title for panel in panels) else 0.08
    start = below_heading(lines) + LINE * legend_lines
    step = HIGH + above + 0.08
    rows = -(-len(panels) // beside)
    figure = Figure((across, start + rows * step + 0.5))
    heading(figure, title, lines)
    if legend_lines:
        add_legend(figure, labels, columns, below_heading(lines) - 0.06)
    places = []
    for place, panel in enumerate(panels):
        line, column = divmod(place, beside)
        axes = axes_at(figure, left + column * (width + BETWEEN), start + above + line * step, width, HIGH)
        axes.set_title(panel.title, loc="left", pad=3, weight="bold")
        last = place + beside >= len(panels)
        length_axis(axes, all_groups(panels), panels, few=beside > 1)
        axes.tick_params(labelleft=column == 0, labelbottom=last)
        if last:
            axes.set_xlabel(f"length ({unit(all_groups(panels))})")
        places.append((axes, panel))
    return figure, places


def add_legend(figure: Figure, labels: Sequence[str], columns: int, top: float) -> None:
    handles = [Line2D([], [], markersize=4, linewidth=1.4, label=name, **set_style(i)) for i, name in enumerate(labels)]
    across, down = figure.get_size_inches()
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(EDGE / across, 1 - top / down),
        ncols=columns,
        handlelength=3.2,
        columnspacing=1.4,
        borderpad=0,
        borderaxespad=0,
        labelspacing=0.35,
    )


def length_axis(axes: Axes, groups: Sequence[Group], panels: Sequence[Panel], *, few: bool = False) -> None:
    """Octaves along the axis, the trained lengths shaded and each with a small tick."""
    lengths = sorted({length for panel in panels for length in lengths_of(groups, panel.set)}) or [1]
    shortest, longest = trained_range(groups)
    low, high = math.log2(min(lengths[0], shortest)), math.log2(max(lengths[-1], longest))
    axes.set_xlim(low - 0.25, high + 0.25)
    axes.axvspan(math.log2(shortest) - 0.08, math.log2(longest) + 0.08, color=SHADE, linewidth=0, zorder=0)
    note(axes, "trained", (math.log2(shortest * longest) / 2, 0), (0, 3), axes.get_xaxis_transform(), ha="center")
    octaves = range(math.ceil(low), math.floor(high) + 1)
    shown = [one for one in octaves if not few or (one - octaves[0]) % 2 == 0]
    axes.set_xticks([*shown], [f"{2**one:,}" for one in shown])
    axes.set_xticks([math.log2(length) for length in lengths], minor=True)
    axes.tick_params(axis="x", which="minor", length=1.8, width=0.5, color=GREY)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    axes.grid(axis="y", color=PALE, linewidth=0.5)
    axes.set_axisbelow(True)


def draw_lines(axes: Axes, panel: Panel, read: Number, everyone: Sequence[Group]) -> None:
    """Every seed, the median with its markers, and its interval, for each group of a panel."""
    own = panel.labels if len(panel.groups) > 1 or panel.labels != [""] else []
    order = label_order(panel, everyone) if own else [0]
    for index, group in zip(order, panel.groups, strict=True):
        found = points(group, panel.set, read)
        if found:
            draw_line(axes, found, group, panel.set, read, set_style(index))
    if not any(points(group, panel.set, read) for group in panel.groups):
        note(axes, "not measured", (0.5, 0.5), (0, 0), "axes fraction", ha="center")


def label_order(panel: Panel, everyone: Sequence[Group]) -> list[int]:
    """The place of each of the panel's labels among those of the whole figure, so that a label looks alike in all."""
    by_line = panel.labels[0] != panel.groups[0].name
    labels = list(dict.fromkeys(group.line if by_line else group.name for group in everyone))
    return [labels.index(label) for label in panel.labels]


def draw_line(
    axes: Axes,
    found: Sequence[Point],
    group: Group,
    name: str,
    read: Number,
    how: dict[str, Any],
) -> None:
    if group.seeds > 1:
        for run in group.runs:
            alone = points(Group(group.name, (run,)), name, read)
            places = [math.log2(one.length) for one in alone]
            axes.plot(places, [one.median for one in alone], color=how["color"], linewidth=0.5, alpha=0.45, zorder=2)
    banded = [one for one in found if one.interval]
    if banded:
        low, high = zip(*(one.interval for one in banded if one.interval), strict=True)
        places = [math.log2(one.length) for one in banded]
        axes.fill_between(places, low, high, color=how["color"], alpha=0.14, linewidth=0, zorder=1.5)
    places, medians = [math.log2(one.length) for one in found], [one.median for one in found]
    axes.plot(places, medians, markersize=3.2, linewidth=1.3, zorder=3, label=group.name, **how)
    hollow = [(place, one.median) for place, one in zip(places, found, strict=True) if one.constant]
    face = {"markerfacecolor": "white", "markeredgecolor": how["color"], "markeredgewidth": 0.9, "markersize": 4.2}
    if hollow:
        axes.plot(*zip(*hollow, strict=True), linestyle="", marker=how["marker"], zorder=3.5, **face)


def limit(axes: Axes, height: float, text: str) -> None:
    """A dotted line with its name in the right margin."""
    axes.axhline(height, color=INK, linewidth=0.7, linestyle=(0, (1, 1.5)), zorder=1)
    if axes.get_subplotspec() is None and axes.get_position().x1 > 0.8:
        note(axes, text, (1, height), (3, 0), axes.get_yaxis_transform(), va="center", size=SMALL)
