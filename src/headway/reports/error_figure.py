"""Figure of accuracy by feature of difficulty."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headway.narration.numbers import percent
from headway.reports.panels import drawing, letters_width, new_figure, note, tiles
from headway.reports.style import BLUE, GREY, LABEL, PALE, RED, SMALL
from headway.results.error_analysis import ByToken, ByValue, ErrorAnalysis
from headway.results.heads import HeadAnalysis

Entry = ByValue | ByToken
SIZE = (2.4, 1.35)
"""Size of a panel in inches."""
MOST_NAMED = 18
"""Largest number of values that are named with their number of examples."""
TELLING = 20
"""Smallest number of examples for which an interval affects the scale."""


@drawing
def anatomy(found: HeadAnalysis) -> Figure:
    """Accuracy with its interval by every feature and by token of the answer, on one scale."""
    record = found.error_analysis
    groups = features(record)
    figure = new_figure("Where the errors are", f"{record.wrong:,} wrong of {record.n:,}")
    beside = max(1, min(len(groups), 2 if len(groups) <= 4 else 3))
    panels = tiles(figure, len(groups), beside, SIZE, ylabel="right answers")
    for axes, (name, entries) in zip(panels, groups.items(), strict=True):
        accuracy_panel(axes, name, entries, scale_limits(groups))
    return figure


def features(record: ErrorAnalysis) -> dict[str, list[Entry]]:
    """The features by which accuracy is split, as words; answer tokens last."""
    names = {name: "token of the answer" if name == "token" else name.replace("_", " ") for name in record.groups}
    there = {names[name]: [entry for entry in entries if entry.n] for name, entries in record.groups.items()}
    return {name: entries for name, entries in there.items() if entries}


def scale_limits(groups: Mapping[str, Sequence[Entry]]) -> tuple[float, float]:
    """From below the lowest accuracy and every interval with enough examples to just above 1."""
    entries = [entry for group in groups.values() for entry in group]
    lowest = [entry.accuracy or 0.0 for entry in entries]
    lowest += [entry.interval[0] for entry in entries if entry.n >= TELLING]
    low = min(lowest, default=0.0)
    margin = max(0.08 * (1 - low), 0.0005)
    return max(low - margin, -0.02), 1 + margin


def accuracy_panel(axes: Axes, name: str, entries: Sequence[Entry], limits: tuple[float, float]) -> None:
    """A dot with its interval for each value, named if there is room."""
    places = range(len(entries))
    crowded = len(entries) > MOST_NAMED
    axes.axhline(1, color=PALE, linewidth=0.6, zorder=0)
    low, high = zip(*(entry.interval for entry in entries), strict=True)
    axes.vlines(places, low, high, color=BLUE, linewidth=0.5 if crowded else 1.0)
    axes.plot(places, [entry.accuracy or 0.0 for entry in entries], "o", color=BLUE, markersize=1.8 if crowded else 3.2)
    axes.set(xlim=(-0.6, len(entries) - 0.4), ylim=limits)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(lambda share, _: percent(share))
    every = 1 + (len(entries) - 1) // MOST_NAMED
    names = [entry.label.replace(" to ", "–") for entry in entries[::every]]
    slot = SIZE[0] / len(names)
    folded = [name.replace(" ", "\n") for name in names] if letters_width(names, LABEL) > slot else names
    upwards = letters_width("\n".join(folded).split("\n"), LABEL) > slot
    axes.set_xticks(range(0, len(entries), every), names if upwards else folded, rotation=90 if upwards else 0)
    axes.tick_params(labelbottom=True)
    counted = 0 if crowded else count(axes, entries)
    axes.set_title(name, weight="bold", pad=4 + 9.5 * counted)


def count(axes: Axes, entries: Sequence[Entry]) -> int:
    """Write the numbers of examples and errors of each value above the panel; returns the number of rows."""
    rows = 0
    for name, counts, colour in (
        ("wrong", [entry.wrong for entry in entries], RED),
        ("examples", [entry.n for entry in entries], GREY),
    ):
        texts = [f"{number:,}" if number else "" for number in counts]
        if not any(texts) or letters_width(texts, SMALL) > SIZE[0] / len(texts):
            continue
        note(axes, name, (0, 1), (-4, 3 + 9 * rows), "axes fraction", ha="right", color=colour)
        for place, text in enumerate(texts):
            note(axes, text, (place, 1), (0, 3 + 9 * rows), axes.get_xaxis_transform(), ha="center", color=colour)
        rows += 1
    return rows
