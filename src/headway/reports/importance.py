"""Figures with one row per head: the drop without it, and its Shapley value."""

from collections.abc import Iterable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from headway.errors import InputError, suggestion
from headway.narration.numbers import percent, points
from headway.reports.panels import count_legend, drawing, name_rows, new_figure, note, patch, whiskers, write_columns
from headway.reports.style import (
    BLUE,
    DASHED,
    GREY,
    KINDS,
    OTHER_VERDICT,
    PALE,
    SMALL,
    VERDICTS,
    kinds_of,
    sentence,
    tick,
    where_from,
)
from headway.results.heads import Baseline, Drop, HeadAnalysis
from headway.results.joint_ablation import Credit, Shapley

Groups = Mapping[str, list[str]]
"""Names of heads by kind of attention, in the order of rows."""
ROW = 0.19
"""Height of one head's row in inches."""


@drawing
def importance(found: HeadAnalysis, kind_of_ablation: str = "zero", *, narrow: bool = False) -> Figure:
    """Bars of the drop without each head, largest first within its kind; whiskers are the 95 % intervals.

    A bar has the colour of the head's verdict over all kinds of ablation, which is the one of the text. Beside the drop
    stands the change of the right answer's margin, where the document has it.
    """
    drops = drops_of(found, kind_of_ablation)
    groups = grouped(found, {name: drop.drop for name, drop in drops.items()})
    baseline = found.baseline
    figure = new_figure(
        f"What is lost without each head: {kind_of_ablation} ablation",
        f"from {percent(baseline.accuracy)} right of {baseline.n:,} examples of {where_from(found)}",
        f"whiskers are 95 % intervals{own_margin(baseline)}",
        narrow=narrow,
    )
    ((*panels,),) = rows_of_heads(figure, groups, [1.25 if narrow else 4.3])
    rows = [[drops[name] for name in names] for names in groups.values()]
    verdicts = [[found.verdicts[name] for name in names] for names in groups.values()]
    for axes, some, own in zip(panels, rows, verdicts, strict=True):
        drop_bars(axes, some, own, drop_limits(drops.values()))
    for limit, text in ((1, "1" if narrow else "1 point"), (10, "10" if narrow else "10 points")):
        note(panels[0], text, (limit, 1), (0, 3), panels[0].get_xaxis_transform(), ha="center")
    margins = not narrow and any(drop.margin_change is not None for drop in drops.values())
    write_columns(
        panels,
        [[points(drop.drop) for drop in some] for some in rows],
        *([] if narrow else [[[between(drop.interval) for drop in some] for some in rows]]),
        *([[[points(drop.margin_change or 0.0) for drop in some] for some in rows]] if margins else []),
        *([[[between(drop.margin_change_interval) for drop in some] for some in rows]] if margins else []),
        *([] if narrow else [verdicts]),
        names=["drop", "", "margin"] if margins else [],
    )
    panels[-1].set_xlabel("drop in points" if narrow else "drop in points (linear up to 1, logarithmic beyond)")
    verdict_legend(figure, found)
    return figure


def verdict_legend(figure: Figure, found: HeadAnalysis) -> None:
    """How many heads have each verdict, over all kinds of ablation: the counts of the text."""
    verdicts = list(found.verdicts.values())
    faces = VERDICTS | {verdict: OTHER_VERDICT for verdict in verdicts if verdict not in VERDICTS}
    kinds = dict.fromkeys(kind for head in found.heads for kind in head.ablation)
    title = f"verdicts over {', '.join(kinds)} ablation" if len(kinds) > 1 else ""
    count_legend(figure, faces, verdicts, title)


def own_margin(baseline: Baseline) -> str:
    """The margin of the unchanged model, for comparison with its changes."""
    return "" if baseline.margin is None else f"; the right answer leads by {points(baseline.margin)} in logits"


def between(interval: Sequence[float] | None) -> str:
    return f"[{', '.join(map(points, interval))}]" if interval else ""


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


def rows_of_heads(figure: Figure, groups: Groups, widths: Sequence[float]) -> list[list[Axes]]:
    """Columns of panels, one panel for each kind of attention with a row per head; only the last shows its scale."""
    grid = figure.subplots(
        len(groups),
        len(widths),
        squeeze=False,
        height_ratios=[ROW * len(names) for names in groups.values()],
        width_ratios=widths,
    )
    for place, (line, (kind, names)) in enumerate(zip(grid, groups.items(), strict=True)):
        for axes in line:
            name_rows(axes, names)
            axes.tick_params(axis="y", labelleft=axes is line[0])
            if place < len(groups) - 1:
                axes.tick_params(axis="x", length=0, labelbottom=False)
                axes.spines["bottom"].set_visible(False)
        line[0].set_title(sentence(KINDS[kind]), weight="bold")
    return [list(column) for column in grid.T]


# Drops


def drop_limits(drops: Iterable[Drop]) -> tuple[float, float]:
    """From below the lowest whisker to above the highest, always including 1 and 10 points."""
    ends = [end for drop in drops for end in drop.interval]
    return min(-0.15, min(ends) * 1.25), max(14.0, max(ends) * 1.1)


def drop_bars(axes: Axes, drops: Sequence[Drop], verdicts: Sequence[str], limits: tuple[float, float]) -> None:
    """Bars and whiskers, linear within 1 point and logarithmic outside: 0.02 and 99 points are both seen."""
    axes.set_xscale("symlog", linthresh=1, linscale=1)
    axes.set_xlim(*limits)
    axes.xaxis.set_major_locator(FixedLocator([one for one in (-100, -10, -1, 0, 1, 10, 100) if limits[0] <= one]))
    axes.xaxis.set_major_formatter(tick)
    axes.axvline(0, color=GREY, linewidth=0.6, zorder=0)
    for limit in (1, 10):
        axes.axvline(limit, color=GREY, linewidth=0.8, linestyle=DASHED, zorder=0)
    for row, (drop, verdict) in enumerate(zip(drops, verdicts, strict=True)):
        axes.barh(row, drop.drop, height=0.68, **patch(VERDICTS.get(verdict, OTHER_VERDICT)))
    whiskers(axes, range(len(drops)), [drop.interval for drop in drops])


# Shares of the credit


@drawing
def shapley(found: HeadAnalysis) -> Figure:
    """Each head's Shapley value with its error: within its kind on the left, among all heads on the right."""
    games = found.joint.shapley
    values = {value.head: value.value for game in reversed(list(games.values())) for value in game.values}
    groups = grouped(found, values)
    own = {kind: games[kind] for kind in groups if kind in games}
    together = dict.fromkeys(groups, games["all"]) if "all" in games else {}
    columns = {among: column for among, column in (("its own kind", own), ("all heads", together)) if column}
    figure = new_figure(
        "Shapley values: each head's share of the credit", "whiskers are one standard error to either side"
    )
    columns_of_panels = rows_of_heads(figure, groups, [3.1 if len(columns) > 1 else 5.0] * len(columns))
    for panels, (among, column) in zip(columns_of_panels, columns.items(), strict=True):
        credit_column(panels, groups, column)
        panels[-1].set_xlabel(f"points, among {among}")
    return figure


def credit_column(panels: Sequence[Axes], groups: Groups, games: Mapping[str, Shapley]) -> None:
    """One column of values with the same rows in every column."""
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
        counted = f"exact: {game.subsets:,} subsets" if game.exact else f"{game.permutations} permutations"
        axes.set_title(f"{counted}, {game.n:,} examples", loc="right", size=SMALL, color=GREY)
