"""headway study"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.compare import as_text
from headway.cli.evaluate import measure, summary
from headway.cli.grid import duration
from headway.cli.options import Device, Json, Quiet, parse_seeds, progress, say, show
from headway.cli.train import train_all, train_several
from headway.errors import InputError, Interrupted, suggestion
from headway.studies.plan import Plan, Study, plan_study
from headway.studies.presets import PRESETS

if TYPE_CHECKING:
    from headway.runs import RunDirectory, StudyDirectory

SHOWN_SETS = {
    "adjacent": "accuracy on one adjacent inversion",
    "swaps": "accuracy on random swaps",
    "sums": "exact match, by the characters of the question",
}
"""Sets whose accuracies are printed; the figures and lengths.json have all."""
DISAGREE = "decoding and the parallel pass disagree; the accuracy of this run cannot be trusted"


def study(
    experiment: Annotated[str, typer.Argument(metavar="EXPERIMENT", help="addition, sortedness or long-addition.")],
    preset: Annotated[str, typer.Option(help="quick, standard or full.")] = "standard",
    seeds: Annotated[str | None, typer.Option(help="Seeds instead of the preset's, e.g. 0-4.")] = None,
    arms: Annotated[str | None, typer.Option(help="Do only these parts of the study, e.g. course,fresh.")] = None,
    device: Device = "auto",
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw the figures.")] = True,
    out: Annotated[Path | None, typer.Option(help="The study's directory.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a whole experiment: train every run of it, measure each, and say what was found.

    Started again, it continues where it stopped.

    Example: headway study sortedness --preset quick
    """
    from headway.batches import pick_device
    from headway.runs import StudyDirectory

    whole = plan_study(chosen(experiment, preset), None if seeds is None else parse_seeds(seeds))
    part = whole if arms is None else whole.part([name.strip() for name in arms.split(",")])
    pick_device(device)
    directory = StudyDirectory(out or Path("studies") / f"{experiment}-{preset}")
    if directory.path.exists() and not directory.path.is_dir():
        raise InputError(f"--out {directory.path} is a file; a directory needed")
    directory.begin(whole.to_json(experiment, preset))
    failed = train_missing(part, directory, device=device, quiet=quiet)
    tell = told_by_accuracy if whole.study.measured == "accuracy" else told_by_lengths
    name = "summary" if whole.study.measured == "accuracy" else "lengths"
    document, lines = tell(whole, part, directory, failed, device=device, quiet=quiet)
    path = directory.write_analysis(name, {"form": 1, "experiment": experiment, "preset": preset, **document})
    if figures and "cells" in document and (drawn := draw(document, directory)):
        lines.append(f"{len(drawn):,} figures are in {directory.figures}")
    lines.append(f"the study is in {directory.path}, its summary in {path}")
    show({"study": str(directory.path), **document}, lines, as_json=json)
    if failed:
        raise typer.Exit(1)


def chosen(experiment: str, preset: str) -> Study:
    """The study of that name and size."""
    if experiment not in PRESETS:
        raise InputError(f"unknown study {experiment!r}; {suggestion(experiment, PRESETS)}")
    if preset not in PRESETS[experiment]:
        raise InputError(f"--preset {preset!r}; {suggestion(preset, PRESETS[experiment])}")
    return PRESETS[experiment][preset]


def train_missing(plan: Plan, directory: "StudyDirectory", *, device: str, quiet: bool) -> dict[str, str]:
    """Train the runs that are not finished; why some failed, by their names."""
    from headway.studies.runner import left_to_train

    total = sum(len(cell.trials) for cell in plan.cells)
    left = left_to_train(plan.cells, directory)
    if not left:
        return {}
    # A study of a single run shows that run; in any other, a run that fails must not end the study.
    train = train_all if total == 1 else train_several
    places = [directory.run(trial.name).path for trial in left]
    try:
        records = train([trial.config for trial in left], places, device=device, resume=True, data=None, quiet=quiet)
    except Interrupted:
        finished = total - len(left_to_train(plan.cells, directory))
        raise Interrupted(
            f"{directory.path}: {finished:,} of {total:,} runs are trained; the same command continues"
        ) from None
    return {trial.name: one["error"] for trial, one in zip(left, records, strict=True) if "error" in one}


# Accuracy


