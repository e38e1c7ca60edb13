"""Files that other programs wrote, read within limits of size, nesting and length.

A file beyond a limit is refused with one line. Without the limits a few kilobytes of nested brackets exhaust Python's
stack, and a large file takes ten times its size in memory.
"""

import json
import stat
import zipfile
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
LARGEST_MEMORY = 450_000_000
"""Bytes that a parsed JSON text may take, by `memory_of`."""
LARGEST_UNPACKED = 5
"""Times its own size to which an archive may unpack; torch and numpy store tensors as they are."""
LARGEST_EXPONENT = 300
"""Powers of ten of a decimal number, as in 1e300; a float64 holds up to 1e308."""


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """The contents of a file of at most `most` bytes (default: `LARGEST`); a pipe or a device is refused."""
    try:
        check_size(path, LARGEST if most is None else most)
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def check_size(path: Path, most: int) -> None:
    """Raise unless a file has at most `most` bytes; `OSError` if there is none."""
    about = path.stat()
    if not stat.S_ISREG(about.st_mode) and not stat.S_ISDIR(about.st_mode):
        raise InputError(f"{path} is not a file, but a pipe or a device; a file needed")
    if about.st_size > most:
        raise InputError(f"{path} has {about.st_size / 1e6:,.1f} MB; at most {most / 1e6:g} MB are read")


def check_unpacked(path: Path) -> None:
    """Raise for a ZIP archive whose members are larger than `LARGEST_UNPACKED` times the file."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    if unpacked > max(1_000_000, LARGEST_UNPACKED * path.stat().st_size):
        raise InputError(
            f"{path} would unpack to {unpacked / 1e6:,.0f} MB, more than {LARGEST_UNPACKED} times its size; "
            "an archive without compression needed"
        )


def memory_of(text: str, *, decimals: bool = False) -> int:
    """About the largest number of bytes that parsing a JSON text can take, from its punctuation.

    A number takes up to 36 bytes with its place in a list, a Decimal 112; a text 60 and more, a list or an object 72.
    """
    containers = text.count("[") + text.count("{")
    return (112 if decimals else 36) * text.count(",") + 30 * text.count('"') + 72 * containers


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
    needed = memory_of(text, decimals=decimals)
    if needed > LARGEST_MEMORY:
        raise ValueError(
            f"it could take {needed / 1e6:,.0f} MB of memory; at most {LARGEST_MEMORY / 1e6:.0f} MB needed"
        )
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
