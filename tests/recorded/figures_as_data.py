"""What a figure shows, as data: no pixels, which depend on fonts and on the version of Matplotlib."""

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

EMPTY_DRAWING = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"></svg>'


def write_as_data(figure: Figure, file: Any, *, format: str, **_: object) -> None:
    """In place of `Figure.savefig`: the PNG holds the description, the SVG is empty."""
    text = EMPTY_DRAWING if format == "svg" else json.dumps(described(figure))
    file.write(text.encode() if isinstance(file, BytesIO) else text)


def described(figure: Figure) -> dict[str, Any]:
    return {
        "inches": [round(float(one), 2) for one in figure.get_size_inches()],
        "texts": list(_words(figure.texts)),
        "panels": [_panel(axes) for axes in figure.axes],
    }


def _panel(axes: Axes) -> dict[str, Any]:
    legend = axes.get_legend()
    found = {
        "title": [axes.get_title(loc) for loc in ("left", "center", "right") if axes.get_title(loc)],
        "x": [axes.get_xlabel(), axes.get_xscale(), _numbers(axes.get_xlim()), _ticks(axes.get_xticklabels())],
        "y": [axes.get_ylabel(), axes.get_yscale(), _numbers(axes.get_ylim()), _ticks(axes.get_yticklabels())],
        "lines": [[_named(line), to_hex(line.get_color()), _numbers(line.get_xydata())] for line in axes.lines],
        "bars": [[to_hex(bar.get_facecolor()), _numbers(bar.get_path().vertices)] for bar in axes.patches],
        "shapes": [_shape(one) for one in axes.collections],
        "images": [_numbers(image.get_array()) for image in axes.images],
        "texts": list(_words(axes.texts)),
        "legend": [] if legend is None else list(_words(legend.get_texts())),
    }
    return {name: value for name, value in found.items() if value}


def _shape(shape: Collection) -> list[Any]:
    paths = [path.vertices for path in shape.get_paths()]
    return [_named(shape), _numbers(np.concatenate(paths) if paths else np.zeros(0)), _numbers(shape.get_offsets())]


def _named(artist: Any) -> str:
    """Its label; names that Matplotlib makes up are left out."""
    label = str(artist.get_label())
    return "" if label.startswith("_") else label


def _words(texts: Any) -> Iterator[str]:
    for text in texts:
        assert isinstance(text, Text)
        if text.get_text():
            yield text.get_text()


def _ticks(labels: Any) -> list[str]:
    return list(_words(labels))


def _numbers(values: Any) -> list[float]:
    """Pixels of a heat map, points of a line."""
    filled = np.ma.filled(np.ma.asarray(values, dtype=float), np.nan)
    return [float(one) for one in np.nan_to_num(filled.ravel(), nan=-1e9, posinf=1e9, neginf=-1e9)]
