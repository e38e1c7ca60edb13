"""Runs the stages of a study: existing results are reused, and a failure does not stop the others."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headway.callbacks import Event, OnEvent
from headway.narration.numbers import percent
from headway.results.attack import Attack
from headway.results.doctor import StudyHealth
from headway.results.heads_study import HeadsStudy
from headway.results.schema import Document
from headway.results.study import LengthStudy
from headway.studies.plan import Study, StudyPlan
from headway.studies.stages import Stages
from headway.sweeps.trial import NO_ROOM, in_one_line, stopping_when_full

if TYPE_CHECKING:
    from headway.reports.writing import Written
    from headway.runs import RunDirectory, StudyDirectory
    from headway.studies.jobs import RunAnalysis
    from headway.sweeps.plan import Trial

Found = TypeVar("Found")
EXPLORED = 3
"""Runs in the study's explorer: the first ones with a head analysis, so that the page stays small."""
SHOWN_RUNNING = 3
"""Analyses that are named on one line of progress."""


def stages_of(study: Study) -> list[str]:
    """The names of the stages, in order."""
    measured = "evaluate" if study.measured == "accuracy" else "lengths"
    why = ["why"] if study.measured == "lengths" and study.mechanism != "none" else []
    attack = ["attack"] if study.measured == "lengths" and study.attack else []
    return ["train", f"{measured} and heads", *why, *attack, "doctor", "explorer", "report"]


