"""The Python functions of commands that need several rooms."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.callbacks import OnEvent, OnProgress
from headway.config import Assignment, RunConfig, load_recipe
from headway.errors import InputError, Interrupted, suggestion
from headway.json_values import JsonObject

if TYPE_CHECKING:
    from headway.attachment.pruning import PrunedModel
    from headway.head_analysis.pruning import PruneResult
    from headway.sweeps.driver import SweepResult
    from headway.sweeps.plan import SweepPlan, Vary
    from headway.training import TrainResult


def recipe_folder() -> Path:
    """The folder of the recipes: inside an installed package, or beside the source tree."""
    inside = Path(__file__).parent / "recipes"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "recipes"


def find_recipe(text: str) -> Path:
    """A recipe's path, from a path or from the name of a recipe of headway."""
    known = {found.stem: found for found in recipe_folder().glob("*.toml")}
    if text in known:
        return known[text]
    path = Path(text)
    if path.is_dir():
        raise InputError(f"{text} is a directory; a recipe (TOML file) needed")
    if path.suffix != ".toml" and not path.exists():
        raise InputError(f"no recipe {text!r}; {suggestion(text, known)}, or a path to a TOML file")
    return path


def default_run(recipe: Path, seed: int) -> Path:
    return Path("runs") / f"{recipe.stem}-seed{seed}"


def read_recipe(
    text: str, *, set: Sequence[Assignment] | None = None, seed: int | None = None, allow_overlap: bool = False
) -> tuple[Path, RunConfig]:
    """The recipe's path and its config, with `--set` applied."""
    path = find_recipe(text)
    assignments = [*(set or []), *(["data.allow_overlap=true"] if allow_overlap else [])]
    return path, load_recipe(path, assignments, seed)


def train(
    recipe: str,
    *,
    seed: int | None = None,
    set: JsonObject | None = None,
    out: str | Path | None = None,
    device: str = "auto",
    resume: bool = False,
    data: str | Path | None = None,
    allow_overlap: bool = False,
    log: str | None = None,
) -> "TrainResult":
    """Train a recipe (name or path) into a run directory; `log="tensorboard"` mirrors its metrics.

    >>> hw.train("quick-addition", seed=1, set={"train.epochs": 2})   # doctest: +SKIP
    """
    from headway.training import train as run_training
    from headway.training.mirror import mirrored

    path, config = read_recipe(recipe, set=list((set or {}).items()), seed=seed, allow_overlap=allow_overlap)
    place = out or default_run(path, config.seed)
    with mirrored(log, place, lambda event: None) as on_event:
        return run_training(
            config,
            place,
            device=device,
            resume=resume,
            data=None if data is None else Path(data),
            command=["hw.train"],
            on_event=on_event,
        )


def plan_sweep(
    recipe: str,
    *,
    vary: "Vary" = (),
    seeds: Sequence[int] | None = None,
    set: Sequence[Assignment] = (),
    trials: int | None = None,
    search: str | None = None,
    budget: int | None = None,
    split: str | None = "auto",
) -> "SweepPlan":
    """The trials of a grid over a recipe (name or path), or of a search if `trials` is given; default seed: the
    recipe's.
    """
    from headway.sweeps.plan import plan_grid
    from headway.sweeps.search import measured_split, plan_search

    path, config = read_recipe(recipe, set=set)
    seeds = [config.seed] if seeds is None else seeds
    if trials is not None:
        drawn = plan_search(path, set, vary, seeds, trials=trials, search=search or "random", budget=budget)
        return replace(drawn, split=measured_split(split, drawn))
    for option, value in {"--search": search, "--budget": budget}.items():
        if value is not None:
            raise InputError(f"{option} {value} needs --trials: how many settings to draw")
    grid = plan_grid(path, set, vary, seeds)
    return replace(grid, split=measured_split(split, grid))


def sweep(
    recipe: str,
    *,
    vary: Mapping[str, Sequence[Any]] | None = None,
    seeds: Sequence[int] | None = None,
    set: JsonObject | None = None,
    out: str | Path | None = None,
    split: str | None = "auto",
    trials: int | None = None,
    search: str | None = None,
    budget: int | None = None,
    on: str = "local",
    workers: int | None = None,
    device: str = "auto",
    log: str | None = None,
    address: str | None = None,
    cpus: float | None = None,
    gpus: float | None = None,
) -> "SweepResult":
    """Train every combination of the varied settings with every seed; a repeated call continues.

    With `trials`, that many settings are drawn instead, also from ranges such as `"1e-4..1e-2:log"`. `split` "auto" is
    the test split for a grid and none for a search. The other arguments are the options of `headway sweep`.

    >>> hw.sweep("quick-addition", vary={"train.lr": [1e-3, 2e-3]}, seeds=range(8))   # doctest: +SKIP
    """
    from headway.runs import SweepDirectory
    from headway.sweeps.driver import run_sweep
    from headway.sweeps.executors import make_executor
    from headway.sweeps.plan import check_plan

    assignments = list((set or {}).items())
    drawn: dict[str, Any] = {"trials": trials, "search": search, "budget": budget}
    plan = plan_sweep(recipe, vary=vary or {}, seeds=seeds, set=assignments, split=split, **drawn)
    executor, shared, _ = make_executor(
        split=plan.split,
        on=on,
        workers=workers,
        device=device,
        log=log,
        address=address,
        cpus=cpus,
        gpus=gpus,
    )
    check_plan(plan)
    return run_sweep(plan, SweepDirectory(out or default_sweep(plan.name)), executor, stack=shared.stack)


