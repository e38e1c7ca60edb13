"""From directories to the documents of a report: what the runs' JSON files hold, and nothing computed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.reports.evidence import METHOD, Evidence
from headway.results.evaluation import Evaluations
from headway.results.heads import HeadAnalysis
from headway.results.lengths import Lengths
from headway.results.study import AccuracyStudy, LengthStudy
from headway.runs import ReportDirectory, RunDirectory, StudyDirectory

ANALYSES = ("evaluation", "heads", "lengths", "doctor")
"""What later commands add to a run."""
STUDY_ANALYSES = (*ANALYSES, "summary")
TYPES: dict[str, type] = {"evaluation": Evaluations, "heads": HeadAnalysis, "lengths": Lengths}
STUDY_TYPES: dict[str, type] = {"lengths": LengthStudy, "summary": AccuracyStudy}
"""Documents that are read as results; the others are as they were written."""


@dataclass(frozen=True)
class Gathered:
    """The documents of one run, of several, or of a study, and where their report goes by default."""

    evidence: Evidence
    place: ReportDirectory
    name: str


def gather(subjects: Sequence[str | Path | RunDirectory]) -> Gathered:
    """Read what the subjects hold: runs, or one study with all its runs."""
    if not subjects:
        raise InputError("no run was named; a report needs one or more")
    studies = [study for subject in subjects if (study := find_study(subject)) is not None]
    if studies:
        if len(subjects) > 1:
            raise InputError(f"{studies[0].path} is a study and has a report of its own; name it alone")
        return gather_study(studies[0])
    return gather_runs([subject if isinstance(subject, RunDirectory) else find_run(subject) for subject in subjects])


def find_study(subject: str | Path | RunDirectory) -> StudyDirectory | None:
    """The study at a path, or of that name under ./studies; None where there is none."""
    if isinstance(subject, RunDirectory):
        return None
    for path in (Path(subject), Path("studies") / subject):
        if StudyDirectory(path).exists():
            return StudyDirectory(path)
    return None


def find_run(subject: str | Path) -> RunDirectory:
    return RunDirectory.find(str(subject))


def gather_study(study: StudyDirectory) -> Gathered:
    runs = study.runs()
    if not runs:
        raise InputError(f"{study.path} has no runs yet; headway study makes them")
    together = readable(study, STUDY_ANALYSES, STUDY_TYPES)
    documents = {"study": {"name": study.path.name, "path": str(study.path), "plan": study.plan(), **together}}
    return Gathered(Evidence({**documents, **of_runs(runs)}), study.report, study.path.name)


def gather_runs(runs: Sequence[RunDirectory]) -> Gathered:
    paths = [run.path.resolve() for run in runs]
    if len(set(paths)) < len(paths):
        raise InputError("a run is named twice; every run counts once")
    first = runs[0].path.resolve().name
    if len(runs) == 1:
        return Gathered(Evidence(of_runs(runs)), runs[0].report, first)
    name = f"{first}-and-{len(runs) - 1}-more"
    return Gathered(Evidence(of_runs(runs)), ReportDirectory(Path("reports") / name), name)


def of_runs(runs: Sequence[RunDirectory]) -> dict[str, Any]:
    return {"runs": [of_run(run) for run in runs], "method": METHOD}


def of_run(run: RunDirectory) -> dict[str, Any]:
    """Everything that a run's files say, under one name each; what is not there is left out."""
    return {
        "name": run.path.resolve().name,
        "path": str(run.path),
        "config": run.config().to_json(),
        "provenance": run.provenance(),
        "training": run.newest_state(),
        "metrics": curves(run.metrics()),
        **readable(run, ANALYSES, TYPES),
    }


def readable(place: RunDirectory | StudyDirectory, names: Sequence[str], types: Mapping[str, type]) -> dict[str, Any]:
    """The documents that are there; under `damaged`, by name, why one cannot be read."""
    found: dict[str, Any] = {}
    damaged: dict[str, str] = {}
    for name in names:
        try:
            if document := place.read_result(types[name], name) if name in types else place.read_analysis(name):
                found[name] = document
        except InputError as problem:
            damaged[name] = str(problem)
    return found | ({"damaged": damaged} if damaged else {})


def curves(records: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Metrics as two lists: what training recorded, and what validation did."""
    return {
        "training": [record for record in records if "loss" in record and "step" in record],
        "validation": [{"step": one["step"], **one["validation"]} for one in records if "validation" in one],
    }
