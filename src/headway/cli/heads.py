"""headway heads"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.any_model import (
    Amount,
    LabelColumn,
    MetricName,
    ModelOptions,
    TextColumn,
    Weights,
    analyse_other_model,
    is_other_model,
)
from headway.cli.evaluate import CHOICES
from headway.cli.head_lines import definitions_of, screen, summary
from headway.cli.lengths import FIGURES as FIGURES_OF_LENGTHS
from headway.cli.options import Device, Json, Quiet, Wide, progress, say, show
from headway.cli.over_training import show_over_training
from headway.cli.terminal import Item
from headway.errors import InputError, suggestion

if TYPE_CHECKING:
    from headway.evaluation import Trained
    from headway.results.heads import HeadAnalysis, Settings


def heads(
    run: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="Run directories, or names of runs under ./runs; several seeds. Or another model: FILE.py:FUNCTION, "
            "hf:PATH.",
        ),
    ],
    weights: Weights = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Another model: a directory of the course's JSON files; for hf:PATH a .jsonl or text file."),
    ] = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    metric: MetricName = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Another model: a directory for headway report and headway explore."),
    ] = None,
    split: Annotated[str, typer.Option(help="train, validation, test, or all: drawn from the whole domain.")] = "test",
    n: Annotated[int, typer.Option(help="Number of examples of the split to analyse.", min=1)] = 2_000,
    examples: Annotated[
        int,
        typer.Option(help="Number of examples whose attention is drawn; 20 and more are read as --n.", min=1),
    ] = 3,
    thorough: Annotated[bool, typer.Option("--thorough", help="More examples and orders in the joint parts.")] = False,
    checkpoint: Annotated[str, typer.Option(help="best (lowest validation loss), last, or a step.")] = "best",
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw the figures.")] = True,
    over_training: Annotated[
        bool, typer.Option("--over-training", help="Every head at each step that train --keep-every kept.")
    ] = False,
    wide: Wide = False,
    scores: Annotated[bool, typer.Option("--scores", help="Print every score with its definition.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Analyse again, even if the same analysis exists.")] = False,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure which heads a run needs, alone and together, what they do, and how certain that is.

    Exits with 1 if an instrument does not agree with greedy decoding.

    Example: headway heads addition-seed0 addition-seed1 --thorough

    Another model: headway heads my_model.py:build --weights W.safetensors --data DIR
    """
    from headway.evaluation import load
    from headway.head_analysis.analysis import settings_of

    if split not in CHOICES:
        raise InputError(f"--split {split!r}; {suggestion(split, CHOICES)}")
    analysed, maps = analysed_and_drawn(n, examples)
    if over_training:
        how = {"figures": figures, "as_json": json, "quiet": quiet}
        show_over_training(run, split=split, n=analysed, device=device, **how)
        return
    options = ModelOptions(weights=weights, data=data, text=text, label=label, metric=metric)
    if any(map(is_other_model, run)):
        amount = Amount(split=split, n=analysed, maps=maps, thorough=thorough, device=device)
        found = [analyse_other_model(run, options, amount, out=out, quiet=quiet)]
    else:
        _only_for_another_model(run, [*(["--out"] if out is not None else []), *options.given()])
        opened = [load(one, checkpoint=checkpoint, device=device) for one in run]
        _check_alike(opened)
        found = []
        for trained in opened:
            settings = settings_of(trained, split=split, examples=analysed, thorough=thorough, maps=maps)
            found.append(_analyse(trained, settings, again=again, figures=figures, quiet=quiet))
    _show(found, scores=scores, as_json=json, wide=wide)
    if out is not None and not json:
        say(f"written to {out}; headway report {out} and headway explore {out} open it")


def _only_for_another_model(run: list[str], given: list[str]) -> None:
    if given:
        raise InputError(f"{given[0]} is for another model, FILE.py:FUNCTION or hf:PATH; {run[0]} is a run")


def _show(found: "list[HeadAnalysis]", *, scores: bool, as_json: bool, wide: bool) -> None:
    """Print the analyses; exit with 1 if an instrument failed its checks."""
    if scores and not as_json:
        for document in found:
            print("\n".join([document.run, *definitions_of(document)]))
    if len(found) == 1:
        short = [] if wide else screen(found[0])
        show(found[0], summary(found[0]), as_json=as_json, at_terminal=short)
    else:
        _show_several(found, as_json=as_json, wide=wide)
    for document in found:
        for failed in document.doubts():
            say(f"headway: {document.run}: {failed}; these drops are invalid")
    if any(document.doubts() for document in found):
        raise typer.Exit(1)


