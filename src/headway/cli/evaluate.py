"""headway evaluate"""

from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.options import Device, Json, Quiet, progress, say, show
from headway.errors import InputError, suggestion

if TYPE_CHECKING:
    from headway.evaluation import ClassEvaluation, SequenceEvaluation, Trained

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
    result = measure(trained, split, quiet=quiet)
    show(result.to_json(), summary(trained, result), as_json=json)
    if result.to_json().get("real_disagreements"):
        raise typer.Exit(1)


def measure(trained: "Trained", split: str, *, quiet: bool) -> "SequenceEvaluation | ClassEvaluation":
    """Evaluate with a progress display and add the result to the run."""
    from headway.evaluation import evaluate as run_evaluation

    with progress(f"evaluate {trained.directory.name} on {split}", quiet=quiet) as meter:
        result = run_evaluation(trained, split, progress=meter)
    trained.directory.add_to_analysis("evaluation", {split: result.to_json()})
    return result


def summary(trained: "Trained", result: "SequenceEvaluation | ClassEvaluation") -> list[str]:
    low, high = result.interval
    what = "the whole domain" if result.split == "all" else f"the {result.split} split"
    lines = [
        f"{trained.directory.path} (step {result.step:,}) on {what}: {result.wrong:,} wrong of {result.n:,}",
        f"{'exact match' if trained.task.kind == 'sequence' else 'accuracy'} {percent(result.accuracy)}, "
        f"95 % interval {percent(low)} to {percent(high)}",
    ]
    table = result.to_json()
    if trained.task.kind == "sequence":
        lines.append(
            f"decoded for real: {table['decoded_n']:,}, wrong {table['decoded_wrong']:,}, "
            f"disagreements with the parallel pass {table['disagreements']:,}"
        )
    else:
        shares = ", ".join(f"{label}: {share:.1%}" for label, share in table["answer_shares"].items())
        lines.append(f"balanced accuracy {percent(table['balanced_accuracy'])}; answers given: {shares}")
    lines += [f"  wrong: {found['example']}, answered {found['answered']}" for found in result.wrong_examples[:5]]
    return lines


def percent(share: float) -> str:
    """Enough digits to tell 99.9996 % from 100 %.

    >>> percent(0.5), percent(809_997 / 810_000), percent(1.0)
    ('50.00 %', '99.9996 %', '100 %')
    """
    if share == 1:
        return "100 %"
    return f"{100 * share:.4f} %" if share > 0.999 else f"{100 * share:.2f} %"
