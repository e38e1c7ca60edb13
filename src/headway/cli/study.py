"""headway study"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.compare import as_text
from headway.cli.evaluate import summary
from headway.cli.grid import duration
from headway.cli.options import Device, Json, Quiet, parse_seeds, show
from headway.cli.work import Work
from headway.errors import InputError, suggestion
from headway.results.schema import write
from headway.results.study import Cost, LengthStudy, Mastery, MeasuredRun, StudyCell
from headway.studies.plan import Study, plan_study
from headway.studies.presets import PRESETS

if TYPE_CHECKING:
    from headway.config import RunConfig

SHOWN_SETS = {
    "adjacent": "accuracy on one adjacent inversion",
    "swaps": "accuracy on random swaps",
    "sums": "exact match, by the characters of the question",
}
"""Sets whose accuracies are printed; the figures and lengths.json have all."""
EXPERIMENTS = "addition, sortedness, long-addition or text-encodings."
DISAGREE = "decoding and the parallel pass disagree; the accuracy of this run cannot be trusted"


def study(
    experiment: Annotated[str, typer.Argument(metavar="EXPERIMENT", help=EXPERIMENTS)],
    preset: Annotated[str, typer.Option(help="quick, standard or full (text-encodings: also tune).")] = "standard",
    seeds: Annotated[str | None, typer.Option(help="Seeds instead of the preset's, e.g. 0-4.")] = None,
    arms: Annotated[str | None, typer.Option(help="Do only these parts of the study, e.g. course,fresh.")] = None,
    device: Device = "auto",
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw every arm's figures too.")] = True,
    out: Annotated[Path | None, typer.Option(help="The study's directory.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a whole experiment: train, measure, analyse heads, ask the doctor, write the report; and say what was found.

    Started again, it continues where it stopped. Exits with 1 if a run failed or the doctor found an error that is not
    a result of the comparison.

    Example: headway study sortedness --preset quick
    """
    from headway.batches import pick_device
    from headway.runs import StudyDirectory
    from headway.studies.closing import doctor_lines, heads_lines, is_unsound

    whole = plan_study(chosen(experiment, preset), None if seeds is None else parse_seeds(seeds))
    part = whole if arms is None else whole.part([name.strip() for name in arms.split(",")])
    pick_device(device)
    directory = StudyDirectory(out or Path("studies") / f"{experiment}-{preset}")
    if directory.path.exists() and not directory.path.is_dir():
        raise InputError(f"--out {directory.path} is a file; a directory needed")
    directory.begin(whole.to_json(experiment, preset))
    work = Work(whole, part, directory, device, quiet)
    work.train()
    drawn = None
    if whole.study.measured == "accuracy":
        document, lines = told_by_accuracy(work)
        path = work.keep("summary", {"form": 1, "experiment": experiment, "preset": preset, **document})
    else:
        drawn, lines = told_by_lengths(work, experiment, preset)
        document = write(drawn)
        path = work.keep("lengths", document)
    heads, health = work.heads(), work.doctor()
    written = work.report(drawn if figures else None)
    page = work.explore([one["run"] for one in heads["runs"]])
    lines += [*heads_lines(heads, health), *doctor_lines(health), *work.problems()]
    if written is not None:
        lines.append(f"the report is {written.page}, also {written.markdown}")
    if page is not None:
        lines.append(f"the models compute in {page}")
    lines.append(f"the study is in {directory.path}, its summary in {path}")
    found = {"study": str(directory.path), **document, "heads": heads, "doctor": health, "failed": work.failed}
    found |= {"report": None if written is None else written.to_json(), "explorer": page}
    show({**found, "seconds": work.stages.seconds}, lines, as_json=json)
    if work.failed or is_unsound(health, comparing=len(whole.cells) > 1):
        raise typer.Exit(1)


def chosen(experiment: str, preset: str) -> Study:
    """The study of that name and size."""
    if experiment not in PRESETS:
        raise InputError(f"unknown study {experiment!r}; {suggestion(experiment, PRESETS)}")
    if preset not in PRESETS[experiment]:
        raise InputError(f"--preset {preset!r}; {suggestion(preset, PRESETS[experiment])}")
    return PRESETS[experiment][preset]


# Accuracy


def told_by_accuracy(work: Work) -> tuple[dict[str, Any], list[str]]:
    """The accuracy of every run, on the whole domain where the task can list it."""
    from headway.studies.pieces import Accuracy
    from headway.studies.runner import training_of

    lines, rows = asked_of(work.part.cells[0].config), []
    measured = work.measure(Accuracy)
    for trial in (trial for cell in work.part.cells for trial in cell.trials):
        run, found = work.directory.run(trial.name), measured.get(trial.name)
        if found is None:
            error = work.failed.get(trial.name, "it was not measured")
            rows.append({"training": {"run": str(run.path), "error": error}, "evaluation": None})
            continue
        training = training_of(run)
        rows.append({"training": write(training), "evaluation": found})
        cost = f"trained {training.steps:,} steps in {training.seconds:.0f} s"
        lines.append(f"seed {trial.seed}: {cost}; {mastery_text(training.mastery)}")
        lines += summary(run.path, found)
        if found.get("real_disagreements"):
            work.note_failure(trial.name, DISAGREE)
    return {"runs": rows}, lines


