"""headway lengths"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.any_model import CourseDirectory, ModelOptions, Weights, is_other_model, open_course
from headway.cli.options import Device, Force, Json, Quiet, progress, say, show
from headway.errors import InputError
from headway.narration import lengths as narrated
from headway.narration.numbers import number
from headway.narration.text import Words, text
from headway.results.lengths import Lengths, SeedSummary, SeveralLengths

if TYPE_CHECKING:
    from headway.evaluation import Trained

FIGURES = ("lengths-", "positions-", "mechanism")
"""Prefixes of the names of this command's figures."""


def lengths(
    run: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="Run directories, or names of runs under ./runs; several seeds. Or another model: FILE.py:FUNCTION.",
        ),
    ],
    weights: Weights = None,
    data: CourseDirectory = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="32,64", help="Lengths to test, instead of the task's default beyond training."),
    ] = None,
    n: Annotated[int, typer.Option(help="Examples of each set at each length.")] = 2_000,
    whole: Annotated[
        int, typer.Option(help="Sets of at most this many examples are measured completely at the shortest length.")
    ] = 200_000,
    mechanism: Annotated[
        bool, typer.Option("--mechanism/--no-mechanism", help="Also compare every head across the lengths.")
    ] = False,
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw the figures.")] = True,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Directory for the summary of several runs.")] = None,
    force: Force = False,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure length generalization: accuracy at each length, and the length held.

    The checkpoint is the one with the best validation loss, on training lengths alone. Exits with 1 if decoding
    disagrees with the teacher-forced pass by more than a near-tie.

    Example: headway lengths sortedness-seed0 sortedness-seed1 --at 32,64,128

    Another model: headway lengths my_model.py:build --weights W.safetensors --data DIR
    """
    from headway.evaluation import are_seeds_of_one_recipe, load
    from headway.length_analysis.measure import check_sizes
    from headway.length_analysis.sets import plan_lengths

    chosen = None if at is None else parse_lengths(at)
    if out is not None and not _is_analysis_of(out, run):
        check_out(out, figures=figures, force=force)
    if any(map(is_other_model, run)):
        options = ModelOptions(weights=weights, data=data)
        measured = _measure_other(run, options, chosen, n, whole, mechanism=mechanism, device=device, quiet=quiet)
        _finish(measured, [measured], summary(measured), out, figures=figures, as_json=json)
        return
    if given := ModelOptions(weights=weights, data=data).given():
        raise InputError(f"{given[0]} is for another model, FILE.py:FUNCTION; {run[0]} is a run")
    opened = [load(one, device=device) for one in run]
    one_recipe = are_seeds_of_one_recipe(opened)
    check_sizes(n, whole)
    for trained in opened:
        plan_lengths(trained, chosen)  # what cannot be measured is refused before any run is, which may take hours
    found = [
        _measure(trained, chosen, n, whole, mechanism=mechanism, figures=figures, quiet=quiet) for trained in opened
    ]
    result, lines = _told(found, one_recipe)
    _finish(result, found, lines, out, figures=figures, as_json=json)


def _is_analysis_of(out: Path, run: list[str]) -> bool:
    """Whether `out` is the directory that headway heads made for this model of another program; raises for another."""
    from headway.runs import ModelDirectory

    if len(run) != 1 or not is_other_model(run[0]) or not ModelDirectory(out).exists():
        return False
    ModelDirectory(out).check_free(run[0])
    return True


def _finish(
    result: Lengths | SeveralLengths,
    found: Sequence[Lengths],
    lines: list[str],
    out: Path | None,
    *,
    figures: bool,
    as_json: bool,
) -> None:
    """Write what was asked for and print it; exit with 1 if decoding disagrees."""
    if out is not None:
        lines.append(_write_together(result, found, out, figures=figures))
    show(result, lines, as_json=as_json)
    if any(one.disagrees for one in found):
        say("headway: decoding and the teacher-forced pass disagree; these accuracies are invalid")
        raise typer.Exit(1)


def _measure_other(
    run: list[str],
    options: ModelOptions,
    at: Sequence[int] | None,
    n: int,
    whole: int,
    *,
    mechanism: bool,
    device: str,
    quiet: bool,
) -> Lengths:
    """Measure a model of another program; nothing is written."""
    from headway.attached_analysis.course_lengths import measure_course

    if mechanism:
        raise InputError("--mechanism is for runs; headway heads compares the heads of another model at one length")
    opened = open_course(run, options, n=n, device=device)
    with progress(f"lengths of {run[0]}", quiet=quiet) as meter:
        return measure_course(opened, at=at, n=n, whole=whole, progress=meter)


def check_out(out: Path, *, figures: bool, force: bool) -> None:
    """Raise unless a separate directory can be made there: not a file, a run or a study.

    It must not contain files that headway did not write and that would be replaced, unless `force` is set.
    """
    from headway.runs import RunDirectory, StudyDirectory, check_outputs

    for place in (out, *out.parents):
        if place.exists() and not place.is_dir():
            raise InputError(f"--out {out}: {place} is a file; a directory needed")
    for kind, directory in (("run", RunDirectory(out)), ("study", StudyDirectory(out))):
        if directory.exists():
            raise InputError(f"--out {out} is a {kind}; a separate directory needed")
    directory = StudyDirectory(out)
    earlier = drawn_before(directory.figures) if figures else []
    check_outputs([directory.analysis("lengths"), *earlier], force=force)


def parse_lengths(text: str) -> list[int]:
    """Parse `32,64` as lengths.

    >>> parse_lengths("64, 32")
    [32, 64]
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,30}", part) for part in parts):
        raise InputError(f"--at {text!r:.80}: write lengths as 32,64,128")
    return sorted({int(part) for part in parts})


