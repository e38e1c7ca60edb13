"""Reads the documents of a report from directories; nothing is computed.

Every value knows its place (`runs/0/heads/baseline/wrong`), so that the page can show it and a test can check it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.callbacks import CurvePoint, MetricsRow
from headway.errors import InputError
from headway.narration.numbers import size
from headway.narration.places import place_of, placed
from headway.narration.text import Number
from headway.results.analysed_model import AnalysedModel
from headway.results.attack import Attack
from headway.results.doctor import UNLEARNED, Diagnosis, Finding, StudyHealth
from headway.results.evaluation import Evaluations, SplitEvaluation
from headway.results.heads import HeadAnalysis
from headway.results.heads_study import HeadsStudy
from headway.results.lengths import Lengths
from headway.results.over_training import OverTraining
from headway.results.proof import Proof
from headway.results.study import AccuracyStudy, LengthStudy, StudyCell
from headway.runs import ModelDirectory, ReportDirectory, RunDirectory, StudyDirectory, find_model
from headway.runs.records import Provenance, TrainingRecord

TYPES: dict[str, type] = {
    "evaluation": Evaluations,
    "heads": HeadAnalysis,
    "over_training": OverTraining,
    "lengths": Lengths,
    "attack": Attack,
    "proof": Proof,
    "doctor": Diagnosis,
}
"""The documents that commands add to a run."""
STUDY_TYPES: dict[str, type] = {
    "lengths": LengthStudy,
    "heads": HeadsStudy,
    "doctor": StudyHealth,
    "summary": AccuracyStudy,
}
"""The documents of a study about its runs."""


@dataclass(frozen=True)
class Curves:
    """Metrics as two lists: those of training and those of validation."""

    training: Sequence[CurvePoint] = ()
    validation: Sequence[CurvePoint] = ()


@dataclass(frozen=True)
class RunDocuments:
    """All documents of a run; `damaged` maps names of unreadable files to the reason."""

    name: str
    path: str
    config: Mapping[str, Any] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
    training: TrainingRecord = field(default_factory=TrainingRecord)
    metrics: Curves = Curves()
    evaluation: Evaluations | None = None
    heads: HeadAnalysis | None = None
    over_training: OverTraining | None = None
    lengths: Lengths | None = None
    attack: Attack | None = None
    proof: Proof | None = None
    doctor: Diagnosis | None = None
    model: AnalysedModel | None = None
    """What was analysed, if headway did not train the model."""
    damaged: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Where the run stands in the documents: `runs/0`."""
        return place_of(self.name).removesuffix("/name")

    @property
    def anchor(self) -> str:
        """A name for the run in the page's own links."""
        return self.place.replace("/", "-")

    def evaluated(self, split: str) -> SplitEvaluation | None:
        return None if self.evaluation is None else self.evaluation.of(split)

    @property
    def best_evaluation(self) -> SplitEvaluation | None:
        """The evaluation on the whole domain, or else on the test split."""
        splits = (self.evaluated(split) for split in ("all", "test", "validation"))
        return next((found for found in splits if found is not None), None)

    @property
    def findings(self) -> Sequence[Finding]:
        return () if self.doctor is None else self.doctor.findings

    @property
    def errors(self) -> list[Finding]:
        return [one for one in self.findings if one.level == "error"]

    @property
    def unlearned(self) -> Finding | None:
        """The doctor's finding that the model learned nothing, so that its heads mean nothing."""
        return next((one for one in self.findings if one.check in UNLEARNED and one.level != "fine"), None)


@dataclass(frozen=True)
class StudyDocuments:
    """The documents of a study without those of its runs."""

    name: str
    path: str
    plan: Mapping[str, Any] = field(default_factory=dict)
    lengths: LengthStudy | None = None
    heads: HeadsStudy | None = None
    doctor: StudyHealth | None = None
    summary: AccuracyStudy | None = None
    damaged: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Documents:
    """The documents of a report."""

    runs: tuple[RunDocuments, ...]
    study: StudyDocuments | None = None

    @property
    def cells(self) -> Sequence[StudyCell]:
        """The combinations of a length study."""
        return () if self.study is None or self.study.lengths is None else self.study.lengths.cells

    @property
    def together(self) -> Sequence[Finding]:
        """The doctor's findings on all runs of a study together."""
        return () if self.study is None or self.study.doctor is None else self.study.doctor.together

    @property
    def n_runs(self) -> Number:
        return size(self.runs)

    @property
    def with_heads(self) -> list[tuple[RunDocuments, HeadAnalysis]]:
        return [(run, run.heads) for run in self.runs if run.heads is not None and run.heads.heads]

    @property
    def with_lengths(self) -> list[tuple[RunDocuments, Lengths]]:
        return [(run, run.lengths) for run in self.runs if run.lengths is not None]

    @property
    def examined(self) -> list[RunDocuments]:
        return [run for run in self.runs if run.doctor is not None]


