"""headway report"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.options import Force, Json, Quiet, progress, say, show
from headway.cli.terminal import Panel

if TYPE_CHECKING:
    from headway.reports.writing import Written


def report(
    run: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="Run directories or names of runs under ./runs; or one study, or what heads --out wrote.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory of the report; default: the run's report/.")
    ] = None,
    course: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write the course's JSON files and figures there.")
    ] = None,
    methods: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a paragraph and tables for a paper, in LaTeX.")
    ] = None,
    force: Force = False,
    open: Annotated[bool, typer.Option("--open", help="Show the page in a browser.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write one page with the question, the answer, its certainty, the problems found, and how to reproduce it.

    It is made from the JSON files of the run alone: index.html opens from disk, report.md has its figures beside it.
    Exits with 1 if a section or a figure could not be made; the others are there.

    Example: headway report addition-seed0 --open
    """
    from headway.reports.writing import report as write_report

    if methods is not None:
        write_methods(run, methods, force=force)
    handed_in = None if course is None else write_course(run, course, force=force)
    with progress("report", quiet=quiet) as meter:
        written = write_report(*run, out=out, force=force, progress=meter)
    lines = [*written.answer, f"the report is {written.page} ({written.bytes / 1e6:.1f} MB), also {written.markdown}"]
    lines += [] if handed_in is None else [f"the course's files are in {course}: {', '.join(handed_in)}"]
    paths = [] if handed_in is None else [("course", str(course))]
    show(written, lines, as_json=json, at_terminal=[panel(Path(run[0]).name, written, *paths)])
    if open:
        show_in_browser(Path(written.page))
    for problem in written.problems:
        say(f"headway: the report's {problem}")
    if written.problems:
        raise typer.Exit(1)


def write_methods(run: list[str], place: Path, *, force: bool) -> None:
    """Write the LaTeX of the runs, unless a file of someone else stands there, or one of a run's own."""
    from headway.reports.methods_tex import methods
    from headway.runs.outputs import check_outputs
    from headway.storage import replace_file

    check_outputs([place], force=force, option="--methods")
    replace_file(place, methods(*run).encode())


def write_course(run: list[str], place: Path, *, force: bool) -> list[str]:
    """Write the files of the course, and say which are missing; the names of those that are there."""
    from headway.reports.course import course

    made = course(*run, out=place, force=force)
    for name, command in made.missing.items():
        say(f"headway: no {name}: {command} makes what it needs")
    return [Path(path).name for path in made.files if path.endswith(".json")]


def panel(title: str, written: "Written", *paths: tuple[str, str]) -> Panel:
    """The first screen of a report at a terminal."""
    facts = [(name, value, remark, state) for name, value, remark, state in written.tiles]
    return Panel(title, written.headline, facts, [("report", written.page), *paths])


def show_in_browser(page: Path) -> None:
    import webbrowser

    webbrowser.open(page.resolve().as_uri())
