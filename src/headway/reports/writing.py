"""Writes a report: reads the documents, makes sections, draws figures, renders."""

from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.figure import Figure as Drawing

from headway.callbacks import OnProgress
from headway.errors import InputError
from headway.narration.text import Words, code, text
from headway.reports.answer import answer, asked
from headway.reports.blocks import Figure, Report
from headway.reports.documents import Documents, gather
from headway.reports.markdown import render_markdown
from headway.reports.page import figures_of, pictures, render, stills_of
from headway.reports.sections import sections
from headway.reports.style import METADATA, save
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
    whole = compose(found.documents, found.name)
    if out is not None or not place.is_own():
        check_outputs(outputs(whole, place), force=force)
    return write(whole, place, progress)


def outputs(whole: Report, place: ReportDirectory) -> list[Path]:
    """All files of the report."""
    names = [figure.name for figure in [*figures_of(whole), *stills_of(whole)]]
    return [place.page, place.markdown, *(place.figures / f"{name}.{kind}" for name in names for kind in METADATA)]


def compose(documents: Documents, name: str) -> Report:
    """The whole report as a value."""
    return Report(title(documents), name, asked(documents), answer(documents), sections(documents))


def title(documents: Documents) -> Words:
    if documents.study is not None:
        return code(documents.study.name)
    if len(documents.runs) == 1:
        return code(documents.runs[0].name)
    return text("{} runs side by side", documents.n_runs)


def write(whole: Report, place: ReportDirectory, progress: OnProgress) -> Written:
    """Draw the figures, and write the page and the Markdown."""
    shown, still = figures_of(whole), stills_of(whole)
    sizes, paths = {}, []
    problems = [f"{section.name}: {section.problem}" for section in whole.sections if section.problem]
    for done, figure in enumerate([*shown, *still]):
        progress(done, len(shown) + len(still))
        drawing, problem = drawn_or_named(figure)
        problems += [f"{figure.name}: {problem}"] * bool(problem)
        (place.figures / figure.name).parent.mkdir(parents=True, exist_ok=True)
        paths += save(drawing, place.figures, figure.name)
        sizes[figure.name] = tuple(drawing.get_size_inches().tolist())
    progress(len(shown) + len(still), len(shown) + len(still))
    drawn = pictures(whole, {figure.name: sizes[figure.name] for figure in shown}, place.figures)
    page = render(whole, drawn)
    place.write(page, render_markdown(whole))
    return Written(
        page=str(place.page),
        markdown=str(place.markdown),
        figures=[str(path) for path in paths],
        bytes=len(page.encode()),
        sections=[section.name for section in whole.sections],
        answer=[str(sentence) for sentence in whole.answer],
        left_out=[name for name, picture in drawn.items() if not picture.source],
        problems=problems,
    )


def drawn_or_named(figure: Figure) -> tuple[Drawing, str]:
    """The drawing; if it fails, a sheet with its name and error."""
    try:
        return figure.draw(), ""
    except Exception as problem:
        sheet = Drawing((6, 1))
        sheet.text(0.02, 0.5, f"{figure.name} could not be drawn", va="center")
        return sheet, f"{type(problem).__name__}: {problem}"
