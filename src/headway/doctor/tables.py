"""The tables people publish, as JSON or CSV: accuracy by length, accuracy by ablated head, a single accuracy.

    {"sinusoidal": {"32": 0.546, "64": 0.486}, "learned": {"32": 0.546, "64": 0.486}}
    [{"encoding": "learned", "length": 32, "accuracy": 0.546}]
    {"lengths": [32, 64], "learned": [0.546, 0.486]}
    {"baseline": 0.9985, "heads": {"enc0.h0": 0.998, "dec1.h2": 0.71}}
    {"accuracy": "41.2 %"}

A CSV file is read as rows of the second kind, or with a column for each length.
"""

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from headway.errors import InputError

LENGTH = re.compile(r"(?:test|length|len|characters|digits|n)?[ _-]*([0-9]+)(?:\.json)?", re.IGNORECASE)
HEAD = re.compile(r"(head|enc|dec|cross|self|layer|[lh][0-9]).*", re.IGNORECASE)
MEASURE = re.compile(r"acc|match|correct|score|greedy|forced|test|share|baseline", re.IGNORECASE)
COUNTED = re.compile(
    r"loss|size|count|examples|epoch|step|seed|time|second|param|interval|error|std|p_value", re.IGNORECASE
)
"""Names of numbers that are no accuracy."""
DROP = re.compile(r"drop|delta|change|importance|loss of", re.IGNORECASE)
BASELINE = re.compile(r"baseline|full|original|no ablation|none ablated|intact", re.IGNORECASE)
PLACES = ("length", "head", "characters")
"""Columns that say at which length or head a row was measured."""
SILENT = re.compile(
    r"acc(uracy)?|results?|lengths?|heads?|ablations?|drops?|baseline|by[ _]\w+|accuracy[ _]by[ _]\w+", re.I
)
"""Names that say nothing of which model a number belongs to."""


@dataclass(frozen=True)
class Point:
    """One published number: at which length or head, as printed, as a share, and half of its last digit's unit."""

    place: int | str | None
    text: str
    value: float
    half: float


@dataclass(frozen=True)
class Series:
    """The numbers of one model; `kind` is `length`, `head`, `drop` (a head's) or `single`."""

    label: str
    kind: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Leaf:
    """A number and the names on the way to it."""

    path: tuple[str, ...]
    text: str
    number: Decimal


