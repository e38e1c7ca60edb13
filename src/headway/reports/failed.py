"""The failed runs of a study, each with its error."""

from pathlib import PurePath

from headway.narration.text import Text, code, quote, text
from headway.reports.documents import Documents
from headway.results.study import FailedTraining


def failures(documents: Documents) -> list[Text]:
    """`seed4 failed: why`, for every failed run of the study."""
    failed = [(name, why) for cell in documents.cells for name, why in cell.failed.items()]
    if documents.study is not None and documents.study.summary is not None:
        trainings = [row.training for row in documents.study.summary.runs]
        failed += [(PurePath(one.run).name, one.error) for one in trainings if isinstance(one, FailedTraining)]
    names = {run.name: run.name for run in documents.runs}  # with its place, if the run has files
    return [text("{} failed: {}", code(names.get(name, name)), quote(why)) for name, why in failed]
