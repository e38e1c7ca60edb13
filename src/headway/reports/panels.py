"""Building blocks of figures: panels of a given size; matplotlib lays out everything around them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from textwrap import wrap
from typing import Any, ParamSpec

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.text import Annotation, Text
from matplotlib.ticker import PercentFormatter
from matplotlib.transforms import Bbox

from headway.narration.numbers import short_percent
from headway.reports.style import GREY, INK, ON_DARK, ON_LIGHT, PALE, SHADE, SMALL, TITLE, style

P = ParamSpec("P")
EDGE, BETWEEN, NARROWEST = 0.12, 0.05, 4.6
"""Inches left free around everything and around each panel, and the least width of a figure that is not narrow."""
NARROW = "narrow"
"""The label of a figure for a page as narrow as a telephone."""
MOST_SHAPES = 1_500
"""Largest number of cells for which a heat map in an SVG consists of shapes; a larger one is rasterized."""


# The layout


def drawing(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw a figure in headway's style, with the size that its panels and their surroundings need."""

    @wraps(draw)
    def drawn(*given: P.args, **named: P.kwargs) -> Figure:
        with style():
            figure = draw(*given, **named)
            lay_out(figure)
        return figure

    return drawn


def new_figure(title: str, *remarks: str, narrow: bool = False) -> Figure:
    """A figure with a heading and no panels; their grid gives their sizes in inches, as its ratios."""
    figure = Figure(layout=ConstrainedLayoutEngine(w_pad=BETWEEN, h_pad=1.2 * BETWEEN, wspace=0, hspace=0))
    figure.set_label(NARROW if narrow else "")
    FigureCanvasAgg(figure)  # keeps what measures text; without it that is made anew for every text
    figure.text(0, 0, title, size=TITLE, weight="bold", va="top")
    figure.text(0, 0, "; ".join(filter(None, remarks)), color=GREY, va="top", linespacing=1.3)
    return figure


