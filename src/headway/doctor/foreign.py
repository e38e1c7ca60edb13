"""Work done elsewhere: a directory of the course's files, and a file of predictions from any program.

Files are read as they are. What does not have the form of an example is refused with its place; what has it and is
wrong (a target that is not the sum, splits that overlap) is read, so that the checks can report it.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from headway.config import Choice
from headway.doctor.subject import widened
from headway.errors import InputError
from headway.tasks import Examples, Task, make_task
from headway.tasks.addition_text import CHARACTERS
from headway.tasks.files import FILE_NAMES, files_of_lengths

PLUS = 10
"""The token + in the course's files of addition."""

SUM = re.compile(r"\s*([0-9]+)\s*\+\s*([0-9]+)\s*=?\s*")
SOURCE_KEYS = ("input", "sequence", "example")
TARGET_KEYS = ("target", "is_sorted")


@dataclass(frozen=True)
class Record:
    """One example of a file: source and target as tokens (or a class), and where it stands."""

    source: list[int]
    target: list[int]
    place: str


@dataclass(frozen=True)
class ForeignData:
    """A data directory: the task that its examples are of, and each file's examples with the targets it gives."""

    task: Task
    splits: dict[str, Examples]

    @cached_property
    def by_length(self) -> dict[int, Examples]:
        """All test examples of each length, where the task has lengths."""
        joined = Examples.join(list(self.tests().values()), self.task.vocabulary.pad)
        features = self.task.features(joined.source)
        length = features.get("length", features.get("characters"))
        if length is None:
            return {}
        return {int(one): joined.take(length == one) for one in np.unique(length)}

    def tests(self) -> dict[str, Examples]:
        """The splits to be measured on: every file that is neither for training nor for validation."""
        found = {name: split for name, split in self.splits.items() if name not in ("train", "validation")}
        return found or self.splits


@dataclass(frozen=True)
class Predictions:
    """Answers of another program, one a row; `answers` hold tokens with EOS, padded, or classes."""

    examples: Examples
    answers: np.ndarray

    def __len__(self) -> int:
        return len(self.answers)


def read_data(directory: Path) -> ForeignData:
    """The examples of every file of the directory; the form of the first example decides which task it is."""
    if not directory.is_dir():
        raise InputError(f"--data {directory}: no such directory")
    files = {str(split): directory / name for split, name in FILE_NAMES.items() if (directory / name).exists()}
    files |= {path.stem: path for path in files_of_lengths(directory)}
    if not files:
        names = ", ".join(FILE_NAMES.values())
        raise InputError(f"--data {directory} holds none of {names}, test_<length>.json")
    rows = {name: _read_list(path) for name, path in files.items()}
    form = _form_of(next(iter(rows.values()))[0], next(iter(files.values())).name)
    records = {name: _records(form, found, files[name].name) for name, found in rows.items()}
    task = _TASK_OF[form]([record for found in records.values() for record in found])
    return ForeignData(task, {name: _examples(task, found) for name, found in records.items()})


def read_predictions(path: Path, data: ForeignData) -> Predictions:
    """Each line's example, target and prediction, as tokens of the data's task."""
    form = data.task.name
    records, answers = [], []
    for place, row in _lines(path):
        records.append(_record(form, row, place))
        answers.append(_answer(form, _value(row, ("prediction",), place), "prediction", place))
    if not records:
        raise InputError(f"--predictions {path}: the file is empty; a JSON object a line needed")
    _check_like(data.task, records)
    records, answers = _with_leading_zeros(data.task, records, answers)
    # An answer that goes on after the right one has not ended, and one that never ends is wrong.
    goes_on = [a[: len(r.target)] == r.target != a for r, a in zip(records, answers, strict=True)]
    return Predictions(_examples(data.task, records), _targets(data.task, answers, goes_on))


def _with_leading_zeros(
    task: Task, records: list[Record], answers: list[list[int]]
) -> tuple[list[Record], list[list[int]]]:
    """Targets and answers of a file that leaves leading zeros out, with the zeros that the data's targets have."""
    width = task.options.digits + 1 if task.name == "addition" else 0
    if not any(0 < len(record.target) < width for record in records):
        return records, answers
    first = task.options.order == "most-significant-first"

    def filled(digits: list[int]) -> list[int]:
        zeros = [0] * (width - len(digits) if digits else 0)
        return zeros + digits if first else digits + zeros

    return [replace(record, target=filled(record.target)) for record in records], [filled(one) for one in answers]


