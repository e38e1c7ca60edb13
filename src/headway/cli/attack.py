"""headway attack"""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.any_model import CourseDirectory, ModelOptions, Weights, is_other_model, open_course
from headway.cli.lengths import parse_lengths
from headway.cli.options import Device, Json, Quiet, progress, say, show
from headway.errors import InputError, Interrupted
from headway.narration import attack as narrated
from headway.narration.text import Words, text
from headway.results.attack import Attack

if TYPE_CHECKING:
    from headway.evaluation import Trained


def attack(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A run directory, or the name of one under ./runs. Or another model: FILE.py:FUNCTION.",
        ),
    ],
    weights: Weights = None,
    data: CourseDirectory = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="16,64", help="Lengths to attack; default: the training lengths and the lengths held."),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Time to search, in seconds.")] = 120.0,
    tries: Annotated[int | None, typer.Option(help="Stop after this many tried inputs, even if time is left.")] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the search; the same seed and --tries give the same result.", min=0)
    ] = 0,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Search for inputs that a run gets wrong: the attack families of its task, then hill climbing on the margin.

    Exits with 1 if a failing input was found, confirmed by greedy decoding. Finding none proves nothing.

    Example: headway attack sortedness-seed0 --at 16,64 --seconds 60

    Another model: headway attack my_model.py:build --weights W.safetensors --data DIR
    """
    from headway.evaluation import load

    lengths = None if at is None else parse_lengths(at)
    options = ModelOptions(weights=weights, data=data)
    if is_other_model(run):
        found = _attack_other(run, options, lengths, seconds, tries, seed, device=device, quiet=quiet)
        show(found, summary(found), as_json=json)
        if found.ended == "interrupted":
            raise Interrupted("interrupted; the results so far are printed")
        if found.broken:
            raise typer.Exit(1)
        return
    if options.given():
        raise InputError(f"{options.given()[0]} is for another model, FILE.py:FUNCTION; {run} is a run")
    trained = load(run, device=device)
    for warning in trained.warnings:
        say(f"headway: warning: {warning}")
    found = _attack(trained, lengths, seconds, tries, seed, quiet=quiet)
    trained.directory.replace_analysis("attack", found, trained.step)
    show(found, summary(found), as_json=json)
    if found.ended == "interrupted":
        raise Interrupted(f"interrupted; the results so far are in {trained.directory.analysis('attack')}")
    if found.broken:
        raise typer.Exit(1)


def _attack_other(
    run: str,
    options: ModelOptions,
    at: list[int] | None,
    seconds: float,
    tries: int | None,
    seed: int,
    *,
    device: str,
    quiet: bool,
) -> Attack:
    """Attack a model of another program; nothing is written, and no explorer can open its inputs."""
    from headway.attached_analysis.course_lengths import check_readable

    opened = open_course([run], options, n=1, device=device)
    check_readable(opened, at)
    found = _attack(opened, at, seconds, tries, seed, quiet=quiet)
    return replace(found, counterexamples=tuple(replace(one, link=None) for one in found.counterexamples))


def _attack(
    trained: "Trained", at: list[int] | None, seconds: float, tries: int | None, seed: int, *, quiet: bool
) -> Attack:
    """Attack a run with a progress display."""
    from headway.attacks.attack import attack as search

    with progress(f"attack on {trained.directory.name}", quiet=quiet) as meter:
        return search(
            trained,
            at=at,
            seconds=seconds,
            tries=tries,
            seed=seed,
            report=lambda passed, total, note: meter(min(round(passed, 1), total), round(total), f"seconds: {note}"),
        )


def summary(found: Attack) -> list[str]:
    """An attack in lines of text: failures, inputs tried, and the fall of the smallest margin."""
    lines: list[Words] = list(narrated.story(found, found.run))
    lines += [text("  {}", narrated.failing(one)) for one in found.counterexamples]
    if any(one.link for one in found.counterexamples):
        lines.append("To open one in the run's explorer page, append its `link` (attack.json) to the page's address.")
    for table in (narrated.family_table(found), narrated.length_table(found)):
        if table is not None:
            lines += [f"{table.caption}:", *(f"  {line}" for line in table.lines())]
    return [str(line) for line in [*lines, *narrated.afterwards(found)]]
