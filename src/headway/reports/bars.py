"""A bar chart of values with intervals, for analyses without their own figure."""

from matplotlib.figure import Figure

from headway.reports.style import BLUE, INK, style
from headway.results.analyses import Bars

ROW, AROUND = 0.2, 1.3
"""Height of a bar, and of the space above and below all bars, in inches."""


@style()
def bars(found: Bars) -> Figure:
    """A bar for each value, in the given order; whiskers are its interval."""
    figure = Figure((7.2, AROUND + ROW * len(found.bars)), layout="constrained")
    axes = figure.subplots()
    rows = range(len(found.bars))
    axes.barh(rows, [one.value for one in found.bars], color=BLUE, height=0.7)
    axes.hlines(
        rows, [one.interval[0] for one in found.bars], [one.interval[1] for one in found.bars], color=INK, linewidth=1.1
    )
    axes.axvline(0, color=INK, linewidth=0.6)
    axes.set_yticks(rows, [one.name for one in found.bars])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(found.unit)
    axes.set_title(f"{found.title}\n", loc="left", weight="bold")
    axes.annotate(found.subtitle, (0, 1), (0, 4), "axes fraction", textcoords="offset points", va="bottom")
    return figure
