"""headway data"""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.options import Json, Quiet, Sets, show
from headway.errors import InputError


def data(
    task: Annotated[str, typer.Argument(metavar="TASK", help="The name of a task, or package.module:Class.")],
    out: Annotated[Path, typer.Option(help="The directory to write to.")],
    set: Sets = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a task's examples as the course's JSON files.

    Example: headway data addition --out data/ --set data.seed=7 --set task.sampling=carry-chains
    """
    from headway.config import Choice, DataConfig, assign, build
    from headway.tasks import TASKS, make_task
    from headway.tasks.files import write_files

    TASKS.get(task)
    table = assign({"task": {"name": task}, "data": {}}, set or [])
    if not isinstance(table["task"], dict):
        raise InputError(f"--set task={table['task']}: only task.* and data.* can be set here")
    unknown = [key for key in table if key not in ("task", "data")]
    if unknown or table["task"].get("name") != task:
        raise InputError(f"--set: only task.* and data.* can be set here, not {unknown[0] if unknown else 'task.name'}")
    options = {key: value for key, value in table["task"].items() if key != "name"}
    config = build(DataConfig, table["data"], "data")
    if config.fresh:
        raise InputError("data.fresh = true has no files to write")
    made = make_task(Choice(name=task, options=options))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"--out {out} exists and is not an empty directory")
    written = write_files(made, config, out)
    lines = [f"{out / name}: {count:,} examples" for name, count in written.items()]
    if json or not quiet:
        show({"out": str(out), "files": written}, lines, as_json=json)
