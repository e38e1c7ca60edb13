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
    """Several runs and what they say together: study.json, runs/, analysis/, report/."""

    kind, mark = "study", "study.json"
    before_plan = ("runs",)  # runs protect themselves: each is a directory that training refuses to share

    @property
    def explorer(self) -> Path:
        """The interactive page, beside the report's."""
        return self.path / "report" / "explorer.html"

    def run(self, name: str) -> RunDirectory:
        return RunDirectory(self.path / "runs" / name)

    def runs(self) -> list[RunDirectory]:
        """The runs that are there, by name."""
        return list_runs(self.path / "runs")

    def read_analysis(self, name: str) -> JsonObject | None:
        """What the runs were found to say together, or None."""
        return read_document(self.analysis(name))

    def read_result(self, kind: type[R], name: str) -> R | None:
        """The same as a type of `results/`; a document of another form raises `InputError`, which names its path."""
        found = self.read_analysis(name)
        return read(kind, found, str(self.analysis(name))) if found else None

    def write_analysis(self, name: str, content: Document | JsonObject) -> Path:
        """Write what the runs say together, in place of what was written before."""
        path = self.analysis(name)
        path.parent.mkdir(exist_ok=True)
        write_json(path, content.to_json() if isinstance(content, Document) else content)
        return path
