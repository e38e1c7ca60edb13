"""headway prove"""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.options import Device, Json, Quiet, progress, say, show
from headway.errors import InputError
from headway.narration.proof import checked, proved


def prove(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="A run directory, or the name of one under ./runs.")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Verify a certificate (proof.json) instead, with independent code."),
    ] = None,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Prove that a run is right on every input of every length, or find an input that it gets wrong.

    Works where attention is windowed: addition-text with 1 + 1 layers and coupled
    positions, and sortedness with one layer and max or detector pooling.
    Exits with 1 on a counterexample, on an undecided run, and on a certificate that does not hold.

    Example: headway prove local-addition-seed0
    """
    if check is not None:
        _check(check, run, device, as_json=json, quiet=quiet)
        return
    if run is None:
        raise InputError("headway prove needs a run, or --check FILE")
    from headway.evaluation import load
    from headway.proofs.prove import prove as find_proof

    trained = load(run, device=device)
    for warning in trained.warnings:
        say(f"headway: warning: {warning}")
    with progress(f"prove {trained.directory.name}", quiet=quiet) as meter:
        found = find_proof(trained, progress=meter)
    show(found, [*map(str, proved(found))], as_json=json)  # first: a full disk costs the file alone
    trained.directory.replace_analysis("proof", found, trained.step)
    say(f"written to {trained.directory.analysis('proof')}")
    if found.answer != "proved":
        raise typer.Exit(1)


def _check(certificate: Path, run: str | None, device: str, *, as_json: bool, quiet: bool) -> None:
    from headway.proofs.prove import check as check_proof

    with progress(f"check {certificate}", quiet=quiet) as meter:
        found = check_proof(certificate, run=run, device=device, progress=meter)
    show(found, [str(line) for line in checked(found)], as_json=as_json)
    if not found.holds:
        raise typer.Exit(1)
