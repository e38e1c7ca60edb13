"""headway study"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.compare import as_text
from headway.cli.evaluate import summary
from headway.cli.grid import duration
from headway.cli.options import Device, Json, Quiet, parse_seeds, progress, say, show
from headway.cli.stages import Stages
from headway.cli.train import train_all, train_several
from headway.errors import InputError, suggestion
from headway.studies.plan import Plan, Study, plan_study
from headway.studies.presets import PRESETS

if TYPE_CHECKING:
    from headway.report.writing import Written
    from headway.runs import RunDirectory, StudyDirectory
    from headway.studies.pieces import Piece

SHOWN_SETS = {
    "adjacent": "accuracy on one adjacent inversion",
    "swaps": "accuracy on random swaps",
    "sums": "exact match, by the characters of the question",
}
"""Sets whose accuracies are printed; the figures and lengths.json have all."""
DISAGREE = "decoding and the parallel pass disagree; the accuracy of this run cannot be trusted"
SHOWN_RUNNING = 3
"""Pieces that are named on one line of progress."""


def study(
    experiment: Annotated[str, typer.Argument(metavar="EXPERIMENT", help="addition, sortedness or long-addition.")],
    preset: Annotated[str, typer.Option(help="quick, standard or full.")] = "standard",
    seeds: Annotated[str | None, typer.Option(help="Seeds instead of the preset's, e.g. 0-4.")] = None,
    arms: Annotated[str | None, typer.Option(help="Do only these parts of the study, e.g. course,fresh.")] = None,
    device: Device = "auto",
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw every arm's figures too.")] = True,
    out: Annotated[Path | None, typer.Option(help="The study's directory.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a whole experiment: train, measure, analyse heads, ask the doctor, write the report; and say what was found.

    Started again, it continues where it stopped. Exits with 1 if a run failed or the doctor found an error.

    Example: headway study sortedness --preset quick
    """
    from headway.batches import pick_device
    from headway.runs import StudyDirectory
    from headway.studies.closing import doctor_lines, has_error, heads_lines

    whole = plan_study(chosen(experiment, preset), None if seeds is None else parse_seeds(seeds))
    part = whole if arms is None else whole.part([name.strip() for name in arms.split(",")])
    pick_device(device)
    directory = StudyDirectory(out or Path("studies") / f"{experiment}-{preset}")
    if directory.path.exists() and not directory.path.is_dir():
        raise InputError(f"--out {directory.path} is a file; a directory needed")
    directory.begin(whole.to_json(experiment, preset))
    work = Work(whole, part, directory, device, quiet)
    work.train()
    document, lines = (told_by_accuracy if whole.study.measured == "accuracy" else told_by_lengths)(work)
    name = "summary" if whole.study.measured == "accuracy" else "lengths"
    path = work.keep(name, {"form": 1, "experiment": experiment, "preset": preset, **document})
    heads, health = work.heads(), work.doctor()
    written = work.report(document if figures and "cells" in document else None)
    # The explorer's page of the study belongs here: work.explore(), once a study has one.
    lines += [*heads_lines(heads), *doctor_lines(health), *work.problems()]
    if written is not None:
        lines.append(f"the report is {written.page}, also {written.markdown}")
    lines.append(f"the study is in {directory.path}, its summary in {path}")
    found = {"study": str(directory.path), **document, "heads": heads, "doctor": health, "failed": work.failed}
    found["report"] = None if written is None else written.to_json()
    show({**found, "seconds": work.stages.seconds}, lines, as_json=json)
    if work.failed or has_error(health):
        raise typer.Exit(1)


def chosen(experiment: str, preset: str) -> Study:
    """The study of that name and size."""
    if experiment not in PRESETS:
        raise InputError(f"unknown study {experiment!r}; {suggestion(experiment, PRESETS)}")
    if preset not in PRESETS[experiment]:
        raise InputError(f"--preset {preset!r}; {suggestion(preset, PRESETS[experiment])}")
    return PRESETS[experiment][preset]


def stages_of(study: Study) -> list[str]:
    """The names of the stages, in their order."""
    measured = "evaluate" if study.measured == "accuracy" else "lengths"
    why = ["why"] if study.measured == "lengths" and study.mechanism != "none" else []
    return ["train", f"{measured} and heads", *why, "doctor", "report"]