def tiles(
    figure: Figure, count: int, beside: int, size: tuple[float, float], xlabel: str = "", ylabel: str = ""
) -> list[Axes]:
    """Panels of one size in inches, `beside` in a row; axis labels are at the left and below all panels."""
    rows = -(-count // beside)
    grid = figure.add_gridspec(rows, beside, width_ratios=[size[0]] * beside, height_ratios=[size[1]] * rows)
    panels = [figure.add_subplot(grid[divmod(place, beside)]) for place in range(count)]
    for place, axes in enumerate(panels):
        first, last = place % beside == 0, place + beside >= count
        axes.tick_params(labelleft=first, labelbottom=last)
        axes.set(xlabel=xlabel if last else "", ylabel=ylabel if first else "")
    return panels


def lay_out(figure: Figure) -> None:
    """Give panels the sizes of their grid in inches, fold the heading to the width, and fix the layout."""
    panels = {axes: sizes(axes) for axes in figure.axes if axes.get_subplotspec() is not None}
    for axes, (own, _) in panels.items():
        for title in [child for child in axes.get_children() if isinstance(child, Text) and child not in axes.texts]:
            fold(title, own[0])
    panel, (own, total) = min(panels.items(), key=lambda pair: pair[1][0][0])
    figure.set_size_inches(*(total + 4))
    with measured_once(figure, {axes: own for axes, (own, _) in panels.items()}):
        execute(figure)
        content = total + 4 - total * (panel.get_position(original=True).size * (total + 4) / own - 1)
        rect = frame(figure, content)
        execute(figure, rect)
    for legend in figure.legends:
        legend.set_bbox_to_anchor(rect, figure.transFigure)
    figure.set_layout_engine(None)  # "none" would keep a placeholder, for which each file is drawn twice
    for axes in figure.axes:  # the solver's last digits are not reproducible
        axes.set_position(np.round(axes.get_position(original=True).bounds, 6).tolist())


def frame(figure: Figure, content: np.ndarray) -> tuple[float, float, float, float]:
    """Resize the figure to its content (in inches) and heading; returns the rectangle of the content."""
    loose = [text for axes in figure.axes for text in axes.texts if not text.get_in_layout()]
    needed = [inches(legend)[0] for legend in figure.legends]
    needed += [text.get_window_extent().x1 / figure.dpi for text in loose]  # these stand in the first column
    least = 0.0 if figure.get_label() == NARROW else NARROWEST
    width = max(content[0], least, *needed) + 2 * EDGE
    heading = [text for text in figure.texts[:2] if text.get_text()]
    heights = [fold(text, width - 2 * EDGE) + 0.06 for text in heading]
    width, height = round(width, 3), round(content[1] + sum(heights) + BETWEEN + 2 * EDGE, 3)
    figure.set_size_inches(width, height)
    for place, text in enumerate(heading):
        text.set_position((EDGE / width, 1 - (EDGE + sum(heights[:place])) / height))
    return EDGE / width, EDGE / height, content[0] / width, content[1] / height


@contextmanager
def measured_once(figure: Figure, panels: Mapping[Axes, np.ndarray]) -> Iterator[None]:
    """Measure the surroundings of each panel only once inside the block, at the panel's final size.

    The layout needs them four times, and those of a colour bar once for each of its panels; measuring took most of the
    time of a figure.
    """
    for axes in figure.axes:
        known: dict[tuple[float, ...], np.ndarray] = {}
        if axes in panels:
            (width, height), box = panels[axes] / figure.get_size_inches(), axes.get_position()
            # The top includes that of a colour bar at the right, so that titles make room for it.
            axes.set_position((box.x0, box.y1 - height, width, height))
            axes.set_in_layout(True)  # setting a position resets it
        vars(axes)["get_tightbbox"] = partial(with_surroundings, figure, axes, known, fixed=axes in panels)
    yield
    for axes in figure.axes:
        del vars(axes)["get_tightbbox"]


def with_surroundings(
    figure: Figure, axes: Axes, known: dict[tuple[float, ...], np.ndarray], *_: Any, fixed: bool, **how: Any
) -> Bbox:
    """The box of axes with its surroundings; `known` caches it by size, or for any size if it is fixed."""
    box = axes.get_position(original=True).transformed(figure.transFigure)
    size = () if fixed else tuple(np.round(box.size, 2))
    if size not in known:
        around = type(axes).get_tightbbox(axes, for_layout_only=True)
        assert around is not None
        known[size] = around.get_points() - box.get_points()
    return Bbox(box.get_points() + known[size])


def sizes(axes: Axes) -> tuple[np.ndarray, np.ndarray]:
    """Width and height in inches of a panel and of its whole grid, from the grid's ratios."""
    place: Any = axes.get_subplotspec()
    ratios = place.get_gridspec().get_width_ratios(), place.get_gridspec().get_height_ratios()
    spans = zip(ratios, (place.colspan, place.rowspan), strict=True)
    return np.array([sum(some[span.start : span.stop]) for some, span in spans]), np.array([sum(x) for x in ratios])


def execute(figure: Figure, rect: tuple[float, float, float, float] = (0, 0, 1, 1)) -> None:
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(rect=rect)
    engine.execute(figure)


def inches(artist: Any) -> np.ndarray:
    """Width and height of an artist in inches."""
    return np.array(artist.get_window_extent().size / artist.get_figure(root=True).dpi)


def fold(text: Text, width: float) -> float:
    """Break a text into as few lines of similar length as the width allows; returns its height in inches."""
    lines = text.get_text().split("\n")
    fits = inches(text)[0] <= width
    for letters in range(0 if fits else int(24 * width), 8, -1):
        folded = [part for line in lines for part in wrap(line, letters, break_long_words=False) or [""]]
        if fits and len(folded) > text.get_text().count("\n") + 1:
            break
        text.set_text("\n".join(folded))
        fits = fits or inches(text)[0] <= width
    return float(inches(text)[1])


# Text


def note(
    axes: Axes, text: str, anchor: tuple[float, float], offset: tuple[float, float], where: Any, **how: Any
) -> Annotation:
    """A small text, offset from an anchor in points."""
    how = {"size": SMALL, "color": GREY, "annotation_clip": False, **how}
    return axes.annotate(text, anchor, offset, where, "offset points", **how)


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """One row per name, the first on top, without an axis line."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def write_columns(panels: Sequence[Axes], *columns: Sequence[Sequence[str]], names: Sequence[str] = ()) -> None:
    """Text beside the rows of panels below each other; each column has the texts of every panel.

    Columns of numbers are right-aligned and larger. Names are above the first panel.
    """
    left = 8.0
    for place, texts in enumerate(columns):
        strong = all(set(text) <= set("0123456789.,−+>–") for some in texts for text in some)
        how: dict[str, Any] = {"color": INK, "size": None} if strong else {}
        drawn = [
            note(axes, text, (1, row), (left, 0), axes.get_yaxis_transform(), va="center", **how)
            for axes, some in zip(panels, texts, strict=True)
            for row, text in enumerate(some)
        ]
        width = 72 * max(inches(one)[0] for one in drawn)
        for one in drawn if strong else []:
            one.set(x=left + width, ha="right")
        if any(names[place : place + 1]):
            note(panels[0], names[place], (1, 1), (left + width, 3), "axes fraction", ha="right")
        left += width + (5 if strong else 12)


def letters_width(texts: Iterable[str], size: float) -> float:
    """Approximate width in inches of the longest text, by the width of a digit."""
    return max((len(text) for text in texts), default=0) * 0.64 * size / 72


# Marks


def whiskers(axes: Axes, rows: Iterable[float], intervals: Iterable[Sequence[float]], colour: str = INK) -> None:
    """A line from end to end of each interval."""
    low, high = zip(*intervals, strict=True)
    axes.hlines(list(rows), low, high, color=colour, linewidth=1.1, zorder=3)


def shade_trained(axes: Axes, shortest: float, longest: float) -> None:
    """Shade the training lengths."""
    axes.axvspan(shortest, longest, color=SHADE, linewidth=0, zorder=0)


def grid_lines(axes: Axes) -> None:
    axes.grid(axis="y", color=PALE, linewidth=0.5)
    axes.set_axisbelow(True)


def percent_axis(axis: Any, decimals: int | None = 0) -> None:
    axis.set_major_formatter(PercentFormatter(1, decimals, symbol=" %"))


def patch(face: tuple[str, str], **how: Any) -> dict[str, Any]:
    """The style of a bar with a colour and a hatch."""
    colour, hatch = face
    return {"facecolor": colour, "hatch": hatch, "edgecolor": INK, "linewidth": 0.5, **how}


def count_legend(figure: Figure, faces: dict[str, tuple[str, str]], found: Sequence[str], title: str = "") -> None:
    """A legend below all panels with each occurring name, its colour, its hatch and its count."""
    handles = [
        Patch(**patch(face, label=f"{name} ({found.count(name)})")) for name, face in faces.items() if name in found
    ]
    beside = 2 if figure.get_label() == NARROW else 4
    legend = figure.legend(
        handles=handles, loc="outside lower left", ncols=min(beside, len(handles)), columnspacing=1.4
    )
    legend.set_title(title, prop=FontProperties(size=SMALL))
    legend.set_alignment("left")


# Heat maps


def share_scale() -> ScalarMappable:
    """The colour scale of shares: 0 to 1, perceptually uniform and readable in grey; missing values are white."""
    return colour_scale(0, 1)


def colour_scale(low: float, high: float, colours: str = "viridis") -> ScalarMappable:
    return ScalarMappable(Normalize(low, high), matplotlib.colormaps[colours].with_extremes(bad=(1, 1, 1, 0)))


def heat_map(axes: Axes, values: Any, scale: ScalarMappable, gap: float = 0.8, percents: bool = False) -> None:
    """Cells in colour, rows downwards, without a frame; `gap` points of white between them.

    Shares can be written into their cells, in per cent.
    """
    cells: Any = np.ma.masked_invalid(np.ma.asarray(values, dtype=float))
    mesh = axes.pcolormesh(cells, edgecolors="white" if gap else "face", linewidth=gap)
    mesh.set(cmap=scale.cmap, norm=scale.norm, rasterized=cells.size > MOST_SHAPES)
    axes.set(xlim=(0, cells.shape[1]), ylim=(cells.shape[0], 0))
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, pad=2)
    for row, column in np.argwhere(~np.ma.getmaskarray(cells)).tolist() if percents else []:
        share = float(cells[row, column])
        write_cell(axes, row, column, short_percent(share, 0), ink_on(scale, share))


def name_cells(axes: Axes, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Labels in the middle of the cells along both sides."""
    axes.set_xticks(np.arange(len(columns)) + 0.5, columns)
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows)


