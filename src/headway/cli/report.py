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
        typer.Argument(metavar="RUN", help="Run directories or names of runs under ./runs; or one study."),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory of the report; default: the run's report/.")
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

    with progress("report", quiet=quiet) as meter:
        written = write_report(*run, out=out, force=force, progress=meter)
    lines = [*written.answer, f"the report is {written.page} ({written.bytes / 1e6:.1f} MB), also {written.markdown}"]
    show(written, lines, as_json=json, at_terminal=[panel(Path(run[0]).name, written)])
    if open:
        show_in_browser(Path(written.page))
    for problem in written.problems:
        say(f"headway: the report's {problem}")
    if written.problems:
        raise typer.Exit(1)


def panel(title: str, written: "Written", *paths: tuple[str, str]) -> Panel:
    """The first screen of a report at a terminal."""
    facts = [(name, value, remark, state) for name, value, remark, state in written.tiles]
    return Panel(title, written.headline, facts, [("report", written.page), *paths])


def show_in_browser(page: Path) -> None:
    import webbrowser

    webbrowser.open(page.resolve().as_uri())
