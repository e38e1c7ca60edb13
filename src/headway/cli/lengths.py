"""headway lengths"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.options import Device, Force, Json, Quiet, progress, say, show
from headway.errors import InputError
from headway.narration.tables import table as as_table
from headway.results.lengths import LengthRow, Lengths, SeedSummary, SetOverSeeds, SeveralLengths
from headway.results.schema import write

if TYPE_CHECKING:
    from headway.evaluation import Trained

FIGURES = ("lengths-", "positions-", "mechanism")
"""How the names of this command's figures begin."""
LONGEST_SHOWN = 120
"""Characters of an example that are printed."""
NEARLY = 0.98
"""A share of one answer from which on a row is said to be nearly constant."""


def lengths(
    run: Annotated[
        list[str], typer.Argument(metavar="RUN", help="Run directories, or names of runs under ./runs; several seeds.")
    ],
    at: Annotated[
        str | None, typer.Option(metavar="32,64", help="Lengths to test, in place of the task's own past training.")
    ] = None,
    n: Annotated[int, typer.Option(help="Examples of each set at each length.")] = 2_000,
    whole: Annotated[
        int, typer.Option(help="Sets with at most this many members are measured whole at the shortest length.")
    ] = 200_000,
    mechanism: Annotated[
        bool, typer.Option("--mechanism/--no-mechanism", help="Also compare every head across the lengths.")
    ] = False,
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw the figures.")] = True,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where several runs are put together.")] = None,
    force: Force = False,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """How far past its training lengths a run holds: accuracy at each length, and the length held.

    The checkpoint is the one that validation chose, on training lengths alone.
    Exits with 1 if decoding disagrees with the parallel pass by more than a near-tie.

    Example: headway lengths sortedness-seed0 sortedness-seed1 --at 32,64,128
    """
    from headway.evaluation import are_seeds_of_one_recipe, load

    chosen = None if at is None else parse_lengths(at)
    if out is not None:
        check_out(out, figures=figures, force=force)
    opened = [load(one, device=device) for one in run]
    one_recipe = are_seeds_of_one_recipe(opened)
    found = [
        _measure(trained, chosen, n, whole, mechanism=mechanism, figures=figures, quiet=quiet) for trained in opened
    ]
    result, lines = _told(found, one_recipe)
    if out is not None:
        lines.append(_write_together(result, found, out, figures=figures))
    show(write(result), lines, as_json=json)
    if any(one.disagrees for one in found):
        say("headway: decoding and the parallel pass disagree; these accuracies cannot be trusted")
        raise typer.Exit(1)


def check_out(out: Path, *, figures: bool, force: bool) -> None:
    """Raise unless a directory of its own can be made there: neither a file, nor a run, nor a study.

    Nor may it hold files that headway did not write and that would be replaced, unless that is forced.
    """
    from headway.runs import RunDirectory, StudyDirectory, check_outputs

    for place in (out, *out.parents):
        if place.exists() and not place.is_dir():
            raise InputError(f"--out {out}: {place} is a file; a directory needed")
    for kind, directory in (("run", RunDirectory(out)), ("study", StudyDirectory(out))):
        if directory.exists():
            raise InputError(f"--out {out} is a {kind}; a directory of its own needed")
    directory = StudyDirectory(out)
    earlier = drawn_before(directory.figures) if figures else []
    check_outputs([directory.analysis("lengths"), *earlier], force=force)


def parse_lengths(text: str) -> list[int]:
    """`32,64` -> the lengths.

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
    """Measure a run with a progress display, add the result to it and draw it."""
    from headway.length_analysis.measure import measure_lengths

    for warning in trained.warnings:
        say(f"headway: warning: {warning}")
    if not trained.directory.newest_state().get("finished"):
        say(f"headway: warning: {trained.directory.path} is not trained to its end; what is measured is how far it is")
    with progress(f"lengths of {trained.directory.name}", quiet=quiet) as meter:
        found = measure_lengths(trained, at=at, n=n, whole=whole, mechanism=mechanism, report=meter)
    trained.directory.replace_analysis("lengths", found.to_json(), trained.step)
    if figures:
        _draw([found], trained.directory.figures)
    return found


def _draw(documents: Sequence[Lengths], folder: Path) -> None:
    from headway.reports.lengths import write_figures

    for earlier in drawn_before(folder):  # it shows another measurement
        earlier.unlink()
    write_figures(documents, folder)


def drawn_before(folder: Path) -> list[Path]:
    """Files that have the names of this command's figures."""
    return sorted(path for path in folder.glob("*") if path.name.startswith(FIGURES))


