"""headway runs"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.options import Json, Quiet, show
from headway.errors import InputError
from headway.narration.numbers import whole
from headway.narration.tables import table
from headway.results.schema import write

if TYPE_CHECKING:
    from headway.runs import RunDirectory


DEFAULT = Path("runs")


def runs(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to look in.")] = DEFAULT,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List the runs in a folder.

    Example: headway runs
    """
    from headway.runs import list_runs

    if not folder.is_dir() and (folder.exists() or folder != DEFAULT):
        raise InputError(f"{folder} is not a directory" if folder.exists() else f"no folder at {folder}")
    found = [describe(run) for run in list_runs(folder)]
    rows = [[row.run, row.task, row.state, whole(row.steps), str(row.accuracy)] for row in found]
    lines = table([["run", "task", "state", "steps", "validation accuracy"], *rows], 3).lines()
    show({"runs": write(found)}, lines if rows else [f"no runs in {folder}"], as_json=json)


@dataclass(frozen=True)
class ListedRun:
    """A line of the list; `accuracy` is that of the last validation, or why the run cannot be read."""

    run: str
    task: str
    state: str
    steps: int
    accuracy: float | str | None


def describe(run: "RunDirectory") -> ListedRun:
    """One line of the list; an unreadable run is listed with its error."""
    from headway.runs import check_links

    try:
        check_links(run.path)
        config = run.config()
        metrics = run.metrics()
        if damage := run.damaged_state():
            raise InputError(f"{run.path}: {damage}")
    except InputError as error:
        return ListedRun(run.name, "?", "unreadable", 0, str(error))
    validations = [record["validation"]["accuracy"] for record in metrics if "validation" in record]
    return ListedRun(
        run=run.name,
        task=config.task.name,
        state="finished" if run.newest_state().get("finished") else "unfinished",
        steps=max((record.get("step", 0) for record in metrics), default=0),
        accuracy=validations[-1] if validations else None,
    )
