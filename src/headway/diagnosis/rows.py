"""Reads rows of examples from JSON, JSON lines, CSV, text or numpy files, with one split per file, folder or key.

train.json                          [{"input": ..., "target": ...}]
extrapolation/test_len_32.json      {"examples": [...]}
dataset.json                        {"train": [...], "test": [...]}
predictions.json                    {"inputs": [...], "targets": [...], "predictions": [...]}
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from headway.bounded_files import LARGEST, check_size, check_unpacked, lines_of, parse_json, read_bytes
from headway.diagnosis.frames import as_object, rows_of_frame, rows_of_lines
from headway.errors import InputError

SOURCE_KEYS = (
    "input", "sequence", "example", "x", "seq", "src", "source", "question", "numbers", "nums", "array", "list",
    "expression", "problem", "prompt", "tokens", "text", "inputs", "sequences", "sources",
)  # fmt: skip
TARGET_KEYS = (
    "target", "is_sorted", "label", "y", "tgt", "expected", "gold", "true", "y_true", "truth", "ground_truth", "answer",
    "sum", "result", "sorted", "class", "output", "reference", "targets", "labels",
)  # fmt: skip
PREDICTION_KEYS = (
    "prediction", "pred", "predicted", "y_pred", "model_answer", "model_output", "hypothesis", "hyp", "generated",
    "decoded", "greedy", "output", "predictions", "preds", "outputs",
)  # fmt: skip
LENGTH_KEYS = ("length", "len", "lengths")
PREDICTED = frozenset(PREDICTION_KEYS) - {"output", "outputs"}
"""Keys that occur only in files of predictions."""
ROLES = {
    "train": re.compile(r"train|training|trn|tr"),
    "validation": re.compile(r"val|valid|validation|dev"),
    "test": re.compile(r"tests?|testing|eval|evaluation|extrapolation|extrap|ood|heldout|generali[sz]ation|iid"),
}
HOLDERS = ("data", "examples", "samples", "rows", "dataset", "items", "records", "predictions", "results", "example")
"""Keys that hold a file's rows and do not name a split."""
MOST_ROWS = 500_000
"""Rows of a file, and lines of a text; a row takes half a kilobyte of memory and a few microseconds."""
MOST_CELLS = 2_000_000
"""Cells or words of a text; each takes about 230 bytes of memory."""
ARRAYS = (".npy", ".npz")
TEXTS = (".txt", ".log", ".out")
STEERING = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
"""Colours and movements of a terminal in a log; their numbers are no results."""
MERGE = re.compile(r"^(<{7} |={7}$|>{7} )", re.MULTILINE)


@dataclass(frozen=True)
class Rows:
    """The rows of one split: its name, its role, its file relative to the directory, and the rows."""

    name: str
    role: str
    path: str
    rows: list[Any]
    lines: bool = False
    named: bool = True
    """Whether the file's name or key names the split."""

    def place(self, index: int) -> str:
        """The location of a row for messages: `test.json[3]`, or `answers.jsonl line 4`."""
        return f"{self.path} line {index + 1}" if self.lines else f"{self.path}[{index}]"


def words_of(name: str) -> list[str]:
    """Split a file name into words and numbers.

    >>> words_of("extrapolation/test_len32")
    ['extrapolation', 'test', 'len', '32']
    """
    return re.findall(r"[a-z]+|[0-9]+", name.lower())


def split_named(name: str) -> str | None:
    """The role of a file or key by the words in its name: train, validation or test."""
    words = words_of(name)
    for role, pattern in ROLES.items():
        if any(pattern.fullmatch(word) for word in words):
            return role
    return None


def read_rows(path: Path, root: Path, *, predictions: bool = False) -> list[Rows]:
    """The splits in a file; raises if it has no rows with a source."""
    inside = str(path.relative_to(root)) if path.is_relative_to(root) else path.name
    content, lines = _content_of(path, inside, predictions=predictions)
    if predictions and content == []:
        return []
    stem = inside.rsplit(".", 1)[0]
    found = list(_parts(inside, stem, content, lines))
    if not found:
        raise InputError(f"{inside}: needs a list with at least one example, got {str(content)[:40]}")
    for part in found:
        if len(part.rows) > MOST_ROWS:
            raise InputError(f"{inside} has {len(part.rows):,} rows; at most {MOST_ROWS:,} are read")
    found = [replace(part, rows=_objects(part.rows, predictions=predictions)) for part in found]
    if not predictions:
        for part in found:
            value_of(part.rows[0], SOURCE_KEYS, part.place(0))
            if any(str(key).strip().lower() in PREDICTED for key in part.rows[0]):
                raise InputError(f"{part.place(0)}: predictions, not data")
    return found


def _objects(rows: list[Any], *, predictions: bool) -> list[Any]:
    """Rows as objects; if none is an object, each row is a prediction."""
    alone = predictions and not any(isinstance(row, dict) for row in rows)
    return [as_object(row, SOURCE_KEYS, predictions=alone) for row in rows]


