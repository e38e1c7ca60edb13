"""headway evaluate"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.options import Device, Json, Quiet, progress, say, show
from headway.errors import InputError, suggestion
from headway.narration.accuracy import answers_given, evaluated, wrong_answer
from headway.narration.numbers import number
from headway.narration.text import text
from headway.results.evaluation import ClassEvaluation, SequenceEvaluation, SplitEvaluation

if TYPE_CHECKING:
    from headway.evaluation import Trained

CHOICES = ("train", "validation", "test", "all")
MOST_WRONG = 5
"""Wrong answers that are shown."""


def evaluate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run directory, or the name of one under ./runs.")],
    split: Annotated[str, typer.Option(help="train, validation, test, or all: the whole domain.")] = "test",
    checkpoint: Annotated[str, typer.Option(help="best (lowest validation loss), last, or a step.")] = "best",
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure a run's accuracy: a teacher-forced pass over all examples, and greedy decoding of up to 20,000.

    Exits with 1 if decoding disagrees with the teacher-forced pass by more than a near-tie.

    Example: headway evaluate addition-seed0 --split all
    """
    from headway.evaluation import load

    if split not in CHOICES:
        raise InputError(f"--split {split!r}; {suggestion(split, CHOICES)}")
    trained = load(run, checkpoint=checkpoint, device=device)
    for warning in trained.warnings:
        say(f"headway: warning: {warning}")
    found = measure(trained, split, quiet=quiet)
    show(found, summary(trained.directory.path, found), as_json=json)
    if isinstance(found, SequenceEvaluation) and found.real_disagreements:
        raise typer.Exit(1)


def measure(trained: "Trained", split: str, *, quiet: bool) -> SplitEvaluation:
    """Evaluate with a progress display and add the result to the run."""
    from headway.evaluation import evaluate as run_evaluation

    with progress(f"evaluate {trained.directory.name} on {split}", quiet=quiet) as meter:
        found = run_evaluation(trained, split, progress=meter)
    aside = trained.directory.add_to_analysis("evaluation", {split: found}, trained.step)
    if aside is not None:
        say(f"headway: warning: the file of earlier evaluations cannot be read; it was renamed to {aside}")
    return found


def summary(run: Path, found: SplitEvaluation) -> list[str]:
    """An evaluation in a few lines of text."""
    first, *rest = evaluated(found)
    lines = [text("{} (step {}): {}", str(run), number(found.step), first), *rest]
    if isinstance(found, ClassEvaluation):
        lines.append(answers_given(found))
    lines += [text("  wrong: {}", wrong_answer(one)) for one in found.wrong_examples[:MOST_WRONG]]
    return [str(line) for line in lines]
