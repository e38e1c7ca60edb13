"""Work done elsewhere: a directory of examples, and a file of predictions from any program.

Files are read as they are: flat or in folders, one file or many, JSON, JSON lines or CSV. The form of an example is
told from all rows and their keys. What does not have it is refused with its place; what has it and is wrong (a target
that is not the sum, splits that overlap) is read, so that the checks can report it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from headway.config import Choice
from headway.diagnosis.rows import (
    LENGTH_KEYS,
    PREDICTION_KEYS,
    SOURCE_KEYS,
    TARGET_KEYS,
    Rows,
    read_rows,
    split_named,
    value_of,
)
from headway.diagnosis.subject import widened
from headway.errors import InputError
from headway.tasks import Examples, Task, make_task
from headway.tasks.addition_text import CHARACTERS
from headway.tasks.files import FILE_NAMES

PLUS = 10
"""The token + in the course's files of addition."""

SUM = re.compile(r"\s*([0-9]+)\s*\+\s*([0-9]+)\s*=?\s*")
NUMBERS = re.compile(r"\s*[\[(]?\s*([0-9]+(?:[\s,;]+[0-9]+)*)\s*[\])]?\s*")
CLASSES = {
    "0": 0,
    "1": 1,
    "0.0": 0,
    "1.0": 1,
    "false": 0,
    "true": 1,
    "unsorted": 0,
    "sorted": 1,
    "not sorted": 0,
    "no": 0,
    "yes": 1,
}
DATA_FILES = {".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".npz"}
OTHER_FILES = {
    ".npy", ".pkl", ".pickle", ".pt", ".pth", ".parquet", ".feather", ".arrow", ".h5", ".hdf5", ".xls",
    ".xlsx", ".gz", ".zip",
}  # fmt: skip
"""Suffixes of files that may hold examples and are not read."""
NOT_OPENED = "is not read here; save it as JSON or CSV"
SPLIT_ALONE = re.compile(r"(train|training|val|valid|validation|dev|test|eval|data|set|dataset|len|length|[xy0-9_ -])+")
"""The whole name of a file of examples: other names may be of notes, weights or archives."""
NO_DATA = re.compile(
    r"result|pred|metric|log|config|summary|history|meta|ablation|stats|info|vocab|package", re.IGNORECASE
)
"""Names of files beside the data that hold something else."""
MOST_FILES = 400


@dataclass(frozen=True)
class Record:
    """One example of a file: source and target as tokens (or a class), and where it stands."""

    source: list[int]
    target: list[int]
    place: str


@dataclass(frozen=True)
class ForeignData:
    """A data directory: the task that its examples are of, and each file's examples with the targets it gives.

    `roles` says of each split what it is for: train, validation or test. `left_out` are files that look like data and
    could not be read, each with the reason.
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
        """The length of every example, split by split; nothing where the task has no lengths."""
        found = {}
        for name, examples in self.splits.items():
            features = self.task.features(examples.source)
            length = features.get("length", features.get("characters"))
            if length is not None:
                found[name] = np.asarray(length)
        return found

    @cached_property
    def by_length(self) -> dict[int, list[Examples]]:
        """The sets that an accuracy at a length can have been measured on.

        A file of that length alone comes before rows of it in files of many lengths, which are never mixed into it.
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
        """The lengths that have a test file of their own, or all of the test files where none has."""
        alone = {int(n[0]) for name, n in self.lengths_of.items() if self.role(name) == "test" and (n == n[0]).all()}
        return tuple(sorted(alone)) or tuple(self.by_length)

    @cached_property
    def remembered(self) -> dict[Any, Any]:
        """What was counted on these examples, so that it is counted once."""
        return {}

    @cached_property
    def longest_trained(self) -> int | None:
        """The longest training example, where the task has lengths and the data a training split."""
        found = [int(lengths.max()) for name, lengths in self.lengths_of.items() if self.role(name) == "train"]
        return max(found, default=None)

    def tests(self) -> dict[str, Examples]:
        """The splits to be measured on: every file that is neither for training nor for validation."""
        found = {name: split for name, split in self.splits.items() if self.role(name) == "test"}
        return found or self.splits

    def of_role(self, role: str) -> list[Examples]:
        return [split for name, split in self.splits.items() if self.role(name) == role]

    @cached_property
    def measured(self) -> list[Examples]:
        """The sets that an accuracy without a length can have been measured on."""
        tests = self.tests()
        if "test" in tests or len(tests) == 1:
            return [tests.get("test", next(iter(tests.values())))]
        return [Examples.join(list(tests.values()), self.task.vocabulary.pad), *self.of_role("validation")]


@dataclass(frozen=True)
class Predictions:
    """Answers of another program, one a row; `answers` hold tokens with EOS, padded, or classes."""

    examples: Examples
    answers: np.ndarray
    targets_cut: bool = False
    """Whether the file's own targets lack their first token; `examples` then has the whole ones."""

    def __len__(self) -> int:
        return len(self.answers)


Unplaced = tuple[int | None, str, Any]
"""A row of predictions without its example: the length it gives, where it stands, and the row."""


def read_data(directory: Path) -> ForeignData:
    """The examples of every file of the directory and its folders; all rows together decide which task they are of."""
    files, left_out = _files(directory)
    if not files:
        names = ", ".join(FILE_NAMES.values())
        why = f"; not read: {'; '.join(left_out)}" if left_out else ""
        raise InputError(f"--data {directory} holds none of {names}, test_<length>.json{why}")
    form = _form_of([row for found in files.values() for row in found.rows], next(iter(files.values())).place(0))
    plus = _plus_of(files) if form == "addition" else PLUS
    records = {name: _records(form, found, plus) for name, found in files.items()}
    task = _TASK_OF[form]([record for found in records.values() for record in found])
    splits = {name: _examples(task, _filled_targets(task, found)) for name, found in records.items()}
    return ForeignData(task, splits, {name: found.role for name, found in files.items()}, tuple(left_out), plus)


def _files(directory: Path) -> tuple[dict[str, Rows], list[str]]:
    """The rows of each split, the training split first; and the files that look like data but cannot be read."""
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
        found = [rows for rows in found if rows.named]  # What no name calls a split lies beside the data.
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


def read_predictions(path: Path, data: ForeignData) -> Predictions:
    """Each row's example, target and prediction, as tokens of the data's task."""
    form = data.task.name
    try:
        parts = read_rows(path, path.parent, predictions=True)
    except InputError as problem:
        raise InputError(f"--predictions {problem}") from None
    records, answers, first = [], [], True
    for part in parts:
        for index, row in enumerate(part.rows):
            place = part.place(index)
            key, said = value_of(row, PREDICTION_KEYS, place)
            rest = {name: value for name, value in row.items() if name != key}
            if first and not any(name.strip().lower() in SOURCE_KEYS for name in rest):
                return _in_order(parts, data, path)
            first = False
            records.append(_record(form, rest, place, data.plus))
            answers.append(_answer(form, said, "prediction", place))
    if not records:
        raise InputError(f"--predictions {path}: the file is empty; a JSON object a line needed")
    return _given(data, records, answers)


def _in_order(parts: list[Rows], data: ForeignData, path: Path) -> Predictions:
    """Predictions without their examples: those of a test file that has as many, in its order.

    Keys and columns that name a length say which file it is. Targets beside them must be that file's.
    """
    rows: list[Unplaced] = []
    for part in parts:
        named = next((int(word) for word in part.name.split("_") if word.isdigit()), None)
        named = named if named in data.set_lengths else None
        rows += [(said_length(row) or named, part.place(index), row) for index, row in enumerate(part.rows)]
    groups = [rows]
    if not _files_in_order(data, rows):
        groups = [[row for row in rows if row[0] == one] for one in dict.fromkeys(length for length, *_ in rows)]
    found = [_of_one_file(data, group, path.name) for group in groups]
    answers = [answer for _, some in found for answer in some]
    examples = Examples.join([some for some, _ in found], data.task.vocabulary.pad)
    if data.task.name == "addition" and any(0 < len(one) < examples.target.shape[1] - 1 for one in answers):
        answers = [_filled_up(data.task, one) for one in answers] if _all_numbers(parts) else answers
    return Predictions(examples, _targets(data.task, answers))


def _files_in_order(data: ForeignData, rows: list[Unplaced]) -> list[str]:
    """The test files with as many examples, whose lengths are those that the rows give."""
    found = []
    for split, examples in data.splits.items():
        lengths = data.lengths_of.get(split, np.zeros(len(examples))).tolist()
        if data.role(split) == "test" and len(lengths) == len(rows):
            pairs = zip(rows, lengths, strict=True)
            found += [split] * all(said is None or said == length for (said, *_), length in pairs)
    return found


def _of_one_file(data: ForeignData, rows: list[Unplaced], name: str) -> tuple[Examples, list[list[int]]]:
    """The examples of the one test file that the rows can be of, and the answers to them."""
    fits = _files_in_order(data, rows)
    if len(fits) != 1:
        known = ", ".join(f"{split} {len(some):,}" for split, some in data.splits.items())
        of = "" if rows[0][0] is None else f" of length {rows[0][0]}"
        raise InputError(
            f"--predictions {name}: {len(rows):,} predictions{of} without their examples, and not exactly one test "
            f"file of that size ({known}); write input, target and prediction in every row"
        )
    examples, form = data.splits[fits[0]], data.task.name
    answers, targets = [], []
    for _, place, row in rows:
        key, said = value_of(row, PREDICTION_KEYS, place)
        answers.append(_answer(form, said, "prediction", place))
        rest = {other: value for other, value in row.items() if other != key}
        if any(str(other).strip().lower() in TARGET_KEYS for other in rest):
            targets.append(_answer(form, value_of(rest, TARGET_KEYS, place)[1], "target", place))
    if form == "sortedness" and targets:
        wrong = sum(one != [other] for one, other in zip(targets, examples.target.tolist(), strict=True))
        if wrong:
            raise InputError(
                f"--predictions {name}: {wrong:,} of {len(rows):,} targets are not those of {fits[0]} in its order; "
                "write input, target and prediction in every row"
            )
    return examples, answers


def said_length(row: Any) -> int | None:
    """The length that a row gives for itself."""
    said = next((row[key] for key in LENGTH_KEYS if key in row), None) if isinstance(row, dict) else None
    return int(said) if type(said) is int or (isinstance(said, str) and said.strip().isdigit()) else None


def _all_numbers(parts: list[Rows]) -> bool:
    return all(type(value_of(row, PREDICTION_KEYS, "")[1]) is int for part in parts for row in part.rows)


def _given(data: ForeignData, records: list[Record], answers: list[list[int]]) -> Predictions:
    _check_like(data.task, records)
    if data.task.name == "addition" and _first_token_cut(data.task, records):
        sources = _examples(data.task, records).source
        whole = Examples(sources, data.task.answer(sources))
        return Predictions(whole, _targets(data.task, answers), targets_cut=True)
    records, answers = _with_leading_zeros(data.task, records, answers)
    # An answer that goes on after the right one has not ended, and one that never ends is wrong.
    goes_on = [a[: len(r.target)] == r.target != a for r, a in zip(records, answers, strict=True)]
    return Predictions(_examples(data.task, records), _targets(data.task, answers, goes_on))


def _first_token_cut(task: Task, records: list[Record]) -> bool:
    """Whether all targets are one digit short, and are the sums without their first digit: target[1:]."""
    if any(len(record.target) != task.options.digits for record in records):
        return False
    answers = task.answer(_examples(task, records).source)
    tails = [
        row[1 : len(record.target) + 1].tolist() == record.target for row, record in zip(answers, records, strict=True)
    ]
    return bool((answers[:, 0] != 0).any()) and all(tails)


def _with_leading_zeros(
    task: Task, records: list[Record], answers: list[list[int]]
) -> tuple[list[Record], list[list[int]]]:
    """Targets and answers of a file that leaves leading zeros out, with the zeros that the data's targets have."""
    if task.name != "addition" or not any(0 < len(record.target) < task.options.digits + 1 for record in records):
        return records, answers
    return _filled_targets(task, records), [_filled_up(task, one) for one in answers]


def _filled_targets(task: Task, records: list[Record]) -> list[Record]:
    if task.name != "addition":
        return records
    return [replace(record, target=_filled_up(task, record.target)) for record in records]


def _filled_up(task: Task, digits: list[int]) -> list[int]:
    """A sum with its leading zeros."""
    zeros = [0] * (task.options.digits + 1 - len(digits) if digits else 0)
    return zeros + digits if task.options.order == "most-significant-first" else digits + zeros


def _form_of(rows: list[Any], place: str) -> str:
    """Which task the examples are of, told from all of them: their keys, their targets, and where a + stands."""
    votes: Counter[str] = Counter()
    for row in rows:
        source, target = _source_of(row, place), value_of(row, TARGET_KEYS, place)[1]
        if isinstance(source, str):
            match = SUM.fullmatch(source)
            votes["sum " + (f"{len(match[1])} {len(match[2])}" if match else "?")] += 1
        elif _is_class(target) and not (isinstance(source, list) and _plus_in_middle(source)):
            votes["sortedness"] += 1
        else:
            keys = {str(key).lower() for key in row}
            votes["sortedness" if keys & {"is_sorted", "sequence", "seq"} and _is_class(target) else "addition"] += 1
    form, _ = votes.most_common(1)[0]
    if not form.startswith("sum"):
        return form
    same = len(votes) == 1 and len(set(form.split()[1:])) == 1 and form != "sum ?"
    return "addition" if same else "addition-text"


def _plus_in_middle(source: list[Any]) -> bool:
    middle = len(source) // 2
    around = source[:middle] + source[middle + 1 :]
    return (
        len(source) % 2 == 1
        and len(source) > 1
        and type(source[middle]) is int
        and all(type(one) is int and 0 <= one < PLUS for one in around)
        and source[middle] >= PLUS
    )


def _is_class(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in CLASSES
    return not isinstance(value, list | dict) and value in (0, 1)


def _plus_of(files: dict[str, Rows]) -> int:
    """The id that stands in the middle of every input: 10 in the course's files, another in some programs."""
    seen: Counter[int] = Counter()
    for found in files.values():
        for row in found.rows:
            source = _source_of(row, "")
            if isinstance(source, list) and _plus_in_middle(source):
                seen[source[len(source) // 2]] += 1
    return seen.most_common(1)[0][0] if seen else PLUS


def _source_of(row: Any, place: str) -> Any:
    """A row's source: a list, or a text that reads like a sum; texts of numbers are lists."""
    source = value_of(row, SOURCE_KEYS, place)[1]
    if isinstance(source, str) and not SUM.fullmatch(source) and (match := NUMBERS.fullmatch(source)):
        source = [int(one) for one in re.split(r"[\s,;]+", match[1])]
    length = said_length(row)
    if isinstance(source, list) and length is not None and 0 < length < len(source):
        return source[:length]  # The rest is padding that the file says is none of the sequence.
    return source


def _records(form: str, found: Rows, plus: int) -> list[Record]:
    return [_record(form, row, found.place(index), plus) for index, row in enumerate(found.rows)]


def _record(form: str, row: Any, place: str, plus: int) -> Record:
    source = _source_of(row, place)
    if plus != PLUS and isinstance(source, list):
        source = [PLUS if token == plus else token for token in source]
    tokens = _SOURCE[form](source, place)
    return Record(tokens, _answer(form, value_of(row, TARGET_KEYS, place)[1], "target", place), place)


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

    Ids from 11 up and other characters are another program's start, end and padding.
    """
    if form == "sortedness":
        value = CLASSES.get(value.strip().lower(), value) if isinstance(value, str) else value
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, str | list | dict) or value not in (0, 1):
            raise InputError(f"{place}: {key} is {value!r:.60}; 0 or 1 needed")
        return [int(value)]
    if isinstance(value, str) or type(value) is int:
        text = re.sub(r"^\s*(?:<\w+>\s*)+", "", str(value)).strip()
        if (text.startswith("[") or (form == "addition" and " " in text)) and (match := NUMBERS.fullmatch(text)):
            return _answer(form, [int(one) for one in re.split(r"[\s,;]+", match[1])], key, place)
        if form == "addition" and (match := re.match(r"(?:[0-9] )+[0-9](?![0-9])", text)):
            text = match[0].replace(" ", "")
        value = [CHARACTERS.find(character) for character in text]
        known = len(CHARACTERS)
    else:
        known = PLUS + 1
        if not isinstance(value, list) or not all(type(token) is int for token in value):
            raise InputError(f"{place}: {key} is {value!r:.60}; a list of whole numbers, or a text, needed")
        start = next((index for index, token in enumerate(value) if token < known), 0)
        value = value[start:]
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
