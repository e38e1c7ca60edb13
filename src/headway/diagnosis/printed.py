"""Results as text: JSON, JSON lines, CSV, tables of Markdown and printed logs, all as objects, lists and numbers."""

import ast
import json
import re
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from headway.diagnosis.rows import not_json, rows_of_csv

PAIR = re.compile(r"([A-Za-z][A-Za-z0-9 _\-()/@%.]*?)\s*[:=]\s*([-+]?[0-9][0-9.,]*\s*%?)(?![0-9A-Za-z/])")
EPOCH = re.compile(r"\bepoch\s*[:#=\[]?\s*([0-9]+)", re.IGNORECASE)
HEADING = re.compile(r"\s*(?:[=#*\[-]{2,}\s*([A-Za-z][\w +-]*?)\s*[=#*\]-]*|([A-Za-z][\w -]{0,30}):)\s*")
AT_LENGTH = re.compile(r"\b(?:seq_?len(?:gth)?|length|len|L)\s*[=:]?\s*([0-9]+)\b(?!\.[0-9])\s*:?", re.IGNORECASE)
LONE = re.compile(r"(?<![0-9.])(?:[01]?\.[0-9]+|[0-9]{1,3}(?:\.[0-9]+)?\s*%)")
RATIO = re.compile(r"\s*([0-9]+)\s*(?:/|of|out of)\s*([0-9]+)\s*")
TEXTS = {".txt", ".log", ".out"}


def content_of(path: Path, text: str) -> Any:
    """What a file of results holds; its suffix says how it is written."""
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        return _decimal_commas(rows_of_csv(path.name, text))
    if suffix in (".md", ".markdown") or (suffix in TEXTS and re.search(r"^\s*\|.*\|\s*$", text, re.MULTILINE)):
        return _markdown(text) or _printed(text)
    if suffix in TEXTS:
        return _printed(text)
    if suffix in (".jsonl", ".ndjson"):
        lines = [line for line in text.splitlines() if line.strip()]
        return [_json(f"{path.name} line {number}", line, text) for number, line in enumerate(lines, 1)]
    if suffix not in (".json", "") and not text.lstrip().startswith(("{", "[")):
        return _printed(text)
    return _json(path.name, text, text)


def _json(name: str, text: str, whole: str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise not_json(name, whole, error) from None


def _decimal_commas(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """The rows with points for decimal commas, where a cell can be nothing else."""
    comma = re.compile(r"[-+]?[0-9]{1,3},[0-9]+\s*%?")
    if not any(comma.fullmatch(value) for row in rows for value in row.values()):
        return rows
    return [
        {key: value.replace(",", ".") if comma.fullmatch(value) else value for key, value in row.items()}
        for row in rows
    ]


def _markdown(text: str) -> list[dict[str, Any]]:
    """The rows of every table of a Markdown page, without emphasis, and what its other lines print."""
    rows: list[dict[str, str]] = []
    rest: list[str] = []
    head: list[str] | None = None
    for line in text.splitlines():
        if line.count("|") < 2:
            head = None
            rest.append(line)
            continue
        cells = [cell.strip().strip("*`").strip() for cell in line.strip().strip("|").split("|")]
        if all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            continue
        if head is None:
            head = cells
        elif len(cells) == len(head):
            rows.append({key or "name": value for key, value in zip(head, cells, strict=True)})
    return [*_decimal_commas(rows), *_printed("\n".join(rest))] if rows else []


def _printed(text: str) -> Any:
    """The names and numbers of printed lines, a row for each line, with its epoch, length and heading."""
    rows = []
    heading = ""
    for line in text.splitlines():
        if match := HEADING.fullmatch(line):
            heading = match[1] or match[2]
            continue
        epoch = EPOCH.search(line)
        rest = line[epoch.end() :] if epoch else line
        rest = re.sub(r"^\s*/\s*[0-9]+\]?", "", rest)
        at = AT_LENGTH.search(rest)
        if at:
            rest = rest[: at.start()] + " " + rest[at.end() :]
        found: dict[str, Any] = {key.strip(): value.strip().rstrip(".,") for key, value in PAIR.findall(rest)}
        if at and not found and (alone := LONE.search(rest)):
            found = {"accuracy": alone[0].strip()}
        if found:
            before: dict[str, Any] = {"model": heading} if heading else {}
            before |= {"epoch": int(epoch[1])} if epoch else {}
            before |= {"length": int(at[1])} if at else {}
            rows.append({**before, **found})
    if rows:
        return rows
    try:
        return json.loads(json.dumps(ast.literal_eval(text.strip())), parse_float=Decimal)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return rows


def as_number(value: Any) -> Decimal | None:
    """The number that a value is or spells, as printed; per cent without its sign, 824/2000 as a share."""
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return None
    if isinstance(value, str) and (ratio := RATIO.fullmatch(value)) and 1 < int(ratio[2]) >= int(ratio[1]):
        return (Decimal(ratio[1]) / Decimal(ratio[2])).quantize(Decimal("1e-8"))
    try:
        number = Decimal(str(value).strip().removesuffix("%").replace("\u2212", "-").strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