def _content_of(path: Path, name: str, *, predictions: bool) -> tuple[Any, bool]:
    """The content of a file, and whether it has one row per line."""
    suffix = path.suffix.lower()
    if suffix in ARRAYS:
        return _arrays(path, name), False
    text = read_text(path)
    lines = [line for line in lines_of(text) if line.strip()]
    if not lines:
        if predictions:
            return [], False
        raise InputError(f"{name} is empty")
    if suffix in (".csv", ".tsv"):
        if predictions and (plain := rows_of_lines(lines, predictions=True)):
            return plain, True  # Numbers only, without a header line.
        return rows_of_csv(name, text), False
    if (
        suffix in TEXTS
        and not lines[0].lstrip().startswith("{")
        and (plain := rows_of_lines(lines, predictions=predictions))
    ):
        return plain, True
    return _content(path, name, text)


def _arrays(path: Path, name: str) -> Any:
    """The array of an .npy file as a list, or the arrays of an .npz file by name."""
    check_unpacked(path)
    try:
        check_size(path, LARGEST)
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return _listed(found)
        return {key: _listed(found[key]) for key in found.files}
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise InputError(f"{name} cannot be read: {error}") from None


def _listed(array: Any) -> Any:
    if not isinstance(array, np.ndarray):
        raise ValueError("it has a member that is no array")
    whole = array.dtype.kind == "f" and bool(np.isfinite(array).all()) and bool((array == array.round()).all())
    return (array.astype(np.int64) if whole else array).tolist()


def read_text(path: Path) -> str:
    """A file's text, without a byte-order mark."""
    content = read_bytes(path)
    if b"\0" in content[:4096] and content[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{path.name} is not a text file; save it as CSV or JSON")
    for encoding in ("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", "latin-1"):
        try:
            text = content.decode(encoding)
        except ValueError:
            continue
        if "\0" in text:  # UTF-32 begins like UTF-16
            break
        if "json" not in path.suffix.lower() and (mark := re.search(r"^<{7} ", text, re.MULTILINE)):
            raise _merge_mark(path.name, text, mark)
        _check_rows(path, text)
        return STEERING.sub("", text)
    raise InputError(f"{path.name} is not a text file; save it as CSV or JSON")


def _check_rows(path: Path, text: str) -> None:
    """Raise for a text with too many lines or cells; those of JSON are counted when it is parsed."""
    if path.suffix.lower() == ".json":
        return
    for mark, most, what in (
        ("\n", MOST_ROWS, "lines"),
        ("\r", MOST_ROWS, "lines"),
        (",", MOST_CELLS, "commas"),
        ("\t", MOST_CELLS, "tabs"),
        (" ", MOST_CELLS, "spaces"),
    ):
        if (count := text.count(mark)) > most:
            raise InputError(f"{path.name} has {count:,} {what}; at most {most:,} are read")


def not_json(name: str, text: str, error: Exception) -> InputError:
    """The error for a file that is not JSON; it names merge conflict marks."""
    if (mark := MERGE.search(text)) is not None:
        return _merge_mark(f"{name} is not JSON:", text, mark)
    return InputError(f"{name} cannot be read as JSON: {error}")


def _merge_mark(name: str, text: str, mark: re.Match[str]) -> InputError:
    line = text[: mark.start()].count("\n") + 1
    return InputError(f"{name} line {line} is a merge mark ({mark[0].strip()}); resolve the conflict")


def _content(path: Path, name: str, text: str) -> tuple[Any, bool]:
    """The JSON of a file, and whether it has one object per line."""
    objects = [line for line in lines_of(text) if line.strip()]
    if path.suffix.lower() not in (".jsonl", ".ndjson") or not objects:
        try:
            return refuse_notebook(name, parse_json(text)), False
        except ValueError as error:
            if len(objects) < 1 or path.suffix.lower() == ".json" or MERGE.search(text):
                raise not_json(name, text, error) from None
    rows = []
    for number, line in enumerate(lines_of(text), 1):
        if line.strip():
            try:
                rows.append(parse_json(line))
            except ValueError as error:
                if MERGE.search(text):
                    raise not_json(name, text, error) from None
                raise InputError(f"{name} line {number} cannot be read as JSON: {error}") from None
    return rows, True


def rows_of_csv(name: str, text: str) -> list[dict[str, str]]:
    """The rows of a CSV file by its first line; cells are separated by commas, semicolons or tabs.

    A carriage return alone ends a line, too, as spreadsheets write it for "CSV (Macintosh)".
    """
    text = _without_notes(text.replace("\r\n", "\n").replace("\r", "\n"))
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max((",", ";", "\t", "|"), key=first.count)
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True, delimiter=delimiter)
    _check_columns(name, reader.fieldnames or ())
    rows = []
    for row in _rows_of(reader, name):
        if None in row.values() or any(row.get(None, ())):
            extra = row.get(None, ())
            cells = sum(isinstance(value, str) for value in row.values()) + len(extra)
            wanted = len(reader.fieldnames or ())
            raise InputError(f"{name} line {reader.line_num} has {cells} cells; the first line has {wanted}")
        rows.append(row)
    return [{str(key).strip(): value.strip() for key, value in row.items() if isinstance(value, str)} for row in rows]