def _lines(path: Path) -> Iterable[tuple[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"--predictions {path} cannot be read: {error}") from None
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield f"{path.name} line {number}", json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{path.name} line {number} is not JSON: {error}") from None


def _read_list(path: Path) -> list[Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path.name} is not JSON: {error}") from None
    if not isinstance(content, list) or not content:
        raise InputError(f"{path.name}: a list with at least one example needed, got {content!r:.40}")
    return content


def _form_of(record: Any, place: str) -> str:
    """Which task an example is of: a sequence, an input of tokens, or an input of text."""
    source = _value(record, SOURCE_KEYS, f"{place}[0]")
    if isinstance(source, str):
        return "addition-text"
    return "addition" if "input" in record or (isinstance(source, list) and PLUS in source[1:-1:2]) else "sortedness"


def _records(form: str, rows: list[Any], name: str) -> list[Record]:
    return [_record(form, row, f"{name}[{index}]") for index, row in enumerate(rows)]


def _record(form: str, row: Any, place: str) -> Record:
    source = _SOURCE[form](_value(row, SOURCE_KEYS, place), place)
    return Record(source, _answer(form, _value(row, TARGET_KEYS, place), "target", place), place)


def _value(row: Any, keys: tuple[str, ...], place: str) -> Any:
    if not isinstance(row, dict):
        raise InputError(f"{place}: an object needed, got {row!r:.60}")
    for key in keys:
        if key in row:
            return row[key]
        if isinstance(row.get("example"), dict) and key in row["example"]:
            return row["example"][key]
    wanted = " or ".join(map(repr, keys))
    raise InputError(f"{place}: key {wanted} is missing; it has {', '.join(map(repr, row)) or 'none'}")


def _whole_numbers(value: Any, key: str, place: str) -> list[int]:
    if (
        not isinstance(value, list)
        or not value
        or not all(type(token) is int and 0 <= token < 10**6 for token in value)
    ):
        raise InputError(f"{place}: {key} is {value!r:.60}; a list of whole numbers needed")
    return value


def _tokens_source(value: Any, place: str) -> list[int]:
    if isinstance(value, str) and (match := SUM.fullmatch(value)):
        width = max(len(match[1]), len(match[2]))
        value = [*map(int, match[1].zfill(width)), PLUS, *map(int, match[2].zfill(width))]
    source = _whole_numbers(value, "input", place)
    middle = len(source) // 2
    if len(source) % 2 == 0 or source[middle] != PLUS or max(source[:middle] + source[middle + 1 :], default=10) > 9:
        raise InputError(f"{place}: input is {source!r:.60}; digits, {PLUS} for + in the middle, digits needed")
    return source


def _text_source(value: Any, place: str) -> list[int]:
    match = SUM.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InputError(f"{place}: input is {value!r:.60}; it must read like '123 + 456 = '")
    return [CHARACTERS.index(character) for character in f"{match[1]} + {match[2]} = "]


def _sequence_source(value: Any, place: str) -> list[int]:
    return _whole_numbers(value, "sequence", place)


def _answer(form: str, value: Any, key: str, place: str) -> list[int]:
    """The tokens of an answer up to the first that is no symbol of the course's files; one class for a sequence.

    Ids from 11 up and other characters are another program's end, padding and start.
    """
    if form == "sortedness":
        if value not in (0, 1) or isinstance(value, float):
            raise InputError(f"{place}: {key} is {value!r:.60}; 0 or 1 needed")
        return [int(value)]
    if isinstance(value, str) or type(value) is int:
        value = [CHARACTERS.find(character) for character in str(value).strip()]
        known = len(CHARACTERS)
    else:
        known = PLUS + 1
        if not isinstance(value, list) or not all(type(token) is int for token in value):
            raise InputError(f"{place}: {key} is {value!r:.60}; a list of whole numbers, or a text, needed")
    end = next((index for index, token in enumerate(value) if not 0 <= token < known), len(value))
    return value[:end]


def _addition(records: list[Record]) -> Task:
    _same_widths(records)
    options: dict[str, Any] = {"digits": len(records[0].source) // 2}
    options["leading_zeros"] = any(0 in (r.source[0], r.source[options["digits"] + 1]) for r in records)
    return _better_order("addition", options, records)


def _same_widths(records: list[Record]) -> None:
    width = len(records[0].source)
    for record in records:
        if len(record.source) != width:
            raise InputError(f"{record.place}: input has {len(record.source)} tokens, and the first example {width}")


def _addition_text(records: list[Record]) -> Task:
    longest = max(8, *(len(record.source) for record in records))
    options = {"max_characters": longest + longest % 2}
    return _better_order("addition-text", options, records, ("order", "operand_order"))


def _sortedness(records: list[Record]) -> Task:
    lengths = [len(record.source) for record in records]
    values = max(max(record.source) for record in records) + 1
    options = {"values": max(100, values), "min_length": max(2, min(lengths)), "max_length": max(2, *lengths)}
    return make_task(Choice(name="sortedness", options=options))


def _better_order(
    name: str, options: dict[str, Any], records: list[Record], keys: tuple[str, ...] = ("order",)
) -> Task:
    """The task with the order of digits, of the answer and of what else `keys` name, that most of the targets have."""
    orders = product(("most-significant-first", "least-significant-first"), repeat=len(keys))
    choices = [{**options, **dict(zip(keys, order, strict=True))} for order in orders]
    tasks = [make_task(Choice(name=name, options=choice)) for choice in choices]
    return max(tasks, key=lambda task: int(oracle_agrees(task, _examples(task, records)).sum()))


def _check_like(task: Task, records: list[Record]) -> None:
    """Raise unless the records can be examples of the task."""
    for record in records:
        if task.name == "addition" and len(record.source) != 2 * task.options.digits + 1:
            raise InputError(f"{record.place}: input has {len(record.source)} tokens; the data's have {_width(task)}")
        if task.name == "sortedness" and max(record.source) >= task.options.values:
            most = task.options.values - 1
            raise InputError(f"{record.place}: sequence holds {max(record.source)}; the data's values lie in 0..{most}")


def _width(task: Task) -> int:
    return int(2 * task.options.digits + 1)


def _examples(task: Task, records: list[Record]) -> Examples:
    targets = _targets(task, [record.target for record in records])
    return Examples(_filled([record.source for record in records], task.vocabulary.pad), targets)


def _targets(task: Task, answers: list[list[int]], endless: Iterable[bool] = ()) -> np.ndarray:
    """Answers as rows, each with its end except the endless ones; classes as they are."""
    if task.kind == "class":
        return np.array([answer[0] for answer in answers], dtype=np.int64)
    eos = task.vocabulary.eos
    assert eos is not None
    ends = [[] if one else [eos] for one in endless] or [[eos]] * len(answers)
    return _filled([answer + end for answer, end in zip(answers, ends, strict=True)], task.vocabulary.pad)


def _filled(rows: list[list[int]], pad: int) -> np.ndarray:
    """Rows of tokens as one table, padded on the right."""
    table = np.full((len(rows), max(map(len, rows))), pad, dtype=np.int64)
    for place, row in zip(table, rows, strict=True):
        place[: len(row)] = row
    return table


def same_answers(task: Task, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Whether two answers to the same question are the same, row by row, whatever their padding."""
    if task.kind == "class":
        return np.asarray(one == other)
    pad = task.vocabulary.pad
    width = max(one.shape[1], other.shape[1])
    return np.asarray((widened(one, width, pad) == widened(other, width, pad)).all(1))


def oracle_agrees(task: Task, examples: Examples) -> np.ndarray:
    """Whether each target is what the task's oracle answers."""
    return same_answers(task, examples.target, task.answer(examples.source))


_SOURCE: dict[str, Callable[[Any, str], list[int]]] = {
    "addition": _tokens_source,
    "addition-text": _text_source,
    "sortedness": _sequence_source,
}
_TASK_OF: dict[str, Callable[[list[Record]], Task]] = {
    "addition": _addition,
    "addition-text": _addition_text,
    "sortedness": _sortedness,
}
