"""Figure of the change of the mean loss without each head, in per cent."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from headway.errors import InputError
from headway.narration.numbers import percent_change
from headway.reports.importance import ROW, drops_of
from headway.reports.panels import (
    count_legend,
    drawing,
    name_rows,
    new_figure,
    note,
    patch,
    tiles,
    whiskers,
    write_columns,
)
from headway.reports.style import DASHED, GREY, VERDICTS, tick, where_from
from headway.results.heads import Drop, HeadAnalysis

LIMIT = 1.0
"""Change of the loss in per cent below which a head counts as prunable."""
FEW_WRONG = 10
"""Wrong answers below which a few examples dominate the loss, so that its intervals are too narrow."""

CLASSES = {
    "over 1 %": VERDICTS["important"],
    "not decided": VERDICTS["undecided"],
    "under 1 %": VERDICTS["redundant"],
}
"""Position of the whole interval; colours and hatches are those of verdicts."""


@drawing
def loss_changes(found: HeadAnalysis, kind_of_ablation: str = "zero") -> Figure:
    """Bars of the change of the mean loss without each head, largest first; whiskers are 95 % intervals."""
    changes = changes_of(found, kind_of_ablation)
    names = sorted(changes, key=lambda name: -change_of(changes[name]))
    entries = [changes[name] for name in names]
    figure = new_figure(
        f"What the loss becomes without each head: {kind_of_ablation} ablation", *remarks(found, entries)
    )
    (axes,) = tiles(figure, 1, 1, (4.3, ROW * len(names)))
    name_rows(axes, names)
    for row, entry in enumerate(entries):
        axes.barh(row, change_of(entry), height=0.68, **patch(CLASSES[class_of(entry)]))
        if entry.loss_change_interval:
            whiskers(axes, [row], [entry.loss_change_interval])
    axes.axvline(0, color=GREY, linewidth=0.6, zorder=0)
    axes.axvline(LIMIT, color=GREY, linewidth=0.8, linestyle=DASHED, zorder=0)
    note(axes, "1 %", (LIMIT, 1), (0, 3), axes.get_xaxis_transform(), ha="center")
    ends = [end for entry in entries for end in (change_of(entry), *(entry.loss_change_interval or ()))]
    scale(axes, min(0.0, *ends), max(2 * LIMIT, *ends))
    write_columns(
        [axes], [[percent_change(change_of(entry)) for entry in entries]], [[range_of(entry) for entry in entries]]
    )
    count_legend(figure, CLASSES, [class_of(entry) for entry in entries])
    return figure


def has_losses(found: HeadAnalysis, kind_of_ablation: str) -> bool:
    """Whether the document has changes of the loss; there are none in per cent if it was 0."""
    return any(drop.loss_change is not None for drop in drops_of(found, kind_of_ablation).values())


def changes_of(found: HeadAnalysis, kind_of_ablation: str) -> dict[str, Drop]:
    if not has_losses(found, kind_of_ablation):
        raise InputError(f"no change of the loss by {kind_of_ablation} ablation in the findings")
    drops = drops_of(found, kind_of_ablation)
    return {name: drop for name, drop in drops.items() if drop.loss_change is not None}


def change_of(drop: Drop) -> float:
    """The change of the loss, 0 if missing."""
    return drop.loss_change or 0.0


def remarks(found: HeadAnalysis, entries: Sequence[Drop]) -> tuple[str, str]:
    """The basis of the bars, and a warning if the intervals are too narrow."""
    baseline = found.baseline
    under = sum(change_of(entry) < LIMIT for entry in entries)
    sure = sum(class_of(entry) == "under 1 %" for entry in entries)
    each = f"{under} of {len(entries)} heads raise it by under 1 %, {sure} of them with the whole interval"
    loss = f"from {baseline.loss:.2g} a token on {baseline.n:,} examples of {where_from(found)}"
    wrong = baseline.wrong
    warning = (
        f"the model gets {wrong:,} of {baseline.n:,} wrong: a few examples dominate so small a loss, "
        "and these intervals are too narrow"
    )
    return f"{loss}; {each}", warning if wrong < FEW_WRONG else ""


def class_of(entry: Drop) -> str:
    """The class of the whole interval, or of the change itself without an interval."""
    low, high = entry.loss_change_interval or (change_of(entry), change_of(entry))
    return "over 1 %" if low > LIMIT else "under 1 %" if high < LIMIT else "not decided"


def range_of(entry: Drop) -> str:
    interval = entry.loss_change_interval
    return f"{percent_change(interval[0])} to {percent_change(interval[1])}" if interval else ""


def scale(axes: Axes, low: float, high: float) -> None:
    """Linear if changes span at most a decade; otherwise linear within 1 % and logarithmic outside."""
    wide = max(-low, high) > 10 * LIMIT
    if wide:
        axes.set_xscale("symlog", linthresh=LIMIT, linscale=1)
    margin = 0.04 * (high - low)
    axes.set_xlim(*((min(-0.15, low * 1.5), high * 1.5) if wide else (low - margin, high + margin)))
    if wide:
        decades = math.ceil(math.log10(max(-low, high)))
        powers = range(0, decades + 1, 1 + decades // 8)
        ticks = sorted([0.0] + [sign * 10.0**power for power in powers for sign in (-1, 1)])
        left, right = axes.get_xlim()
        axes.xaxis.set_major_locator(FixedLocator([one for one in ticks if left <= one <= right]))
    axes.xaxis.set_major_formatter(power_of_ten if wide else tick)
    axes.set_xlabel(f"change of the mean loss in per cent{' (linear up to 1, logarithmic beyond)' if wide else ''}")


def power_of_ten(tick: Any, _: Any = None) -> str:
    """`−100`, `1,000`, and from there on `10⁴`."""
    if abs(tick) < 10_000:
        return f"{tick:,.0f}".replace("-", "−")
    digits = str(round(math.log10(abs(tick)))).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{'−' if tick < 0 else ''}10{digits}"
