"""headway doctor"""

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.options import Device, Json, Quiet, progress, say, show
from headway.errors import InputError

if TYPE_CHECKING:
    from headway.evaluation import Trained

Document = Mapping[str, Any]
WIDEST = 120
"""Columns of the table, at most: longer lines are hard to read."""


def doctor(
    run: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="Run directories, or names of runs under ./runs.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also show every check that found nothing wrong.")] = False,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say what is wrong: data, harness, model, instruments and claims, each finding with its evidence and what to do.

    Exits with 1 if a finding is an error.

    Example: headway doctor addition-seed0 addition-seed1
    """
    if not run:
        raise InputError("RUN is missing: give a run directory, or the name of one under ./runs")
    document = _examine(run, device, quiet=quiet)
    show(document, summary(document, everything=everything), as_json=json)
    if has_error(document):
        raise typer.Exit(1)


def _examine(runs: Sequence[str], device: str, *, quiet: bool) -> dict[str, Any]:
    """Examine runs with a progress display, and add each diagnosis to its run."""
    from headway.doctor.visit import examine_together
    from headway.evaluation import load

    opened = [load(one, device=device) for one in runs]
    for warning in (warning for trained in opened for warning in trained.warnings):
        say(f"headway: warning: {warning}")
    with progress("doctor", quiet=quiet) as meter:
        found = examine_together(opened, meter).to_json()
    for trained, one in zip(opened, found["runs"], strict=True):
        _keep(trained, one)
    return found if len(opened) > 1 else dict(found["runs"][0])


def _keep(trained: "Trained", found: Document) -> None:
    trained.directory.replace_analysis("doctor", found)


def has_error(document: Document) -> bool:
    """Whether any finding of a document, of one run or of several, is an error."""
    parts = [document, *document.get("runs", ())]
    findings = [finding for part in parts for key in ("findings", "together") for finding in part.get(key, ())]
    return any(finding["level"] == "error" for finding in findings)


def summary(document: Document, *, everything: bool = False) -> list[str]:
    """A diagnosis, or several, for a person: errors and warnings in full, what is fine in one line."""
    if "runs" not in document:
        return diagnosis_lines(document, everything=everything)
    lines = [line for one in document["runs"] for line in [*diagnosis_lines(one, everything=everything), ""]]
    if not document["together"]:
        return [*lines, "the runs are not seeds of one recipe, so nothing is said of them together"]
    return [*lines, f"{len(document['runs'])} seeds together", *table(document["together"], everything=everything)]


def diagnosis_lines(found: Document, *, everything: bool) -> list[str]:
    """One run: how many findings of each level, then the table."""
    counts = {level: len(at_level(found["findings"], level)) for level in ("error", "warning", "fine")}
    words = f"{_counted(counts['error'], 'error')}, {_counted(counts['warning'], 'warning')}, {counts['fine']} fine"
    step = "" if found["step"] is None else f", step {found['step']:,}"
    return [f"{found['run']} ({found['task']}{step}): {words}", *table(found["findings"], everything=everything)]


def _counted(n: int, word: str) -> str:
    """
    >>> _counted(1, "error"), _counted(0, "error")
    ('1 error', '0 errors')
    """
    return f"{n} {word}{'' if n == 1 else 's'}"


def at_level(findings: Sequence[Document], level: str) -> list[Document]:
    return [finding for finding in findings if finding["level"] == level]


def table(findings: Sequence[Document], *, everything: bool) -> list[str]:
    """A few lines a finding: level, check, evidence, and what to do; what is fine is folded into one entry."""
    shown = [finding for finding in findings if everything or finding["level"] != "fine"]
    lines = [line for finding in shown for line in entry(finding)]
    quiet = [finding["check"] for finding in at_level(findings, "fine")]
    if quiet and not everything:
        lines += wrapped("  fine     ", ", ".join(quiet))
    return lines


def entry(finding: Document) -> list[str]:
    """
    >>> entry({"level": "error", "check": "split-overlap", "evidence": "25 are shared.", "fix": "Remove them."})
    ['  error    split-overlap: 25 are shared.', '           -> Remove them.']
    """
    lines = wrapped(f"  {finding['level']:<9}", f"{finding['check']}: {finding['evidence']}")
    return lines + (wrapped(" " * 11 + "-> ", finding["fix"]) if finding["fix"] else [])


def wrapped(start: str, text: str) -> list[str]:
    width = min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)
    return textwrap.wrap(
        text, max(width, 40), initial_indent=start, subsequent_indent=" " * len(start), break_on_hyphens=False
    )