def analysed_and_drawn(n: int, examples: int) -> tuple[int, int]:
    """The number of analysed examples, and the number whose attention is drawn.

    Earlier versions had --examples for --n. Values too large for drawing are therefore read as --n.
    """
    from headway.head_analysis.analysis import FEWEST, MAPS
    from headway.head_analysis.capture import MOST_MAPS

    if examples >= FEWEST:
        return examples, MAPS
    if examples > MOST_MAPS:
        raise InputError(
            f"--examples {examples}: the attention of 1 to {MOST_MAPS} examples can be drawn; --n analyses"
        )
    return n, examples


def _check_alike(opened: "list[Trained]") -> None:
    """Raise unless several runs are seeds of one recipe."""
    from headway.evaluation import why_not_seeds

    if reason := why_not_seeds(opened):
        raise InputError(reason)


def _analyse(trained: "Trained", settings: "Settings", *, again: bool, figures: bool, quiet: bool) -> "HeadAnalysis":
    """Analyse a run and store the result in it; an equal earlier analysis is read instead."""
    from headway.head_analysis.analysis import analyse_and_keep, keep_maps, steps

    for warning in trained.warnings:
        say(f"headway: warning: {warning}")
    earlier = None if again else _earlier(trained, settings)
    if earlier is not None:
        if not quiet:
            say(f"{trained.directory.path}: already analysed; --again repeats it")
        if earlier.settings != settings:
            _remove_figures(trained.directory.figures)
            earlier = keep_maps(trained, earlier, settings)
        if figures:
            _draw(earlier, trained.directory.figures, anew=False)
        return earlier
    _warn_of_replacing(trained)
    with progress(f"heads of {trained.directory.name}", quiet=quiet) as meter:
        every = steps()

        def note(step: str, done: int, total: int) -> None:
            meter(every.index(step), len(every), f"{step} {done:,} of {total:,}" if total > 1 else step)

        found = analyse_and_keep(trained, settings, note)
    _remove_figures(trained.directory.figures)
    if figures:
        _draw(found, trained.directory.figures, anew=True)
    return found


def _earlier(trained: "Trained", settings: "Settings") -> "HeadAnalysis | None":
    """The stored analysis, if it has these settings; the number of attention maps may differ."""
    from dataclasses import replace

    from headway.origin import OtherOrigin
    from headway.results.heads import read_heads
    from headway.results.schema import OtherForm

    try:
        found = read_heads(trained.directory, trained.step)
    except (OtherForm, OtherOrigin):
        return None
    except InputError as problem:
        raise InputError(f"{problem}; --again repeats the analysis") from None
    if found is None or found.settings is None:
        return None
    return found if replace(found.settings, maps=settings.maps) == settings else None


def _warn_of_replacing(trained: "Trained") -> None:
    """Warn that an analysis of another checkpoint replaces the one that reports and studies read."""
    best = trained.directory.best_step
    if best not in (None, trained.step) and (trained.directory.path / "analysis" / "heads.json").exists():
        say(
            f"headway: warning: {trained.directory.path}: the analysis of step {trained.step:,} replaces the "
            f"stored one; reports and studies use step {best:,}, which headway heads without --checkpoint analyses"
        )


def _remove_figures(folder: Path) -> None:
    """Remove the figures of another analysis."""
    for drawn in folder.glob("*"):
        if not drawn.name.startswith((*FIGURES_OF_LENGTHS, "over-training")):
            drawn.unlink()


def _draw(document: "HeadAnalysis", folder: Path, *, anew: bool) -> None:
    """Draw all figures, unless those of an earlier analysis are all there."""
    from headway.reports.figures import draw_all, head_figures

    if anew or not all((folder / f"{name}.png").exists() for name, _ in head_figures(document)):
        draw_all(document, folder)


def _show_several(found: "list[HeadAnalysis]", *, as_json: bool, wide: bool) -> None:
    from headway.head_analysis.seeds import summarise_seeds
    from headway.narration import heads_study
    from headway.results.heads_study import SeveralHeads

    together = summarise_seeds(found)
    lines = [line for document in found for line in [*summary(document), ""]]
    short = [piece for document in found for piece in [*screen(document)[:-2], ""]]
    show(
        SeveralHeads(runs=tuple(found), together=together),
        [*lines, *heads_study.together(together)],
        as_json=as_json,
        at_terminal=[] if wide else [*short, *map(Item, heads_study.together(together))],
    )
