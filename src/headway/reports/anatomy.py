"""Where errors are: accuracy by what makes an example hard."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headway.reports.style import (
    BLUE,
    EDGE,
    GREY,
    PALE,
    RED,
    SMALL,
    axes_at,
    head_line,
    note,
    style,
    text_width,
)
from headway.results.error_analysis import ByToken, ByValue, ErrorAnalysis
from headway.results.heads import HeadAnalysis

Entry = ByValue | ByToken
WIDTH, HEIGHT, STEP, TOP = 2.4, 1.35, (3.0, 2.25), 0.8
"""Inches of a panel, from one to the next, and above the first."""
MOST_NAMED = 18
"""Values up to which each is named with its number of examples."""
TELLING = 20
"""Examples from which on an interval takes part in choosing the scale; with fewer it says little."""


@style()
def anatomy(found: HeadAnalysis) -> Figure:
    """Accuracy with its interval by every feature and by token of the answer, all on one scale."""
    record = found.error_analysis
    panels = features(record)
    columns = max(1, min(len(panels), 2 if len(panels) <= 4 else 3))
    left = EDGE + 0.65
    figure = Figure((left - 0.4 + STEP[0] * columns, TOP + STEP[1] * (1 + (len(panels) - 1) // columns)))
    head_line(figure, "Where the errors are", f"{record.wrong:,} wrong of {record.n:,}")
    limits = scale_limits(panels)
    for place, (name, entries) in enumerate(panels.items()):
        row, column = divmod(place, columns)
        axes = axes_at(figure, left + STEP[0] * column, TOP + STEP[1] * row, WIDTH, HEIGHT)
        accuracy_panel(axes, name, entries, limits)
        axes.tick_params(labelleft=column == 0)
        if column == 0:
            axes.set_ylabel("right answers")
    return figure


def features(record: ErrorAnalysis) -> dict[str, list[Entry]]:
    """What accuracy is split by, as words; the tokens of the answer come last."""
    names = {name: "token of the answer" if name == "token" else name.replace("_", " ") for name in record.groups}
    there = {names[name]: [entry for entry in entries if entry.n] for name, entries in record.groups.items()}
    return {name: entries for name, entries in there.items() if entries}


def scale_limits(panels: Mapping[str, Sequence[Entry]]) -> tuple[float, float]:
    """From below the lowest accuracy and every telling interval to just above 1."""
    entries = [entry for group in panels.values() for entry in group]
    lowest = [entry.accuracy or 0.0 for entry in entries]
    lowest += [entry.interval[0] for entry in entries if entry.n >= TELLING]
    low = min(lowest, default=0.0)
    margin = max(0.08 * (1 - low), 0.0005)
    return max(low - margin, -0.02), 1 + margin


def accuracy_panel(axes: Axes, name: str, entries: Sequence[Entry], limits: tuple[float, float]) -> None:
    """A dot and its interval for each value."""
    places = range(len(entries))
    crowded = len(entries) > MOST_NAMED
    axes.axhline(1, color=PALE, linewidth=0.6, zorder=0)
    low, high = zip(*(entry.interval for entry in entries), strict=True)
    axes.vlines(places, low, high, color=BLUE, linewidth=0.5 if crowded else 1.0)
    axes.plot(places, [entry.accuracy or 0.0 for entry in entries], "o", color=BLUE, markersize=1.8 if crowded else 3.2)
    axes.set_ylim(*limits)
    axes.set_xlim(-0.6, len(entries) - 0.4)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.5g} %")
    axes.set_title(name, loc="left", weight="bold")
    name_values(axes, entries)


def name_values(axes: Axes, entries: Sequence[Entry]) -> None:
    """Names as many values as have room; where all have, with how many examples and errors each of them has."""
    every = 1 + (len(entries) - 1) // MOST_NAMED
    names = [entry.label.replace(" to ", "–") for entry in entries[::every]]
    slot = 0.95 * WIDTH / len(names)
    if text_width(names) > slot:
        names = [name.replace(" ", "\n") for name in names]
    upwards = text_width("\n".join(names).split("\n")) > slot
    if upwards:
        names = [name.replace("\n", " ") for name in names]
    axes.set_xticks(range(0, len(entries), every), names, rotation=90 if upwards else 0)
    if every == 1:
        lines = 1 + max(name.count("\n") for name in names)
        count(axes, entries, slot, below=11 + 72 * text_width(names) if upwards else 4 + 10.5 * lines)


def count(axes: Axes, entries: Sequence[Entry], slot: float, below: float) -> None:
    """Rows of how many examples each value has, and how many of them are wrong, as far as the numbers fit."""
    for name, counts, colour in (
        ("examples", [entry.n for entry in entries], GREY),
        ("wrong", [entry.wrong for entry in entries], RED),
    ):
        texts = [f"{number:,}" if number else "" for number in counts]
        if not any(texts) or text_width(texts, SMALL) > slot:
            continue
        note(axes, name, (0, 0), (-4, -below), "axes fraction", ha="right", va="top", color=colour)
        for place, text in enumerate(texts):
            note(axes, text, (place, 0), (0, -below), axes.get_xaxis_transform(), ha="center", va="top", color=colour)
        below += 9
