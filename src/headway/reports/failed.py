"""Runs of a study that failed, each with the reason."""

from pathlib import PurePath

from markupsafe import Markup

from headway.reports.evidence import Evidence
from headway.results.study import FailedTraining


def failures(evidence: Evidence) -> list[Markup]:
    """`seed4 failed: why`, for every run of the study that did."""
    study = evidence.length_study
    found = [
        failure(evidence, f"study/lengths/cells/{index}/failed/{name}", run_name(evidence, name))
        for index, cell in enumerate(() if study is None else study.cells)
        for name in cell.failed
    ]
    summary = evidence.accuracy_study
    for index, row in enumerate(() if summary is None else summary.runs):
        if isinstance(row.training, FailedTraining):
            name = run_name(evidence, PurePath(row.training.run).name)
            found.append(failure(evidence, f"study/summary/runs/{index}/training/error", name))
    return found


def failure(evidence: Evidence, path: str, name: Markup) -> Markup:
    return Markup("{} failed: {}").format(name, evidence.text(path))


def run_name(evidence: Evidence, name: str) -> Markup:
    """The name of a run, from its own files where it came so far as to have any."""
    known = [run for run in evidence.runs if evidence.get(f"{run}/name") == name]
    return evidence.text(f"{known[0]}/name", "code") if known else Markup("<code>{}</code>").format(name)