def _measure(
    trained: "Trained", at: Sequence[int] | None, n: int, whole: int, *, mechanism: bool, figures: bool, quiet: bool
) -> Lengths:
    """Measure a run with a progress display, store the result in it and draw it."""
    from headway.length_analysis.measure import measure_lengths

    for warning in trained.warnings:
        say(f"headway: warning: {warning}")
    if not trained.directory.newest_state().get("finished"):
        say(f"headway: warning: {trained.directory.path} is not fully trained; the measurement is of its current state")
    with progress(f"lengths of {trained.directory.name}", quiet=quiet) as meter:
        found = measure_lengths(trained, at=at, n=n, whole=whole, mechanism=mechanism, progress=meter)
    trained.directory.replace_analysis("lengths", found, trained.step)
    if figures:
        _draw([found], trained.directory.figures)
    return found


def _draw(documents: Sequence[Lengths], folder: Path) -> None:
    from headway.reports.lengths import write_figures

    for earlier in drawn_before(folder):  # it shows another measurement
        earlier.unlink()
    write_figures(documents, folder)


def drawn_before(folder: Path) -> list[Path]:
    """Files with the names of this command's figures."""
    return sorted(path for path in folder.glob("*") if path.name.startswith(FIGURES))


def _told(found: Sequence[Lengths], one_recipe: bool) -> tuple[Lengths | SeveralLengths, list[str]]:
    """The document of one run or of several, and its lines of text."""
    from headway.length_analysis.seed_summary import together

    lines = [line for document in found for line in [*summary(document), ""]][:-1]
    if len(found) == 1:
        return found[0], lines
    whole = together(found) if one_recipe else None
    word = ["the runs are not seeds of one recipe, so there is no summary over them"]
    several = SeveralLengths(runs=tuple(found), together=whole)
    return several, [*lines, "", *(summary_of_seeds(whole) if whole else word)]


def _write_together(result: Lengths | SeveralLengths, found: Sequence[Lengths], out: Path, *, figures: bool) -> str:
    """Write the document of all runs and its figures into a separate directory."""
    from headway.runs import StudyDirectory, find_model

    if (model := find_model(out)) is not None:
        path = model.add("lengths", result)
        if figures:
            _draw(found, model.figures)
        return f"written to {path}; headway report {out} shows it"
    out.mkdir(parents=True, exist_ok=True)
    directory = StudyDirectory(out)
    path = directory.write_analysis("lengths", {"generator": "headway", **result.to_json()})
    if figures:
        _draw(found, directory.figures)
    return f"written to {path}"


def summary(found: Lengths) -> list[str]:
    """One run in lines of text: the table, the lengths held, and whether the model gives a constant answer."""
    table = narrated.table_of_sets(found)
    lines: list[Words | None] = [narrated.measured(found, found.run), f"{table.caption}:", *table.lines()]
    over = "headway's sets" if "files" in found.held and len(found.held) > 1 else "the sets"
    lines.append(text("length held: {}, the smallest over {}", number(found.length_held), over))
    lines += [text("  {}", narrated.held(found, name)) for name in found.held]
    lines += [
        narrated.unreadable(found),
        *narrated.exhausted(found),
        *narrated.wrong_examples(found),
        narrated.constant(found),
    ]
    lines += [*narrated.nearly_constant(found), *too_few(found), narrated.decoding(found)]
    lines += [] if found.mechanism is None else found.mechanism.words
    return [str(line) for line in lines if line]


def too_few(found: Lengths) -> list[str]:
    """A note if even a model without errors could not hold a length."""
    from headway.length_analysis.held import fewest_examples

    if not narrated.too_few(found):
        return []
    needed = fewest_examples(found.threshold, found.confidence)
    return [f"--n {found.n} is too few to show that any length is held: even without errors it takes {needed}"]


def summary_of_seeds(whole: SeedSummary) -> list[str]:
    """Several seeds in lines of text: every seed's length held, the median, and the multiples reached."""
    medians = [f"  {line}" for line in narrated.median_table(whole).lines()]
    lines = [*narrated.over_seeds(whole), *medians, narrated.one_answer(whole)]
    return [str(line) for line in lines if line]
