"""Curves against length: accuracy, and the share of one answer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MultipleLocator

from headway.narration.numbers import percent
from headway.reports.length_groups import (
    MOST_IN_A_PANEL,
    Group,
    Number,
    accuracy,
    band_remark,
    constant_words,
    is_class,
    lengths_of,
    points,
    rows_of,
    seeds_remark,
    set_name,
    sets_of,
    threshold_of,
    trained_range,
    unit,
)
from headway.reports.panels import drawing, grid_lines, new_figure, note, percent_axis, shade_trained, tiles
from headway.reports.style import COLOURS, DOTTED, GREY, INK, set_style
from headway.results.lengths import LengthRow


@dataclass(frozen=True)
class Panel:
    """One set and the groups drawn on it; `labels` distinguish them inside the panel."""

    title: str
    set: str
    groups: Sequence[Group]
    labels: Sequence[str]


def plan_panels(groups: Sequence[Group]) -> list[tuple[str, list[Panel]]]:
    """One figure with a panel per set; with many groups, a figure per set with a few groups in each panel."""
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


@drawing
def curves(panels: Sequence[Panel]) -> Figure:
    """Accuracy against length, the trained lengths shaded; a thin line is a seed, a thick one the median."""
    groups = all_groups(panels)
    threshold = threshold_of(groups)
    found = [one for panel in panels for group in panel.groups for one in points(group, panel.set)]
    figure = new_figure(
        "Right answers against length",
        only_set(panels),
        seeds_remark(groups),
        "thin lines are seeds" if any(group.seeds > 1 for group in groups) else "",
        f"band: {band_remark(groups)}" if band_remark(groups) else "",
        "hollow: one answer to everything" if any(one.constant for one in found) else "",
    )
    lowest = min((one.median for one in found), default=0.0)
    bottom = max(-0.03, min(0.42, lowest - 0.06)) if is_class(groups) else -0.03
    limits = {percent(threshold): threshold} | ({"chance": 0.5} if is_class(groups) else {})
    for axes, _ in draw_panels(figure, panels, accuracy):
        axes.set_ylim(bottom, 1.03)
        mark_limits(axes, limits)
    return figure


@drawing
def answers(panels: Sequence[Panel]) -> Figure:
    """The share of the last class among the answers at each length; a constant answer is a line along an edge."""
    groups = all_groups(panels)
    label = max(label for row in rows_of(groups) for label in row.answer_shares or {})

    def read(row: LengthRow) -> float | None:
        return None if row.answer_shares is None else row.answer_shares.get(label)

    words = constant_words(groups)
    figure = new_figure(
        f"How often the answer is {label}",
        only_set(panels),
        seeds_remark(groups),
        "hollow: one answer to everything",
        *words[:4],
        f"and {len(words) - 4} more" if len(words) > 4 else "",
    )
    for axes, panel in draw_panels(figure, panels, read):
        axes.set_ylim(-0.06, 1.06)
        axes.yaxis.set_major_locator(MultipleLocator(0.5))
        mark_limits(axes, {"right": target_share(panel, label)})
    return figure


def target_share(panel: Panel, label: str) -> float:
    """The share of examples of that class."""
    shares = [row.target_shares[label] for row in rows_of(panel.groups, panel.set) if row.target_shares]
    return sum(shares) / len(shares) if shares else 0.5


def all_groups(panels: Sequence[Panel]) -> list[Group]:
    return list({group.name: group for panel in panels for group in panel.groups}.values())


def only_set(panels: Sequence[Panel]) -> str:
    """The set, if every panel shows the same."""
    sets = {panel.set for panel in panels}
    return set_name(sets.pop()) if len(sets) == 1 else ""


def draw_panels(figure: Figure, panels: Sequence[Panel], read: Number) -> list[tuple[Axes, Panel]]:
    """The lines of every panel, one or two side by side, with one legend; a label has the same style everywhere."""
    groups = all_groups(panels)
    beside = 1 if len({panel.set for panel in panels}) > 1 or len(panels) == 1 else 2
    size = ((4.3, 1.75), (2.06, 1.75))[beside - 1]
    labels = list(dict.fromkeys(label for panel in panels for label in panel.labels))
    drawn = tiles(figure, len(panels), beside, size, xlabel=f"length ({unit(groups)})")
    for axes, panel in zip(drawn, panels, strict=True):
        axes.set_title(panel.title, weight="bold")
        length_axis(axes, groups, panels, every=beside)
        for label, group in zip(panel.labels, panel.groups, strict=True):
            draw_line(axes, group, panel.set, read, set_style(labels.index(label)))
        if not any(points(group, panel.set, read) for group in panel.groups):
            note(axes, "not measured", (0.5, 0.5), (0, 0), "axes fraction", ha="center")
    if len(labels) > 1:
        lines = [Line2D([], [], markersize=4, linewidth=1.4, label=one, **set_style(i)) for i, one in enumerate(labels)]
        columns = 3 if max(map(len, labels)) < 16 else 2
        figure.legend(handles=lines, loc="outside upper left", ncols=columns, handlelength=3.2, labelspacing=0.35)
    return list(zip(drawn, panels, strict=True))


def length_axis(axes: Axes, groups: Sequence[Group], panels: Sequence[Panel], every: int) -> None:
    """A logarithmic axis with the trained lengths shaded and marked by small ticks."""
    lengths = sorted({length for panel in panels for length in lengths_of(groups, panel.set)}) or [1]
    shortest, longest = trained_range(groups)
    low, high = math.log2(min(lengths[0], shortest)), math.log2(max(lengths[-1], longest))
    axes.set_xlim(low - 0.25, high + 0.25)
    shade_trained(axes, math.log2(shortest) - 0.08, math.log2(longest) + 0.08)
    note(axes, "trained", (math.log2(shortest * longest) / 2, 0), (0, 3), axes.get_xaxis_transform(), ha="center")
    octaves = range(math.ceil(low), math.floor(high) + 1, every)
    axes.set_xticks([*octaves], [f"{2**one:,}" for one in octaves])
    axes.set_xticks([math.log2(length) for length in lengths], minor=True)
    axes.tick_params(axis="x", which="minor", length=1.8, width=0.5, color=GREY)
    percent_axis(axes.yaxis)
    grid_lines(axes)


def draw_line(axes: Axes, group: Group, name: str, read: Number, how: dict[str, Any]) -> None:
    """Every seed, the median with its markers, and its interval."""
    found = points(group, name, read)
    if not found:
        return
    for run in group.runs if group.seeds > 1 else ():
        alone = points(Group(group.name, (run,)), name, read)
        seed = [math.log2(one.length) for one in alone], [one.median for one in alone]
        axes.plot(*seed, color=how["color"], linewidth=0.5, alpha=0.45, zorder=2)
    if banded := [(math.log2(one.length), *one.interval) for one in found if one.interval]:
        places, low, high = zip(*banded, strict=True)
        axes.fill_between(places, low, high, color=how["color"], alpha=0.14, linewidth=0, zorder=1.5)
    middle = [math.log2(one.length) for one in found], [one.median for one in found]
    axes.plot(*middle, markersize=3.2, linewidth=1.3, zorder=3, label=group.name, **how)
    if hollow := [(place, one.median) for place, one in zip(middle[0], found, strict=True) if one.constant]:
        face = {"markerfacecolor": "white", "markeredgecolor": how["color"], "markeredgewidth": 0.9, "markersize": 4.2}
        axes.plot(*zip(*hollow, strict=True), linestyle="", marker=how["marker"], zorder=3.5, **face)


def mark_limits(axes: Axes, limits: dict[str, float]) -> None:
    """Dotted lines, named at the right of the last panel of a row."""
    place = axes.get_subplotspec()
    for text, height in limits.items():
        axes.axhline(height, color=INK, linewidth=0.7, linestyle=DOTTED, zorder=1)
        if place is not None and place.is_last_col():
            note(axes, text, (1, height), (3, 0), axes.get_yaxis_transform(), va="center")
