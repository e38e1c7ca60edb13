"""headway runs"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.options import Json, Quiet, show
from headway.errors import InputError
from headway.narration.numbers import whole
from headway.narration.tables import table

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
    rows = [[row["run"], row["task"], row["state"], whole(row["steps"]), str(row["accuracy"])] for row in found]
    lines = table([["run", "task", "state", "steps", "validation accuracy"], *rows], 3).lines()
    show({"runs": found}, lines if rows else [f"no runs in {folder}"], as_json=json)


def describe(run: "RunDirectory") -> dict[str, Any]:
    """One line of the list; an unreadable run is listed with its error."""
    try:
        config = run.config()
        metrics = run.metrics()
    except InputError as error:
        return {"run": run.name, "task": "?", "state": "unreadable", "steps": 0, "accuracy": str(error)}
    validations = [record["validation"]["accuracy"] for record in metrics if "validation" in record]
    return {
        "run": run.name,
        "task": config.task.name,
        "state": "finished" if run.newest_state().get("finished") else "unfinished",
        "steps": max((record.get("step", 0) for record in metrics), default=0),
        "accuracy": validations[-1] if validations else None,
    }
