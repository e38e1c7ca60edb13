"""headway explore"""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.options import Force, Json, Quiet, progress, say, show
from headway.cli.report import show_in_browser


def explore(
    run: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Run directories or names of runs under ./runs, or what heads --out wrote; or none.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The page; default: <run>-explorer.html or explorer.html.")
    ] = None,
    force: Force = False,
    open: Annotated[bool, typer.Option("--open", help="Show the page in a browser.")] = False,
    precision: Annotated[
        str, typer.Option(help="Weights in the page: fp16 or fp32, which is twice as large.")
    ] = "fp16",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write one HTML file in which the model computes: type a sum, watch its heads, ablate them.

    It opens from disk and needs no network. Several runs share a page. Without a run it contains trained models that
    come with headway.

    Example: headway explore addition-seed0 --open
    """
    from headway.explorer.writing import default_place
    from headway.explorer.writing import explore as make_page
    from headway.runs import RunDirectory, find_model

    runs = run or []
    place = out or default_place(
        [(find_model(one) or RunDirectory.find(one)).path.resolve().name for one in runs if one.strip()]
    )
    with progress("explore", quiet=quiet) as meter:
        made = make_page(*runs, out=place, precision=precision, force=force, progress=meter)
    for warning in made.warnings:
        say(f"warning: {warning}")
    show(
        made.to_json(), [f"the explorer of {', '.join(made.runs)} is {place} ({made.bytes / 1e6:.1f} MB)"], as_json=json
    )
    if open:
        show_in_browser(place)
