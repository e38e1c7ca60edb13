"""Reads tables in the forms of pandas, TensorBoard and numpy, pairs, and plain text lines, as rows of objects.

{"length": {"0": 32, "1": 64}, "accuracy": {"0": 0.9, "1": 0.8}}              columns
{"0": {"length": 32, "accuracy": 0.9}, "1": {"length": 64, "accuracy": 0.8}}  an index
{"columns": ["length", "accuracy"], "data": [[32, 0.9], [64, 0.8]]}           split
[[32, 0.9], [64, 0.8]]                                                        values
[[1710000000.2, 300, 0.9]]                                                    time, step and value
123+456=579                                                                   one sum per line
Input: 123+456 | Target: 579 | Pred: 579                                      names in every line
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from headway.json_values import JsonValue

PLACES = {"length", "lengths", "len", "lens", "seqlen", "epoch", "step", "head", "layer", "component", "site"}
PLACES |= {"encoding", "model", "name", "split", "metric"}
"""Names of columns that give the length, epoch, head, model, split or metric of a row."""
OPERANDS = (("a", "b"), ("num1", "num2"), ("op1", "op2"), ("x1", "x2"), ("operand1", "operand2"), ("n1", "n2"))
EQUATION = re.compile(r"\s*([0-9]+\s*\+\s*[0-9]+)\s*=\s*([0-9]+)\s*")
PART = re.compile(r"\s*([A-Za-z][\w ]*?)\s*[:=]\s*(.+?)\s*")
PLAIN = re.compile(r"[\s\[(]*[0-9.]+([eE][+-]?[0-9]+)?([\s,]+[0-9]+)*[\s\])]*")
"""A prediction alone on its line: a number, or its tokens. 12+30,42,42 is a row of a table without names."""
LATEST = 10**9
"""A number this large is a time in seconds since 1970."""


def rows_of_frame(content: Any, known: Collection[str] = (), lengths: Sequence[int] = ()) -> Any:
    """Convert a table by columns, by index or as lists to a list of rows; other content is returned unchanged.

    `known` are the keys of examples; a table of examples must have one of them.
    """
    if isinstance(content, dict):
        names, values = content.get("columns"), content.get("data")
        if isinstance(names, list) and isinstance(values, list) and _all_lists(values, len(names)):
            return [dict(zip(map(str, names), row, strict=True)) for row in values]
        rows = _rows_by_index(content) or _rows_by_index(_turned(content))
        return rows if rows and _is_frame(rows, known) else content
    if isinstance(content, list) and len(content) > 1 and _all_lists(content, 2):
        first = [_whole(row[0]) for row in content]
        if set(first) & set(lengths) and None not in first and len(set(first)) == len(first):
            return [{"length": n, "accuracy": row[1]} for n, row in zip(first, content, strict=True)]
    return content


def scalars(content: Any, tag: str) -> Any:
    """TensorBoard's export of one tag, as rows with the tag as key; other content is returned unchanged."""
    if not isinstance(content, list) or not content:
        return content
    if isinstance(content[0], dict) and [str(key).lower() for key in content[0]] == ["wall time", "step", "value"]:
        content = [list(row.values()) for row in content]
    elif not _all_lists(content, 3) or isinstance(content[0][0], str | list | dict) or content[0][0] < LATEST:
        return content
    return [{"step": step, tag: value} for _, step, value in content]


def _all_lists(rows: list[Any], size: int) -> bool:
    return bool(rows) and all(isinstance(row, list) and len(row) == size for row in rows)


def _whole(value: Any) -> int | None:
    """The integer value of a number, also of 32.0 as numpy writes it; else None."""
    try:
        return int(value) if not isinstance(value, bool | str | list | dict) and value == int(value) else None
    except (TypeError, ValueError, OverflowError):
        return None


