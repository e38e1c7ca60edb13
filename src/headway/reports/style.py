"""The style of all figures: colours, fonts, encodings besides colour; and writing them to files."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any
from unicodedata import category

import matplotlib
from matplotlib.figure import Figure
from matplotlib.text import Text

from headway.narration.numbers import minus
from headway.results.heads import HeadAnalysis
from headway.storage import replace_file

Document = Mapping[str, Any]
"""A parsed document."""

KINDS = {"encoder": "encoder self-attention", "decoder": "decoder self-attention", "cross": "cross-attention"}
INK, GREY, PALE, SHADE, BLUE, RED = "#222222", "#6b6b6b", "#d9d9d9", "#eeeeee", "#0072b2", "#d55e00"
"""`SHADE` lies behind the lengths that training saw. A dark page has colours of its own in place of these."""
ON_LIGHT, ON_DARK = "#1c1c1c", "#fcfcfc"
"""Letters on the cells of a heat map, whose colours stay in a dark page."""
TITLE, LABEL, SMALL = 10.0, 7.5, 6.5
"""Font sizes in points: the heading, labels, and remarks."""
DASHED, DOTTED = (0, (4, 2)), (0, (1, 1.5))

VERDICTS = {
    "critical": ("#d55e00", ""),
    "important": ("#e69f00", "////"),
    "harmful": ("#cc79a7", "xxxx"),
    "depends on the ablation": ("#009e73", "\\\\\\\\"),
    "undecided": ("#e4e4e4", ""),
    "redundant": ("#9ad0f5", "...."),
}
"""Face colour (Okabe and Ito's, for colour-blind readers) and hatch of each verdict."""
OTHER_VERDICT = ("white", "")

COLOURS = (BLUE, RED, "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK)
MARKERS = "os^DvPX"
DASHES: tuple[Any, ...] = (
    "-",
    (0, (4, 1.5)),
    (0, (1, 1.2)),
    (0, (5, 1.2, 1, 1.2)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (2, 1)),
    (0, (8, 2)),
)
"""Styles of lines in a panel: Okabe and Ito's colours, with redundant markers and dashes."""

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
    "axes.titlelocation": "left",
    "axes.titlepad": 3,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "legend.borderpad": 0,
    "legend.borderaxespad": 0,
    "figure.dpi": 150,
    "text.parse_math": False,  # a token may be a dollar sign
    "svg.fonttype": "none",
    "svg.hashsalt": "headway",
}

METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": "headway"},
    "svg": {"Date": None, "Creator": "headway"},
}
"""headway's signature in figures (`storage.MARKS`); dates are left out, so that files are reproducible."""


@contextmanager
def style() -> Iterator[None]:
    """Apply matplotlib's defaults and the style above inside the block, independent of the user's settings.

    Control characters and lone surrogates of a text, for which matplotlib warns or fails, are written out.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC)
        Text.set_text = _set_drawable  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            Text.set_text = _set_text  # type: ignore[method-assign]


_set_text = Text.set_text


def _set_drawable(text: Text, content: object) -> None:
    shown = None if content is None else str(content)
    if shown is not None and not shown.isprintable():
        shown = "".join(one if category(one) not in ("Cc", "Cs") or one == "\n" else repr(one)[1:-1] for one in shown)
    _set_text(text, shown)


NamedFigures = Iterator[tuple[str, Callable[[], Figure]]]
"""File names without a suffix, each with the function that draws the figure."""


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write `name.png` and `name.svg`; the same figure gives the same bytes."""
    paths = [folder / f"{name}.{ending}" for ending in METADATA]
    with style():
        for path, (ending, metadata) in zip(paths, METADATA.items(), strict=True):
            content = BytesIO()  # so that a file is replaced atomically
            figure.savefig(content, format=ending, metadata=metadata)
            replace_file(path, content.getvalue())
    return paths


def svg_of(figure: Figure) -> str:
    """The same as the text of an SVG, without a file."""
    with style(), StringIO() as text:
        figure.savefig(text, format="svg", metadata=METADATA["svg"])
        return text.getvalue()


def set_style(index: int) -> dict[str, Any]:
    """Colour, marker and dashes of the n-th line of a panel."""
    looks = {"color": COLOURS, "marker": MARKERS, "linestyle": DASHES}
    return {name: some[index % len(some)] for name, some in looks.items()}


def kinds_of(found: HeadAnalysis) -> list[str]:
    """The kinds of attention in the model, in reading order."""
    return [kind for kind in KINDS if kind in found.kinds]


def tick(value: Any, _: Any = None) -> str:
    """A number along an axis as plain text."""
    return minus(f"{value:g}")


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def where_from(found: HeadAnalysis) -> str:
    """The analysed examples, in words."""
    return "the whole domain" if found.split == "all" else f"the {found.split} split"
