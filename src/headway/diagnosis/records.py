"""Converts rows of any program to examples of a task, and infers the task."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from headway.config import Choice
from headway.diagnosis.rows import LENGTH_KEYS, SOURCE_KEYS, TARGET_KEYS, Rows, value_of
from headway.diagnosis.subject import widened
from headway.errors import InputError
from headway.json_values import JsonObject
from headway.tasks import Examples, Task, make_task
from headway.tasks.addition_text import CHARACTERS

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


@dataclass(frozen=True)
class Record:
    """One example of a file: source and target as tokens (or a class), and its location."""

    source: list[int]
    target: list[int]
    place: str


def said_length(row: Any) -> int | None:
    """The length that a row states."""
    said = next((row[key] for key in LENGTH_KEYS if key in row), None) if isinstance(row, dict) else None
    return int(said) if type(said) is int or (isinstance(said, str) and said.strip().isdigit()) else None


def filled_targets(task: Task, records: list[Record]) -> list[Record]:
    return [replace(record, target=task.completed(record.target)) for record in records]


def form_of(rows: list[Any], place: str) -> str:
    """The task of the examples, inferred from their keys, their targets and the position of +."""
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


def plus_of(files: dict[str, Rows]) -> int:
    """The id in the middle of every input: 10 in the course's files, another in some programs."""
    seen: Counter[int] = Counter()
    for found in files.values():
        for row in found.rows:
            source = _source_of(row, "")
            if isinstance(source, list) and _plus_in_middle(source):
                seen[source[len(source) // 2]] += 1
    return seen.most_common(1)[0][0] if seen else PLUS


def _source_of(row: Any, place: str) -> Any:
    """A row's source: a list, or text that looks like a sum; text of numbers becomes a list."""
    source = value_of(row, SOURCE_KEYS, place)[1]
    if isinstance(source, str) and not SUM.fullmatch(source) and (match := NUMBERS.fullmatch(source)):
        source = [int(one) for one in re.split(r"[\s,;]+", match[1])]
    length = said_length(row)
    if isinstance(source, list) and length is not None and 0 < length < len(source):
        return source[:length]  # The rest is padding by the file's own length.
    return source


def records_of(form: str, found: Rows, plus: int) -> list[Record]:
    return [record_of(form, row, found.place(index), plus) for index, row in enumerate(found.rows)]


def record_of(form: str, row: Any, place: str, plus: int) -> Record:
    source = _source_of(row, place)
    if plus != PLUS and isinstance(source, list):
        source = [PLUS if token == plus else token for token in source]
    tokens = _SOURCE[form](source, place)
    return Record(tokens, answer_of(form, value_of(row, TARGET_KEYS, place)[1], "target", place), place)


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


def answer_of(form: str, value: Any, key: str, place: str) -> list[int]:
    """The tokens of an answer up to the first that is not a symbol of the course's files; a class for sequences.

    Ids from 11 on and other characters are another program's start, end and padding tokens.
    """
    if form == "sortedness":
        value = CLASSES.get(value.strip().lower(), value) if isinstance(value, str) else value
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, str | list | dict) or value not in (0, 1):
            raise InputError(f"{place}: {key} is {value!r:.60}; 0 or 1 needed")
        return [int(value)]
    value = _whole(value, key, place)
    if isinstance(value, str) or type(value) is int:
        text = re.sub(r"^\s*(?:<\w+>\s*)+", "", str(value)).strip()
        if (text.startswith("[") or (form == "addition" and " " in text)) and (match := NUMBERS.fullmatch(text)):
            return answer_of(form, [int(one) for one in re.split(r"[\s,;]+", match[1])], key, place)
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


def _whole(value: Any, key: str, place: str) -> Any:
    """A whole number that pandas wrote as 42.0 as 42; raises for 42.4, which is not the answer 42."""
    fraction = re.fullmatch(r"\s*([0-9]+)\.([0-9]+)\s*", str(value)) if isinstance(value, str | float) else None
    if fraction is None:
        return value
    if fraction[2].strip("0"):
        raise InputError(f"{place}: {key} is {value!r:.60}; a whole number needed")
    return fraction[1]


def _addition(records: list[Record]) -> Task:
    _same_widths(records)
    options: dict[str, Any] = {"digits": len(records[0].source) // 2}
    options["leading_zeros"] = any(0 in (r.source[0], r.source[options["digits"] + 1]) for r in records)
    return _better_order("addition", options, records)


def _same_widths(records: list[Record]) -> None:
    width = len(records[0].source)
    for record in records:
        if len(record.source) != width:
            raise InputError(f"{record.place}: input has {len(record.source)} tokens; the first example has {width}")


def _addition_text(records: list[Record]) -> Task:
    longest = max(8, *(len(record.source) for record in records))
    options = {"max_characters": longest + longest % 2}
    return _better_order("addition-text", options, records, ("order", "operand_order"))


def _sortedness(records: list[Record]) -> Task:
    lengths = [len(record.source) for record in records]
    values = max(max(record.source) for record in records) + 1
    options = {"values": max(100, values), "min_length": max(2, min(lengths)), "max_length": max(2, *lengths)}
    return make_task(Choice(name="sortedness", options=options))


def _better_order(name: str, options: JsonObject, records: list[Record], keys: tuple[str, ...] = ("order",)) -> Task:
    """The task with the digit orders (of the answer and of the other `keys`) that most targets have."""
    orders = product(("most-significant-first", "least-significant-first"), repeat=len(keys))
    choices = [{**options, **dict(zip(keys, order, strict=True))} for order in orders]
    tasks = [make_task(Choice(name=name, options=choice)) for choice in choices]
    return max(tasks, key=lambda task: int(oracle_agrees(task, examples_of(task, records)).sum()))


def examples_of(task: Task, records: list[Record]) -> Examples:
    targets = targets_of(task, [record.target for record in records])
    return Examples(_filled([record.source for record in records], task.vocabulary.pad), targets)


def targets_of(task: Task, answers: list[list[int]], endless: Iterable[bool] = ()) -> np.ndarray:
    """Answers as rows with an end token, except the endless ones; classes unchanged."""
    if task.kind == "class":
        return np.array([answer[0] for answer in answers], dtype=np.int64)
    eos = task.vocabulary.eos
    assert eos is not None
    ends = [[] if one else [eos] for one in endless] or [[eos]] * len(answers)
    return _filled([answer + end for answer, end in zip(answers, ends, strict=True)], task.vocabulary.pad)


def _filled(rows: list[list[int]], pad: int) -> np.ndarray:
    """Rows of tokens as one array, padded on the right."""
    table = np.full((len(rows), max(map(len, rows))), pad, dtype=np.int64)
    for place, row in zip(table, rows, strict=True):
        place[: len(row)] = row
    return table


def same_answers(task: Task, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Whether two answers are equal, row by row, ignoring padding."""
    if task.kind == "class":
        return np.asarray(one == other)
    pad = task.vocabulary.pad
    width = max(one.shape[1], other.shape[1])
    return np.asarray((widened(one, width, pad) == widened(other, width, pad)).all(1))


def oracle_agrees(task: Task, examples: Examples) -> np.ndarray:
    """Whether each target is the oracle's answer."""
    return same_answers(task, examples.target, task.answer(examples.source))


_SOURCE: dict[str, Callable[[Any, str], list[int]]] = {
    "addition": _tokens_source,
    "addition-text": _text_source,
    "sortedness": _sequence_source,
}


TASK_OF: dict[str, Callable[[list[Record]], Task]] = {
    "addition": _addition,
    "addition-text": _addition_text,
    "sortedness": _sortedness,
}
