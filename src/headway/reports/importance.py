"""One row a head: what is lost without it, and its share of the credit."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, MaxNLocator

from headway.errors import InputError, suggestion
from headway.reports.style import (
    BLUE,
    EDGE,
    GREY,
    INK,
    KINDS,
    OTHER_VERDICT,
    PALE,
    SMALL,
    VERDICTS,
    axes_at,
    head_line,
    kinds_of,
    note,
    number,
    sentence,
    style,
    text_width,
    where_from,
)
from headway.results.heads import Baseline, Drop, HeadAnalysis
from headway.results.joint_ablation import Credit, Shapley

Groups = Mapping[str, list[str]]
"""Names of heads, row by row, under their kind of attention."""

ROW, TOP, BETWEEN = 0.19, 0.85, 0.34
"""Inches: one head's row, above the first panel, and between two kinds of attention."""
LEGEND = 4
"""Verdicts in one line of the legend."""


@style()
def importance(found: HeadAnalysis, kind_of_ablation: str = "zero") -> Figure:
    """Bars of the drop without each head, largest first within its kind; whiskers are the 95 % intervals.

    Beside the drop stands the change of the right answer's margin, where the document has it.
    """
    drops = drops_of(found, kind_of_ablation)
    groups = grouped(found, {name: drop.drop for name, drop in drops.items()})
    left, verdicts = names_width(groups), [drop.verdict for drop in drops.values()]
    legend_lines = -(-len(set(verdicts)) // LEGEND)
    beside = 1.3 if any(drop.margin_change is not None for drop in drops.values()) else 0.0
    across = left + 5.85 + beside + text_width(verdicts, SMALL)
    figure = Figure((across, stack_height(groups) + 0.77 + 0.17 * legend_lines))
    baseline = found.baseline
    head_line(
        figure,
        f"What is lost without each head: {kind_of_ablation} ablation",
        f"from {100 * baseline.accuracy:.2f} % right of {baseline.n:,} examples of {where_from(found)}; "
        f"whiskers are 95 % intervals{own_margin(baseline)}",
    )
    panels = stack(figure, groups, left, 4.3)
    limits = drop_limits(drops.values())
    for axes, names in zip(panels, groups.values(), strict=True):
        drop_bars(axes, [drops[name] for name in names], limits)
    label_limits(panels[0])
    if beside:
        note(panels[0], "drop", (1.1, 1), (0, 3), panels[0].transAxes, ha="right")
        note(panels[0], "margin", (1.4, 1), (0, 3), panels[0].transAxes, ha="right")
    show_scale(panels[-1], "drop in points (linear up to 1, logarithmic beyond)")
    verdict_legend(figure, verdicts, f"verdicts by {kind_of_ablation} ablation alone")
    return figure


def own_margin(baseline: Baseline) -> str:
    """By how much the right answer leads as it is: what the changes of the margin are to be held against."""
    return "" if baseline.margin is None else f"; the right answer leads by {number(baseline.margin)} in logits"


def drops_of(found: HeadAnalysis, kind_of_ablation: str) -> dict[str, Drop]:
    known = {kind for head in found.heads for kind in head.ablation}
    if kind_of_ablation not in known:
        raise InputError(f"no ablation {kind_of_ablation!r} in the findings; {suggestion(kind_of_ablation, known)}")
    return {head.name: head.ablation[kind_of_ablation] for head in found.heads if kind_of_ablation in head.ablation}


def grouped(found: HeadAnalysis, values: Mapping[str, float]) -> dict[str, list[str]]:
    """The heads that have a value, by kind of attention, the largest value first."""
    groups = {
        kind: [head.name for head in found.heads if head.kind == kind and head.name in values]
        for kind in kinds_of(found)
    }
    return {kind: sorted(names, key=lambda name: -values[name]) for kind, names in groups.items() if names}


# Rows of heads, one panel for each kind of attention


def names_width(groups: Groups) -> float:
    return EDGE + 0.1 + text_width(name for names in groups.values() for name in names)


def stack_height(groups: Groups) -> float:
    """Inches from the figure's top to the foot of the last panel."""
    return TOP + ROW * sum(map(len, groups.values())) + BETWEEN * (len(groups) - 1)


def stack(figure: Figure, groups: Groups, left: float, width: float, named: bool = True) -> list[Axes]:
    """One panel under the other, each as high as it has rows, the first row on top."""
    starts = accumulate((ROW * len(names) + BETWEEN for names in groups.values()), initial=TOP)
    panels = []
    for top, (kind, names) in zip(starts, groups.items(), strict=False):
        axes = axes_at(figure, left, top, width, ROW * len(names))
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_yticks(range(len(names)), names)
        axes.tick_params(axis="y", length=0, labelleft=named)
        axes.tick_params(axis="x", length=0, labelbottom=False)
        axes.spines[:].set_visible(False)
        if named:
            axes.set_title(sentence(KINDS[kind]), loc="left", y=1, weight="bold", pad=5)
        panels.append(axes)
    return panels


def show_scale(axes: Axes, label: str) -> None:
    """The scale below the last panel stands for all."""
    axes.spines["bottom"].set_visible(True)
    axes.tick_params(axis="x", length=2.5, labelbottom=True)
    axes.set_xlabel(label)


def whiskers(axes: Axes, rows: Sequence[int], intervals: Iterable[Sequence[float]], colour: str) -> None:
    """A line from end to end of each interval."""
    low, high = zip(*intervals, strict=True)
    axes.hlines(rows, low, high, color=colour, linewidth=1.1, zorder=3)


# Drops


def drop_limits(drops: Iterable[Drop]) -> tuple[float, float]:
    """From below the lowest whisker to past the highest, with 1 and 10 points always in view."""
    ends = [end for drop in drops for end in drop.interval]
    return min(-0.15, min(ends) * 1.25), max(14.0, max(ends) * 1.1)


def drop_bars(axes: Axes, drops: Sequence[Drop], limits: tuple[float, float]) -> None:
    """Bars and whiskers, with numbers, margins and verdicts in words: a bar of length 0 shows no colour.

    Past 1 point a bar's length is not its size, which is one more reason to write the numbers out.
    """
    drop_scale(axes, limits)
    beside = axes.get_yaxis_transform()
    for row, drop in enumerate(drops):
        colour, hatch = VERDICTS.get(drop.verdict, OTHER_VERDICT)
        axes.barh(row, drop.drop, height=0.68, color=colour, hatch=hatch, edgecolor=INK, linewidth=0.5)
        low, high = (number(end) for end in drop.interval)
        axes.text(1.1, row, number(drop.drop), transform=beside, ha="right", va="center")
        axes.text(1.12, row, f"[{low}, {high}]", transform=beside, va="center", size=SMALL, color=GREY)
        after = 1.32
        if drop.margin_change is not None and drop.margin_change_interval is not None:
            low, high = (number(end) for end in drop.margin_change_interval)
            axes.text(1.4, row, number(drop.margin_change), transform=beside, ha="right", va="center")
            axes.text(1.42, row, f"[{low}, {high}]", transform=beside, va="center", size=SMALL, color=GREY)
            after = 1.62
        axes.text(after, row, drop.verdict, transform=beside, va="center", size=SMALL)
    whiskers(axes, range(len(drops)), [drop.interval for drop in drops], INK)


def drop_scale(axes: Axes, limits: tuple[float, float]) -> None:
    """Linear within 1 point, logarithmic outside: 0.02 and 99 points are both seen."""
    axes.set_xscale("symlog", linthresh=1, linscale=1)
    axes.set_xlim(*limits)
    ticks = [tick for tick in (-100, -10, -1, 0, 1, 10, 100) if limits[0] <= tick <= limits[1]]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(lambda tick, _: f"{tick:g}".replace("-", "−"))
    axes.axvline(0, color=GREY, linewidth=0.6, zorder=0)
    for limit in (1, 10):
        axes.axvline(limit, color=GREY, linewidth=0.8, linestyle=(0, (4, 2)), zorder=0)


def label_limits(axes: Axes) -> None:
    for limit, text in ((1, "1 point"), (10, "10 points")):
        note(axes, text, (limit, 1), (0, 3), axes.get_xaxis_transform(), ha="center")


def verdict_legend(figure: Figure, verdicts: Sequence[str], title: str) -> None:
    """Each verdict that occurs, with how many heads have it."""
    others = [verdict for verdict in verdicts if verdict not in VERDICTS]
    patches = [
        Patch(facecolor=colour, hatch=hatch, edgecolor=INK, linewidth=0.5, label=f"{name} ({verdicts.count(name)})")
        for name, (colour, hatch) in {**VERDICTS, **dict.fromkeys(others, OTHER_VERDICT)}.items()
        if name in verdicts
    ]
    across, down = figure.get_size_inches()
    where = (EDGE / across, 0.08 / down)
    legend = figure.legend(
        handles=patches, loc="lower left", bbox_to_anchor=where, ncols=LEGEND, columnspacing=1.4, borderpad=0
    )
    legend.set_title(title, prop=FontProperties(size=SMALL))
    legend.set_alignment("left")


# Shares of the credit


@style()
def shapley(found: HeadAnalysis) -> Figure:
    """Each head's value with its error: as one of its kind on the left, as one of all heads on the right."""
    games = found.joint.shapley
    values = {value.head: value.value for game in reversed(list(games.values())) for value in game.values}
    groups = grouped(found, values)
    own = {kind: games[kind] for kind in groups if kind in games}
    together = dict.fromkeys(groups, games["all"]) if "all" in games else {}
    columns = {among: column for among, column in (("its own kind", own), ("all heads", together)) if column}
    left, width = names_width(groups), 3.1 if len(columns) > 1 else 5.0
    figure = Figure((left + (width + 0.3) * len(columns), stack_height(groups) + 0.55))
    head_line(
        figure, "Shapley values: each head's share of the credit", "whiskers are one standard error to either side"
    )
    for place, (among, column) in enumerate(columns.items()):
        panels = stack(figure, groups, left + place * (width + 0.3), width, named=place == 0)
        credit_column(panels, groups, column)
        show_scale(panels[-1], f"points, among {among}")
    return figure


def credit_column(panels: Sequence[Axes], groups: Groups, games: Mapping[str, Shapley]) -> None:
    """The same rows in every column, so that a head is followed straight across."""
    ends = [end for game in games.values() for value in game.values for end in around(value)]
    low, high = min(*ends, 0.0), max(*ends, 1.0)
    margin = 0.04 * (high - low)
    counted: list[Shapley] = []
    for axes, (kind, names) in zip(panels, groups.items(), strict=True):
        axes.set_xlim(low - margin, high + margin)
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axes.axvline(0, color=GREY, linewidth=0.6, zorder=0)
        axes.hlines(range(len(names)), 0, 1, PALE, linewidth=0.4, transform=axes.get_yaxis_transform(), zorder=0)
        if kind in games:
            credits(axes, names, games[kind], describe=games[kind] not in counted)
            counted.append(games[kind])


def around(value: Credit) -> tuple[float, float]:
    return value.value - value.error, value.value + value.error


def credits(axes: Axes, names: Sequence[str], game: Shapley, describe: bool) -> None:
    values = {value.head: value for value in game.values}
    rows = [row for row, name in enumerate(names) if name in values]
    chosen = [values[names[row]] for row in rows]
    whiskers(axes, rows, [around(value) for value in chosen], BLUE)
    axes.plot([value.value for value in chosen], rows, "o", color=BLUE, markersize=3.5)
    if describe:
        axes.set_title(how_counted(game), loc="right", y=1, size=SMALL, color=GREY, pad=5)


def how_counted(game: Shapley) -> str:
    counted = f"exact: {game.subsets:,} subsets" if game.exact else f"{game.permutations} permutations"
    return f"{counted}, {game.n:,} examples"
