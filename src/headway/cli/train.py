"""headway train"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict, cast

import typer

from headway.callbacks import Event
from headway.cli.grid import grid_progress
from headway.cli.options import Device, Json, Meter, Quiet, Sets, parse_seeds, progress, say, show
from headway.errors import InputError
from headway.json_values import JsonObject
from headway.narration.numbers import duration, percent
from headway.results.schema import write
from headway.results.study import FailedTraining

if TYPE_CHECKING:
    from headway.config import RunConfig
    from headway.training import TrainResult


class TrainOptions(TypedDict):
    """Options of the command that every run of it shares."""

    device: str
    resume: bool
    data: Path | None
    log: str | None


@dataclass(frozen=True)
class TrainPlan:
    """A training that --dry-run describes."""

    run: str
    device: str
    parameters: int
    steps: int
    config: JsonObject
    lines: list[str]


def train(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A recipe file, or the name of one that comes with headway.")
    ],
    set: Sets = None,
    seed: Annotated[int | None, typer.Option(help="Seed of initialisation, data order and dropout.", min=0)] = None,
    seeds: Annotated[str | None, typer.Option(help="Several seeds at once, e.g. 0-31.")] = None,
    data: Annotated[Path | None, typer.Option(help="Train on the JSON files in this directory.")] = None,
    allow_overlap: Annotated[bool, typer.Option("--allow-overlap", help="Accept files whose splits overlap.")] = False,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="The run directory (with --seeds: a folder for them).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was stopped.")] = False,
    keep_every: Annotated[
        int | None, typer.Option(help="Keep the weights every N steps, for heads --over-training.", min=1)
    ] = None,
    log: Annotated[str | None, typer.Option(help="tensorboard: also write the metrics for it.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train the model of a recipe.

    Example: headway train recipes/addition.toml --seed 1 --set train.epochs=20
    """
    from headway.api import default_run, read_recipe

    if seed is not None and seeds is not None:
        raise InputError("--seed and --seeds: use one")
    set = [*(set or []), *([] if keep_every is None else [f"train.keep_every={keep_every}"])]
    chosen = parse_seeds(seeds) if seeds is not None else [seed]
    configs, places = [], []
    for one in chosen:
        path, config = read_recipe(recipe, set=set, seed=one, allow_overlap=allow_overlap)
        folder = Path("runs") if out is None else out
        configs.append(config)
        places.append(folder / default_run(path, config.seed).name if seeds is not None or out is None else out)
    if resume and not any(place.exists() for place in places):
        raise InputError(f"--resume: no run at {places[0]}; without --resume it starts")
    results: Sequence[TrainPlan | TrainResult | FailedTraining]
    if dry_run:
        described = zip(configs, places, strict=True)
        results = [describe(config, place, device=device, resume=resume, data=data) for config, place in described]
    else:
        how: TrainOptions = {"device": device, "resume": resume, "data": data, "log": log}
        results = train_all(configs, places, how, quiet=quiet)
    if json or dry_run:
        lines = [line for result in results if isinstance(result, TrainPlan) for line in result.lines]
        show(cast(JsonObject, write(results[0] if seeds is None else {"runs": results})), lines, as_json=json)
    else:
        print("\n".join(done_line(result) for result in results if not isinstance(result, TrainPlan)))
    if any(isinstance(result, FailedTraining) for result in results):
        raise typer.Exit(1)


def train_all(
    configs: "list[RunConfig]", places: list[Path], how: TrainOptions, *, quiet: bool
) -> "Sequence[TrainResult | FailedTraining]":
    """Train one seed, or several with one display; returns a record for each, a `TrainResult` or its `error`."""
    if len(configs) == 1:
        return [train_one(configs[0], places[0], how, quiet=quiet)]
    return train_several(configs, places, how, quiet=quiet)


def train_several(
    configs: "list[RunConfig]", places: list[Path], how: TrainOptions, *, quiet: bool
) -> "list[TrainResult | FailedTraining]":
    """Train runs with one display; a run that fails has a record with its `error`, and the others continue."""
    from headway.runs import RunDirectory
    from headway.sweeps.seeds import train_seeds
    from headway.training import TrainResult

    warnings: dict[str, list[str]] = {place.name: [] for place in places}
    with grid_progress("train", quiet=quiet) as show_progress:

        def on_event(event: Event) -> None:
            if event["event"] == "warning" and "trial" in event:
                warnings[event["trial"]].append(event["text"])
            show_progress(event)

        found = train_seeds(configs, places, **how, command=sys.argv, on_event=on_event)
    records: list[TrainResult | FailedTraining] = []
    for outcome, place in zip(found.outcomes, places, strict=True):
        if outcome.error is not None:
            say(f"headway: {outcome.name} failed: {outcome.error}")
            records.append(FailedTraining(run=str(place), error=outcome.error))
            continue
        state, metrics = RunDirectory(place).newest_state(), dict(outcome.metrics)
        records.append(
            TrainResult(
                run=str(place),
                steps=int(metrics.pop("steps")),
                seconds=state["seconds"],
                metrics=metrics,
                stopped_early=state["stopped_early"],
                mastered_at=state.get("mastered_at"),
                warnings=warnings[place.name],
            )
        )
    return records


def train_one(config: "RunConfig", place: Path, how: TrainOptions, *, quiet: bool) -> "TrainResult":
    """Train with a progress display."""
    from headway.training import train as run_training
    from headway.training.mirror import mirrored

    with progress(f"train {place.name}", quiet=quiet) as meter:
        with mirrored(how["log"], place, lambda event: show_event(event, meter, quiet=quiet)) as on_event:
            return run_training(
                config,
                place,
                device=how["device"],
                resume=how["resume"],
                data=how["data"],
                command=sys.argv,
                on_event=on_event,
            )


def show_event(event: Event, meter: Meter, *, quiet: bool) -> None:
    if event["event"] == "warning":
        say(f"headway: warning: {event['text']}")
    elif event["event"] == "resumed":
        if not quiet:
            say(f"continuing from step {event['step']:,}")
    elif event["event"] == "validation":
        note = f"validation loss {event['loss']:.2g}, accuracy {percent(event['accuracy'])}"
        meter(event["step"], event["total"], note)
    else:
        meter(event["step"], event["total"])


def done_line(result: "TrainResult | FailedTraining") -> str:
    if isinstance(result, FailedTraining):
        return f"{result.run}: failed"
    early = " (stopped early)" if result.stopped_early else ""
    if result.mastered_at is not None:
        early = f" (mastered at step {result.mastered_at:,})"
    accuracy = result.metrics["validation_accuracy"]
    return (
        f"{result.run}: {result.steps:,} steps{early} in {duration(result.seconds)}, "
        f"validation accuracy {percent(accuracy)}"
    )


def describe(config: "RunConfig", place: Path, *, device: str, resume: bool, data: Path | None) -> TrainPlan:
    """The description of a training without doing it; invalid input raises."""
    from headway.batches import pick_device
    from headway.model.transformer import check_size
    from headway.runs import RunDirectory
    from headway.tasks import make_task
    from headway.training.preparation import plan_run

    task = make_task(config.task)
    config, _, _ = plan_run(RunDirectory(place), config, task, resume=resume, data=data)
    parameters = check_size(config.model, len(task.vocabulary), task.n_classes)
    steps = config.train.total_steps(config.data)
    where = str(pick_device(device))
    lines = [
        f"{place}: {config.task.name}, seed {config.seed}, on {where}",
        f"{parameters:,} parameters, {steps:,} steps of {config.train.batch_size:,} examples",
    ]
    return TrainPlan(str(place), where, parameters, steps, config.to_json(), lines)