def mastery_text(mastery: Mastery | None) -> str:
    if mastery is None:
        return "mastery is not known"
    if mastery.mastered:
        return f"mastered at step {mastery.step:,} ({mastery.gate:.1%} of validation)"
    return f"did not master {mastery.gate:.1%} of validation ({mastery.accuracy:.3f})"


def asked_of(config: "RunConfig") -> list[str]:
    """How many digits the numbers of a sum have, which differs between presets; nothing for other tasks."""
    from headway.tasks import make_task

    task = make_task(config.task)
    digits, size = getattr(task.options, "digits", None), task.domain_size()
    return [] if digits is None or size is None else [f"sums of two numbers of {digits} digits, {size:,} in all"]


# Lengths


def told_by_lengths(work: Work, experiment: str, preset: str) -> tuple[LengthStudy, list[str]]:
    """Accuracy against length of every run that is trained, what it adds up to, and why some fail."""
    from headway.length_analysis.patterns import encoding_patterns
    from headway.studies.answer import answer, decisions
    from headway.studies.pieces import Lengths
    from headway.studies.runner import findings, judged
    from headway.studies.tables import costs

    found = work.measure(Lengths)
    measured = {name: judged(one, work.directory.run(name)) for name, one in found.items()}
    for name, run in measured.items():
        if run.disagrees:
            work.note_failure(name, DISAGREE)
    if "why" in work.stages.names:
        ask_why(work, measured)
    cells = tuple(findings(work.whole, work.directory, measured, work.failed))
    study = LengthStudy(
        experiment=experiment,
        preset=preset,
        arms=work.whole.arms(),
        n=work.whole.study.n,
        cells=cells,
        decisions=tuple(decisions(cells)),
        costs=tuple(costs(cells)),
        answer=tuple(answer(cells)),
        patterns=encoding_patterns(),
    )
    return study, told_lengths(study)


def ask_why(work: Work, measured: dict[str, MeasuredRun]) -> None:
    """Ask of the runs that the study says why they fail; what is found is added to their documents."""
    from headway.studies.pieces import Why
    from headway.studies.runner import asked_why, judged

    names = [[trial.name for trial in cell.trials if trial.name in measured] for cell in work.whole.cells]
    asked = asked_why(names, measured, work.whole.study.mechanism)
    pieces = [Why(work.directory.run(name), work.whole.study) for name in asked]
    for piece, error in work.do("why", pieces):
        work.note_failure(piece.run.name, f"its mechanism: {error}")
    measured |= {piece.run.name: judged(found, piece.run) for piece in pieces if (found := piece.known()) is not None}


def told_lengths(study: LengthStudy) -> list[str]:
    """Tables and the answer, as a person reads them."""
    from headway.studies.answer import measured, sets_of
    from headway.studies.tables import (
        held_table,
        mastery_table,
        reach_table,
        repair_table,
        ripple_table,
        seed_table,
    )

    cells = measured(study.cells)
    lines = []
    if len(mastery := mastery_table(cells)) > 1:
        lines += ["who mastered the training lengths:", *as_text(mastery, 1), ""]
    for name in (name for name in SHOWN_SETS if name in sets_of(cells)):
        lines += [f"{SHOWN_SETS[name]}:", *as_text(accuracy_table(cells, name), 1), ""]
    if cells:
        lines += ["length held of each seed:", *as_text(held_table(cells), 1), ""]
    if len(reached := reach_table(cells)) > 1:
        lines += ["seeds that reach a multiple of the training length:", *as_text(reached, 2), ""]
    if ripples := ripple_table(cells):
        lines += ["by ripple (set ripple), mean over seeds:", *as_text(ripples, 1), ""]
        for name in sets_of(cells):
            lines += [f"every run, on {name}:", *as_text(seed_table(cells, name), 1), ""]
    if len(repairs := repair_table(cells)) > 1:
        lines += ["failures that limiting the reach of attention repairs:", *as_text(repairs, 2), ""]
    for arm in study.arms:
        lines += [f"{arm.name}: {name} is refused: {why}" for name, why in arm.refused.items()]
    lines += [cost_line(cost) for cost in study.costs]
    return [*lines, "", *(sentence.text for sentence in study.answer)]


def accuracy_table(cells: Sequence[StudyCell], name: str) -> list[list[str]]:
    """Median accuracy over seeds of each cell on a set; `c` where every seed gives one answer whatever it is asked."""
    from headway.reports.length_table import length_table

    pairs = [(cell.cell, run) for cell in cells for run in cell.runs]
    rows = length_table([run for _, run in pairs], groups=[cell for cell, _ in pairs])
    rows = [row for row in rows if row.set == name]
    table = [["combination", "seeds", *(f"{length:,}" for length in rows[0].at)]]
    for row in rows:
        numbers = ["" if one is None else f"{one.median:.3f}{'c' * one.constant}" for one in row.at.values()]
        table.append([row.group, str(row.seeds), *numbers])
    return table


def cost_line(cost: Cost) -> str:
    runs = f"{cost.runs:,} run{'s' * (cost.runs > 1)}"
    where = " and ".join(cost.devices)
    return f"{cost.arm}: {runs}, {cost.steps:,} steps of training in {duration(cost.seconds)} ({where})"
