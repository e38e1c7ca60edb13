"""Reads results in text form, all as objects, lists and numbers.

The forms are JSON, JSON lines, CSV, YAML, printed logs, and tables in Markdown, LaTeX or aligned columns.
"""

import ast
import json
import re
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from headway.bounded_files import LARGEST_EXPONENT, lines_of, parse_json
from headway.diagnosis.frames import scalars
from headway.diagnosis.rows import TEXTS, not_json, refuse_notebook, rows_of_csv
from headway.errors import InputError
from headway.json_values import JsonValue

PAIR = re.compile(
    r"([A-Za-z][A-Za-z0-9 _\-()/@%.]*?)\s*[:=]\s*([0-9]+\s*/\s*[0-9]+|[-+]?[0-9][0-9.,]*\s*%?)(?![0-9A-Za-z/])"
)
EPOCH = re.compile(r"\bepoch\s*[:#=\[]?\s*([0-9]+)", re.IGNORECASE)
HEADING = re.compile(r"\s*(?:[=#*\[-]{2,}\s*([A-Za-z][\w +-]*?)\s*[=#*\]-]*|([A-Za-z][\w -]{0,30}):)\s*")
AT_LENGTH = re.compile(r"\b(?:seq_?len(?:gth)?|length|len|L)\s*[=:]?\s*([0-9]+)\b(?!\.[0-9])\s*:?", re.IGNORECASE)
AT_HEAD = re.compile(r"\b(?:L|layer|block)\s*([0-9]+)[\s.,:/_-]*(?:H|head)\s*([0-9]+)\b\s*:?", re.IGNORECASE)
LONE = re.compile(r"(?<![0-9.])(?:[01]?\.[0-9]+|[0-9]{1,3}(?:\.[0-9]+)?\s*%)")
RATIO = re.compile(r"\s*([0-9]+)\s*(?:/|of|out of)\s*([0-9]+)\s*")
SPREAD = re.compile(r"(?:\s*\(?\s*(?:±|\+/?-|\$?\\pm\$?)|(?<=[0-9%])\s*\()\s*[0-9.,]+\s*(%?)\s*\)?\s*$")
"""The deviation after an average: ± 0.01, or (0.01)."""
DASH = re.compile(r"^[\u2212\u2013]\s*(?=[0-9.])")
"""A minus sign, or the dash that text programs write for one."""
UNJOINED = re.compile(
    r"\b((?:(?:train|training|val|valid|validation|test|dev|eval)[ _-]?)?(?:acc|accuracy|loss|exact match))\s+"
    r"(?=[0-9.]+\s*%?(?![0-9A-Za-z/]))",
    re.IGNORECASE,
)
"""A measure directly followed by its number: acc 93.2%."""
SPELLED = frozenset(["nan", "na", "n/a", "inf", "-inf", "null", "#n/a", "#div/0!", "?", "tbd", "missing", "failed"])
"""Text in a table that stands for a missing number."""
NUMBER_INSIDE = re.compile(r"[\s~≈<>=]*[0-9]*[.,]?[0-9]+\s*[%(±~]")
"""A text that begins as an accuracy and goes on: 0.5 (n=20), ~41 %."""
COLUMNS = re.compile(r"acc|len|epoch|step|head|layer|encod|model|drop|\b[0-9]{1,4}\b", re.IGNORECASE)
"""Words in the first line of a table."""
RULES = re.compile(r"\\(?:hline|toprule|midrule|bottomrule)|\\(?:text\w+|math\w+|emph)(?=\{)|[${}]")


