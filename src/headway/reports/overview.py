"""The figure of a report's first screen: every head alone, and what happens as heads are removed together."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headway.narration.heads import drops_in_words, ranked_heads
from headway.narration.numbers import points
from headway.reports.importance import drop_bars, drop_limits, verdict_legend
from headway.reports.panels import drawing, name_rows, new_figure, note, percent_axis
from headway.reports.style import BLUE, DASHED, DOTTED, GREY, INK, RED, SMALL, set_style
from headway.results.heads import Head, HeadAnalysis
from headway.results.joint_ablation import Removable, Step

MOST_HEADS = 24
"""Heads that have a row; of a larger model those with the largest drops."""
MOST_LABELLED = 7


@drawing
def overview(found: HeadAnalysis, *, narrow: bool = False) -> Figure:
    """Left the drop without each head, largest first; right the accuracy as heads are removed one after another.

    Drops of a real-valued metric are drawn alone, because they are not of accuracy.
    """
    heads, kind = ranked_heads(found)
    shown = heads[:MOST_HEADS]
    figure = new_figure("", narrow=narrow)
    steps = found.joint.elimination.steps if found.metric is None else ()
    rows = 0.112 * len(shown)
    if not steps:
        (alone,) = figure.subplots(1, 1, squeeze=False, width_ratios=[2.2 if narrow else 4.6], height_ratios=[rows])[0]
    elif narrow:
        together, alone = figure.subplots(2, 1, height_ratios=[1.8, 0.135 * len(shown)], width_ratios=[2.35])
    else:
        alone, together = figure.subplots(1, 2, width_ratios=[2.9, 4.05], height_ratios=[rows])
    draw_alone(alone, shown, kind, len(heads), drops_in_words(found))
    if steps:
        draw_together(together, [steps], found.joint.removable, narrow=narrow)
    verdict_legend(figure, found)
    return figure


@drawing
def overview_of_seeds(found: Sequence[HeadAnalysis], *, narrow: bool = False) -> Figure:
    """Accuracy as heads are removed one after another, a line for each run, against what single drops promise."""
    figure = new_figure("", narrow=narrow)
    size = (2.35, 2.0) if narrow else (6.4, 2.5)
    axes = figure.subplots(1, 1, squeeze=False, width_ratios=[size[0]], height_ratios=[size[1]])[0, 0]
    draw_together(axes, [one.joint.elimination.steps for one in found], (), narrow=narrow)
    return figure


def draw_alone(axes: Axes, heads: Sequence[Head], kind: str, all_heads: int, lost: str) -> None:
    """Bars of the drops, in the colours of the verdicts."""
    drops = [head.ablation[kind] for head in heads]
    drop_bars(axes, drops, [head.verdict for head in heads], drop_limits(drops))
    name_rows(axes, [head.name for head in heads])
    axes.tick_params(axis="y", labelsize=SMALL, pad=2)
    axes.set_title("One head removed", weight="bold")
    axes.set_xlabel(lost)
    if len(heads) < all_heads:
        note(axes, f"and {all_heads - len(heads)} more", (0, 0), (0, -18), "axes fraction", ha="right")


def draw_together(axes: Axes, runs: Sequence[Sequence[Step]], removable: Sequence[Removable], *, narrow: bool) -> None:
    """The curve of each run with its interval, and dashed what the single drops add up to."""
    for index, steps in enumerate(runs):
        removed = range(len(steps))
        look = {"color": BLUE} if len(runs) == 1 else set_style(index % MOST_LABELLED)
        low, high = zip(*(step.interval for step in steps), strict=True)
        axes.fill_between(removed, low, high, color=look["color"], alpha=0.18, linewidth=0)
        axes.plot(removed, [step.accuracy for step in steps], **{**look, "linewidth": 1.6, "marker": ""})
        promised = [steps[0].accuracy - step.sum_of_single_drops / 100 for step in steps]
        axes.plot(removed, promised, color=RED, linewidth=1.1, linestyle=DASHED, zorder=1.5)
    longest = max(runs, key=len)
    start = longest[0].accuracy
    axes.axhline(start - 0.01, color=GREY, linewidth=0.7, linestyle=DOTTED, zorder=0)
    axes.set(xlim=(0, len(longest) - 1), ylim=(-0.02, 1.04), xlabel="heads removed, the cheapest first")
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    percent_axis(axes.yaxis)
    axes.set_title("Heads removed together", weight="bold")
    label_curves(axes, longest, narrow=narrow)
    for row in [row for row in removable[:1] if row.heads]:
        mark_removable(axes, row, longest)


def label_curves(axes: Axes, steps: Sequence[Step], *, narrow: bool) -> None:
    """The two curves are named where they lie, instead of in a legend."""
    half = next((place for place, step in enumerate(steps) if step.accuracy < 0.55), len(steps) - 1)
    left = half > len(steps) / 2
    offset = (-5, 0) if left else (5, 0)
    side = "right" if left else "left"
    note(axes, "measured", (half, steps[half].accuracy), offset, axes.transData, ha=side, color=BLUE)
    promised = [steps[0].accuracy - step.sum_of_single_drops / 100 for step in steps]
    words, last = "single drops\nadded up" if narrow else "single drops added up", len(steps) - 1
    if promised[-1] > 0.35:
        note(axes, words, (last, promised[-1]), (0, -3), axes.transData, ha="right", va="top", color=RED)
    else:
        place = next(index for index, one in enumerate(promised) if one < 0.75)
        note(axes, words, (place, promised[place]), (4, 4), axes.transData, color=RED)


def mark_removable(axes: Axes, row: Removable, steps: Sequence[Step]) -> None:
    """How many heads were chosen to go within the limit, and what they cost on other examples."""
    removed = min(len(row.heads), len(steps) - 1)
    axes.axvline(removed, color=INK, linewidth=0.7, linestyle=DOTTED, zorder=0)
    heads = "1 head" if len(row.heads) == 1 else f"{len(row.heads)} heads"
    words = f"{heads} removed:\n{points(row.drop)} points lost"
    before = removed > 0.5 * (len(steps) - 1)
    side = "right" if before else "left"
    note(axes, words, (removed, 0.06), (-4 if before else 4, 0), axes.transData, ha=side, color=INK)