@dataclass
class Work:
    """A study that is being done: its plan, the part of it that was asked for, and what failed, by the run's name."""

    whole: Plan
    part: Plan
    directory: "StudyDirectory"
    device: str
    quiet: bool
    failed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stages = Stages(self.directory.path, stages_of(self.whole.study))

    def keep(self, name: str, document: Mapping[str, Any]) -> Path:
        return self.directory.write_analysis(name, document)

    def runs(self, plan: Plan) -> "list[RunDirectory]":
        """The runs of a plan that did not fail."""
        names = [trial.name for cell in plan.cells for trial in cell.trials]
        return [self.directory.run(name) for name in names if name not in self.failed]

    def note_failure(self, name: str, error: str) -> None:
        self.failed[name] = error
        say(f"headway: {name} failed: {error}")

    def problems(self) -> list[str]:
        """What failed, where the tables above do not say it."""
        return [f"{name}: failed, {why}" for name, why in self.failed.items()]

    # The stages

    def train(self) -> None:
        """Train the runs that are not finished; why some failed is noted."""
        from headway.studies.runner import left_to_train

        total = sum(len(cell.trials) for cell in self.part.cells)
        left = left_to_train(self.part.cells, self.directory)
        # A study of a single run shows that run; in any other, a run that fails must not end the study.
        train = train_all if total == 1 else train_several
        places = [self.directory.run(trial.name).path for trial in left]
        how: dict[str, Any] = {"device": self.device, "resume": True, "data": None, "quiet": self.quiet}

        def standing() -> str:
            return f"{total - len(left_to_train(self.part.cells, self.directory)):,} of {total:,} runs are trained"

        with self.stages.at("train", standing) as title:
            records = train([trial.config for trial in left], places, **how, title=title) if left else []
        found = zip(left, records, strict=True)
        self.failed |= {trial.name: one["error"] for trial, one in found if "error" in one}

    def do(self, stage: str, pieces: "Sequence[Piece]") -> "list[tuple[Piece, str]]":
        """Do the pieces of a stage that were not done before; those that failed, and why."""
        from headway.studies.pool import work_off

        shares: dict[int, float] = {}
        done, errors = 0, []
        with self.stages.at(stage, lambda: f"{done:,} of {len(pieces):,} pieces are done") as title:
            with progress(title, quiet=self.quiet or not pieces) as meter:

                def note(piece: "Piece", share: float) -> None:
                    shares[id(piece)] = share
                    running = [
                        f"{one.run.name} {one.what} {shares[id(one)]:.0%}" for one in pieces if id(one) in shares
                    ]
                    meter(done + sum(shares.values()), len(pieces), ", ".join(running[:SHOWN_RUNNING]))

                for piece, error in work_off(pieces, device=self.device, note=note):
                    done += 1
                    shares.pop(id(piece), None)
                    meter(done, len(pieces), f"{piece.run.name} {piece.what}")
                    errors += [] if error is None else [(piece, error)]
        return errors

    def measure(self, kind: "type[Piece]") -> dict[str, dict[str, Any]]:
        """What was measured of every run that has it, by name; this part's runs are measured and analysed first."""
        from headway.studies.pieces import Heads

        study = self.whole.study
        pieces: list[Piece] = [kind(run, study) for run in self.runs(self.part)]
        pieces += [Heads(run, study) for run in self.runs(self.part) if run.name in study.heads.chosen(self.part.cells)]
        errors = self.do(self.stages.names[1], pieces)
        for piece, error in errors:
            if not isinstance(piece, Heads):
                self.note_failure(piece.run.name, error)
        found = {run.name: kind(run, study).known() for run in self.runs(self.whole)}
        for piece, error in errors:
            if piece.run.name not in self.failed:
                self.note_failure(piece.run.name, f"its heads: {error}")
        return {name: document for name, document in found.items() if document is not None}

    def heads(self) -> dict[str, Any]:
        """What the heads of the study's runs were found to do; kept with the study."""
        from headway.studies.closing import heads_record
        from headway.studies.pieces import Heads

        chosen_runs = self.whole.study.heads.chosen(self.whole.cells)
        cells = [[trial.name for trial in cell.trials if trial.name in chosen_runs] for cell in self.whole.cells]
        found = [[Heads(self.directory.run(name), self.whole.study).known() for name in names] for names in cells]
        record = heads_record([[one for one in documents if one is not None] for documents in found])
        for run in record["runs"]:
            if run["real_disagreements"]:
                self.note_failure(run["run"], "decoding with a hook and the sweep of heads disagree")
        self.keep("heads", record)
        return record

    def doctor(self) -> dict[str, Any]:
        """Every finished run examined; what was found is kept with the runs and with the study."""
        from headway.studies.closing import doctor_record
        from headway.studies.pieces import Diagnosis, Heads

        study = self.whole.study
        runs = [self.directory.run(trial.name) for cell in self.whole.cells for trial in cell.trials]
        runs = [run for run in runs if run.exists() and run.newest_state().get("finished")]
        for piece, error in self.do("doctor", [Diagnosis(run, study) for run in runs]):
            if piece.run.name not in self.failed:
                self.note_failure(piece.run.name, f"its examination: {error}")
        cells = {}
        for cell in self.whole.cells:
            own = [run for run in runs if run.name in {trial.name for trial in cell.trials}]
            pairs = [(Diagnosis(run, study).known(), Heads(run, study).known()) for run in own]
            cells[cell.name] = [(found, heads) for found, heads in pairs if found is not None]
        record = doctor_record({name: pairs for name, pairs in cells.items() if pairs})
        self.keep("doctor", record)
        return record

    def report(self, drawn: Mapping[str, Any] | None) -> "Written | None":
        """Write the report, beside the figures of every arm; a report that fails is named and costs nothing else."""
        from headway.report.writing import report

        if not self.directory.runs():
            return None
        with self.stages.at("report") as title, progress(title, quiet=self.quiet) as meter:
            try:
                if drawn is not None:
                    draw(drawn, self.directory)
                written = report(self.directory.path, progress=meter)
                for problem in written.problems:
                    self.note_failure(f"the report's {problem.partition(':')[0]}", problem.partition(": ")[2])
                return written
            except Exception as problem:
                from headway.sweeps.trial import in_one_line

                self.note_failure("the report", in_one_line(problem))
        return None