@dataclass(frozen=True)
class LoadedDocuments:
    """The documents of one run, of several, or of a study, and the default directory of their report."""

    documents: Documents
    place: ReportDirectory
    name: str


def gather(subjects: Sequence[str | Path | RunDirectory]) -> LoadedDocuments:
    """Read the documents of runs, or of one study with all its runs."""
    if not subjects:
        raise InputError("no run was named; a report needs one or more")
    studies = [study for subject in subjects if (study := find_study(subject)) is not None]
    if studies:
        if len(subjects) > 1:
            raise InputError(f"{studies[0].path} is a study and has a report of its own; name it alone")
        return load_study_documents(studies[0])
    models = [model for subject in subjects if (model := find_model(subject)) is not None]
    if models:
        if len(subjects) > 1:
            raise InputError(
                f"{models[0].path} is a model of another program and has a report of its own; name it alone"
            )
        return load_model_documents(models[0])
    return load_run_documents(
        [one if isinstance(one, RunDirectory) else RunDirectory.find(str(one)) for one in subjects]
    )


def find_study(subject: str | Path | RunDirectory) -> StudyDirectory | None:
    """The study at a path, or with that name under ./studies; None if there is none."""
    if isinstance(subject, RunDirectory):
        return None
    places = [StudyDirectory(path) for path in (Path(subject), Path("studies") / subject)]
    return next((study for study in places if study.exists()), None)


def load_study_documents(study: StudyDirectory) -> LoadedDocuments:
    runs = study.runs()
    if not runs:
        raise InputError(f"{study.path} has no runs yet; headway study makes them")
    together = readable(study, STUDY_TYPES)
    found = StudyDocuments(name=study.path.name, path=str(study.path), plan=study.plan(), **together)
    return LoadedDocuments(documents_of([of_run(run) for run in runs], found), study.report, study.path.name)


def load_model_documents(model: ModelDirectory) -> LoadedDocuments:
    record = model.record()
    found = RunDocuments(
        name=record.model,
        path=str(model.path),
        provenance={"command": list(record.command), "time": record.time, "versions": dict(record.versions)},
        model=record,
        **readable(model, {name: TYPES[name] for name in ("heads", "lengths", "doctor")}),
    )
    return LoadedDocuments(documents_of([found]), model.report, model.path.resolve().name)


def load_run_documents(runs: Sequence[RunDirectory]) -> LoadedDocuments:
    paths = [run.path.resolve() for run in runs]
    if len(set(paths)) < len(paths):
        raise InputError("a run is named twice; every run counts once")
    documents = documents_of([of_run(run) for run in runs])
    first = paths[0].name
    if len(runs) == 1:
        return LoadedDocuments(documents, runs[0].report, first)
    name = f"{first}-and-{len(runs) - 1}-more"
    return LoadedDocuments(documents, ReportDirectory(Path("reports") / name), name)


def documents_of(runs: Sequence[RunDocuments], study: StudyDocuments | None = None) -> Documents:
    """The documents, with the place of every value."""
    return placed(Documents(tuple(runs), study), "")


def of_run(run: RunDirectory) -> RunDocuments:
    found = readable(run, TYPES)
    if damage := run.damaged_state():
        found["damaged"]["training"] = f"{run.path}: {damage}"
    return RunDocuments(
        name=run.path.resolve().name,
        path=str(run.path),
        config=run.config().to_json(),
        provenance=run.provenance(),
        training=run.newest_state(),
        metrics=curves(run.metrics()),
        **found,
    )


def readable(place: RunDirectory | StudyDirectory | ModelDirectory, types: Mapping[str, type]) -> dict[str, Any]:
    """The existing documents; under `damaged`, the reason why one cannot be read, by name."""
    found: dict[str, Any] = {"damaged": {}}
    for name, kind in types.items():
        try:
            found[name] = place.read_result(kind, name)
        except InputError as problem:
            found["damaged"][name] = str(problem)
    return found


def curves(records: Sequence[MetricsRow]) -> Curves:
    """Metrics as two lists: training and validation."""
    training: list[CurvePoint] = [
        {"step": one["step"], "loss": one["loss"]} for one in records if "loss" in one and "step" in one
    ]
    validation: list[CurvePoint] = [
        {"step": one["step"], "loss": one["validation"]["loss"], "accuracy": one["validation"]["accuracy"]}
        for one in records
        if "validation" in one
    ]
    return Curves(tuple(training), tuple(validation))
