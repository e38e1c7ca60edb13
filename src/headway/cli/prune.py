"""headway prune"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.options import Device, Json, Quiet, progress, show
from headway.cli.train import show_event
from headway.errors import InputError
from headway.narration.numbers import percent, points

if TYPE_CHECKING:
    from headway.head_analysis.pruning import PruneResult


def prune(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run directory, or the name of one under ./runs.")],
    keep: Annotated[
        str | None, typer.Option(metavar="HEADS", help="The heads to keep, e.g. enc0.self.h1,dec1.cross.h2.")
    ] = None,
    max_drop: Annotated[
        float | None, typer.Option(metavar="POINTS", help="Remove as many heads as possible for a drop below this.")
    ] = None,
    finetune: Annotated[
        int, typer.Option(metavar="STEPS", help="Fine-tune the pruned model for this many steps.", min=0)
    ] = 0,
    out: Annotated[Path | None, typer.Option(help="The new run directory; default: the old name with -pruned.")] = None,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Remove heads from a model: smaller matrices, saved as a new run.

    Example: headway prune addition-seed0 --max-drop 1
    """
    from headway.api import prune_run as run_pruning

    names = None if keep is None else [name for name in keep.split(",") if name.strip()]
    if names == []:
        raise InputError(f"--keep {keep!r} names no head; write it like enc0.self.h1,dec1.cross.h2")
    with progress(f"prune {Path(run).name}", quiet=quiet) as meter:
        result = run_pruning(
            run,
            keep=names,
            max_drop=max_drop,
            finetune=finetune,
            out=out,
            device=device,
            command=sys.argv,
            progress=meter,
            on_event=lambda event: show_event(event, meter, quiet=quiet),
        )
    show(result, summary(result), as_json=json)


def summary(result: "PruneResult") -> list[str]:
    low, high = result.drop_interval
    lines = [
        f"{result.run}: heads kept {len(result.kept)}, removed {len(result.removed)} ({result.chosen})",
        f"kept: {', '.join(result.kept) or 'none'}",
        f"parameters {result.parameters_before:,} -> {result.parameters_after:,}; "
        f"a pass is {result.speed:.2f} x as fast; "
        f"logits differ from the masked model's by at most {result.logits_apart:.1g}",
        f"accuracy on {result.n:,} test examples {percent(result.exact_match_before)} -> "
        f"{percent(result.exact_match_after)}, "
        f"drop {points(result.drop)} points ({points(low)} to {points(high)})",
    ]
    if (tuned := result.finetuned) is not None:
        low, high = tuned.drop_interval
        lines.append(
            f"after {tuned.steps:,} steps of training (best at {tuned.best_step:,}): "
            f"{percent(tuned.exact_match_after)}, drop {points(tuned.drop)} points ({points(low)} to {points(high)})"
        )
    return lines