def told_by_accuracy(
    whole: Plan, part: Plan, directory: "StudyDirectory", failed: dict[str, str], *, device: str, quiet: bool
) -> tuple[dict[str, Any], list[str]]:
    """The accuracy of every run, on the whole domain where the task can list it."""
    rows, lines = [], []
    for trial in (trial for cell in part.cells for trial in cell.trials):
        run = directory.run(trial.name)
        row = evaluated(run, failed.get(trial.name), device=device, quiet=quiet)
        if row["evaluation"] is not None and row["evaluation"].get("real_disagreements"):
            note_failure(failed, trial.name, DISAGREE)
        rows.append(row)
        lines += told(trial.seed, run, row)
    return {"runs": rows}, lines


def evaluated(run: "RunDirectory", error: str | None, *, device: str, quiet: bool) -> dict[str, Any]:
    """The record of a seed with its accuracy, measured unless that was done before; none for a seed that failed."""
    from headway.evaluation import load
    from headway.studies.runner import training_of

    if error is not None:
        return {"training": {"run": str(run.path), "error": error}, "evaluation": None}
    opened = load(run, device=device)
    split = "all" if opened.task.domain_size() else "test"
    earlier = (run.read_analysis("evaluation") or {}).get(split, {})
    result = earlier if earlier.get("step") == opened.step else measure(opened, split, quiet=quiet)
    return {"training": training_of(run), "evaluation": result}


def told(seed: int, run: "RunDirectory", row: dict[str, Any]) -> list[str]:
    """What a person reads of a seed."""
    training = row["training"]
    if row["evaluation"] is None:
        return [f"seed {seed}: failed, {training['error']}"]
    head = f"seed {seed}: trained {training['steps']:,} steps in {training['seconds']:.0f} s"
    return [head, *summary(run.path, row["evaluation"])]


# Lengths


def told_by_lengths(
    whole: Plan, part: Plan, directory: "StudyDirectory", failed: dict[str, str], *, device: str, quiet: bool
) -> tuple[dict[str, Any], list[str]]:
    """Accuracy against length of every run that is trained, what it adds up to, and its figures."""
    from headway.lengths.patterns import encoding_patterns
    from headway.studies.answer import answer, decisions
    from headway.studies.runner import findings
    from headway.studies.tables import costs

    try:
        measured = measure_runs(whole, part, directory, failed, device=device, quiet=quiet)
        explain_runs(whole, directory, measured, failed, device=device, quiet=quiet)
    except KeyboardInterrupt:
        raise Interrupted(f"{directory.path}: stopped while measuring; the same command continues") from None
    cells = findings(whole, directory, measured, failed)
    document = {
        "arms": whole.arms(),
        "n": whole.study.n,
        "cells": cells,
        "decisions": decisions(cells),
        "costs": costs(cells),
        "answer": answer(cells),
        "patterns": encoding_patterns(),
    }
    return document, told_lengths(document, failed)


def measure_runs(
    whole: Plan, part: Plan, directory: "StudyDirectory", failed: dict[str, str], *, device: str, quiet: bool
) -> dict[str, dict[str, Any]]:
    """The lengths.json of every run that has one, by the run's name; those of this part are measured first."""
    from headway.studies.runner import known_lengths, measure_all

    names = [trial.name for cell in part.cells for trial in cell.trials if trial.name not in failed]
    with progress(f"measure {directory.path.name}", quiet=quiet) as meter:
        ends = measure_all([directory.run(name) for name in names], whole.study, device=device)
        for done, (name, error) in enumerate(ends, 1):
            meter(done, len(names), name)
            if error is not None:
                note_failure(failed, name, error)
    runs = [directory.run(trial.name) for cell in whole.cells for trial in cell.trials if trial.name not in failed]
    known = {run.name: known_lengths(run, whole.study) for run in runs}
    for name, document in known.items():
        if document is not None and disagrees(document):
            note_failure(failed, name, DISAGREE)
    return {name: document for name, document in known.items() if document is not None}


def disagrees(document: dict[str, Any]) -> bool:
    return any((row["decoded"] or {}).get("real_disagreements") for row in document["lengths"])


