"""headway heads --over-training"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headway.cli.options import progress, say, show
from headway.errors import InputError
from headway.narration import over_training as narrated

if TYPE_CHECKING:
    from headway.results.over_training import OverTraining


def show_over_training(
    runs: Sequence[str], *, split: str, n: int, device: str, figures: bool, as_json: bool, quiet: bool
) -> None:
    """Measure, store, draw and print the heads of one run at every kept step."""
    if len(runs) != 1:
        raise InputError(f"--over-training takes one run; {len(runs)} given")
    found = measure(runs[0], split=split, n=n, device=device, figures=figures, quiet=quiet)
    show(found, [*narrated.rows(found), "", *map(str, narrated.over_training(found))], as_json=as_json)


def measure(run: str, *, split: str, n: int, device: str, figures: bool, quiet: bool) -> "OverTraining":
    from headway.evaluation import load
    from headway.head_analysis.over_training import heads_over_training, keep_over_training

    last = load(run, checkpoint="last", device=device)
    for warning in last.warnings:
        say(f"headway: warning: {warning}")
    with progress(f"heads of {last.directory.name} over training", quiet=quiet) as meter:
        found = heads_over_training(last, split=split, examples=n, progress=lambda done, total: meter(done, total))
    keep_over_training(last, found)
    if figures:
        from headway.reports.over_training_figure import over_training
        from headway.reports.style import save

        last.directory.figures.mkdir(parents=True, exist_ok=True)
        save(over_training(found), last.directory.figures, "over-training")
    return found