def _check_columns(name: str, columns: Sequence[str]) -> None:
    """Raise for two columns of one name, of which the last would be read alone; columns without a name are none."""
    names = [one.strip().lower() for one in columns if re.search(r"[A-Za-z]", one or "")]
    for one in names:
        if names.count(one) > 1:
            raise InputError(f"{name} has two columns {one!r}; a name of its own needed for each")


def refuse_notebook(name: str, content: Any) -> Any:
    """The content of a JSON file; raises for a Jupyter notebook, whose version would pass for a number of results."""
    if isinstance(content, dict) and "nbformat" in content and "cells" in content:
        raise InputError(f"{name} is a notebook; save its table as CSV or JSON")
    return content


def _rows_of(reader: "csv.DictReader[str]", name: str) -> Iterator[dict[Any, Any]]:
    try:
        yield from reader
    except csv.Error as error:
        raise InputError(f"{name} line {reader.line_num} cannot be read: {error}") from None


def _without_notes(text: str) -> str:
    """The lines that do not start with #, and numpy's commented header line."""
    lines = text.splitlines(keepends=True)
    rows = [line for line in lines if not line.startswith("#")]
    above = [line for line in lines[: lines.index(rows[0])] if line.strip()] if rows else []
    if above and any(above[-1].count(mark) == rows[0].count(mark) > 0 for mark in (",", ";", "\t")):
        rows.insert(0, above[-1].lstrip("# "))
    return "".join(rows)


def _parts(path: str, name: str, content: Any, lines: bool) -> Iterator[Rows]:
    """Every list of rows in a file, under the name of its file and keys."""
    content = rows_of_frame(content, (*SOURCE_KEYS, *PREDICTED))
    if isinstance(content, list) and content:
        if isinstance(content[0], dict) and "split" in content[0] and len({str(_split(row)) for row in content}) > 1:
            for one in dict.fromkeys(str(_split(row)) for row in content):
                yield _rows(path, one, [row for row in content if str(_split(row)) == one], lines)
        else:
            yield _rows(path, name, content, lines)
    elif isinstance(content, dict):
        columns = {key: value for key, value in content.items() if _is_column(key, value)}
        if len({len(value) for value in columns.values()}) == 1 and any(_known(key) for key in columns):
            rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            if rows:
                yield _rows(path, name, rows, lines)
                return
        for key, value in content.items():
            below = name if key.lower() in HOLDERS else f"{name}/{key}"
            named = key.strip().isdigit() or split_named(key) is not None
            of_rows = isinstance(value, list) and len(value) > 0 and (named or isinstance(value[0], dict))
            if of_rows or isinstance(value, dict):
                yield from _parts(path, below, value, lines)


def _split(row: Any) -> Any:
    return row.get("split") if isinstance(row, dict) else None


def _known(key: str) -> bool:
    return key.strip().lower() in (*SOURCE_KEYS, *PREDICTION_KEYS)


def _is_column(key: str, value: Any) -> bool:
    known = _known(key) or key.strip().lower() in (*TARGET_KEYS, *LENGTH_KEYS)
    return known and isinstance(value, list) and bool(value) and not isinstance(value[0], dict)


def _rows(path: str, name: str, rows: list[Any], lines: bool) -> Rows:
    """A split under its short name: train, validation, test, or test_32 for a single length."""
    role = split_named(name) or "test"
    numbers = [word for word in words_of(name.rsplit("train", 1)[-1] if role == "train" else name) if word.isdigit()]
    short = f"{role}_{numbers[-1]}" if numbers else role
    if not split_named(name) and not numbers:
        short = name
    return Rows(short, role, path, rows, lines, bool(split_named(name) or numbers))


def value_of(row: Any, keys: tuple[str, ...], place: str) -> tuple[str, Any]:
    """The first of the keys that a row has, ignoring case, and its value; also inside an `example` object."""
    if not isinstance(row, dict):
        raise InputError(f"{place}: needs an object, got {row!r:.60}")
    whole = row.get("example")
    for some in (row, whole) if isinstance(whole, dict) else (row,):
        names = {str(name).strip().lower(): name for name in some}
        for key in keys:
            if key in names and not (key == "example" and isinstance(whole, dict)):
                return str(names[key]), some[names[key]]
    wanted = " or ".join(map(repr, keys[: 3 if keys is SOURCE_KEYS else 2 if keys is TARGET_KEYS else 1]))
    raise InputError(f"{place}: key {wanted} is missing; it has {', '.join(map(repr, row)) or 'none'}")
