"""Files that other programs wrote, read within limits of size, nesting and length.

A file beyond a limit is refused with one line. Without the limits a few kilobytes of nested brackets exhaust Python's
stack, and a large file takes ten times its size in memory.
"""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from headway.errors import InputError

LARGEST = 40_000_000
"""Bytes of a file. Parsed JSON rows take about ten bytes of memory per byte of text."""
DEEPEST = 64
"""Levels of nested lists and objects; results and data sets have fewer than ten."""
LONGEST_KEY = 1_000
"""Characters of an object's key."""
LARGEST_EXPONENT = 300
"""Powers of ten of a decimal number, as in 1e300; a float64 holds up to 1e308."""


def read_bytes(path: Path) -> bytes:
    """The contents of a file of at most `LARGEST` bytes."""
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise InputError(f"{path} has {size / 1e6:,.0f} MB; at most {LARGEST / 1e6:.0f} MB are read")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def lines_of(text: str) -> list[str]:
    r"""The lines of a text. Only line feeds end a line: JSON strings may contain U+2028, which `splitlines` splits at.

    >>> lines_of("one\r\ntwo")
    ['one', 'two']
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines and lines[-1] == "" else lines


def parse_json(text: str, *, decimals: bool = False) -> Any:
    """The value of a JSON text; `ValueError` for text that is no JSON or beyond a limit.

    With `decimals`, numbers with a point or an exponent become `Decimal`, which keeps their digits.
    """
    try:
        found = json.loads(text, parse_float=_decimal) if decimals else json.loads(text)
    except RecursionError:
        raise ValueError(f"more than {DEEPEST} levels of lists and objects") from None
    _check(found)
    return found


def _decimal(text: str) -> Decimal:
    number = Decimal(text)
    if abs(number.adjusted()) > LARGEST_EXPONENT or len(text) > LONGEST_KEY:
        raise ValueError(f"the number {text[:20]} is beyond 1e{LARGEST_EXPONENT}")
    return number


def _check(content: Any) -> None:
    """Refuse deep nesting and long keys, level by level, without recursion."""
    level = [content]
    for _ in range(DEEPEST):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                for key in item:
                    if len(key) > LONGEST_KEY:
                        raise ValueError(f"a key of {len(key):,} characters ({key[:20]}...); at most {LONGEST_KEY:,}")
                below += [value for value in item.values() if isinstance(value, dict | list)]
            elif isinstance(item, list):
                below += [value for value in item if isinstance(value, dict | list)]
        if not below:
            return
        level = below
    raise ValueError(f"more than {DEEPEST} levels of lists and objects")
