"""Accuracy as heads are removed one after another."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from headway.reports.style import (
    BLUE,
    EDGE,
    GREY,
    INK,
    RED,
    SMALL,
    axes_at,
    head_line,
    note,
    style,
    text_width,
)
from headway.results.heads import HeadAnalysis
from headway.results.joint_ablation import Removable, Step

MOST_NAMES = 60
"""Steps up to which every removed head's name has room."""


@style()
def elimination(found: HeadAnalysis) -> Figure:
    """The whole curve, and above it a close-up of what is lost first: lines at 1 and 5 points are the limits."""
    record = found.joint.elimination
    steps = record.steps
    left, width = EDGE + 0.55, min(max(5.6, 0.29 * len(steps)), 9.0)
    below = text_width((step.removed or "" for step in steps), SMALL) if len(steps) <= MOST_NAMES else 0.0
    figure = Figure((left + width + 0.8, 5.2 + below))
    head_line(
        figure,
        f"Removing heads one after another: {record.kind} ablation",
        f"order chosen on {record.n_chosen_on:,} examples, accuracy reported on {record.n_reported_on:,} others",
    )
    close, full = axes_at(figure, left, 0.8, width, 1.75), axes_at(figure, left, 2.75, width, 1.9)
    for axes in (close, full):
        curves(axes, steps)
        limits(axes, steps)
    close_up(close, steps, found.joint.removable)
    full.set_ylim(-0.02, 1.02)
    name_steps(full, steps, below)
    return figure


def curves(axes: Axes, steps: Sequence[Step]) -> None:
    """The reported half with its band, the half that chose (thin) and what single drops promised (dashed)."""
    removed = range(len(steps))
    start = steps[0].accuracy
    low, high = zip(*(step.interval for step in steps), strict=True)
    axes.fill_between(removed, low, high, color=BLUE, alpha=0.22, linewidth=0)
    reported = [step.accuracy for step in steps]
    axes.plot(
        removed, reported, "o-", color=BLUE, linewidth=1.4, markersize=2.8, label="other half, with 95 % interval"
    )
    axes.plot(
        removed,
        [step.accuracy_when_chosen for step in steps],
        color=INK,
        linewidth=0.6,
        label="half that the order was chosen on",
    )
    promised = [start - step.sum_of_single_drops / 100 for step in steps]
    axes.plot(
        removed, promised, color=RED, linewidth=1.2, linestyle=(0, (4, 2)), zorder=1.5, label="single drops added up"
    )
    axes.set_xlim(-0.4, len(steps) - 0.6)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    axes.set_ylabel("right answers")


def limits(axes: Axes, steps: Sequence[Step]) -> None:
    for points in (1, 5):
        height = steps[0].accuracy - points / 100
        axes.axhline(height, color=GREY, linewidth=0.7, linestyle=(0, (1, 1.5)), zorder=0)


def close_up(axes: Axes, steps: Sequence[Step], removable: Sequence[Removable]) -> None:
    """The first points of accuracy, with how many heads were chosen to go within each limit."""
    start = steps[0].accuracy
    counts = {entry.limit: f"\n{len(entry.heads)} chosen" for entry in removable}
    for points, text in ((1, "−1 point"), (5, "−5 points")):
        place = (1, start - points / 100)
        text += counts.get(points, "")
        note(axes, text, place, (4, 0), axes.get_yaxis_transform(), va="center", color=INK)
    axes.set_ylim(start - 0.085, min(start + 0.015, 1.005))
    axes.set_xticks(range(len(steps)), [])
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, columnspacing=1.6, handlelength=2.4, borderpad=0.2)


def name_steps(axes: Axes, steps: Sequence[Step], below: float) -> None:
    """Heads left below each step, and the name of the head that was removed for it where all have room."""
    every = 1 + len(steps) // (MOST_NAMES if len(steps) <= 100 else MOST_NAMES // 2)  # three digits are wider
    axes.set_xticks(range(0, len(steps), every), [str(step.left) for step in steps[::every]])
    axes.set_xlabel(
        "heads left" + (", and which was removed last" if below else ""), labelpad=7 + 72 * below if below else 3
    )
    for place, step in enumerate(steps if below else []):
        across = axes.get_xaxis_transform()
        note(axes, step.removed or "", (place, 0), (0, -15), across, rotation=90, ha="center", va="top")
