"""Renders a report as one HTML file: styles, script, figures and data are inside, and nothing is loaded."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path

import jinja2
import matplotlib
from markupsafe import Markup
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Drawing

from headway.narration.text import code, html, linking, quote
from headway.reports.blocks import Block, Figure, HeatMap, HeatMaps, Report, Section
from headway.reports.inline_svg import inline_svg
from headway.results import schema
from headway.self_contained_html import policy, script_json

LARGEST = 6_000_000
"""Largest size of a page in bytes; figures that do not fit stay in files beside it."""
FOR_MAPS = 1_500_000
"""Bytes of the heat maps: every run's first example, then its second, as far as they fit."""
LARGEST_SVG = 600_000
"""Size in bytes from which a drawing is embedded as PNG instead of SVG; inside the page an SVG takes about half."""
PIXELS_PER_INCH = 105
"""Display size of a drawing."""
SHADES = 64
LONGEST_TABLE = 40
"""Number of rows from which a table is folded."""


@dataclass(frozen=True)
class Drawn:
    """A drawing as the text of an SVG, and how large it is shown."""

    svg: str
    pixels: tuple[int, int]

    @classmethod
    def of(cls, drawing: Drawing, svg: str) -> "Drawn":
        width, height = drawing.get_size_inches().tolist()
        return cls(svg, (round(width * PIXELS_PER_INCH), round(height * PIXELS_PER_INCH)))


@dataclass(frozen=True)
class Picture:
    """A figure inside the page, wide and where there is one narrow; without a drawing it was left out for its size."""

    drawing: Markup
    width: int
    narrow: Markup = field(default_factory=Markup)


def blocks_of(sections: Sequence[Section]) -> Iterator[Block]:
    """Every block in the order of the page."""
    for section in sections:
        yield from section.blocks
        yield from blocks_of(section.parts)


def figures_of(report: Report) -> list[Figure]:
    """The figures that the page shows; heat maps are drawn by its script."""
    first = [] if report.figure is None else [report.figure]
    return [*first, *(block for block in blocks_of(report.sections) if isinstance(block, Figure))]


def stills_of(report: Report) -> list[Figure]:
    """The figures that only Markdown shows."""
    return [still for block in blocks_of(report.sections) if isinstance(block, HeatMaps) for still in block.still]


def without_drawings(report: Report) -> dict[str, Picture]:
    """Places of figures in the page."""
    return {figure.name: Picture(Markup(""), 0) for figure in figures_of(report)}


def pictures(
    report: Report, drawn: Mapping[str, Drawn], narrow: Mapping[str, Drawn], folder: Path
) -> dict[str, Picture]:
    """The figures as elements of the page, as many as fit beside its text; very many shapes as a picture of pixels."""
    found = without_drawings(report)
    left = LARGEST - len(render(report, found).encode())
    for index, figure in enumerate(figures_of(report)):
        link = partial(link_of, report, figure) if figure.run else None
        wide = drawn[figure.name]
        if len(wide.svg) > LARGEST_SVG:
            shown = in_pixels(folder / f"{figure.name}.png", wide, figure.alt)
        else:
            shown = inline_svg(wide.svg, figure.alt, f"f{index}-", wide.pixels, link)
        small = narrow.get(figure.name)
        more = Markup("") if small is None else inline_svg(small.svg, figure.alt, f"f{index}n-", small.pixels, link)
        if len(shown) + len(more) <= left:
            left -= len(shown) + len(more)
            found[figure.name] = Picture(shown, wide.pixels[0], more)
    return found


def link_of(report: Report, figure: Figure, words: str) -> str | None:
    """Where a text of a figure leads: only names of heads lead anywhere."""
    return report.linked(words, f"{figure.run}/heads/")


def in_pixels(path: Path, drawn: Drawn, alt: str) -> Markup:
    source = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
    return Markup('<img src="{}" width="{}" height="{}" alt="{}">').format(source, *drawn.pixels, alt)


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
    with linking(report.linked):
        text = template.render(
            report=report,
            pictures=drawn,
            maps=maps,
            fits=[bool(run.examples) for run in data],
            longest_table=LONGEST_TABLE,
            style=Markup(style),
            script=Markup(script),
            data=Markup(script_json({"scale": shades(), "runs": schema.write(data)})),
            policy=policy(style, [script]),
        )
    return text.lstrip() + "\n"


@dataclass(frozen=True)
class ExampleMaps:
    """The heat maps of one example."""

    name: str
    maps: Sequence[HeatMap]


@dataclass(frozen=True)
class RunMaps:
    """The heat maps of one run, for the page's script."""

    run: str
    examples: list[ExampleMaps]


def data_of(blocks: Sequence[HeatMaps]) -> list[RunMaps]:
    """The heat maps of every run for the script, as many examples as fit."""
    found = [RunMaps(block.run, []) for block in blocks]
    left = FOR_MAPS
    for place in range(max((len(block.examples) for block in blocks), default=0)):
        for run, block in zip(found, blocks, strict=True):
            if place < len(block.examples):
                name, maps = block.examples[place]
                example = ExampleMaps(name, maps)
                size = len(script_json(schema.write(example)))
                if size <= left:
                    left -= size
                    run.examples.append(example)
    return found


def shades() -> list[str]:
    """The colour scale of all heat maps, from 0 to 1."""
    scale = matplotlib.colormaps["viridis"]
    return [to_hex(scale(index / (SHADES - 1))) for index in range(SHADES)]