def content_of(path: Path, text: str) -> Any:
    """The content of a file of results, parsed by its suffix."""
    suffix, tag = path.suffix.lower(), path.stem.rpartition("tag-")[2]
    if not text.strip():
        raise InputError(f"{path.name} is empty")
    if (digits := re.search(r"[0-9]{400,}", text)) is not None:
        raise InputError(f"{path.name}: a number of {len(digits[0]):,} digits ({digits[0][:20]}...) is no result")
    if suffix in (".csv", ".tsv"):
        rows = [{key: _plain(value) for key, value in row.items()} for row in rows_of_csv(path.name, text)]
        return scalars(_decimal_commas(rows), tag)
    if suffix in (".yaml", ".yml"):
        return _yaml(text)
    if suffix == ".tex":
        text = _bars(text)
    if suffix in (".md", ".markdown", ".rst", ".tex") or (
        suffix in TEXTS and re.search(r"^\s*\|.*\|\s*$", text, re.MULTILINE)
    ):
        return _markdown(text) or _printed(text)
    if suffix in TEXTS:
        return _printed(text)
    if suffix in (".jsonl", ".ndjson"):
        lines = [line for line in lines_of(text) if line.strip()]
        return [_json(f"{path.name} line {number}", line, text) for number, line in enumerate(lines, 1)]
    if suffix not in (".json", "") and not text.lstrip().startswith(("{", "[")):
        return _printed(text)
    return scalars(refuse_notebook(path.name, _json(path.name, text, text)), tag)


def _json(name: str, text: str, whole: str) -> Any:
    try:
        return parse_json(text, decimals=True)
    except ValueError as error:
        raise not_json(name, whole, error) from None


