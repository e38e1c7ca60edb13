"""Writes a report: reads the documents, makes sections, draws figures, renders."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.figure import Figure as Drawing

from headway.callbacks import OnProgress
from headway.errors import InputError
from headway.narration.text import Words, code, no_link, text
from headway.reports.answer import answer, asked
from headway.reports.blocks import Figure, Report
from headway.reports.documents import Documents, gather
from headway.reports.explorer_links import ExplorerLinks, find_links
from headway.reports.front import figure as front_figure
from headway.reports.front import headline, tiles
from headway.reports.markdown import render_markdown
from headway.reports.page import Drawn, figures_of, pictures, render, stills_of
from headway.reports.sections import sections
from headway.reports.style import METADATA, save, sentence, svg_of
from headway.results.schema import Document
from headway.runs import ReportDirectory, RunDirectory, check_outputs


@dataclass(frozen=True)
class Written(Document):
    """The files of a report, and its answer."""

    page: str
    markdown: str
    figures: list[str]
    bytes: int
    sections: list[str]
    answer: list[str]
    left_out: list[str]
    headline: str = ""
    tiles: list[list[str]] = field(default_factory=list)
    """Title, value, remark and state of each fact of the first screen."""
    problems: list[str] = field(default_factory=list)
    """Sections and figures that failed, with the reason."""


def report(
    *runs: str | Path | RunDirectory,
    out: str | Path | None = None,
    force: bool = False,
    progress: OnProgress = lambda done, total: None,
) -> Written:
    """Write the report of a run, of several side by side, or of a study, from their JSON files alone.

    Files that headway did not write are replaced only with `force`.

    >>> hw.report("addition-seed0")   # doctest: +SKIP
    """
    found = gather(runs)
    place = found.place if out is None else ReportDirectory(out)
    if place.path.exists() and not place.path.is_dir():
        raise InputError(f"--out {place.path} is a file; a directory needed")
    whole = compose(found.documents, found.name, find_links(found.documents, place))
    if out is not None or not place.is_own():
        check_outputs(outputs(whole, place), force=force)
    return write(whole, place, progress)


def outputs(whole: Report, place: ReportDirectory) -> list[Path]:
    """All files of the report."""
    names = [figure.name for figure in [*figures_of(whole), *stills_of(whole)]]
    return [place.page, place.markdown, *(place.figures / f"{name}.{kind}" for name in names for kind in METADATA)]


def compose(documents: Documents, name: str, links: ExplorerLinks | None = None) -> Report:
    """The whole report as a value; names of heads lead where `links` says."""
    told = answer(documents)
    return Report(
        title=title(documents),
        name=name,
        asked=asked(documents),
        headline=headline(documents, told),
        tiles=tiles(documents),
        figure=attempted_figure(documents),
        answer=told,
        sections=sections(documents),
        explorer=None if links is None else links.address,
        linked=no_link if links is None else links,
    )


def attempted_figure(documents: Documents) -> Figure | None:
    """The figure of the first screen; none where the documents are not as headway writes them."""
    try:
        return front_figure(documents)
    except Exception:
        return None


def title(documents: Documents) -> Words:
    if documents.study is not None:
        return code(documents.study.name)
    if len(documents.runs) == 1:
        return code(documents.runs[0].name)
    return text("{} runs side by side", documents.n_runs)


def write(whole: Report, place: ReportDirectory, progress: OnProgress) -> Written:
    """Draw the figures, and write the page and the Markdown."""
    shown, still = figures_of(whole), stills_of(whole)
    drawn: dict[str, Drawn] = {}
    narrow: dict[str, Drawn] = {}
    paths: list[Path] = []
    problems = [f"{section.name}: {section.problem}" for section in whole.sections if section.problem]
    for done, figure in enumerate([*shown, *still]):
        progress(done, len(shown) + len(still))
        (place.figures / figure.name).parent.mkdir(parents=True, exist_ok=True)
        drawing, problem = drawn_or_named(figure.name, figure.draw)
        problems += [f"{figure.name}: {problem}"] * bool(problem)
        paths += save(drawing, place.figures, figure.name)
        drawn[figure.name] = Drawn.of(drawing, (place.figures / f"{figure.name}.svg").read_text(encoding="utf-8"))
        if figure.narrow is not None and not problem:
            narrowed = drawn_or_named(figure.name, figure.narrow)[0]
            narrow[figure.name] = Drawn.of(narrowed, svg_of(narrowed))
    progress(len(shown) + len(still), len(shown) + len(still))
    inside = pictures(whole, drawn, narrow, place.figures)
    page = render(whole, inside)
    place.write(page, render_markdown(whole))
    return Written(
        page=str(place.page),
        markdown=str(place.markdown),
        figures=[str(path) for path in paths],
        bytes=len(page.encode()),
        sections=[section.name for section in whole.sections],
        answer=[str(sentence) for sentence in whole.answer],
        left_out=[name for name, picture in inside.items() if not picture.drawing],
        headline=sentence(str(whole.headline)),
        tiles=[[one.title, str(one.value), str(one.remark), one.state] for one in whole.tiles],
        problems=problems,
    )


def drawn_or_named(name: str, draw: Callable[[], Drawing]) -> tuple[Drawing, str]:
    """The drawing; in place of one that fails a sheet with its name, and why."""
    try:
        return draw(), ""
    except Exception as problem:
        sheet = Drawing((6, 1))
        sheet.text(0.02, 0.5, f"{name} could not be drawn", va="center")
        return sheet, f"{type(problem).__name__}: {problem}"
