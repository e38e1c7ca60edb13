"""The common part of run, study and sweep directories."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from headway.errors import InputError
from headway.json_values import JsonObject
from headway.runs.report import ReportDirectory
from headway.storage import check_not_held, held_for_writing, read_json, write_json


class Directory:
    """A directory that the file `mark` identifies as a run, a study or a sweep."""

    kind: ClassVar[str]
    mark: ClassVar[str]

    def __init__(self, path: Path | str):
        self.path = Path(path)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def report(self) -> ReportDirectory:
        return ReportDirectory(self.path / "report")

    @property
    def figures(self) -> Path:
        return self.report.figures

    def exists(self) -> bool:
        return (self.path / self.mark).is_file()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the directory for writing; a second writer raises, with the first one's number. A kill releases it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with held_for_writing(self.path):
            yield

    def check_not_locked(self) -> None:
        """Raise if another process writes here."""
        check_not_held(self.path)

    def analysis(self, name: str) -> Path:
        """The file of an analysis."""
        return self.path / "analysis" / f"{name}.json"


def check_links(folder: Path) -> None:
    """Raise for a link in a folder that leads out of it, and for a pipe or a device: neither is read or written."""
    inside = folder.resolve()
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "trials"]  # runs of a sweep, each checked when it is read
        for name in (*folders, *files):
            path = Path(parent, name)
            if path.is_symlink() and not path.resolve().is_relative_to(inside):
                raise InputError(f"{path} is a link that leads out of {folder}; a copy in its place needed")
            if not (path.is_file() or path.is_dir() or path.is_symlink()):
                raise InputError(f"{path} is a pipe or a device; a file needed")


class PlannedDirectory(Directory):
    """A study or a sweep: its mark is a plan, which is written first."""

    before_plan: ClassVar[tuple[str, ...]]
    """Names that may exist before the plan is written, in addition to a partial plan of a killed process."""

    def plan(self) -> JsonObject:
        """The stored plan."""
        found = read_json(self.path / self.mark)
        if not isinstance(found, dict):
            raise InputError(f"{self.path / self.mark} is not the plan of a {self.kind}")
        return found

    def begin(self, plan: JsonObject) -> None:
        """Write the plan; raises if the directory was started with another one."""
        self.check_same(plan)
        if not self.exists():
            self.path.mkdir(parents=True, exist_ok=True)
            write_json(self.path / self.mark, plan)

    def check_same(self, plan: JsonObject) -> None:
        """Raise if the directory holds anything other than this plan; writes nothing."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"--out {self.path} is a file; a directory needed")
        if self.exists() and self.plan() != json.loads(json.dumps(plan)):
            raise InputError(f"{self.path} holds another {self.kind}; choose another --out")
        if not self.exists() and self.path.is_dir() and self._holds_other_files():
            raise InputError(f"--out {self.path} holds other files; an empty or new directory needed")

    def _holds_other_files(self) -> bool:
        names = [path.name for path in self.path.iterdir()]
        return any(name not in self.before_plan and not name.startswith(f"{self.mark}.writing-") for name in names)
