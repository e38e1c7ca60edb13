"""Small data directories and prediction files, as another program would leave them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from headway.config import Choice, DataConfig
from headway.tasks import make_task
from headway.tasks.files import write_files

OPTIONS: dict[str, dict[str, Any]] = {
    "addition": {"digits": 3},
    "addition-text": {"max_characters": 14, "test_lengths": [20]},
    "sortedness": {"min_length": 5, "max_length": 8, "test_lengths": [12, 20, 32]},
}
SIZES = DataConfig(seed=3, train=300, validation=60, test=400)

Row = dict[str, Any]


def write_data(directory: Path, task: str) -> Path:
    """The course's files of a task."""
    write_files(make_task(Choice(name=task, options=OPTIONS[task])), SIZES, directory)
    return directory


def rows_of(directory: Path, name: str = "test.json") -> list[Row]:
    rows: list[Row] = json.loads((directory / name).read_text())
    return rows


def rewrite(directory: Path, name: str, rows: list[Row]) -> None:
    (directory / name).write_text(json.dumps(rows))


def predict(path: Path, rows: list[Row], answer: Callable[[Row], Any]) -> Path:
    """A prediction file with `answer` for every row of a data file."""
    target = "is_sorted" if "sequence" in rows[0] else "target"
    source = "sequence" if "sequence" in rows[0] else "input"
    lines = [{source: row[source], "target": row[target], "prediction": answer(row)} for row in rows]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def keep_share(directory: Path, name: str, unsorted: int, n: int) -> None:
    """Leave n sequences in a file, of which so many are unsorted."""
    rows = rows_of(directory, name)
    order = np.random.default_rng(0).permutation(len(rows))
    by_class = [[rows[index] for index in order if rows[index]["is_sorted"] == label] for label in (0, 1)]
    rewrite(directory, name, by_class[0][:unsorted] + by_class[1][: n - unsorted])
