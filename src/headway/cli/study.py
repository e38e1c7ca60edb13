"""headway study"""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.callbacks import Event, OnEvent
from headway.cli.evaluate import summary
from headway.cli.grid import grid_progress
from headway.cli.options import Device, Json, Meter, Quiet, Wide, parse_seeds, progress, say, show
from headway.cli.report import panel
from headway.cli.terminal import Piece
from headway.cli.train import show_event
from headway.narration import study_tables as tables
from headway.narration.attack import failing, story
from headway.narration.numbers import duration, number, thousandths
from headway.narration.study import cost_of, mastery
from headway.narration.tables import Table, table
from headway.narration.text import Words, text
from headway.results.attack import Attack
from headway.results.study import FailedTraining, LengthStudy, StudyCell

if TYPE_CHECKING:
    from headway.config import RunConfig
    from headway.studies.study import StudyResult

SHOWN_SETS = {
    "adjacent": "accuracy on one adjacent inversion",
    "swaps": "accuracy on random swaps",
    "sums": "exact match, by the characters of the question",
}
"""Sets whose accuracies are printed; the figures and lengths.json have all."""
SHOWN_FAILING = 3
"""Failing inputs of a run that are printed; attack.json has more."""
EXPERIMENTS = "addition, sortedness, long-addition or text-encodings."