def _told(found: Sequence[Lengths], one_recipe: bool) -> tuple[Lengths | SeveralLengths, list[str]]:
    """The document of one run or of several, and the lines that tell it."""
    from headway.length_analysis.together import together

    lines = [line for document in found for line in [*summary(document), ""]][:-1]
    if len(found) == 1:
        return found[0], lines
    whole = together(found) if one_recipe else None
    word = ["the runs are not seeds of one recipe, so nothing is said of them together"]
    several = SeveralLengths(runs=tuple(found), together=whole)
    return several, [*lines, "", *(summary_of_seeds(whole) if whole else word)]


def _write_together(result: Lengths | SeveralLengths, found: Sequence[Lengths], out: Path, *, figures: bool) -> str:
    """Write the document of all runs and its figures into a directory of its own."""
    from headway.runs import StudyDirectory

    out.mkdir(parents=True, exist_ok=True)
    directory = StudyDirectory(out)
    path = directory.write_analysis("lengths", {"generator": "headway", **write(result)})
    if figures:
        _draw(found, directory.figures)
    return f"written to {path}"


def summary(found: Lengths) -> list[str]:
    """One run for a person: the table, the lengths held, and whether the model answers at all."""
    training, checkpoint = found.training, found.checkpoint
    name = "exact match" if found.rows[0].answer_shares is None else "accuracy"
    inside = f"trained on {training.shortest} to {training.longest} {found.unit}"
    lines = [
        f"{found.run} (step {checkpoint.step:,}, chosen on {checkpoint.chosen_on}), {inside}",
        f"{name}, {found.n:,} examples of each set at each length; + is certain to be at least "
        f"{found.threshold:.0%} (95 %), * always the same answer",
        *table(found),
    ]
    lines.append(f"length held: {found.length_held:,}, the smallest over the sets")
    lines += [f"  {name}: {held_in_words(found, name)}" for name in found.held]
    lines += few_in_words(found) + wrong_in_words(found) + constant_in_words(found)
    lines += too_few(found) + decoding_in_words(found)
    return [*lines, *found.mechanism.words] if found.mechanism is not None else lines


def table(found: Lengths) -> list[str]:
    """A line a set: the worst training length, the longest, every one past it, and whatever was asked for."""
    longest, threshold, asked = found.training.longest, found.threshold, found.asked or ()
    shown = sorted({row.length for row in found.rows if row.length >= longest or row.length in asked})
    lines = [["set", "worst trained", *(f"{length:,}" for length in shown)]]
    for name in found.held:
        rows = found.of_set(name)
        worst = min((row for row in rows.values() if row.trained), key=lambda row: row.accuracy)
        cells = [cell(rows[length], threshold) for length in shown]
        lines.append([name, f"{cell(worst, threshold)} at {worst.length}", *cells])
    return as_table(lines).lines()


def cell(row: LengthRow, threshold: float) -> str:
    """Accuracy with its marks: .9995+ is certain to be high enough, .500* is one answer throughout."""
    return short(row.accuracy) + "+" * (row.interval[0] >= threshold) + "*" * (row.constant is not None)


def short(share: float) -> str:
    """Three decimals, and a fourth where three would make it 1.

    >>> short(0.5), short(0.9995), short(1.0)
    ('.500', '.9995', '1')
    """
    return "1" if share == 1 else f"{share:.{4 if share >= 0.9995 else 3}f}".removeprefix("0")


def held_in_words(found: Lengths, name: str) -> str:
    """`64 (4 times the training length), but not at 8`."""
    reached, longest = found.held[name], found.training.longest
    times = f" ({reached / longest:g} times the training length)" if reached > longest else ""
    limit = ", the longest tested" if reached == max(found.of_set(name)) else ""
    gaps = ", ".join(f"{length:,}" for length in found.not_held.get(name, ()))
    return f"{reached:,}{times}{limit}{f', but not at {gaps}' if gaps else ''}"


def few_in_words(found: Lengths) -> list[str]:
    """Sets that had fewer examples than asked for, too few to be held where they are under 381."""
    return [
        f"{row.set_name} at {row.length:,}: only {row.n:,} examples that training did not see were found"
        for row in found.rows
        if row.exhausted
    ]