@dataclass
class Work:
    """A running study: its plan, the requested part of it, and the errors by run."""

    whole: StudyPlan
    part: StudyPlan
    directory: "StudyDirectory"
    device: str
    tell: OnEvent
    command: Sequence[str] = ()
    failed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stages = Stages(self.directory.path, stages_of(self.whole.study), self.tell)

    def progress(self, done: float, total: int, note: str = "") -> None:
        self.tell({"event": "progress", "done": done, "total": total, "note": note})

    def keep(self, name: str, document: Document) -> Path:
        return self.directory.write_analysis(name, document)

    def runs(self, plan: StudyPlan) -> "list[RunDirectory]":
        """The runs of a plan that did not fail."""
        names = [trial.name for cell in plan.cells for trial in cell.trials]
        return [self.directory.run(name) for name in names if name not in self.failed]

    def note_failure(self, name: str, error: str) -> None:
        self.failed[name] = error
        self.tell({"event": "failed", "run": name, "error": error})

    def _note_or_raise(self, what: str, problem: Exception) -> None:
        """Record an error; one of a full disk ends the study, as every later stage would meet it."""
        if isinstance(problem, OSError) and problem.errno in NO_ROOM:
            raise problem
        self.note_failure(what, in_one_line(problem))

    # The stages

    def train(self) -> None:
        """Train the unfinished runs; errors are recorded."""
        from headway.studies.runner import left_to_train

        total = sum(len(cell.trials) for cell in self.part.cells)
        left = left_to_train(self.part.cells, self.directory)

        def standing() -> str:
            return f"{total - len(left_to_train(self.part.cells, self.directory)):,} of {total:,} runs are trained"

        with self.stages.at("train", standing):
            if total == 1 and left:
                self._train_one(left[0])
            elif left:
                self._train_several(left)

    def _train_one(self, trial: "Trial") -> None:
        """Train the only run of a study; its events are shown, and its error ends the study."""
        from headway.training import train

        def on_event(event: Event) -> None:
            self.tell({"event": "training", "run": trial.name, "told": event})

        place = self.directory.run(trial.name).path
        train(trial.config, place, device=self.device, resume=True, command=list(self.command), on_event=on_event)

    def _train_several(self, trials: "Sequence[Trial]") -> None:
        """Train several runs with one display; one that fails does not end the study."""
        from headway.sweeps.seeds import train_seeds

        places = [self.directory.run(trial.name).path for trial in trials]
        found = train_seeds(
            [trial.config for trial in trials],
            places,
            device=self.device,
            resume=True,
            command=self.command,
            on_event=lambda event: self.tell({"event": "training", "told": event}),
        )
        for outcome in found.outcomes:
            if outcome.error is not None:
                self.note_failure(outcome.name, outcome.error)

    def do(self, stage: str, analyses: "Sequence[RunAnalysis[Any]]") -> "list[tuple[RunAnalysis[Any], str]]":
        """Do the analyses of a stage without a stored result; returns the failed ones with their errors."""
        from headway.studies.pool import run_analyses

        shares: dict[int, float] = {}
        done = 0
        errors: list[tuple[RunAnalysis[Any], str]] = []
        with self.stages.at(stage, lambda: f"{done:,} of {len(analyses):,} analyses are done"):

            def note(analysis: "RunAnalysis[Any]", share: float) -> None:
                shares[id(analysis)] = share
                running = [
                    f"{one.run.name} {one.what} {percent(round(shares[id(one)], 2))}"
                    for one in analyses
                    if id(one) in shares
                ]
                self.progress(done + sum(shares.values()), len(analyses), ", ".join(running[:SHOWN_RUNNING]))

            def end(analysis: "RunAnalysis[Any]", error: str | None) -> None:
                nonlocal done
                done += 1
                shares.pop(id(analysis), None)
                self.progress(done, len(analyses), f"{analysis.run.name} {analysis.what}")
                errors.extend([] if error is None else [(analysis, error)])

            run_analyses(analyses, device=self.device, note=note, done=end)
        return errors

    def measure(self, kind: "type[RunAnalysis[Found]]") -> dict[str, Found]:
        """The results of every run, by name; the runs of this part are measured and their heads analysed first."""
        from headway.studies.jobs import Heads

        study = self.whole.study
        analyses: list[RunAnalysis[Any]] = [kind(run, study) for run in self.runs(self.part)]
        analyses += [
            Heads(run, study) for run in self.runs(self.part) if run.name in study.heads.chosen(self.part.cells)
        ]
        errors = self.do(self.stages.names[1], analyses)
        for analysis, error in errors:
            if not isinstance(analysis, Heads):
                self.note_failure(analysis.run.name, error)
        found = {run.name: kind(run, study).known() for run in self.runs(self.whole)}
        for analysis, error in errors:
            if analysis.run.name not in self.failed:
                self.note_failure(analysis.run.name, f"its heads: {error}")
        return {name: document for name, document in found.items() if document is not None}

    def heads(self) -> HeadsStudy:
        """The summary of the head analyses; stored with the study."""
        from headway.studies.jobs import Heads
        from headway.studies.summaries import heads_record

        chosen_runs = self.whole.study.heads.chosen(self.whole.cells)
        cells = [[trial.name for trial in cell.trials if trial.name in chosen_runs] for cell in self.whole.cells]
        found = [[Heads(self.directory.run(name), self.whole.study).known() for name in names] for names in cells]
        record = heads_record([[one for one in documents if one is not None] for documents in found])
        for run in record.runs:
            if run.failed_checks:
                self.note_failure(run.run, f"its instruments failed: {'; '.join(run.failed_checks)}")
        self.keep("heads", record)
        return record

    def attack(self, names: Sequence[str]) -> dict[str, Attack]:
        """The results of attacks on these runs, by name; a failed attack is recorded."""
        from headway.studies.jobs import Attack as AttackOnRun

        analyses = [AttackOnRun(self.directory.run(name), self.whole.study) for name in names]
        for analysis, error in self.do("attack", analyses):
            self.note_failure(analysis.run.name, f"its attack: {error}")
        found = {analysis.run.name: analysis.known() for analysis in analyses}
        return {name: document for name, document in found.items() if document is not None}

    def doctor(self) -> StudyHealth:
        """Examine every finished run; the findings are stored with the runs and the study."""
        from headway.studies.jobs import Diagnosis, Heads
        from headway.studies.summaries import doctor_record

        study = self.whole.study
        runs = [self.directory.run(trial.name) for cell in self.whole.cells for trial in cell.trials]
        runs = [run for run in runs if run.exists() and run.newest_state().get("finished")]
        for analysis, error in self.do("doctor", [Diagnosis(run, study) for run in runs]):
            if analysis.run.name not in self.failed:
                self.note_failure(analysis.run.name, f"its examination: {error}")
        cells = {}
        for cell in self.whole.cells:
            own = [run for run in runs if run.name in {trial.name for trial in cell.trials}]
            pairs = [(Diagnosis(run, study).known(), Heads(run, study).known()) for run in own]
            cells[cell.name] = [(found, heads) for found, heads in pairs if found is not None]
        record = doctor_record({name: pairs for name, pairs in cells.items() if pairs})
        self.keep("doctor", record)
        return record

    def report(self, drawn: LengthStudy | None) -> "Written | None":
        """Write the report and the figures of every arm; an error is recorded."""
        from headway.reports.writing import report

        if not self.directory.runs():
            return None
        with self.stages.at("report"), stopping_when_full(self.directory.path):
            try:
                if drawn is not None:
                    draw(drawn, self.directory)
                written = report(self.directory.path, progress=self.progress)
                for problem in written.problems:
                    self.note_failure(f"the report's {problem.partition(':')[0]}", problem.partition(": ")[2])
                return written
            except Exception as problem:
                self._note_or_raise("the report", problem)
        return None

    def explore(self, names: Sequence[str]) -> str | None:
        """Write the interactive page of some runs; an error is recorded."""
        from headway.explorer.writing import explore

        runs = [self.directory.run(name).path for name in names[:EXPLORED]]
        with self.stages.at("explorer"), stopping_when_full(self.directory.path):
            try:
                if not runs:
                    return None
                return explore(
                    *runs,
                    out=self.directory.explorer,
                    force=True,
                    report=self.directory.report.page.name,
                    progress=self.progress,
                ).page
            except Exception as problem:
                self._note_or_raise("the explorer", problem)
        return None


def draw(document: LengthStudy, directory: "StudyDirectory") -> list[Path]:
    """Write the figures of every arm, each in its own folder if there are several; returns their paths."""
    from headway.reports.lengths import write_encodings, write_figures

    arms = list(dict.fromkeys(cell.arm for cell in document.cells))
    remove_figures(directory.figures)  # older figures show an earlier state of the study
    paths = [] if document.patterns is None else write_encodings(document.patterns, directory.figures)
    for arm in arms:
        pairs = [(cell.label or cell.cell, run) for cell in document.cells if cell.arm == arm for run in cell.runs]
        folder = directory.figures / arm if len(arms) > 1 else directory.figures
        if pairs:
            paths += write_figures([run for _, run in pairs], folder, groups=[label for label, _ in pairs])
    return paths


def remove_figures(folder: Path) -> None:
    for path in [*folder.glob("**/*.png"), *folder.glob("**/*.svg")]:
        path.unlink()
