"""headway verify"""

from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.options import Json, Quiet, show

if TYPE_CHECKING:
    from headway.results.integrity import Integrity


def verify(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run directory, or the name of one under ./runs.")],
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check that a run's files are whole and belong together.

    Example: headway verify addition-seed0
    """
    from headway.runs.verify import verify as check_files

    found = check_files(run)
    show(found, lines_of(found), as_json=json)
    if found.faults:
        raise typer.Exit(1)


def lines_of(found: "Integrity") -> list[str]:
    """A line for each file that is not whole, one for those without a checksum, and what can still be used."""
    from headway.runs.verify import NO_CHECKSUM

    lines = [f"{one.file}: {one.state}: {one.detail}" for one in found.faults]
    whole = len(found.files) - len(found.faults)
    newest = (
        "no checkpoint is whole" if found.usable_step is None else f"newest whole checkpoint: {found.usable_step:,}"
    )
    bare = [one.file for one in found.files if one.state == "whole" and one.detail]
    lines += [f"{', '.join(bare)}: {NO_CHECKSUM}"] if bare else []
    return [*lines, f"{found.run}: {whole} of {len(found.files)} files are whole; {newest}"]