def write_cell(axes: Axes, row: int, column: int, text: str, ink: str, across: float = 0.5, **how: Any) -> None:
    """Text in a cell of a heat map, at `across` of its width."""
    how = {"ha": "center", "va": "center", "size": SMALL, "color": ink, "clip_on": True, **how}
    axes.text(column + across, row + how.pop("down", 0.5), text, **how)


def ink_on(scale: ScalarMappable, value: float | None) -> str:
    """Dark text on light cells, light text on dark cells."""
    red, green, blue, _ = (1, 1, 1, 1) if value is None else scale.to_rgba(np.asarray([value]))[0]
    return ON_LIGHT if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else ON_DARK


def colour_bar(panels: Sequence[Axes], scale: ScalarMappable, label: str = "", height: float = 1.4, **how: Any) -> None:
    """A colour bar at the right of panels, from their top; `height` is in inches, at most that of the panels."""
    own, total = sizes(panels[0])
    whole = float(own[1] if len(panels) == 1 else total[1])
    share = min(1.0, height / whole)
    how = {"ticks": [0, 0.5, 1], "anchor": (0, 1), "shrink": share, "aspect": share * whole / 0.11, **how}
    figure: Any = panels[0].get_figure(root=True)
    bar = figure.colorbar(scale, ax=list(panels), pad=0.08 / (own if len(panels) == 1 else total)[0], **how)
    bar.set_label(label)
    bar.outline.set_visible(False)
