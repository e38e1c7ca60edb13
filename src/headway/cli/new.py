"""headway new"""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.options import Json, Quiet, show
from headway.errors import InputError, suggestion

KINDS = ("task",)


def new(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="task.")],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty directory; its name is the task's.")],
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Start a package with your own task: the task, its test, and a recipe that trains it.

    The package works unchanged. Edit its answer, then its test and recipe.

    Example: headway new task reverse
    """
    from headway.testing.scaffold import write_task

    if kind not in KINDS:
        raise InputError(f"KIND {kind!r}; {suggestion(kind, KINDS)}")
    made = write_task(directory)
    lines = [
        f"{directory}: {', '.join(str(path.relative_to(directory)) for path in made.files)}",
        f"cd {directory}",
        f"python -m headway.testing {made.reference}     # checks the task's contract",
        f"headway train {made.recipe}     # trains it, in about a minute",
    ]
    if json or not quiet:
        files = [str(path) for path in made.files]
        show({"directory": str(directory), "files": files, "task": made.reference}, lines, as_json=json)
