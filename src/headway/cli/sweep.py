"""headway sweep"""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.dry_run import describe, drawn_twice
from headway.cli.grid import grid_progress
from headway.cli.options import Device, Json, Quiet, Sets, parse_seeds, say, show
from headway.json_values import JsonObject
from headway.narration.numbers import percent
from headway.narration.sweep import trials

if TYPE_CHECKING:
    from headway.runs import SweepDirectory
    from headway.sweeps.driver import Executor, SweepResult
    from headway.sweeps.plan import SweepPlan
    from headway.sweeps.search import SearchResult

MOST_LINES = 20
"""Settings that are printed at the end; `headway compare` shows all."""


Recipe = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A recipe file, or the name of one that comes with headway.")
]
Vary = Annotated[
    list[str] | None,
    typer.Option(
        "--vary", metavar="KEY=VALUE,...", help="Values of a setting; with --trials also KEY=LOW..HIGH[:log]."
    ),
]
Trials = Annotated[int | None, typer.Option(help="Search: draw this many settings instead of using every combination.")]
Search = Annotated[str | None, typer.Option(help="random, or halving: few steps for all, the best third continue.")]
Budget = Annotated[int | None, typer.Option(help="Steps of all trials together with --search halving.")]
Seeds = Annotated[str | None, typer.Option(help="Seeds of every setting, e.g. 0-7; default: the recipe's.")]
On = Annotated[str, typer.Option("--on", help="local (this machine) or ray (a Ray cluster).")]
Workers = Annotated[int | None, typer.Option(help="Trials at once on this machine; default: its cores, or 1 on a GPU.")]
Out = Annotated[Path | None, typer.Option(help="The sweep's directory; default: sweeps/<recipe>.")]
Split = Annotated[
    str | None, typer.Option(help="Final evaluation: test (none in a search), validation, train, all or none.")
]
Log = Annotated[str | None, typer.Option(help="tensorboard: mirror the metrics of every trial.")]
Address = Annotated[str | None, typer.Option(help="The Ray cluster; default: a new one on this machine.")]
Cpus = Annotated[float | None, typer.Option(help="Cores per trial with --on ray; default: 1.")]
Gpus = Annotated[float | None, typer.Option(help="GPUs per trial with --on ray; a fraction such as 0.25 is shared.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the trials and estimate their time; do nothing.")]


def sweep(
    recipe: Recipe,
    vary: Vary = None,
    trials: Trials = None,
    search: Search = None,
    budget: Budget = None,
    seeds: Seeds = None,
    set: Sets = None,
    on: On = "local",
    workers: Workers = None,
    device: Device = "auto",
    out: Out = None,
    split: Split = None,
    log: Log = None,
    address: Address = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    dry_run: DryRun = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train every combination of some settings, or drawn settings, with every seed; started again, it continues.

    Exits with 1 if a trial failed; the others are finished.

    Example: headway sweep sortedness --vary model.encoding.name=rotary,alibi --seeds 0-7
    """
    from headway.api import default_sweep, plan_sweep
    from headway.runs import SweepDirectory
    from headway.sweeps.executors import make_executor
    from headway.sweeps.plan import check_plan

    chosen = None if seeds is None else parse_seeds(seeds)
    at_end = None if split == "none" else split or "auto"
    plan = plan_sweep(
        recipe, vary=vary or [], seeds=chosen, set=set or [], trials=trials, search=search, budget=budget, split=at_end
    )
    place = SweepDirectory(out or default_sweep(plan.name))
    executor, how, at_once = make_executor(
        on=on,
        workers=workers,
        device=device,
        split=plan.split,
        log=log,
        address=address,
        cpus=cpus,
        gpus=gpus,
        command=sys.argv,
    )
    check_plan(plan)
    if dry_run:
        place.check_same(plan.to_json())
        described = describe(plan, place, how, at_once)
        show(described, described.lines, as_json=json)
    else:
        carry_out(plan, place, executor, how.stack, as_json=json, quiet=quiet)


def carry_out(
    plan: "SweepPlan", place: "SweepDirectory", executor: "Executor", stack: int, *, as_json: bool, quiet: bool
) -> None:
    """Run the trials and print the results."""
    from headway.sweeps.driver import run_sweep

    if not quiet and (repeats := drawn_twice(plan)):
        say(f"sweep {place.path.name}: {repeats}")
    with grid_progress(f"sweep {place.path.name}", quiet=quiet) as on_event:
        result = run_sweep(plan, place, executor, on_event, stack=stack)
    show(result, summary(plan, place, result), as_json=as_json)
    for name, error in result.failed.items():
        say(f"headway: {name} failed: {error}")
    if result.failed:
        raise typer.Exit(1)


def summary(plan: "SweepPlan", place: "SweepDirectory", result: "SweepResult") -> list[str]:
    """A line per setting, and the sweep's directory."""
    from statistics import fmean

    if result.search is not None:
        return [*search_summary(result.search), *_where(result)]
    records = place.results()
    values: dict[str, list[float]] = {}
    for trial in plan.trials:
        name = setting_text(trial.settings) or plan.name
        metrics = records[trial.name].metrics if trial.name in records else {}
        found = metrics.get("accuracy", metrics.get("validation_accuracy"))
        values.setdefault(name, []).extend([] if found is None else [found])
    lines = [
        f"{name}: mean accuracy {percent(fmean(found))} over {len(found):,} of {len(plan.seeds):,} seeds"
        if found
        else f"{name}: no trial finished"
        for name, found in values.items()
    ]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"... and {len(lines) - MOST_LINES:,} more settings"]
    return [*lines, *_where(result)]


def setting_text(settings: JsonObject) -> str:
    from headway.sweeps.plan import short_names, value_text

    words = short_names(settings)
    return ", ".join(f"{words[key]} {value_text(value)}" for key, value in settings.items())


def _where(result: "SweepResult") -> list[str]:
    stopped = result.search.stopped if result.search else 0
    state = trials(result.finished, result.planned, stopped, len(result.failed))
    return [
        f"{state}; the sweep is in {result.sweep}",
        f"headway compare {shlex.quote(result.sweep)} shows it as a table",
    ]


def search_summary(found: "SearchResult") -> list[str]:
    """The setting that a search chooses, with a warning about the selection bias."""
    from headway.sweeps.plan import value_text

    if found.best is None:
        return ["no setting was fully trained with all its seeds; none is chosen"]
    settings, seeds = found.best.settings, f"{found.best.seeds:,} seed{'s' * (found.best.seeds > 1)}"
    sets = " ".join(f"--set {shlex.quote(f'{key}={value_text(value)}')}" for key, value in settings.items())
    return [
        f"best on validation: {setting_text(settings)}: mean loss {found.best.validation_loss:.4g} over {seeds}",
        f"this loss is biased by the choice; measure the setting on new seeds: {sets}",
    ]