def wrong_in_words(found: Lengths) -> list[str]:
    """One wrong answer of each set that has any: the shortest."""
    lines = []
    for name in found.held:
        rows = [row for row in found.of_set(name).values() if row.wrong_examples]
        if rows:
            row = min(rows, key=lambda row: row.length)
            first, every = row.wrong_examples[0], " (every member)" if row.whole else ""
            example, count = first.example, f"{row.wrong:,} of {row.n:,}{every} wrong at {row.length:,}"
            shown = example if len(example) <= LONGEST_SHOWN else f"{example[:LONGEST_SHOWN]} ..."
            lines.append(f"{name}: {count}; for example {shown}, answered {first.answered:.60}")
    return lines


def constant_in_words(found: Lengths) -> list[str]:
    """What a model that gives one answer does, and where its accuracy then comes from."""
    constant = found.constant
    if constant is not None:
        rows = [row for row in found.rows if row.length >= constant.start and not row.one_class]
        every = [row.target_shares[constant.answer] for row in rows if row.target_shares is not None]
        shares = sorted({f"{share:.3f}".removeprefix("0") for share in every})
        return [
            f"answers {constant.answer} whatever it sees, from length {constant.start:,} on: "
            f"{' to '.join(shares[:1] + shares[1:][-1:])} is the share of such examples, not an accuracy"
        ]
    return nearly_constant(found)


def nearly_constant(found: Lengths) -> list[str]:
    """A line for each set and answer that is given nearly always at some lengths: `nearly always 0: swaps at 256`."""
    at: dict[tuple[str, str], list[str]] = {}
    for row in (row for row in found.rows if not row.one_class):
        for label, share in (row.answer_shares or {}).items():
            if share >= NEARLY:
                at.setdefault((row.set_name, label), []).append(f"{row.length:,}")
    return [f"answers {label} to nearly everything: {name} at {', '.join(some)}" for (name, label), some in at.items()]


def too_few(found: Lengths) -> list[str]:
    """A word where even a model without an error could not hold."""
    from headway.length_analysis.held import fewest_examples

    needed = fewest_examples(found.threshold)
    if found.n >= needed:
        return []
    return [f"--n {found.n} is too few to say that any length is held: even without an error {needed} are needed"]


def decoding_in_words(found: Lengths) -> list[str]:
    decoded = [row.decoded for row in found.rows if row.decoded is not None]
    if not decoded:
        return []
    count, apart = sum(one.n for one in decoded), sum(one.disagreements for one in decoded)
    return [f"decoded for real: {count:,}, disagreements with the parallel pass {apart:,}"]


def summary_of_seeds(whole: SeedSummary) -> list[str]:
    """Several seeds for a person: every seed's length held, the median, and how many reach how far."""
    few = "; fewer than 6: descriptive" if whole.descriptive else ""
    lines = [f"{whole.n_seeds} seeds together{few}"]
    for name, found in whole.sets.items():
        interval = "" if found.interval is None else " ({:g} to {:g})".format(*found.interval)
        every = ", ".join(f"{value:,}" for value in found.held)
        lines.append(f"  {name}: held {every}; median {found.median:,g}{interval}; {_reach(found, whole.n_seeds)}")
    lines += ["  " + line for line in median_table(whole)]
    if whole.constant_seeds:
        lines.append(f"  {whole.constant_seeds} of {whole.n_seeds} give one answer at the longest lengths")
    return lines


def median_table(whole: SeedSummary) -> list[str]:
    """The median accuracy over seeds of every set, from the longest training length on."""
    longest = max(row.length for row in whole.rows if row.trained)
    shown = sorted({row.length for row in whole.rows if row.length >= longest})
    medians = {(row.set_name, row.length): short(row.median) for row in whole.rows if row.median is not None}
    lines = [["median over seeds", *(f"{length:,}" for length in shown)]]
    rows = [[name, *(medians[name, length] for length in shown)] for name in whole.sets]
    return as_table([*lines, *rows]).lines()


def _reach(found: SetOverSeeds, n_seeds: int) -> str:
    parts = []
    for row in found.reach:
        low, high = row.interval
        parts.append(f"{row.seeds} of {n_seeds} reach {row.times}x ({low:.0%} to {high:.0%})")
    return ", ".join(parts) or "no multiple of the training length was tested"
