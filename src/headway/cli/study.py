"""headway study"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.evaluate import measure, summary
from headway.cli.options import Device, Json, Quiet, parse_seeds, say, show
from headway.cli.train import train_all
from headway.errors import InputError, suggestion

if TYPE_CHECKING:
    from headway.runs import RunDirectory

PRESETS: dict[str, dict[str, tuple[str, str]]] = {
    "addition": {
        "quick": ("quick-addition", "0"),
        "standard": ("addition", "0"),
        "full": ("addition", "0-4"),
    },
    "sortedness": {
        "quick": ("quick-sortedness", "0"),
        "standard": ("sortedness", "0"),
        "full": ("sortedness", "0-4"),
    },
}
"""experiment -> preset -> (recipe, seeds)."""


def study(
    experiment: Annotated[str, typer.Argument(metavar="EXPERIMENT", help="addition or sortedness.")],
    preset: Annotated[str, typer.Option(help="quick, standard or full.")] = "standard",
    seeds: Annotated[str | None, typer.Option(help="Seeds instead of the preset's, e.g. 0-4.")] = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="The study's directory.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a whole experiment: train each seed, evaluate it, and say what was found.

    Started again, it continues where it stopped.

    Example: headway study addition --preset quick
    """
    from headway.api import default_run, find_recipe, read_recipe
    from headway.batches import pick_device
    from headway.runs import StudyDirectory

    if experiment not in PRESETS:
        raise InputError(f"unknown study {experiment!r}; {suggestion(experiment, PRESETS)}")
    if preset not in PRESETS[experiment]:
        raise InputError(f"--preset {preset!r}; {suggestion(preset, PRESETS[experiment])}")
    recipe, preset_seeds = PRESETS[experiment][preset]
    chosen = parse_seeds(seeds or preset_seeds)
    pick_device(device)
    directory = StudyDirectory(out or Path("studies") / f"{experiment}-{preset}")
    directory.begin({"form": 1, "experiment": experiment, "preset": preset, "recipe": recipe, "seeds": chosen})
    configs = [read_recipe(recipe, seed=seed)[1] for seed in chosen]
    runs = [directory.run(default_run(find_recipe(recipe), seed).name) for seed in chosen]
    trained = train_all(configs, [run.path for run in runs], device=device, resume=True, data=None, quiet=quiet)
    found = [evaluated(run, training, device=device, quiet=quiet) for run, training in zip(runs, trained, strict=True)]
    path = directory.write_summary({"form": 1, "experiment": experiment, "runs": found})
    lines = [line for seed, run, row in zip(chosen, runs, found, strict=True) for line in told(seed, run, row)]
    lines.append(f"the study is in {directory.path}, its summary in {path}")
    show({"study": str(directory.path), "runs": found}, lines, as_json=json)
    if any(row["evaluation"] is None or row["evaluation"].get("real_disagreements") for row in found):
        raise typer.Exit(1)


def evaluated(run: "RunDirectory", training: dict[str, Any], *, device: str, quiet: bool) -> dict[str, Any]:
    """The record of a seed with its accuracy, measured unless that was done before; none for a seed that failed."""
    from headway.evaluation import load

    if "error" in training:
        return {"training": training, "evaluation": None}
    opened = load(run, device=device)
    split = "all" if opened.task.domain_size() else "test"
    earlier = (run.read_analysis("evaluation") or {}).get(split, {})
    result = earlier if earlier.get("step") == opened.step else measure(opened, split, quiet=quiet)
    if result.get("real_disagreements"):
        say("headway: decoding and the parallel pass disagree; the accuracy of this run cannot be trusted")
    return {"training": training, "evaluation": result}


def told(seed: int, run: "RunDirectory", row: dict[str, Any]) -> list[str]:
    """What a person reads of a seed."""
    training = row["training"]
    if row["evaluation"] is None:
        return [f"seed {seed}: failed, {training['error']}"]
    head = f"seed {seed}: trained {training['steps']:,} steps in {training['seconds']:.0f} s"
    return [head, *summary(run.path, row["evaluation"])]