def default_sweep(recipe_name: str) -> Path:
    return Path("sweeps") / recipe_name


def prune(
    run: object,
    heads: Sequence[str] | None = None,
    *,
    keep: Sequence[str] | None = None,
    example: Any = None,
    max_drop: float | None = None,
    finetune: int = 0,
    out: str | Path | None = None,
    device: str = "auto",
    progress: OnProgress = lambda done, total: None,
    on_event: OnEvent = lambda event: None,
) -> "PruneResult | PrunedModel":
    """Remove heads for good, from a run or from any model that `hw.attach` finds heads in.

    A run becomes another run, with the heads to `keep`, or without as many heads as cost under `max_drop` points. A
    model (a module, or what `hw.attach` returned) is copied without `heads`, or with only those to `keep`, and compared
    with the masked model on an `example` batch.

    >>> hw.prune("addition-seed0", max_drop=1)   # doctest: +SKIP
    >>> hw.prune(model, ["dec0.self.h3"]).model.save_pretrained("smaller")   # doctest: +SKIP
    """
    if isinstance(run, str | Path):
        for name, value in {"heads": heads, "example": example}.items():
            if value is not None:
                raise InputError(f"hw.prune({str(run)!r}, {name}=...) is for models; a run takes keep= or max_drop=")
        told: dict[str, Any] = {"progress": progress, "on_event": on_event}
        return prune_run(run, keep=keep, max_drop=max_drop, finetune=finetune, out=out, device=device, **told)
    from headway.attachment.pruning import prune_model

    for name, given in {"max_drop": max_drop is not None, "finetune": finetune, "out": out is not None}.items():
        if given:
            raise InputError(f"hw.prune(model, {name}=...) is for runs; a model takes heads or keep=, and example=")
    if (heads is None) == (keep is None):
        raise InputError("hw.prune(model) takes either the heads to remove or keep=, the heads that stay")
    return prune_model(run, (heads if keep is None else keep) or [], keep=keep is not None, example=example)


def prune_run(
    run: str | Path,
    *,
    keep: Sequence[str] | None = None,
    max_drop: float | None = None,
    finetune: int = 0,
    out: str | Path | None = None,
    device: str = "auto",
    command: Sequence[str] = ("hw.prune",),
    progress: OnProgress = lambda done, total: None,
    on_event: OnEvent = lambda event: None,
) -> "PruneResult":
    """Make a run without some heads: with the heads `keep`, or without all that cost less than `max_drop` points."""
    from headway.evaluation import Trained, load
    from headway.head_analysis.pruning import (
        Finetuned,
        PruneResult,
        choose_kept,
        compare_accuracy,
        compare_pruned,
        cut_model,
    )
    from headway.head_analysis.variants import heads_of
    from headway.training.start import check_new, write_start

    if finetune < 0:
        raise InputError(f"--finetune {finetune}; at least 0 steps needed")
    trained = load(run, device=device)
    for warning in trained.warnings:
        on_event({"event": "warning", "text": warning})
    place = Path(out) if out is not None else trained.directory.path.with_name(f"{trained.directory.name}-pruned")
    check_new(place)
    kept, chosen = choose_kept(trained, keep, max_drop, progress)
    model = cut_model(trained, kept)
    settings = trained.config.train
    if finetune:
        settings = replace(settings, steps=finetune, epochs=None, lr=settings.lr / 10)
    config = replace(trained.config, model=model.config, train=settings)
    smaller = Trained(trained.directory, config, trained.task, model, 0)
    test = trained.examples("test")
    measured = compare_pruned(trained, smaller, kept, test)
    write_start(place, trained, smaller, command=list(command), finished=not finetune)
    tuned = None
    if finetune:
        steps = _train_on(config, place, device=device, command=list(command), on_event=on_event)
        best = load(place, device=device)
        tuned = Finetuned(steps=steps, best_step=best.step, **vars(compare_accuracy(trained, best, test)))
    if max_drop is not None and measured.drop >= max_drop:
        text = f"chosen for a drop under {max_drop:g} points on validation; on the test split it is {measured.drop:.2f}"
        on_event({"event": "warning", "text": text})
    return PruneResult(
        run=str(place),
        pruned_from=str(trained.directory.path),
        kept=[str(head) for head in kept],
        removed=[str(head) for head in heads_of(trained) if head not in kept],
        chosen=chosen,
        finetuned=tuned,
        **vars(measured),
    )


def _train_on(config: RunConfig, place: Path, **how: Any) -> int:
    """Train the run at `place` to its end; returns its steps. An interrupted run is still usable."""
    from headway.training import train as run_training

    try:
        return run_training(config, place, resume=True, **how).steps
    except Interrupted:
        raise Interrupted(f"training stopped early; {place} can be used, with its best weights so far") from None
