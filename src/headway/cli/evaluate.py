"""headway evaluate"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.options import Device, Json, Quiet, progress, say, show
from headway.errors import InputError, suggestion
from headway.results.evaluation import SequenceEvaluation, SplitEvaluation

if TYPE_CHECKING:
    from headway.evaluation import Trained

CHOICES = ("train", "validation", "test", "all")


def evaluate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run directory, or the name of one under ./runs.")],
    split: Annotated[str, typer.Option(help="train, validation, test, or all: the whole domain.")] = "test",
    checkpoint: Annotated[str, typer.Option(help="best (lowest validation loss), last, or a step.")] = "best",
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure a run's accuracy: a parallel pass over all examples, and real decoding of up to 20,000.

    Exits with 1 if decoding disagrees with the parallel pass by more than a near-tie.

    Example: headway evaluate addition-seed0 --split all
    """
    from headway.evaluation import load

    if split not in CHOICES:
        raise InputError(f"--split {split!r}; {suggestion(split, CHOICES)}")
    trained = load(run, checkpoint=checkpoint, device=device)
    for warning in trained.warnings:
        say(f"headway: warning: {warning}")
    found = measure(trained, split, quiet=quiet)
    show(found.to_json(), summary(trained.directory.path, found), as_json=json)
    if isinstance(found, SequenceEvaluation) and found.real_disagreements:
        raise typer.Exit(1)


def measure(trained: "Trained", split: str, *, quiet: bool) -> SplitEvaluation:
    """Evaluate with a progress display and add the result to the run."""
    from headway.evaluation import evaluate as run_evaluation

    with progress(f"evaluate {trained.directory.name} on {split}", quiet=quiet) as meter:
        found = run_evaluation(trained, split, progress=meter)
    aside = trained.directory.add_to_analysis("evaluation", {split: found.to_json()}, trained.step)
    if aside is not None:
        say(f"headway: warning: the file of earlier evaluations cannot be read; it was put aside as {aside}")
    return found


def summary(run: Path, found: SplitEvaluation) -> list[str]:
    """An evaluation in a few lines for a person."""
    name = "exact match" if isinstance(found, SequenceEvaluation) else "accuracy"
    low, high = found.interval
    lines = [
        f"{run} (step {found.step:,}) on {split_in_words(found.split)}: {found.wrong:,} wrong of {found.n:,}",
        f"{name} {percent(found.accuracy)}, 95 % interval {percent(low)} to {percent(high)}",
    ]
    if isinstance(found, SequenceEvaluation):
        lines.append(
            f"decoded for real: {found.decoded_n:,}, wrong {found.decoded_wrong:,}, "
            f"disagreements with the parallel pass {found.disagreements:,}"
        )
    else:
        shares = ", ".join(f"{label}: {part:.1%}" for label, part in found.answer_shares.items())
        lines.append(f"balanced accuracy {percent(found.balanced_accuracy)}; answers given: {shares}")
    return lines + [f"  wrong: {wrong.example}, answered {wrong.answered}" for wrong in found.wrong_examples[:5]]


def split_in_words(split: str) -> str:
    return "the whole domain" if split == "all" else f"the {split} split"


def percent(share: float) -> str:
    """Enough digits to tell 99.9996 % from 100 %.

    >>> percent(0.5), percent(809_997 / 810_000), percent(1.0)
    ('50.00 %', '99.9996 %', '100 %')
    """
    if share == 1:
        return "100 %"
    return f"{100 * share:.4f} %" if share > 0.999 else f"{100 * share:.2f} %"