def study(
    experiment: Annotated[str, typer.Argument(metavar="EXPERIMENT", help=EXPERIMENTS)],
    preset: Annotated[str, typer.Option(help="quick, standard or full (text-encodings: also tune).")] = "standard",
    seeds: Annotated[str | None, typer.Option(help="Seeds instead of the preset's, e.g. 0-4.")] = None,
    arms: Annotated[str | None, typer.Option(help="Do only these parts of the study, e.g. course,fresh.")] = None,
    device: Device = "auto",
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw every arm's figures too.")] = True,
    out: Annotated[Path | None, typer.Option(help="The study's directory.")] = None,
    wide: Wide = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a whole experiment: train, measure, analyse heads, run the doctor, write the report, and print the findings.

    Started again, it continues where it stopped. Exits with 1 if a run failed or the doctor found an error that is not
    a result of the comparison.

    Example: headway study sortedness --preset quick
    """
    from headway.studies.study import study as run_study

    with Display(quiet) as display:
        found = run_study(
            experiment,
            preset=preset,
            seeds=None if seeds is None else parse_seeds(seeds),
            arms=None if arms is None else [name.strip() for name in arms.split(",")],
            device=device,
            figures=figures,
            out=out,
            command=sys.argv,
            on_event=display,
        )
    show(found, told(found), as_json=json, at_terminal=[] if wide else screen(found))
    if found.unsound:
        raise typer.Exit(1)


class Display:
    """Shows a running study: a bar for each stage, one for all training runs, and errors."""

    def __init__(self, quiet: bool):
        self.quiet, self.title = quiet, ""
        self.shown: ExitStack = ExitStack()
        self.meter: Meter | None = None
        self.training: OnEvent | None = None

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, *problem: object) -> None:
        self.shown.close()

    def __call__(self, event: Event) -> None:
        if event["event"] == "stage":
            self.shown.close()
            self.meter = self.training = None
            self.title = f"{event['number']} of {event['of']} {event['stage']}"
        elif event["event"] == "progress":
            self._bar(self.title)(event["done"], event["total"], event["note"])
        elif event["event"] == "failed":
            say(f"headway: {event['run']} failed: {event['error']}")
        elif "run" in event:
            show_event(event["told"], self._bar(f"{self.title} {event['run']}"), quiet=self.quiet)
        else:
            self.training = self.training or self.shown.enter_context(grid_progress(self.title, quiet=self.quiet))
            self.training(event["told"])

    def _bar(self, title: str) -> Meter:
        self.meter = self.meter or self.shown.enter_context(progress(title, quiet=self.quiet))
        return self.meter


def screen(found: "StudyResult") -> list[Piece]:
    """The end of a study at a terminal: what the report's first screen says, what failed, and two paths."""
    if found.report is None or not found.report.tiles:
        return []
    explorer = [] if found.explorer is None else [("explorer", found.explorer)]
    failed = [f"{name}: failed, {why}" for name, why in found.failed.items()]
    return [*failed, panel(found.directory.name, found.report, *explorer)]


def told(found: "StudyResult") -> list[str]:
    """The findings of a study in lines of text."""
    from headway.narration import doctor, heads_study

    lines = told_accuracy(found) if found.lengths is None else told_lengths(found.lengths)
    lines += [line for name, one in found.attacks.items() for line in attack_lines(name, one)]
    lines += [*heads_study.of_study(found.heads, found.doctor), *doctor.of_study(found.doctor)]
    lines += [f"{name}: failed, {why}" for name, why in found.failed.items()]
    if found.report is not None:
        lines.append(f"the report is {found.report.page}, also {found.report.markdown}")
    if found.explorer is not None:
        lines.append(f"the models compute in {found.explorer}")
    return [*lines, f"the study is in {found.directory}, its summary in {found.summary}"]


def attack_lines(name: str, found: Attack) -> list[str]:
    """The result of an attack on a run: the simplest failing inputs, or that none was found."""
    first, second = map(str, story(found, name))
    return [
        f"attack on {first}",
        f"  {second}",
        *(f"    {failing(one)}" for one in found.counterexamples[:SHOWN_FAILING]),
    ]


# Accuracy


def told_accuracy(found: "StudyResult") -> list[str]:
    """The training and the accuracy of every run."""
    from headway.runs import RunDirectory

    lines: list[str] = []
    for row in () if found.accuracy is None else found.accuracy.runs:
        if row.evaluation is None or isinstance(row.training, FailedTraining):
            continue
        run = RunDirectory(row.training.run)
        lines = lines or asked_of(run.config())
        cost = f"trained {row.training.steps:,} steps in {duration(row.training.seconds)}"
        lines.append(f"seed {run.config().seed}: {cost}; {mastery(row.training.mastery)}")
        lines += summary(run.path, row.evaluation)
    return lines


def asked_of(config: "RunConfig") -> list[str]:
    """The number of digits in the sums, which differs between presets; empty for other tasks."""
    from headway.tasks import make_task

    task = make_task(config.task)
    digits, size = getattr(task.options, "digits", None), task.domain_size()
    return [] if digits is None or size is None else [f"sums of two numbers of {digits} digits, {size:,} in all"]


# Lengths


def told_lengths(study: LengthStudy) -> list[str]:
    """The tables and the answer of a length study."""
    from headway.studies.answer import measured, sets_of

    cells = measured(study.cells)
    sets = sets_of(cells)
    found = [tables.mastery_table(cells)]
    found += [accuracy_table(cells, name) for name in SHOWN_SETS if name in sets]
    found += [tables.held_table(cells, sets), tables.reach_table(cells)]
    if len((ripples := tables.ripple_table(cells)).columns) > 1:  # ripples were measured
        found += [ripples, *(tables.seed_table(cells, name) for name in sets)]
    found.append(tables.repair_table(cells))
    lines = [line for one in found if one.rows or one is ripples for line in (f"{one.caption}:", *one.lines(), "")]
    for arm in study.arms:
        lines += [f"{arm.name}: {name} is rejected: {why}" for name, why in arm.refused.items()]
    lines += [str(cost_of(cost)) for cost in study.costs]
    return [*lines, "", *(sentence.text for sentence in study.answer)]


def accuracy_table(cells: Sequence[StudyCell], name: str) -> Table:
    """Median accuracy over seeds of each cell on a set; `c` marks a constant answer of every seed."""
    from headway.reports.length_table import length_table

    pairs = [(cell.cell, run) for cell in cells for run in cell.runs]
    rows = length_table([run for _, run in pairs], groups=[cell for cell, _ in pairs])
    rows = [row for row in rows if row.set == name]
    lines: list[list[Words]] = [["combination", "seeds", *map(number, rows[0].at)]]
    for row in rows:
        numbers = [
            "" if one is None else text("{}{}", number(one.median, thousandths), "c" * one.constant)
            for one in row.at.values()
        ]
        lines.append([row.group, number(row.seeds), *numbers])
    return table(lines, caption=SHOWN_SETS[name])
