"""The directory of a study."""

from pathlib import Path
from typing import TypeVar

from headway.json_values import JsonObject
from headway.results.schema import Document, read
from headway.runs.directory import PlannedDirectory
from headway.runs.run import RunDirectory, list_runs
from headway.storage import read_document, write_json

R = TypeVar("R")


class StudyDirectory(PlannedDirectory):
    """Several runs and their summaries: study.json, runs/, analysis/, report/."""

    kind, mark = "study", "study.json"
    before_plan = ("lock", "runs")  # training protects each run directory itself

    @property
    def explorer(self) -> Path:
        """The interactive page, beside the report's."""
        return self.path / "report" / "explorer.html"

    def run(self, name: str) -> RunDirectory:
        return RunDirectory(self.path / "runs" / name)

    def runs(self) -> list[RunDirectory]:
        """The existing runs, by name."""
        return list_runs(self.path / "runs")

    def read_analysis(self, name: str) -> JsonObject | None:
        """A summary over the study's runs, or None."""
        return read_document(self.analysis(name))

    def read_result(self, kind: type[R], name: str) -> R | None:
        """The same as a type of `results/`; a document of another form raises `InputError` with its path."""
        found = self.read_analysis(name)
        return read(kind, found, str(self.analysis(name))) if found else None

    def write_analysis(self, name: str, content: Document | JsonObject) -> Path:
        """Write a summary over the study's runs, replacing the earlier one."""
        path = self.analysis(name)
        path.parent.mkdir(exist_ok=True)
        write_json(path, content.to_json() if isinstance(content, Document) else content)
        return path