def _turned(table: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Transpose columns with a common index to rows by index; empty if the columns have different indexes."""
    columns = {name: column for name, column in table.items() if isinstance(column, dict)}
    first = next(iter(columns.values()), None)
    if first is None or len(columns) < len(table) or any(one.keys() != first.keys() for one in columns.values()):
        return {}
    return {index: {name: column[index] for name, column in columns.items()} for index in first}


def _rows_by_index(table: Mapping[str, JsonValue]) -> list[dict[str, JsonValue]]:
    """The rows of an object whose keys count from 0; empty for other objects."""
    rows = [row for row in table.values() if isinstance(row, dict)]
    if not rows or [str(key) for key in table] != [str(index) for index in range(len(rows))]:
        return []
    return rows if all(row.keys() == rows[0].keys() for row in rows) else []


def _is_frame(rows: list[dict[str, JsonValue]], known: Collection[str]) -> bool:
    """Whether a column identifies the rows: an integer or named coordinate, or a key of examples."""
    for key in rows[0]:
        name = str(key).strip().lower()
        if name in known:
            return True
        values = [row[key] for row in rows]
        if set(re.split(r"[^a-z]+", name)) & PLACES and all(type(one) in (int, str) for one in values):
            return True
    return False


def as_object(row: Any, sources: Collection[str], *, predictions: bool) -> Any:
    """Convert a row that is not an object: a pair of source and target, or a single prediction.

    An object without one of the keys of `sources` may have its source in several columns.

    >>> as_object([[1, 10, 2], [0, 3]], (), predictions=False)
    {'input': [1, 10, 2], 'target': [0, 3]}
    >>> as_object({"num1": "12", "num2": "30", "sum": "42"}, (), predictions=False)
    {'input': '12 + 30', 'sum': '42'}
    >>> as_object({"s0": "3", "s1": "8", "s2": "", "label": "1"}, (), predictions=False)
    {'sequence': [3, 8], 'label': '1'}
    """
    if isinstance(row, dict):
        return row if any(str(key).strip().lower() in sources for key in row) else _joined(row)
    if isinstance(row, list) and 2 <= len(row) <= 3 and isinstance(row[0], list | str) and not _is_digit(row[0]):
        return dict(zip(("input", "target", "prediction"), row, strict=False))
    return {"prediction": row} if predictions else row


def _is_digit(value: Any) -> bool:
    return isinstance(value, str) and value.strip().isdigit()


def _joined(row: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Join operands in two columns to a sum, and columns s0, s1, ... to a sequence."""
    names = {str(key).strip().lower(): key for key in row}
    for one, other in OPERANDS:
        if one in names and other in names:
            pair = [str(row[names[key]]).strip() for key in (one, other)]
            if all(value.isdigit() for value in pair):
                rest = {key: value for key, value in row.items() if key not in (names[one], names[other])}
                return {"input": " + ".join(pair), **rest}
    found: dict[str, list[tuple[int, Any]]] = {}
    for name in names:
        if match := re.fullmatch(r"([a-z_]*?)_?([0-9]+)", name):
            found.setdefault(match[1], []).append((int(match[2]), names[name]))
    columns = next((sorted(some) for some in found.values() if len(some) > 1), [])
    numbers = [index for index, _ in columns]
    if not columns or numbers not in (list(range(len(columns))), list(range(1, len(columns) + 1))):
        return row
    used = {key for _, key in columns}
    values = [str(row[key]).strip() for _, key in columns]
    if not all(re.fullmatch(r"([0-9]+(\.0)?|nan)?", value.lower()) for value in values):
        return row
    sequence = [int(float(value)) for value in values if value and value.lower() != "nan"]
    return {"sequence": sequence, **{key: value for key, value in row.items() if key not in used}}


def rows_of_lines(lines: Sequence[str], *, predictions: bool) -> list[dict[str, JsonValue]]:
    """Parse text lines as rows: a sum, names with values, or a single prediction; empty if they are none of these."""
    rows: list[dict[str, JsonValue]] = []
    for line in lines:
        equation = EQUATION.fullmatch(line)
        parts = [PART.fullmatch(part) for part in re.split(r"\s*[|;\t]\s*|\s{2,}|,\s+(?=[A-Za-z])", line.strip())]
        if equation and not predictions:
            rows.append({"input": equation[1], "target": equation[2]})
        elif len(parts) > 1 and all(parts):
            rows.append({part[1].strip().lower(): part[2] for part in parts if part})
        elif predictions and PLAIN.fullmatch(line):
            rows.append({"prediction": _number(line.strip())})
        else:
            return []
    return rows


def _number(text: str) -> str:
    """A class that numpy wrote as 1.000000000000000000e+00, as 1."""
    return str(int(float(text))) if re.fullmatch(r"[01]\.0+(e\+00)?", text) else text