# Accuracy


def told_by_accuracy(work: Work) -> tuple[dict[str, Any], list[str]]:
    """The accuracy of every run, on the whole domain where the task can list it."""
    from headway.studies.pieces import Accuracy
    from headway.studies.runner import training_of

    lines, rows = [], []
    measured = work.measure(Accuracy)
    for trial in (trial for cell in work.part.cells for trial in cell.trials):
        run, found = work.directory.run(trial.name), measured.get(trial.name)
        if found is None:
            error = work.failed.get(trial.name, "it was not measured")
            rows.append({"training": {"run": str(run.path), "error": error}, "evaluation": None})
            continue
        training = training_of(run)
        rows.append({"training": training, "evaluation": found})
        lines.append(f"seed {trial.seed}: trained {training['steps']:,} steps in {training['seconds']:.0f} s")
        lines += summary(run.path, found)
        if found.get("real_disagreements"):
            work.note_failure(trial.name, DISAGREE)
    return {"runs": rows}, lines


# Lengths


def told_by_lengths(work: Work) -> tuple[dict[str, Any], list[str]]:
    """Accuracy against length of every run that is trained, what it adds up to, and why some fail."""
    from headway.lengths.patterns import encoding_patterns
    from headway.studies.answer import answer, decisions
    from headway.studies.pieces import Lengths
    from headway.studies.runner import findings
    from headway.studies.tables import costs

    measured = work.measure(Lengths)
    for name, document in measured.items():
        if any((row["decoded"] or {}).get("real_disagreements") for row in document["lengths"]):
            work.note_failure(name, DISAGREE)
    if "why" in work.stages.names:
        ask_why(work, measured)
    cells = findings(work.whole, work.directory, measured, work.failed)
    document = {
        "arms": work.whole.arms(),
        "n": work.whole.study.n,
        "cells": cells,
        "decisions": decisions(cells),
        "costs": costs(cells),
        "answer": answer(cells),
        "patterns": encoding_patterns(),
    }
    return document, told_lengths(document)


def ask_why(work: Work, measured: dict[str, dict[str, Any]]) -> None:
    """Ask of the runs that the study says why they fail; what is found is added to their documents."""
    from headway.studies.pieces import Why
    from headway.studies.runner import asked_why

    names = [[trial.name for trial in cell.trials if trial.name in measured] for cell in work.whole.cells]
    asked = asked_why(names, measured, work.whole.study.mechanism)
    pieces = [Why(work.directory.run(name), work.whole.study) for name in asked]
    for piece, error in work.do("why", pieces):
        work.note_failure(piece.run.name, f"its mechanism: {error}")
    measured |= {piece.run.name: found for piece in pieces if (found := piece.known()) is not None}


def draw(document: Mapping[str, Any], directory: "StudyDirectory") -> list[Path]:
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


def told_lengths(document: dict[str, Any]) -> list[str]:
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
