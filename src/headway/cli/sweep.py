"""headway sweep"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.grid import duration, grid_progress
from headway.cli.options import Device, Json, Quiet, Sets, parse_seeds, say, show

if TYPE_CHECKING:
    from headway.runs import SweepDirectory
    from headway.sweeps.driver import SweepResult
    from headway.sweeps.plan import Plan
    from headway.sweeps.trial import Circumstances

MOST_LINES = 20
"""Settings that are printed at the end; `headway compare` shows all."""


def sweep(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A recipe file, or the name of one that comes with headway.")
    ],
    vary: Annotated[
        list[str] | None,
        typer.Option("--vary", metavar="KEY=VALUE,...", help="Values of a setting, each combined with all others."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds of every setting, e.g. 0-7; the recipe's if left out.")
    ] = None,
    set: Sets = None,
    on: Annotated[str, typer.Option("--on", help="local (this machine) or ray (a Ray cluster).")] = "local",
    workers: Annotated[
        int | None, typer.Option(help="Trials at once on this machine; its cores, or 1 on a GPU.")
    ] = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="The sweep's directory; sweeps/<recipe> if left out.")] = None,
    split: Annotated[str, typer.Option(help="Measured at the end: test, validation, train, all or none.")] = "test",
    log: Annotated[str | None, typer.Option(help="tensorboard: mirror the metrics of every trial.")] = None,
    address: Annotated[
        str | None, typer.Option(help="The Ray cluster; one of its own on this machine if left out.")
    ] = None,
    cpus: Annotated[float | None, typer.Option(help="Cores of a trial with --on ray; 1 if left out.")] = None,
    gpus: Annotated[
        float | None, typer.Option(help="GPUs of a trial with --on ray; a part such as 0.25 is shared.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the trials and estimate their time; do nothing.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train every combination of some settings with every seed; started again, it continues.

    Exits with 1 if a trial failed; the others are finished all the same.

    Example: headway sweep sortedness --vary model.encoding.name=rotary,alibi --seeds 0-7
    """
    from headway.api import default_sweep, plan_sweep
    from headway.runs import SweepDirectory
    from headway.sweeps.driver import run_sweep
    from headway.sweeps.executors import make_executor
    from headway.sweeps.plan import check_plan

    measured = None if split == "none" else split
    plan = plan_sweep(recipe, vary=vary or [], seeds=None if seeds is None else parse_seeds(seeds), set=set or [])
    place = SweepDirectory(out or default_sweep(plan.name))
    executor, how, at_once = make_executor(
        on=on,
        workers=workers,
        device=device,
        split=measured,
        log=log,
        address=address,
        cpus=cpus,
        gpus=gpus,
        command=sys.argv,
    )
    check_plan(plan, measured)
    if dry_run:
        place.check_same(plan.to_json())
        described = describe(plan, place, how, at_once)
        show(described, described.pop("lines"), as_json=json)
        return
    with grid_progress(f"sweep {place.path.name}", quiet=quiet) as report:
        result = run_sweep(plan, place, executor, report, stack=how.stack)
    show(result.to_json(), summary(plan, place, result), as_json=json)
    for name, error in result.failed.items():
        say(f"headway: {name} failed: {error}")
    if result.failed:
        raise typer.Exit(1)


def summary(plan: "Plan", place: "SweepDirectory", result: "SweepResult") -> list[str]:
    """A line for each setting, and where all of it is."""
    from statistics import fmean

    from headway.sweeps.plan import short_names, value_text

    records, words = place.results(), short_names(plan.vary)
    values: dict[str, list[float]] = {}
    for trial in plan.trials:
        name = ", ".join(f"{words[key]} {value_text(value)}" for key, value in trial.settings.items()) or plan.name
        metrics = records.get(trial.name, {}).get("metrics") or {}
        found = metrics.get("accuracy", metrics.get("validation_accuracy"))
        values.setdefault(name, []).extend([] if found is None else [found])
    lines = [
        f"{name}: mean accuracy {fmean(found):.2%} over {len(found):,} of {len(plan.seeds):,} seeds"
        if found
        else f"{name}: no trial finished"
        for name, found in values.items()
    ]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"... and {len(lines) - MOST_LINES:,} settings more"]
    failed = f", {len(result.failed):,} failed" if result.failed else ""
    return [
        *lines,
        f"{result.finished:,} of {result.planned:,} trials finished{failed}; the sweep is in {result.sweep}",
        f"headway compare {result.sweep} shows it as a table",
    ]


def describe(plan: "Plan", place: "SweepDirectory", how: "Circumstances", at_once: int) -> dict[str, Any]:
    """What a sweep would be: every trial that is not finished, and about how long they would take together."""
    from headway.sweeps.estimate import estimate

    finished = {name for name, record in place.results().items() if record.get("state") == "finished"}
    left = [trial for trial in plan.trials if trial.name not in finished]
    seconds = estimate(plan, how)
    steps = {trial.name: trial.config.train.total_steps(trial.config.data) for trial in left}
    total = sum(seconds[name] for name in steps)
    trials = [{"name": name, "steps": steps[name], "seconds": round(seconds[name], 3)} for name in steps]
    lines = [f"{name}: {count:,} steps" for name, count in steps.items()]
    lines.append(f"{place.path}: {len(left):,} trials to do, {len(plan.trials) - len(left):,} finished already")
    lines.append(f"about {duration(total / max(at_once, 1))} {_by(how, at_once)} if none stops early")
    return {
        "sweep": str(place.path),
        "device": how.device,
        "workers": at_once or None,
        "trials": trials,
        "seconds": round(total / max(at_once, 1), 3),
        "lines": lines,
    }


def _by(how: "Circumstances", at_once: int) -> str:
    if not at_once:
        return "of work for one worker as fast as this machine"
    workers, threads = (f"{n:,} {word}{'s' * (n > 1)}" for n, word in ((at_once, "worker"), (how.threads, "thread")))
    return f"with {workers} of {threads} on {how.device}"
