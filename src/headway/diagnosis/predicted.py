"""Reads a file of predictions: each row's example, target and answer, as tokens of the data's task."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headway.diagnosis.foreign import ForeignData
from headway.diagnosis.records import (
    Record,
    answer_of,
    examples_of,
    filled_targets,
    record_of,
    said_length,
    targets_of,
)
from headway.diagnosis.rows import PREDICTION_KEYS, SOURCE_KEYS, TARGET_KEYS, Rows, read_rows, value_of
from headway.errors import InputError
from headway.tasks import Examples, Task

Unplaced = tuple[int | None, str, Any]
"""A row of predictions without its example: its length if given, its location, and the row."""


@dataclass(frozen=True)
class Predictions:
    """Answers of another program, one per row; `answers` are padded tokens with EOS, or classes."""

    examples: Examples
    answers: np.ndarray
    targets_cut: bool = False
    """Whether the file's own targets lack their first token; `examples` then has the complete targets."""

    def __len__(self) -> int:
        return len(self.answers)


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
            records.append(record_of(form, rest, place, data.plus))
            answers.append(answer_of(form, said, "prediction", place))
    if not records:
        raise InputError(f"--predictions {path}: no row is there; each needs an example, a target and a prediction")
    return _given(data, records, answers)


def _in_order(parts: list[Rows], data: ForeignData, path: Path) -> Predictions:
    """Match predictions without examples to a test file with the same number of examples, in its order.

    A length in keys or columns selects the file. Targets in the rows must equal that file's.
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
    if _all_numbers(parts):
        answers = [data.task.completed(one) for one in answers]
    return Predictions(examples, targets_of(data.task, answers))


def _files_in_order(data: ForeignData, rows: list[Unplaced]) -> list[str]:
    """The test files with as many examples as rows, and with the lengths that the rows give."""
    found = []
    for split, examples in data.splits.items():
        lengths = data.lengths_of.get(split, np.zeros(len(examples))).tolist()
        if data.role(split) == "test" and len(lengths) == len(rows):
            pairs = zip(rows, lengths, strict=True)
            found += [split] * all(said is None or said == length for (said, *_), length in pairs)
    return found


def _of_one_file(data: ForeignData, rows: list[Unplaced], name: str) -> tuple[Examples, list[list[int]]]:
    """The examples of the only test file that matches the rows, and the answers to them."""
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
        answers.append(answer_of(form, said, "prediction", place))
        rest = {other: value for other, value in row.items() if other != key}
        if any(str(other).strip().lower() in TARGET_KEYS for other in rest):
            targets.append(answer_of(form, value_of(rest, TARGET_KEYS, place)[1], "target", place))
    if data.task.kind == "class" and targets:
        wrong = sum(one != [other] for one, other in zip(targets, examples.target.tolist(), strict=True))
        if wrong:
            raise InputError(
                f"--predictions {name}: {wrong:,} of {len(rows):,} targets differ from those of {fits[0]} in the "
                "same order; "
                "write input, target and prediction in every row"
            )
    return examples, answers


def _all_numbers(parts: list[Rows]) -> bool:
    return all(type(value_of(row, PREDICTION_KEYS, "")[1]) is int for part in parts for row in part.rows)


def _given(data: ForeignData, records: list[Record], answers: list[list[int]]) -> Predictions:
    _check_like(data.task, records)
    if _first_token_cut(data.task, records):
        sources = examples_of(data.task, records).source
        whole = Examples(sources, data.task.answer(sources))
        return Predictions(whole, targets_of(data.task, answers), targets_cut=True)
    records, answers = _with_leading_zeros(data.task, records, answers)
    # An answer that continues after the right one has no end token, so it is wrong.
    goes_on = [a[: len(r.target)] == r.target != a for r, a in zip(records, answers, strict=True)]
    return Predictions(examples_of(data.task, records), targets_of(data.task, answers, goes_on))


def _first_token_cut(task: Task, records: list[Record]) -> bool:
    """Whether all targets are the right answers without their first token, not merely without leading zeros."""
    if task.kind == "class":
        return False
    ends = (task.vocabulary.eos, task.vocabulary.pad)
    right = task.answer(examples_of(task, records).source).tolist()
    answers = [[token for token in row if token not in ends] for row in right]
    pairs = [(record.target, answer) for record, answer in zip(records, answers, strict=True)]
    return all(one == answer[1:] for one, answer in pairs) and any(
        task.completed(one) != answer for one, answer in pairs
    )


def _with_leading_zeros(
    task: Task, records: list[Record], answers: list[list[int]]
) -> tuple[list[Record], list[list[int]]]:
    """Add the leading zeros of the data's targets to targets and answers of a file that omits them."""
    filled = filled_targets(task, records)
    return filled, answers if filled == records else [task.completed(one) for one in answers]


def _check_like(task: Task, records: list[Record]) -> None:
    """Raise unless the records can be examples of the task."""
    for record in records:
        try:
            task.check_source(record.source)
        except InputError as problem:
            raise InputError(f"{record.place}: {problem}, as in the data") from None
