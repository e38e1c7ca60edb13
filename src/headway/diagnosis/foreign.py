"""Data of other programs: a directory of examples in any common form.

Files may be flat or in folders, one or many, JSON, JSON lines or CSV. The form of an example is inferred from all rows
and their keys. A row of another form is rejected with its location. A row of the right form with wrong content (a wrong
target, overlapping splits) is read, so that the checks can report it.
"""

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from headway.diagnosis.records import PLUS, TASK_OF, examples_of, filled_targets, form_of, plus_of, records_of
from headway.diagnosis.rows import Rows, read_rows, split_named
from headway.errors import InputError
from headway.tasks import Examples, Task
from headway.tasks.files import FILE_NAMES

DATA_FILES = {".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".npz"}
OTHER_FILES = {
    ".npy", ".pkl", ".pickle", ".pt", ".pth", ".parquet", ".feather", ".arrow", ".h5", ".hdf5", ".xls",
    ".xlsx", ".gz", ".zip",
}  # fmt: skip
"""Suffixes of files that may hold examples but cannot be read."""
NOT_OPENED = "is not read here; save it as JSON or CSV"
SPLIT_ALONE = re.compile(r"(train|training|val|valid|validation|dev|test|eval|data|set|dataset|len|length|[xy0-9_ -])+")
"""Matches the whole name of a file of examples; files with other names may be notes, weights or archives."""
NO_DATA = re.compile(
    r"result|pred|metric|log|config|summary|history|meta|ablation|stats|info|vocab|package", re.IGNORECASE
)
"""Names of files beside the data that hold something else."""
MOST_FILES = 400


@dataclass(frozen=True)
class ForeignData:
    """A data directory: the task of its examples, and each file's examples with the targets in the file.

    `roles` maps each split to train, validation or test. `left_out` lists files that look like data and could not be
    read, each with the reason.
    """

    task: Task
    splits: dict[str, Examples]
    roles: dict[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    plus: int = PLUS

    def role(self, name: str) -> str:
        return self.roles.get(name, name if name in ("train", "validation") else "test")

    @cached_property
    def lengths_of(self) -> dict[str, np.ndarray]:
        """The length of every example, by split; empty if the task has no lengths."""
        found = {}
        for name, examples in self.splits.items():
            features = self.task.features(examples.source)
            length = features.get("length", features.get("characters"))
            if length is not None:
                found[name] = np.asarray(length)
        return found

    @cached_property
    def by_length(self) -> dict[int, list[Examples]]:
        """The sets on which an accuracy at a length can have been measured.

        A file with only that length comes before the rows of that length in files of several lengths; they are not
        mixed.
        """
        alone: dict[int, list[Examples]] = {}
        among: dict[int, list[Examples]] = {}
        for name, lengths in self.lengths_of.items():
            if self.role(name) == "train":
                continue
            different = np.unique(lengths)
            for one in different.tolist():
                if len(different) == 1:
                    alone.setdefault(one, []).append(self.splits[name])
                else:
                    among.setdefault(one, []).append(self.splits[name].take(lengths == one))
        return {one: alone.get(one, among.get(one, [])) for one in sorted({*alone, *among})}

    @cached_property
    def set_lengths(self) -> tuple[int, ...]:
        """The lengths that have their own test file, or else all lengths of the test files."""
        alone = {int(n[0]) for name, n in self.lengths_of.items() if self.role(name) == "test" and (n == n[0]).all()}
        return tuple(sorted(alone)) or tuple(self.by_length)

    @cached_property
    def remembered(self) -> dict[Any, Any]:
        """Cached counts on these examples."""
        return {}

    @cached_property
    def longest_trained(self) -> int | None:
        """The longest training length; None without lengths or without a training split."""
        found = [int(lengths.max()) for name, lengths in self.lengths_of.items() if self.role(name) == "train"]
        return max(found, default=None)

    def tests(self) -> dict[str, Examples]:
        """The test splits: every file that is neither for training nor for validation."""
        found = {name: split for name, split in self.splits.items() if self.role(name) == "test"}
        return found or self.splits

    def of_role(self, role: str) -> list[Examples]:
        return [split for name, split in self.splits.items() if self.role(name) == role]

    @cached_property
    def measured(self) -> list[Examples]:
        """The sets on which an accuracy without a length can have been measured."""
        tests = self.tests()
        if "test" in tests or len(tests) == 1:
            return [tests.get("test", next(iter(tests.values())))]
        return [Examples.join(list(tests.values()), self.task.vocabulary.pad), *self.of_role("validation")]


def read_data(directory: Path) -> ForeignData:
    """The examples of every file in the directory and its folders; the task is inferred from all rows together."""
    files, left_out = _files(directory)
    if not files:
        names = ", ".join(FILE_NAMES.values())
        why = f"; not read: {'; '.join(left_out)}" if left_out else ""
        raise InputError(f"--data {directory} holds none of {names}, test_<length>.json{why}")
    form = form_of([row for found in files.values() for row in found.rows], next(iter(files.values())).place(0))
    plus = plus_of(files) if form == "addition" else PLUS
    records = {name: records_of(form, found, plus) for name, found in files.items()}
    task = TASK_OF[form]([record for found in records.values() for record in found])
    splits = {name: examples_of(task, filled_targets(task, found)) for name, found in records.items()}
    return ForeignData(task, splits, {name: found.role for name, found in files.items()}, tuple(left_out), plus)


def _files(directory: Path) -> tuple[dict[str, Rows], list[str]]:
    """The rows of each split, training first; and the files that look like data but cannot be read."""
    if directory.is_file():
        paths, root = [directory], directory.parent
    elif directory.is_dir():
        paths, root = sorted(path for path in directory.rglob("*") if _may_be_data(path, directory)), directory
    else:
        raise InputError(f"--data {directory}: no such directory")
    found: list[Rows] = []
    left_out = []
    for path in paths[:MOST_FILES]:
        named = path.parent == root and (path.name in FILE_NAMES.values() or re.fullmatch(r"test_\d+\.json", path.name))
        plain = path.suffix.lower() in (".txt", *OTHER_FILES)
        try:
            if path.suffix.lower() in OTHER_FILES:
                raise InputError(f"{path.relative_to(root)} {NOT_OPENED}")
            found += read_rows(path, root)
        except InputError as problem:
            if named:
                raise
            looks = SPLIT_ALONE.fullmatch(path.name.lower().split(".")[0]) if plain else not NO_DATA.search(path.name)
            if looks and split_named(path.stem):
                left_out.append(str(problem))
    left_out += [f"{len(paths) - MOST_FILES} more files"] * (len(paths) > MOST_FILES)
    if any(rows.named for rows in found):
        found = [rows for rows in found if rows.named]  # Files without a split's name lie beside the data.
    order = {"train": 0, "validation": 1, "test": 2}
    found.sort(key=lambda rows: (order[rows.role], len(rows.name), rows.name))
    splits: dict[str, Rows] = {}
    for rows in found:
        splits[rows.name if rows.name not in splits else rows.path] = rows
    return splits, left_out


def _may_be_data(path: Path, directory: Path) -> bool:
    inside = path.relative_to(directory)
    suffix = path.suffix.lower()
    return (
        suffix in DATA_FILES | OTHER_FILES and path.is_file() and not any(one.startswith(".") for one in inside.parts)
    )
