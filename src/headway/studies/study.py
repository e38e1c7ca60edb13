"""A whole experiment, from training to report and explorer: `hw.study` and `headway study`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headway.callbacks import OnEvent
from headway.errors import InputError, suggestion
from headway.json_values import JsonObject
from headway.results.attack import Attack
from headway.results.doctor import StudyHealth
from headway.results.evaluation import SequenceEvaluation
from headway.results.heads_study import HeadsStudy
from headway.results.schema import Document, write
from headway.results.study import AccuracyStudy, EvaluatedRun, FailedTraining, LengthStudy, MeasuredRun
from headway.studies.plan import Study, plan_study
from headway.studies.presets import PRESETS
from headway.studies.work import Work

if TYPE_CHECKING:
    from headway.reports.writing import Written

DISAGREE = "decoding and the teacher-forced pass disagree; the accuracy of this run cannot be trusted"


@dataclass(frozen=True)
class StudyResult(Document):
    """The results of a study, and its directory.

    `lengths` is the result of a length study, `accuracy` that of an accuracy study with one row per run. `attacks` are
    the attacks on runs that hold a length beyond training, by name. `heads` and `doctor` summarise the head analyses
    and the doctor's findings of all runs. `unsound` is true if a run failed, or if the doctor found an error that is
    not a result of the comparison.
    """

    directory: Path
    summary: Path
    lengths: LengthStudy | None
    accuracy: AccuracyStudy | None
    attacks: Mapping[str, Attack]
    heads: HeadsStudy
    doctor: StudyHealth
    report: "Written | None"
    explorer: str | None
    failed: Mapping[str, str]
    seconds: Mapping[str, float]
    unsound: bool

    def to_json(self) -> JsonObject:
        """The document of lengths or of accuracy, and beside it what the other stages found."""
        document = self.lengths or self.accuracy
        found: dict[str, object] = {"study": str(self.directory), **(document.to_json() if document else {})}
        found |= {"heads": self.heads, "doctor": self.doctor, "attacks": self.attacks, "failed": self.failed}
        found |= {"report": self.report, "explorer": self.explorer, "seconds": self.seconds}
        return {key: write(part) for key, part in found.items() if key != "attacks" or self.attacks}


def study(
    experiment: str,
    *,
    preset: str = "standard",
    seeds: Sequence[int] | None = None,
    arms: Sequence[str] | None = None,
    device: str = "auto",
    figures: bool = True,
    out: str | Path | None = None,
    command: Sequence[str] = ("hw.study",),
    on_event: OnEvent = lambda event: None,
) -> StudyResult:
    """Run a whole experiment, or continue one that was stopped. `on_event` gets every event (studies/stages.py).

    >>> hw.study("addition", preset="quick").report.page   # doctest: +SKIP
    """
    from headway.batches import pick_device
    from headway.runs import StudyDirectory

    whole = plan_study(chosen(experiment, preset), seeds)
    part = whole if arms is None else whole.part(arms)
    pick_device(device)
    directory = StudyDirectory(out or Path("studies") / f"{experiment}-{preset}")
    if directory.path.exists() and not directory.path.is_dir():
        raise InputError(f"--out {directory.path} is a file; a directory needed")
    plan = whole.to_json(experiment, preset)
    directory.check_same(plan)
    with directory.lock():
        directory.begin(plan)
        return _run_stages(Work(whole, part, directory, device, on_event, command), experiment, preset, figures)


def _run_stages(work: Work, experiment: str, preset: str, figures: bool) -> StudyResult:
    """Train, measure, analyse and report what is left to do."""
    from headway.studies.summaries import is_unsound

    whole, directory = work.whole, work.directory
    work.train()
    lengths, accuracy, attacks = None, None, {}
    if whole.study.measured == "accuracy":
        accuracy = AccuracyStudy(experiment=experiment, preset=preset, runs=accuracies_of(work))
        summary = work.keep("summary", accuracy)
    else:
        lengths = lengths_of(work, experiment, preset)
        summary = work.keep("lengths", lengths)
        attacks = attacks_of(work, lengths)
    heads, health = work.heads(), work.doctor()
    page = work.explore([one.run for one in heads.runs])  # before the report, which links to it
    written = work.report(lengths if figures else None)
    return StudyResult(
        directory=directory.path,
        summary=summary,
        lengths=lengths,
        accuracy=accuracy,
        attacks=attacks,
        heads=heads,
        doctor=health,
        report=written,
        explorer=page,
        failed=work.failed,
        seconds=work.stages.seconds,
        unsound=bool(work.failed) or is_unsound(health, comparing=len(whole.cells) > 1),
    )


def chosen(experiment: str, preset: str) -> Study:
    """The study with this name and preset."""
    if experiment not in PRESETS:
        raise InputError(f"unknown study {experiment!r}; {suggestion(experiment, PRESETS)}")
    if preset not in PRESETS[experiment]:
        raise InputError(f"--preset {preset!r}; {suggestion(preset, PRESETS[experiment])}")
    return PRESETS[experiment][preset]


def accuracies_of(work: Work) -> tuple[EvaluatedRun, ...]:
    """The training and the accuracy of every run, on the whole domain if the task can list it."""
    from headway.studies.jobs import Accuracy
    from headway.studies.runner import training_of

    measured, rows = work.measure(Accuracy), []
    for trial in (trial for cell in work.part.cells for trial in cell.trials):
        run, found = work.directory.run(trial.name), measured.get(trial.name)
        if found is None:
            error = work.failed.get(trial.name, "it was not measured")
            rows.append(EvaluatedRun(training=FailedTraining(run=str(run.path), error=error), evaluation=None))
            continue
        rows.append(EvaluatedRun(training=training_of(run), evaluation=found))
        if isinstance(found, SequenceEvaluation) and found.real_disagreements:
            work.note_failure(trial.name, DISAGREE)
    return tuple(rows)


def lengths_of(work: Work, experiment: str, preset: str) -> LengthStudy:
    """Accuracy against length of every trained run, its summary, and the mechanism of failures."""
    from headway.length_analysis.patterns import encoding_patterns
    from headway.studies.answer import answer, costs, decisions
    from headway.studies.jobs import Lengths
    from headway.studies.runner import findings, judged

    found = work.measure(Lengths)
    measured = {name: judged(one, work.directory.run(name)) for name, one in found.items()}
    for name, run in measured.items():
        if run.disagrees:
            work.note_failure(name, DISAGREE)
    if "why" in work.stages.names:
        ask_why(work, measured)
    cells = tuple(findings(work.whole, work.directory, measured, work.failed))
    return LengthStudy(
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


def attacks_of(work: Work, lengths: LengthStudy) -> dict[str, Attack]:
    """Attack the runs that hold a length beyond training."""
    from headway.studies.runner import worth_attacking

    if "attack" not in work.stages.names:
        return {}
    return work.attack(worth_attacking({Path(run.run).name: run for cell in lengths.cells for run in cell.runs}))


def ask_why(work: Work, measured: dict[str, MeasuredRun]) -> None:
    """Analyse the mechanism of the failing runs that the study selects; results are added to their documents."""
    from headway.studies.jobs import Why
    from headway.studies.runner import asked_why, judged

    names = [[trial.name for trial in cell.trials if trial.name in measured] for cell in work.whole.cells]
    asked = asked_why(names, measured, work.whole.study.mechanism)
    analyses = [Why(work.directory.run(name), work.whole.study) for name in asked]
    for analysis, error in work.do("why", analyses):
        work.note_failure(analysis.run.name, f"its mechanism: {error}")
    measured |= {
        analysis.run.name: judged(found, analysis.run)
        for analysis in analyses
        if (found := analysis.known()) is not None
    }