def _decimal_commas(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Replace decimal commas by points, in cells that can only be decimal numbers."""
    comma = re.compile(r"[-+]?[0-9]{1,3},[0-9]+\s*%?")
    if not any(comma.fullmatch(value) for row in rows for value in row.values()):
        return rows
    return [
        {key: value.replace(",", ".") if comma.fullmatch(value) else value for key, value in row.items()}
        for row in rows
    ]


def _markdown(text: str) -> list[dict[str, JsonValue]]:
    """The rows of every table of a Markdown page, without emphasis, and the parsed other lines."""
    rows: list[dict[str, str]] = []
    rest: list[str] = []
    head: list[str] | None = None
    for line in text.splitlines():
        if re.fullmatch(r"\s*\+[-=+:]+\+\s*", line):
            continue
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
    found: list[dict[str, JsonValue]] = [{**row} for row in _decimal_commas(rows)]
    return [*found, *_printed("\n".join(rest))] if rows else []


def _bars(text: str) -> str:
    """Convert a LaTeX table to Markdown."""
    lines = [RULES.sub("", line).replace("\\%", "%").strip() for line in text.splitlines()]
    lines = [line for line in lines if line]
    return "\n".join("| " + line.rstrip("\\ ").replace("&", "|") + " |" if "&" in line else line for line in lines)


def _yaml(text: str) -> Any:
    """Parse the part of YAML that results use: names, numbers and lists, nested by indentation."""
    lines = [re.sub(r"(^|\s)#.*", "", line).rstrip() for line in text.splitlines()]
    pairs = [(len(line) - len(line.lstrip()), line.strip()) for line in lines if line.strip(" -.")]
    return _yaml_block(pairs)


def _yaml_block(lines: list[tuple[int, str]]) -> Any:
    if not lines:
        return None
    outer, first = lines[0]
    is_list = first.startswith("- ")
    starts = [index for index, (at, line) in enumerate(lines) if at <= outer and (is_list or not line.startswith("- "))]
    blocks = [lines[start:end] for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]
    if is_list:
        return [_yaml_block([(at + 2, block[0][1][2:]), *block[1:]]) for block in blocks for at in [block[0][0]]]
    found = {}
    for block in blocks:
        key, colon, value = block[0][1].partition(":")
        if not colon:
            return _yaml_value(block[0][1])
        found[key.strip(" '\"")] = _yaml_value(value.strip()) if value.strip() else _yaml_block(block[1:])
    return found


def _yaml_value(text: str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal)
    except ValueError:
        return None if text in ("~", "null", ".nan", "NaN") else text.strip("'\"")


def _aligned(lines: list[str]) -> tuple[list[Any], list[str]]:
    """Tables with aligned columns, as numpy and pandas print them, and the lines outside of tables.

    The first line names the columns; pandas puts an index before each row. Without a first line, rows of numbers are
    lists, and a single column is one list.
    """
    rows: list[Any] = []
    rest: list[str] = []
    names: list[str] = []
    for line in lines:
        cells = line.lstrip("# ").split() if not re.search(r"[:=|]", line) else []
        numbers = [as_number(cell) for cell in cells]
        if names and len(cells) in (len(names), len(names) + 1) and None not in numbers[len(cells) - len(names) + 1 :]:
            rows.append(dict(zip(names, map(_plain, cells[-len(names) :]), strict=True)))
        elif cells and None not in numbers:
            rows.append(numbers if len(numbers) > 1 else numbers[0])
        else:
            names = cells if len(cells) > 1 and COLUMNS.search(line) else []
            rest.append(line)
    return rows, rest


def _plain(cell: str) -> str:
    """A number in ordinary notation: 32 for numpy's 3.200000000000000000e+01."""
    number = as_number(cell) if re.fullmatch(r"[-+0-9.]+[eE][-+0-9]+", cell) else None
    if number is None:
        return cell
    return str(int(number)) if number == int(number) and number > 1 else f"{number:f}"


def _printed(text: str) -> Any:
    """The names and numbers of printed lines, one row per line, with its epoch, length and heading.

    A line without an epoch belongs to the last epoch above it.
    """
    tables, lines = _aligned(text.splitlines())
    rows: list[Any] = []
    heading, last = "", ""
    for line in lines:
        epoch = EPOCH.search(line)
        if (match := HEADING.fullmatch(line)) and not epoch:
            heading = match[1] or match[2]
            continue
        last = epoch[1] if epoch else last
        rest = line[epoch.end() :] if epoch else line
        rest = re.sub(r"^\s*/\s*[0-9]+\]?", "", rest)
        head = AT_HEAD.search(rest)
        at = None if head else AT_LENGTH.search(rest)
        if place := head or at:
            rest = rest[: place.start()] + " " + rest[place.end() :]
        rest = UNJOINED.sub(r"\1: ", rest)
        found: dict[str, Any] = {key.strip(): value.strip().rstrip(".,") for key, value in PAIR.findall(rest)}
        if place and not found and (alone := LONE.search(rest)):
            found = {"accuracy": alone[0].strip()}
        if found:
            before: dict[str, Any] = {"model": heading} if heading else {}
            before |= {"epoch": int(last)} if last and (epoch or not place) else {}
            before |= {"layer": int(head[1]), "head": int(head[2])} if head else {}
            before |= {"length": int(at[1])} if at else {}
            rows.append({**before, **found})
    if rows or tables:
        return [*tables, *rows]
    try:
        return json.loads(json.dumps(ast.literal_eval(text.strip())), parse_float=Decimal)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return rows


def is_unreadable(content: Any) -> bool:
    """Whether a text stands where a number could: one that says there is none, or one that holds a number."""
    return isinstance(content, str) and (content.strip().lower() in SPELLED or NUMBER_INSIDE.match(content) is not None)


def as_number(value: Any) -> Decimal | None:
    """The number in a value: per cent without the sign, 824/2000 as a share, 0.93 ± 0.01 as 0.93."""
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return None
    if isinstance(value, str) and (ratio := RATIO.fullmatch(value)) and 1 < int(ratio[2]) >= int(ratio[1]):
        return (Decimal(ratio[1]) / Decimal(ratio[2])).quantize(Decimal("1e-8"))
    try:
        text = DASH.sub("-", SPREAD.sub(r"\1", str(value)).strip())
        number = Decimal(text.rstrip("% "))  # also of 45.2 % ± 3.1 %
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) <= LARGEST_EXPONENT else None
