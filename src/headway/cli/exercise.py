"""headway exercise"""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.options import Json, Quiet, show


def exercise(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty directory.")],
    seed: Annotated[int, typer.Option(help="Chooses the mistakes, the data and the answers.")] = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write an exercise: a student's project with planted mistakes, an assignment sheet, and an answer key.

    project/ and assignment.md are for students, answer-key/ is for the teacher.

    Example: headway exercise week-3 --seed 4
    """
    from headway.diagnosis.exercise import exercise as write_exercise

    key = write_exercise(directory, seed=seed)
    lines = [
        f"for students: {directory / 'assignment.md'} and {directory / 'project'}",
        f"for the teacher: {directory / 'answer-key'}",
    ]
    show(key, [] if quiet and not json else lines, as_json=json)