def explain_runs(
    plan: Plan,
    directory: "StudyDirectory",
    measured: dict[str, dict[str, Any]],
    failed: dict[str, str],
    *,
    device: str,
    quiet: bool,
) -> None:
    """Ask of the runs that the study says why they fail; what is found is added to their documents."""
    from headway.studies.runner import asked_why, attempt, explain

    names = [[trial.name for trial in cell.trials if trial.name in measured] for cell in plan.cells]
    chosen_names = asked_why(names, measured, plan.study.mechanism)
    with progress(f"explain {directory.path.name}", quiet=quiet or not chosen_names) as meter:
        for done, name in enumerate(chosen_names):
            meter(done, len(chosen_names), name)
            run = directory.run(name)
            found, error = attempt(run, partial(explain, run, measured[name], device=device))
            if error is not None:
                note_failure(failed, name, f"its mechanism: {error}")
            measured[name] = found or measured[name]
        meter(len(chosen_names), len(chosen_names))


def note_failure(failed: dict[str, str], name: str, error: str) -> None:
    failed[name] = error
    say(f"headway: {name} failed: {error}")


def draw(document: dict[str, Any], directory: "StudyDirectory") -> list[Path]:
    """Write the figures of every arm, in a folder of its own where there are several, and say where."""
    from headway.report.lengths import write_encodings, write_figures

    cells = document["cells"]
    arms = list(dict.fromkeys(cell["arm"] for cell in cells))
    remove_figures(directory.figures)  # what was drawn before shows another state of the study
    paths = write_encodings(document["patterns"], directory.figures)
    for arm in arms:
        runs = [(cell["label"], run) for cell in cells if cell["arm"] == arm for run in cell["runs"]]
        folder = directory.figures / arm if len(arms) > 1 else directory.figures
        if runs:
            paths += write_figures([run for _, run in runs], folder, groups=[label for label, _ in runs])
    return paths


def remove_figures(folder: Path) -> None:
    for path in [*folder.glob("**/*.png"), *folder.glob("**/*.svg")]:
        path.unlink()


def told_lengths(document: dict[str, Any], failed: dict[str, str]) -> list[str]:
    """Tables and the answer, as a person reads them."""
    from headway.studies.answer import measured, sets_of
    from headway.studies.tables import certified_table, chain_table, reach_table, seed_table

    cells = measured(document["cells"])
    lines = []
    for name in (name for name in SHOWN_SETS if name in sets_of(cells)):
        lines += [f"{SHOWN_SETS[name]}:", *as_text(accuracy_table(cells, name), 1), ""]
    if cells:
        lines += ["certified length of each seed:", *as_text(certified_table(cells), 1), ""]
    if len(reached := reach_table(cells)) > 1:
        lines += ["seeds that reach a multiple of the training length:", *as_text(reached, 2), ""]
    if chains := chain_table(cells):
        lines += ["by longest chain of carries, mean over seeds:", *as_text(chains, 1), ""]
        lines += ["every run:", *as_text(seed_table(cells), 1), ""]
    for arm in document["arms"]:
        lines += [f"{arm['name']}: {name} is refused: {why}" for name, why in arm["refused"].items()]
    lines += [f"{name}: failed, {why}" for name, why in failed.items()]
    lines += [cost_line(cost) for cost in document["costs"]]
    return [*lines, "", *document["answer"]]


def accuracy_table(cells: Sequence[Mapping[str, Any]], name: str) -> list[list[str]]:
    """Mean accuracy over seeds of each cell on a set; `c` where every seed gives one answer whatever it is asked."""
    from headway.report.length_table import length_table

    pairs = [(cell["cell"], run) for cell in cells for run in cell["runs"]]
    rows = length_table([run for _, run in pairs], groups=[cell for cell, _ in pairs])
    rows = [row for row in rows if row.set == name]
    table = [["combination", "seeds", *(f"{length:,}" for length in rows[0].at)]]
    for row in rows:
        numbers = ["" if one is None else f"{one.mean:.3f}{'c' * one.constant}" for one in row.at.values()]
        table.append([row.group, str(row.seeds), *numbers])
    return table


def cost_line(cost: dict[str, Any]) -> str:
    runs = f"{cost['runs']:,} run{'s' * (cost['runs'] > 1)}"
    where = " and ".join(cost["devices"])
    return f"{cost['arm']}: {runs}, {cost['steps']:,} steps of training in {duration(cost['seconds'])} ({where})"