def read_results(path: Path) -> list[Series]:
    """Every series of numbers in the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"--results {path} cannot be read: {error}") from None
    content = _rows_of_csv(path, text) if path.suffix.lower() == ".csv" else _json(path, text)
    if _number(content) is not None:
        raise InputError(f'--results {path.name}: a number alone; say what it is, such as {{"accuracy": {content}}}')
    try:
        series = _series(list(_walk((), content)))
    except InputError as problem:
        raise InputError(f"--results {path.name}: {problem}") from None
    if not series:
        raise InputError(
            f"--results {path.name}: no accuracy found; lengths such as 32, heads such as enc0.h1, "
            "or a key such as 'accuracy' are needed"
        )
    _check(series, path)
    return series


def _json(path: Path, text: str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise InputError(f"--results {path.name} is not JSON: {error}") from None


def _rows_of_csv(path: Path, text: str) -> list[dict[str, str]]:
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    rows = []
    for row in reader:
        if None in row.values() or any(row.get(None, ())):
            cells = sum(isinstance(value, str) for value in row.values()) + len(row.get(None, ()))
            wanted = len(reader.fieldnames or ())
            raise InputError(f"--results {path.name} line {reader.line_num} has {cells} cells; the first line {wanted}")
        rows.append(row)
    return [{str(key).strip(): value.strip() for key, value in row.items() if isinstance(value, str)} for row in rows]


def _walk(path: tuple[str, ...], content: Any) -> Iterator[Leaf]:
    if isinstance(content, dict):
        yield from _walk_table(path, content)
    elif isinstance(content, list):
        for item in content:
            yield from _walk(path, item)
    elif (number := _number(content)) is not None:
        yield Leaf(path, str(content).strip(), number)


def _walk_table(path: tuple[str, ...], table: dict[str, Any]) -> Iterator[Leaf]:
    """The numbers of an object; one that names a length or a head is a row, and its texts name the model."""
    lengths = table.get("lengths")
    if isinstance(lengths, list):
        table = {key: _by_length(key, value, lengths) for key, value in table.items() if key != "lengths"}
    at = [key for key in table if key.lower() in PLACES]
    named = {key: value for key, value in table.items() if isinstance(value, str) and _number(value) is None}
    place = [str(table[key]) for key in at]
    names = tuple(value for key, value in named.items() if key not in at)
    for key, value in table.items():
        if key in named or key in at or (at and not (MEASURE.search(key) or DROP.search(key))):
            continue
        yield from _walk((*path, *names, str(key), *place), value)


def _by_length(key: str, value: Any, lengths: list[Any]) -> Any:
    """A list as long as the lengths, under their names; what is no list of accuracies stays as it is."""
    if not isinstance(value, list) or COUNTED.search(key):
        return value
    if len(value) != len(lengths):
        raise InputError(f"{key!r} and 'lengths' are of different size: {len(value)} and {len(lengths)}")
    return dict(zip(map(str, lengths), value, strict=True))


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return None
    try:
        number = Decimal(str(value).strip().removesuffix("%").strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _series(leaves: list[Leaf]) -> list[Series]:
    """Leaves of one model and kind together, in the order of the file."""
    groups: dict[tuple[str, str], list[tuple[int | str | None, Leaf]]] = {}
    for leaf in leaves:
        if (found := _read(leaf, alone=len(leaves) == 1)) is not None:
            kind, label, place = found
            groups.setdefault((kind, label), []).append((place, leaf))
    percent = any(abs(leaf.number) > 1 for rows in groups.values() for _, leaf in rows)
    _check_one_unit([leaf for (kind, _), rows in groups.items() if kind != "drop" for _, leaf in rows])
    return [Series(label, kind, _points(rows, percent)) for (kind, label), rows in groups.items()]


def _check_one_unit(accuracies: list[Leaf]) -> None:
    """Raise where one accuracy must be per cent and another looks like a share."""
    above = [leaf.text for leaf in accuracies if leaf.number > 1]
    below = [leaf.text for leaf in accuracies if 0 < leaf.number <= 1 and not leaf.text.endswith("%")]
    if above and below:
        raise InputError(f"{above[0]} is above 1 and {below[0]} is not; write shares, or all as per cent, with a %")


def _read(leaf: Leaf, *, alone: bool) -> tuple[str, str, int | str | None] | None:
    """The kind of a number, its model and its place; None for a number that is no accuracy (epochs, say)."""
    path = leaf.path
    last = path[-1] if path else ""
    names = [name for name in path[:-1] if not SILENT.fullmatch(name)]
    if any(COUNTED.search(name) for name in path):
        return None
    if BASELINE.search(last):
        return "single", " ".join([*names, "baseline"]), None
    if match := LENGTH.fullmatch(last):
        return "length", " ".join(names), int(match[1])
    if HEAD.fullmatch(last) and any(map(str.isdigit, last)):
        place = " ".join([*(name for name in names if HEAD.fullmatch(name)), last])
        label = " ".join(name for name in names if not (HEAD.fullmatch(name) or DROP.search(name)))
        return ("drop" if any(DROP.search(name) for name in path) else "head"), label, place
    if alone or MEASURE.search(last):
        return "single", " ".join([*names, *([] if SILENT.fullmatch(last) else [last])]), None
    return None


def _points(rows: list[tuple[int | str | None, Leaf]], percent: bool) -> tuple[Point, ...]:
    """The values as shares, all rounded to the most digits of one: a program prints .5 for .500.

    What is taken for per cent is shown as per cent, so that a reader sees it.
    """
    scales = [Decimal(100) if percent or leaf.text.endswith("%") else Decimal(1) for _, leaf in rows]
    half = min(_half(leaf.number) / scale for (_, leaf), scale in zip(rows, scales, strict=True))
    return tuple(
        Point(
            place,
            leaf.text if scale == 1 else f"{leaf.text.removesuffix('%').strip()} %",
            float(leaf.number / scale),
            float(half),
        )
        for (place, leaf), scale in zip(rows, scales, strict=True)
    )


def _half(number: Decimal) -> Decimal:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return Decimal(5).scaleb(min(0, exponent) - 1)


def _check(series: list[Series], path: Path) -> None:
    for found in series:
        for point in found.points:
            if not -1 <= point.value <= 1 or (found.kind != "drop" and point.value < 0):
                raise InputError(f"--results {path.name}: {point.text} is no accuracy; a share or per cent needed")
