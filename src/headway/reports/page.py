"""Renders a report as one HTML file: styles, script, figures and data are inside, and nothing is loaded."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import matplotlib
from markupsafe import Markup
from matplotlib.colors import to_hex

from headway.narration.text import code, html, quote
from headway.reports.blocks import Block, Figure, HeatMaps, Report, Section
from headway.self_contained_html import policy, script_json

LARGEST = 6_000_000
"""Largest size of a page in bytes; figures that do not fit stay in files beside it."""
FOR_MAPS = 1_500_000
"""Bytes for heat maps: every run's first example, then its second, until they are used up."""
LARGEST_SVG = 250_000
"""Size in bytes from which a drawing is embedded as PNG instead of SVG."""
PIXELS_PER_INCH = 105
"""Display size of a drawing."""
SHADES = 64
LONGEST_TABLE = 40
"""Number of rows from which a table is folded."""


@dataclass(frozen=True)
class Picture:
    """A drawing in the page; an empty source means that it was left out for its size."""

    source: str
    width: int
    height: int


def blocks_of(sections: Sequence[Section]) -> Iterator[Block]:
    """Every block in the order of the page."""
    for section in sections:
        yield from section.blocks
        yield from blocks_of(section.parts)


def figures_of(report: Report) -> list[Figure]:
    """The figures of the page; heat maps are drawn by its script."""
    return [block for block in blocks_of(report.sections) if isinstance(block, Figure)]


def stills_of(report: Report) -> list[Figure]:
    """The figures that only Markdown shows."""
    return [still for block in blocks_of(report.sections) if isinstance(block, HeatMaps) for still in block.still]


def without_sources(sizes: Mapping[str, tuple[float, float]]) -> dict[str, Picture]:
    """The pictures without sources, by their sizes in inches."""
    return {
        name: Picture("", round(width * PIXELS_PER_INCH), round(height * PIXELS_PER_INCH))
        for name, (width, height) in sizes.items()
    }


def pictures(report: Report, sizes: Mapping[str, tuple[float, float]], folder: Path) -> dict[str, Picture]:
    """The drawings of a folder as image sources, as many as fit beside the report's text."""
    found = without_sources(sizes)
    left = LARGEST - len(render(report, found).encode())
    for name, place in found.items():
        source = as_source(folder / f"{name}.svg", folder / f"{name}.png")
        if len(source) <= left:
            left -= len(source)
            found[name] = replace(place, source=source)
    return found


def as_source(svg: Path, png: Path) -> str:
    small = svg.stat().st_size <= LARGEST_SVG
    kind, path = ("svg+xml", svg) if small else ("png", png)
    return f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def render(report: Report, drawn: Mapping[str, Picture]) -> str:
    """The page's text. Its content security policy allows only this script, these styles, and embedded pictures."""
    folder = files("headway.reports") / "templates"
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"code": lambda name: html(code(name)), "quote": lambda words: html(quote(words))}
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    maps = [block for block in blocks_of(report.sections) if isinstance(block, HeatMaps)]
    data = data_of(maps)
    text = template.render(
        report=report,
        pictures=drawn,
        maps=maps,
        fits=[bool(run["examples"]) for run in data],
        longest_table=LONGEST_TABLE,
        style=Markup(style),
        script=Markup(script),
        data=Markup(script_json({"scale": shades(), "runs": data})),
        policy=policy(style, [script]),
    )
    return text.lstrip() + "\n"


def data_of(blocks: Sequence[HeatMaps]) -> list[dict[str, Any]]:
    """The heat maps of every run for the script, as many examples as fit."""
    found: list[dict[str, Any]] = [{"run": block.run, "examples": []} for block in blocks]
    left = FOR_MAPS
    for place in range(max((len(block.examples) for block in blocks), default=0)):
        for run, block in zip(found, blocks, strict=True):
            if place < len(block.examples):
                name, maps = block.examples[place]
                example = {"name": name, "maps": [asdict(one) for one in maps]}
                size = len(script_json(example))
                if size <= left:
                    left -= size
                    run["examples"].append(example)
    return found


def shades() -> list[str]:
    """The colour scale of all heat maps, from 0 to 1."""
    scale = matplotlib.colormaps["viridis"]
    return [to_hex(scale(index / (SHADES - 1))) for index in range(SHADES)]
