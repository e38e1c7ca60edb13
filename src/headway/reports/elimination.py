"""Figure of backward elimination: accuracy, and the sum of single drops."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headway.reports.panels import drawing, new_figure, note, percent_axis
from headway.reports.style import BLUE, DASHED, DOTTED, GREY, INK, RED, SMALL
from headway.results.heads import HeadAnalysis
from headway.results.joint_ablation import Removable, Step

MOST_NAMES = 60
"""Largest number of steps for which every removed head is named."""


@drawing
def elimination(found: HeadAnalysis, *, narrow: bool = False) -> Figure:
    """The whole curve, and above it a close-up of what is lost first: lines at 1 and 5 points are the limits."""
    record = found.joint.elimination
    steps = record.steps
    figure = new_figure(
        f"Removing heads one after another: {record.kind} ablation",
        f"order chosen on {record.n_chosen_on:,} examples, accuracy reported on {record.n_reported_on:,} others",
        narrow=narrow,
    )
    width = 1.95 if narrow else min(max(5.6, 0.29 * len(steps)), 9.0)
    close, full = figure.subplots(2, 1, sharex=True, height_ratios=[1.75, 1.9], width_ratios=[width])
    for axes in (close, full):
        curves(axes, steps)
    close_up(close, steps, found.joint.removable)
    full.set_ylim(-0.02, 1.02)
    name_steps(full, steps, narrow=narrow)
    beside = 1 if narrow else 3
    lines = close.get_lines()[:3]
    figure.legend(handles=lines, loc="outside upper left", ncols=beside, columnspacing=1.6, handlelength=2.4)
    return figure


def curves(axes: Axes, steps: Sequence[Step]) -> None:
    """The curve of the reported half with its band, of the choosing half (thin), and of summed single
    drops (dashed).
    """
    removed = range(len(steps))
    start = steps[0].accuracy
    low, high = zip(*(step.interval for step in steps), strict=True)
    axes.fill_between(removed, low, high, color=BLUE, alpha=0.22, linewidth=0)
    dotted: dict[str, Any] = {"color": BLUE, "linewidth": 1.4, "marker": "o", "markersize": 2.8}
    axes.plot(removed, [step.accuracy for step in steps], label="other half, with 95 % interval", **dotted)
    chosen = [step.accuracy_when_chosen for step in steps]
    axes.plot(removed, chosen, color=INK, linewidth=0.6, label="half used for the order")
    promised = [start - step.sum_of_single_drops / 100 for step in steps]
    dashed: dict[str, Any] = {"color": RED, "linewidth": 1.2, "linestyle": DASHED, "zorder": 1.5}
    axes.plot(removed, promised, label="single drops added up", **dashed)
    for points in (1, 5):
        axes.axhline(start - points / 100, color=GREY, linewidth=0.7, linestyle=DOTTED, zorder=0)
    axes.set_xlim(-0.4, len(steps) - 0.6)
    percent_axis(axes.yaxis)
    axes.set_ylabel("right answers")


def close_up(axes: Axes, steps: Sequence[Step], removable: Sequence[Removable]) -> None:
    """The first points of accuracy, with the number of heads chosen for removal within each limit."""
    start = steps[0].accuracy
    counts = {entry.limit: f"\n{len(entry.heads)} chosen" for entry in removable}
    for points, text in ((1, "−1 point"), (5, "−5 points")):
        place = (1, start - points / 100)
        note(axes, text + counts.get(points, ""), place, (4, 0), axes.get_yaxis_transform(), va="center", color=INK)
    axes.set_ylim(start - 0.085, min(start + 0.015, 1.005))


def name_steps(axes: Axes, steps: Sequence[Step], *, narrow: bool = False) -> None:
    """Heads left below each step, and the name of the head that was removed for it where all have room."""
    most = 13 if narrow else MOST_NAMES if len(steps) <= 100 else MOST_NAMES // 2  # three digits are wider
    every = 1 + len(steps) // most
    axes.set_xticks(range(0, len(steps), every), [str(step.left) for step in steps[::every]])
    if narrow or len(steps) > MOST_NAMES:
        axes.set_xlabel("heads left")
        return
    names = axes.secondary_xaxis("bottom")
    names.set_xticks(range(len(steps)), [step.removed or "" for step in steps])
    names.spines["bottom"].set(position=("outward", 11), visible=False)
    names.tick_params(length=0, labelrotation=90, labelsize=SMALL, labelcolor=GREY)
    names.set_xlabel("heads left, and which was removed last")
