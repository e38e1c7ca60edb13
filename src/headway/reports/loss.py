"""What each head's absence does to the loss: the change of its mean in per cent, with the limit of 1 %."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator

from headway.errors import InputError
from headway.reports.importance import drops_of
from headway.reports.style import (
    EDGE,
    GREY,
    INK,
    SMALL,
    VERDICTS,
    axes_at,
    head_line,
    note,
    style,
    text_width,
    where_from,
)
from headway.results.heads import Drop, HeadAnalysis

ROW, TOP, WIDTH, FOOT = 0.19, 0.85, 4.3, 0.86
"""Inches: one head's row, above the bars, the bars' width, and below for the scale and the legend."""
LIMIT = 1.0
"""Per cent of the loss under which a report calls a head prunable."""
FEW_WRONG = 10
"""Wrong answers below which a few examples hold the loss, and its intervals were seen to cover too little."""

CLASSES = {
    "over 1 %": VERDICTS["important"],
    "not decided": VERDICTS["undecided"],
    "under 1 %": VERDICTS["redundant"],
}
"""Where the whole interval lies; colours and hatches as verdicts have them."""


@style()
def loss_changes(found: HeadAnalysis, kind_of_ablation: str = "zero") -> Figure:
    """Bars of the change of the mean loss without each head, largest first; whiskers are 95 % intervals."""
    changes = changes_of(found, kind_of_ablation)
    names = sorted(changes, key=lambda name: -change_of(changes[name]))
    entries = [changes[name] for name in names]
    texts = [(percent(change_of(entry)), range_of(entry)) for entry in entries]
    left = EDGE + 0.1 + text_width(names)
    changed = text_width(change for change, _ in texts)
    beside = changed + 0.25 + text_width((ends for _, ends in texts), SMALL)
    remark, warning = remarks(found, entries)
    size = max(left + WIDTH + beside + 2 * EDGE, 2 * EDGE + text_width([remark, warning]))
    extra = 0.18 if warning else 0.0
    figure = Figure((size, TOP + extra + ROW * len(names) + FOOT))
    head_line(figure, f"What the loss becomes without each head: {kind_of_ablation} ablation", remark)
    if warning:
        figure.text(EDGE / size, 1 - 0.52 / figure.get_size_inches()[1], warning, va="top", color=GREY)
    axes = axes_at(figure, left, TOP + extra, WIDTH, ROW * len(names))
    bars(axes, names, entries)
    for row, (change, ends) in enumerate(texts):
        place = axes.get_yaxis_transform()
        axes.text(1 + (0.1 + changed) / WIDTH, row, change, transform=place, ha="right", va="center")
        axes.text(1 + (0.25 + changed) / WIDTH, row, ends, transform=place, va="center", size=SMALL, color=GREY)
    legend(figure, entries)
    return figure


def has_losses(found: HeadAnalysis, kind_of_ablation: str) -> bool:
    """Whether the findings say what the loss becomes; it has no change in per cent where it was 0."""
    return any(drop.loss_change is not None for drop in drops_of(found, kind_of_ablation).values())


def changes_of(found: HeadAnalysis, kind_of_ablation: str) -> dict[str, Drop]:
    if not has_losses(found, kind_of_ablation):
        raise InputError(f"no change of the loss by {kind_of_ablation} ablation in the findings")
    drops = drops_of(found, kind_of_ablation)
    return {name: drop for name, drop in drops.items() if drop.loss_change is not None}


def change_of(drop: Drop) -> float:
    """The change of a drop that has one."""
    return drop.loss_change or 0.0


def remarks(found: HeadAnalysis, entries: Sequence[Drop]) -> tuple[str, str]:
    """What the bars stand on, and that the intervals are too narrow where they are."""
    baseline = found.baseline
    under = sum(change_of(entry) < LIMIT for entry in entries)
    sure = sum(class_of(entry) == "under 1 %" for entry in entries)
    each = f"{under} of {len(entries)} heads raise it by under 1 %, {sure} of them with the whole interval"
    loss = f"from {baseline.loss:.2g} a token on {baseline.n:,} examples of {where_from(found)}"
    wrong = baseline.wrong
    warning = (
        f"the model gets {wrong:,} of {baseline.n:,} wrong: a few examples hold so small a loss, "
        "and these intervals are too narrow"
    )
    return f"{loss}; {each}", warning if wrong < FEW_WRONG else ""


def class_of(entry: Drop) -> str:
    """Where the whole interval lies, or the change alone where no interval was measured."""
    low, high = entry.loss_change_interval or (change_of(entry), change_of(entry))
    return "over 1 %" if low > LIMIT else "under 1 %" if high < LIMIT else "not decided"


def percent(change: float) -> str:
    """Two figures that count, with a sign.

    >>> [percent(change) for change in (0.0312, -4.26, 12.3, 376.8, 6_628_740)]
    ['+0.03', '−4.3', '+12', '+380', '+6,600,000']
    """
    size = abs(change)
    decimals = 2 if size < 0.995 else 1 if size < 9.95 else -max(0, math.floor(math.log10(size)) - 1)
    rounded = round(change, decimals) + 0.0  # adding 0 makes -0 a plain 0
    return f"{rounded:+,.{max(decimals, 0)}f}".replace("-", "−")


def range_of(entry: Drop) -> str:
    interval = entry.loss_change_interval
    return f"{percent(interval[0])} to {percent(interval[1])}" if interval else ""


def bars(axes: Axes, names: Sequence[str], entries: Sequence[Drop]) -> None:
    ends = [end for entry in entries for end in entry.loss_change_interval or [change_of(entry)]]
    scale(axes, min(0.0, *ends), max(2 * LIMIT, *ends))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.spines.left.set_visible(False)
    for row, entry in enumerate(entries):
        colour, hatch = CLASSES[class_of(entry)]
        axes.barh(row, change_of(entry), height=0.68, color=colour, hatch=hatch, edgecolor=INK, linewidth=0.5)
        if entry.loss_change_interval:
            axes.hlines(row, *entry.loss_change_interval, color=INK, linewidth=1.1, zorder=3)
    axes.axvline(0, color=GREY, linewidth=0.6, zorder=0)
    axes.axvline(LIMIT, color=GREY, linewidth=0.8, linestyle=(0, (4, 2)), zorder=0)
    note(axes, "1 %", (LIMIT, 1), (0, 3), axes.get_xaxis_transform(), ha="center")


def scale(axes: Axes, low: float, high: float) -> None:
    """Linear where changes span a decade at most; else linear within 1 % and logarithmic outside."""
    wide = max(-low, high) > 10 * LIMIT
    if wide:
        axes.set_xscale("symlog", linthresh=LIMIT, linscale=1)
    margin = 0.04 * (high - low)
    axes.set_xlim(*((min(-0.15, low * 1.5), high * 1.5) if wide else (low - margin, high + margin)))
    if wide:
        decades = math.ceil(math.log10(max(-low, high)))
        powers = range(0, decades + 1, 1 + decades // 8)
        ticks = [0.0] + [sign * 10.0**power for power in powers for sign in (-1, 1)]
        left, right = axes.get_xlim()
        axes.xaxis.set_major_locator(FixedLocator([tick for tick in sorted(ticks) if left <= tick <= right]))
    axes.xaxis.set_major_formatter(lambda tick, _: power_of_ten(tick) if wide else f"{tick:g}".replace("-", "−"))
    axes.set_xlabel(f"change of the mean loss in per cent{' (linear up to 1, logarithmic beyond)' if wide else ''}")


def power_of_ten(tick: float) -> str:
    """`−100`, `1,000`, and from there on `10⁴`."""
    if abs(tick) < 10_000:
        return f"{tick:,.0f}".replace("-", "−")
    digits = str(round(math.log10(abs(tick)))).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{'−' if tick < 0 else ''}10{digits}"


def legend(figure: Figure, entries: Sequence[Drop]) -> None:
    """Each class that occurs, with how many heads are in it."""
    counts = {name: sum(class_of(entry) == name for entry in entries) for name in CLASSES}
    patches = [
        Patch(facecolor=colour, hatch=hatch, edgecolor=INK, linewidth=0.5, label=f"{name} ({counts[name]})")
        for name, (colour, hatch) in CLASSES.items()
        if counts[name]
    ]
    across, down = figure.get_size_inches()
    figure.legend(
        handles=patches,
        loc="lower left",
        bbox_to_anchor=(EDGE / across, 0.08 / down),
        ncols=len(patches),
        columnspacing=1.4,
        borderpad=0,
    )
