"""The directory of a model of another program that was analysed."""

from pathlib import Path
from typing import TypeVar

from headway.errors import InputError
from headway.results.analysed_model import AnalysedModel
from headway.results.schema import Document, read
from headway.runs.directory import Directory
from headway.storage import read_document, write_json

R = TypeVar("R")


class ModelDirectory(Directory):
    """model.json and the analyses; no config, no checkpoint, no metrics."""

    kind, mark = "analysed model", "model.json"

    def check_free(self, model: str) -> None:
        """Raise unless the directory is new, empty, or holds an earlier analysis of the same model."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"--out {self.path} is a file; a directory needed")
        if self.exists():
            other = self.record().model
            if other != model:
                raise InputError(f"--out {self.path} holds the analysis of {other}; choose another directory")
        elif self.path.is_dir() and any(self.path.iterdir()):
            raise InputError(f"--out {self.path} holds other files; an empty or new directory needed")

    def write(self, record: AnalysedModel, **documents: Document) -> None:
        """Write the analyses, then model.json, which marks the directory as complete."""
        folder = self.path / "analysis"
        folder.mkdir(parents=True, exist_ok=True)
        for name, document in documents.items():
            write_json(self.analysis(name), document.to_json())
        write_json(self.path / self.mark, record.to_json())

    def add(self, name: str, document: Document) -> Path:
        """Add a result of the same model."""
        write_json(self.analysis(name), document.to_json())
        return self.analysis(name)

    def record(self) -> AnalysedModel:
        path = self.path / self.mark
        return read(AnalysedModel, read_document(path) or {}, str(path))

    def read_result(self, kind: type[R], name: str) -> R | None:
        found = read_document(self.analysis(name))
        return read(kind, found, str(self.analysis(name))) if found else None


def find_model(subject: object) -> ModelDirectory | None:
    """The analysed model at a path; None if there is none."""
    if not isinstance(subject, str | Path):
        return None
    found = ModelDirectory(subject)
    return found if found.exists() else None
