"""The course's JSON files: `headway data` writes them, and `--data` checks them line by line."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from headway.bounded_files import parse_json, read_bytes
from headway.config import DataConfig
from headway.errors import InputError
from headway.storage import naming, new_folder
from headway.tasks.base import Task
from headway.tasks.examples import Examples, pad_to_widest
from headway.tasks.splits import SPLITS, Split, fixed_split, overlaps

FILE_NAMES: dict[Split, str] = {"train": "train.json", "validation": "val.json", "test": "test.json"}
EXAMPLES_AT_A_LENGTH = 500


MOST_REMEMBERED = 4
LARGEST_REMEMBERED = 200_000
"""How many examples of splits are cached: 50 MB for the longest rows of the recipes."""
_remembered: dict[tuple[type[Task], str, DataConfig], dict[Split, Examples]] = {}


def make_splits(task: Task, data: DataConfig) -> dict[Split, Examples]:
    """The three fixed splits of a recipe; a recipe with online training data has no train split.

    Small splits are cached and shared, so callers must not modify the arrays.
    """
    # Drawing takes longer than training a tiny model, and the trials of a sweep mostly share their splits.
    key = (type(task), repr(task.options), data)
    if key in _remembered:
        return dict(_remembered[key])
    sizes: dict[Split, int] = {"train": data.train, "validation": data.validation, "test": data.test}
    wanted = [split for split in SPLITS if not (data.fresh and split == "train")]
    splits = {split: fixed_split(task, split, sizes[split], data.seed) for split in wanted}
    if sum(map(len, splits.values())) <= LARGEST_REMEMBERED:
        if len(_remembered) == MOST_REMEMBERED:
            del _remembered[next(iter(_remembered))]
        _remembered[key] = dict(splits)
    return splits


def write_files(task: Task, data: DataConfig, directory: Path) -> dict[str, int]:
    """Write the three splits and a test file for each of the task's lengths; returns examples by file name.

    The directory must be new or empty; all files appear in it at once.
    """
    contents = {FILE_NAMES[split]: examples for split, examples in make_splits(task, data).items()}
    for length in task.test_lengths():
        at_length = fixed_split(task.at_length(length), "test", EXAMPLES_AT_A_LENGTH, data.seed)
        contents[f"test_{length}.json"] = at_length
    with new_folder(directory) as folder:
        for name, examples in contents.items():
            rows = [task.to_record(s, t) for s, t in zip(examples.source, examples.target, strict=True)]
            lines = ",\n".join(json.dumps(row) for row in rows)
            with naming(directory / name):
                (folder / name).write_bytes(f"[\n{lines}\n]\n".encode())
    return {name: len(examples) for name, examples in contents.items()}


def read_splits(task: Task, directory: Path, *, allow_overlap: bool) -> tuple[dict[Split, Examples], dict[str, int]]:
    """The three splits of a directory and their overlaps; raises for overlaps unless they are allowed."""
    if not directory.is_dir():
        raise InputError(f"no data directory at {directory}")
    splits = {split: read_file(task, directory / name) for split, name in FILE_NAMES.items()}
    more = {path.name: read_file(task, path) for path in files_of_lengths(directory)}
    shared = overlaps(task, {**{str(split): examples for split, examples in splits.items()}, **more})
    if shared and not allow_overlap:
        counts = ", ".join(f"{pair} share {count:,}" for pair, count in shared.items())
        raise InputError(f"{directory}: splits overlap ({counts} examples); --allow-overlap accepts it")
    return splits, shared


def files_of_lengths(directory: Path) -> list[Path]:
    """The test files of single lengths, `test_32.json` and so on."""
    return sorted(directory.glob("test_*.json"))


def read_file(task: Task, path: Path) -> Examples:
    """The examples of one file; raises with the file and the index of the first invalid example."""
    rows = []
    for index, record in enumerate(read_list(path)):
        try:
            rows.append(_checked(task, record))
        except InputError as error:
            raise InputError(f"{path.name}[{index}]: {error}") from None
    sources = [np.array([source], dtype=np.int64) for source, _ in rows]
    if task.kind == "class":
        targets = np.array([target for _, target in rows], dtype=np.int64)
    else:
        targets = pad_to_widest([np.array([target], dtype=np.int64) for _, target in rows], task.vocabulary.pad)
    return Examples(pad_to_widest(sources, task.vocabulary.pad), targets)


def read_list(path: Path) -> list[Any]:
    """The list that a JSON file holds."""
    if not path.exists():
        raise InputError(f"{path.name}: no such file in {path.parent}; {', '.join(FILE_NAMES.values())} needed")
    content_bytes = read_bytes(path)
    try:
        content = parse_json(content_bytes.decode())
    except ValueError as error:
        raise InputError(f"{path.name} cannot be read as JSON: {error}") from None
    if not isinstance(content, list):
        raise InputError(f"{path.name}: a list of examples needed, got {type(content).__name__}")
    if not content:
        raise InputError(f"{path.name}: the list is empty")
    return content


def _checked(task: Task, record: Any) -> tuple[list[int], list[int] | int]:
    if not isinstance(record, dict):
        raise InputError(f"an object needed, got {record!r:.60}")
    try:
        return task.from_record(record)
    except KeyError as error:
        raise InputError(f"key {error} is missing; it has {', '.join(map(repr, record)) or 'none'}") from None
