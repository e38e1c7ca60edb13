"""Runs of a study that failed, each with the reason."""

from pathlib import PurePath

from headway.narration.text import Text, code, quote, text
from headway.reports.documents import Documents
from headway.results.study import FailedTraining


def failures(documents: Documents) -> list[Text]:
    """`seed4 failed: why`, for every run of the study that did."""
    failed = [(name, why) for cell in documents.cells for name, why in cell.failed.items()]
    if documents.study is not None and documents.study.summary is not None:
        trainings = [row.training for row in documents.study.summary.runs]
        failed += [(PurePath(one.run).name, one.error) for one in trainings if isinstance(one, FailedTraining)]
    names = {run.name: run.name for run in documents.runs}  # its own, where it came so far as to have files
    return [text("{} failed: {}", code(names.get(name, name)), quote(why)) for name, why in failed]
