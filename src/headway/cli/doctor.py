"""headway doctor"""

import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.any_model import (
    LabelColumn,
    MetricName,
    ModelOptions,
    TextColumn,
    Weights,
    examine_other_model,
    is_other_model,
)
from headway.cli.options import Device, Json, Quiet, progress, say, show
from headway.cli.terminal import Entry, Piece
from headway.errors import InputError
from headway.narration.doctor import tally
from headway.results.attack import Attack
from headway.results.doctor import Diagnoses, Diagnosis, Exhibit, Finding, at_level

WIDEST = 120
"""Largest width of the table; longer lines are hard to read."""

REST = "should be the first error, followed only by its consequences"


def doctor(
    run: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Run directories, or names of runs under ./runs. Or another model: FILE.py:FUNCTION, hf:PATH.",
        ),
    ] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Answers of any program: example, target, prediction; JSON or CSV.")
    ] = None,
    results: Annotated[Path | None, typer.Option(help="A table of accuracies: JSON, CSV, Markdown or a log.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="The data of these predictions, results or other model; alone, the data itself is examined."),
    ] = None,
    weights: Weights = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    metric: MetricName = None,
    split: Annotated[str, typer.Option(help="FILE.py:FUNCTION: train, validation or test.")] = "test",
    specimens: Annotated[bool, typer.Option("--specimens", help="Build every known fault and diagnose it.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Also show every check that found nothing wrong.")] = False,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find errors in data, harness, model, instruments and claims, each with its evidence and what to do.

    Exits with 1 if a finding is an error, or if an input could not be examined; with --specimens, if a specimen is not
    diagnosed as expected.

    Example: headway doctor addition-seed0 addition-seed1

    Another model: headway doctor my_model.py:build --weights W.safetensors --data DIR
    """
    options = ModelOptions(weights=weights, data=data, text=text, label=label, metric=metric)
    other = run if any(map(is_other_model, run or [])) else None
    _check_one_visit(run, predictions, results, None if other else data, specimens=specimens)
    if specimens:
        _show_specimens(as_json=json, quiet=quiet)
        return
    if other is None and (wrong := [name for name in options.given() if name != "--data"]):
        raise InputError(f"{wrong[0]} is for another model, FILE.py:FUNCTION or hf:PATH")
    if other is None and split != "test":
        raise InputError(f"--split {split} is for another model, FILE.py:FUNCTION")
    found: Diagnosis | Diagnoses
    if other is not None:
        found = examine_other_model(other, options, split=split, device=device)
    else:
        found = _examine(run, device, quiet=quiet) if run else _examine_elsewhere(predictions, results, data)
    lines = summary(found, everything=everything)
    show(found, lines, as_json=json, at_terminal=[] if everything else coloured(found))
    if found.errors or found.unexamined:
        raise typer.Exit(1)


def _check_one_visit(
    run: list[str] | None, predictions: Path | None, results: Path | None, data: Path | None, *, specimens: bool
) -> None:
    """Raise unless there is exactly one kind of input, with the data that it needs."""
    given = {"RUN": bool(run), "--predictions": predictions is not None, "--results": results is not None}
    chosen = [name for name, there in {**given, "--specimens": specimens}.items() if there]
    if not chosen and data is not None:
        return
    if not chosen:
        raise InputError(
            "RUN is missing: give a run directory, or the name of one under ./runs (or --data, alone or with "
            "--predictions or --results, or --specimens)"
        )
    if len(chosen) > 1:
        raise InputError(f"{' and '.join(chosen)} exclude each other; give one of them")
    if data is None and chosen[0] in ("--predictions", "--results"):
        raise InputError(f"{chosen[0]} needs --data DIR, the data on which it was made")
    if data is not None and chosen[0] in ("RUN", "--specimens"):
        raise InputError(f"--data belongs to --predictions, --results and other models, not to {chosen[0]}")


def _examine_elsewhere(predictions: Path | None, results: Path | None, data: Path | None) -> Diagnosis:
    """Examine foreign files; writes nothing."""
    from headway.diagnosis.material import examine_data
    from headway.diagnosis.predictions import examine_predictions
    from headway.diagnosis.published import examine_results

    assert data is not None
    if predictions is not None:
        return examine_predictions(predictions, data)
    if results is not None:
        return examine_results(results, data)
    return examine_data(data)


def _show_specimens(*, as_json: bool, quiet: bool) -> None:
    from headway.diagnosis.specimens import exhibit

    with progress("specimens", quiet=quiet) as meter:
        found = exhibit(meter)
    show(found, specimen_lines(found), as_json=as_json)
    if not found.right:
        raise typer.Exit(1)


def specimen_lines(found: Exhibit) -> list[str]:
    """Each specimen with its fault and its first error, and the number of right diagnoses."""
    lines = []
    for one in found.specimens:
        lines += [*wrapped(f"{one.name}: ", one.wrong), *entry(one.findings[0])]
        lines += [] if one.right else [f"  NOT AS EXPECTED: {one.expected} {REST}"]
        lines.append("")
    right, n = sum(one.right for one in found.specimens), len(found.specimens)
    clean = sum(not one.errors for one in found.controls)
    words = f"{right} of {n} specimens have their own diagnosis as the first error and no wrong one"
    return [*lines, f"{words}; {clean} of {len(found.controls)} healthy runs have no error"]


def _examine(runs: Sequence[str], device: str, *, quiet: bool) -> Diagnosis | Diagnoses:
    """Examine runs with a progress display, and add each diagnosis to its run."""
    from headway.diagnosis.examine import examine_together
    from headway.diagnosis.run_documents import head_findings, read_finding, read_lengths
    from headway.evaluation import load

    opened = [load(one, device=device) for one in runs]
    for trained in opened:
        damages = [head_findings(trained.directory)[1], read_lengths(trained.directory)[1]]
        damages.append(read_finding(trained.directory, Attack, "attack")[1])
        for warning in (*trained.warnings, *(f"{damage}; it is left out" for damage in damages if damage)):
            say(f"headway: warning: {warning}")
    with progress("doctor", quiet=quiet) as meter:
        found = examine_together(opened, meter)
    for trained, one in zip(opened, found.runs, strict=True):
        trained.directory.replace_analysis("doctor", one, trained.step)
    return found if len(opened) > 1 else found.runs[0]


def summary(found: Diagnosis | Diagnoses, *, everything: bool = False) -> list[str]:
    """One or several diagnoses in lines of text: errors and warnings in full, passed checks in one line."""
    if isinstance(found, Diagnosis):
        return diagnosis_lines(found, everything=everything)
    lines = [line for one in found.runs for line in [*diagnosis_lines(one, everything=everything), ""]]
    if not found.together:
        return [*lines, "the runs are not seeds of one recipe, so there are no findings over all of them"]
    return [*lines, f"{len(found.runs)} seeds together", *table(found.together, everything=everything)]


def coloured(found: Diagnosis | Diagnoses) -> list[Piece]:
    """The same at a terminal: the level in its colour, and how many checks find nothing in place of their names."""
    runs = [found] if isinstance(found, Diagnosis) else list(found.runs)
    parts: list[tuple[str, Sequence[Finding]]] = [(f"{one.run} ({one.task})", one.findings) for one in runs]
    if isinstance(found, Diagnoses) and found.together:
        parts.append(("the runs together", found.together))
    pieces: list[Piece] = []
    for name, findings in parts:
        pieces.append(f"{name}: {tally(findings)}")
        pieces += [Entry(one.level, one.check, one.evidence, one.fix) for one in findings if one.level != "fine"]
    return [*pieces, "--all lists the checks that find nothing wrong."]


def diagnosis_lines(found: Diagnosis, *, everything: bool) -> list[str]:
    """One run: how many findings of each level, then the table."""
    step = "" if found.step is None else f", step {found.step:,}"
    return [f"{found.run} ({found.task}{step}): {tally(found.findings)}", *table(found.findings, everything=everything)]


def table(findings: Sequence[Finding], *, everything: bool) -> list[str]:
    """A few lines per finding: level, check, evidence, and what to do; passed checks are listed in one entry."""
    shown = [finding for finding in findings if everything or finding.level != "fine"]
    lines = [line for finding in shown for line in entry(finding)]
    quiet = [finding.check for finding in at_level(findings, "fine")]
    if quiet and not everything:
        lines += wrapped("  fine     ", ", ".join(quiet))
    return lines


def entry(finding: Finding) -> list[str]:
    """A finding in lines of text: its evidence, and below it what to do.

    >>> entry(Finding("split-overlap", "error", "data", "25 are shared.", {}, "Remove them."))
    ['  error    split-overlap: 25 are shared.', '           -> Remove them.']
    """
    lines = wrapped(f"  {finding.level:<9}", f"{finding.check}: {finding.evidence}")
    return lines + (wrapped(" " * 11 + "-> ", finding.fix) if finding.fix else [])


def wrapped(start: str, text: str) -> list[str]:
    width = min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)
    return textwrap.wrap(
        text, max(width, 40), initial_indent=start, subsequent_indent=" " * len(start), break_on_hyphens=False
    )
