"""How every figure looks: laid out in inches, small type, and nothing that rests on colour alone."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from headway.errors import InputError
from headway.results.heads import HeadAnalysis

Document = Mapping[str, Any]
"""A parsed document."""

KINDS = {"encoder": "encoder self-attention", "decoder": "decoder self-attention", "cross": "cross-attention"}
INK, GREY, PALE, BLUE, RED = "#222222", "#6b6b6b", "#d9d9d9", "#0072b2", "#d55e00"
EDGE = 0.15
"""Inches left free around everything."""
TITLE, LABEL, SMALL = 10.0, 7.5, 6.5
"""Sizes of type in points: the heading, everything a reader looks up, and remarks."""

VERDICTS = {
    "critical": ("#d55e00", ""),
    "important": ("#e69f00", "////"),
    "harmful": ("#cc79a7", "xxxx"),
    "depends on the ablation": ("#009e73", "\\\\\\\\"),
    "undecided": ("#e4e4e4", ""),
    "redundant": ("#9ad0f5", "...."),
}
"""Face colour (Okabe and Ito's, told apart by the colour-blind) and hatch of each verdict."""

OTHER_VERDICT = ("white", "")

RC: Mapping[Any, Any] = {
    "font.size": LABEL,
    "axes.titlesize": LABEL,
    "axes.labelsize": LABEL,
    "xtick.labelsize": LABEL,
    "ytick.labelsize": LABEL,
    "legend.fontsize": LABEL,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "figure.dpi": 150,
    "text.parse_math": False,  # a token may be a dollar sign
    "svg.fonttype": "none",
    "svg.hashsalt": "headway",
}

MOST_SHAPES = 1_500
"""Cells up to which a heat map in an SVG is made of shapes; a larger one is a picture inside it."""

METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": "headway"},
    "svg": {"Date": None, "Creator": "headway"},
}
"""headway signs what it draws (`storage.MARKS`); what would make two files of one figure differ is left out."""


@contextmanager
def style() -> Iterator[None]:
    """Matplotlib's defaults and the style above, whatever the user has set; on leaving, theirs is back."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC)
        yield


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write `name.png` and `name.svg`; the same figure gives the same bytes."""
    paths = [folder / f"{name}.{ending}" for ending in METADATA]
    with style():
        for path, (ending, metadata) in zip(paths, METADATA.items(), strict=True):
            figure.savefig(path, format=ending, metadata=metadata)
    return paths


def axes_at(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes placed in inches, counted from the figure's top left corner."""
    across, down = figure.get_size_inches()
    return figure.add_axes((left / across, 1 - (top + height) / down, width / across, height / down))


def write(figure: Figure, left: float, top: float, text: str, **how: Any) -> None:
    """Text whose top left corner is placed in inches, counted from the figure's top left corner."""
    across, down = figure.get_size_inches()
    figure.text(left / across, 1 - top / down, text, **{"ha": "left", "va": "top", **how})


def note(
    axes: Axes, text: str, anchor: tuple[float, float], offset: tuple[float, float], where: Any, **how: Any
) -> None:
    """Small type, some points away from an anchor."""
    axes.annotate(text, anchor, offset, where, "offset points", **{"size": SMALL, "color": GREY, **how})


def head_line(figure: Figure, title: str, remark: str = "") -> None:
    write(figure, EDGE, 0.12, title, size=TITLE, weight="bold")
    write(figure, EDGE, 0.34, remark, size=LABEL, color=GREY)


def text_width(texts: Iterable[str], size: float = LABEL) -> float:
    """Inches that the widest of the texts takes."""
    return max((_width(text, size) for text in texts), default=0.0)


@cache
def _width(text: str, size: float) -> float:
    width, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(size=size), False)
    return width / 72


def share_scale() -> ScalarMappable:
    """The one colour scale of every heat map: 0 to 1, even steps to the eye, readable in grey; gaps are white."""
    return ScalarMappable(Normalize(0, 1), matplotlib.colormaps["viridis"].with_extremes(bad="white"))


def heat_map(axes: Axes, cells: np.ma.MaskedArray, scale: ScalarMappable, gap: float) -> None:
    """Cells of one colour each, rows downwards, without a frame; `gap` points of white between them."""
    mesh = axes.pcolormesh(cells, edgecolors="white" if gap else "face", linewidth=gap)
    mesh.set(cmap=scale.cmap, norm=scale.norm, rasterized=cells.size > MOST_SHAPES)
    axes.set(xlim=(0, cells.shape[1]), ylim=(cells.shape[0], 0))
    axes.spines[:].set_visible(False)


def colour_bar(figure: Figure, scale: ScalarMappable, label: str, left: float, top: float, height: float) -> None:
    bar = figure.colorbar(scale, cax=axes_at(figure, left, top, 0.11, height), ticks=[0, 0.5, 1])
    bar.set_label(label)
    bar.outline.set_visible(False)


def part(found: Document, *keys: str) -> Any:
    """What lies under the keys, or None where the document leaves it out or empty."""
    for key in keys:
        found = (found or {}).get(key)  # type: ignore[assignment]
    return found or None


def needed(found: Document, *keys: str) -> Any:
    """The same, where a figure cannot be drawn without it."""
    value = part(found, *keys)
    if value is None:
        raise InputError(f"the findings have no {'.'.join(keys)}")
    return value


def kinds_of(found: HeadAnalysis) -> list[str]:
    """The kinds of attention that the model has, in the order in which a reader meets them."""
    return [kind for kind in KINDS if kind in found.kinds]


def number(value: float) -> str:
    """Two decimals below 1, one from there on, with a true minus sign.

    >>> [number(value) for value in (12.34, 0.021, -0.5, -0.001)]
    ['12.3', '0.02', '−0.50', '0.00']
    """
    decimals = 1 if abs(value) >= 1 else 2
    return f"{round(value, decimals) + 0.0:.{decimals}f}".replace("-", "−")  # adding 0 makes -0 a plain 0


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def where_from(found: HeadAnalysis) -> str:
    """Which examples were analysed, in words."""
    return "the whole domain" if found.split == "all" else f"the {found.split} split"
