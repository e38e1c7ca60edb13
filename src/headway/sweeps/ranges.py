"""Ranges of numbers for a search, as on the command line: 1e-4..1e-2:log."""

import math
import re
import tomllib
from dataclasses import dataclass
from typing import Any

from headway.config import printable
from headway.errors import InputError

DIGITS = 4
"""Significant digits of drawn numbers, so that names and tables are readable."""


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`; integers if both ends are integers.

    The distribution is uniform, or with `log` log-uniform: 0.001 to 0.01 is as likely as 0.01 to 0.1.
    """

    low: int | float
    high: int | float
    log: bool = False

    def __str__(self) -> str:
        return f"{self.low}..{self.high}{':log' * self.log}"

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def rounded(self, value: float) -> float:
        """A number of the range rounded to four significant digits, or more if the range is narrow.

        >>> Range(0.0001, 0.01, log=True).rounded(0.00123456789)
        0.001235
        """
        size = min(abs(value), self.high - self.low)
        if not size:
            return value
        return min(max(round(value, DIGITS - 1 - math.floor(math.log10(size))), self.low), self.high)


def parse_range(key: str, text: str) -> Range | None:
    """Parse `LOW..HIGH` or `LOW..HIGH:log`; None if neither end is a number.

    >>> parse_range("train.lr", "1e-4..1e-2:log")
    Range(low=0.0001, high=0.01, log=True)
    """
    match = re.fullmatch(r"(.+?)\.\.(.+?)(?::(\w*))?", text.strip())
    if match is None:
        return None
    low, high = (read_value(end) for end in match.groups()[:2])
    if not _is_number(low) and not _is_number(high):
        return None
    where = f"--vary {key}={text.strip()}"
    if not _is_number(low) or not _is_number(high) or match[3] not in (None, "log"):
        raise InputError(f"{where}: write a range as LOW..HIGH or LOW..HIGH:log, for example 1e-4..1e-2:log")
    if not _are_finite(low, high):
        raise InputError(f"{where}: the ends of a range, and their difference, must be finite and below 1.8e308")
    if low >= high:
        raise InputError(f"{where}: LOW must be below HIGH")
    if match[3] and low <= 0:
        raise InputError(f"{where}: with :log, LOW must be above 0")
    return Range(low, high, log=bool(match[3]))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _are_finite(low: int | float, high: int | float) -> bool:
    try:
        return all(math.isfinite(number) for number in (low, high, high - low))
    except OverflowError:  # an integer too large for a float
        return False


def read_value(text: str) -> Any:
    """A TOML value, or the text itself if it is not one."""
    try:
        return printable(tomllib.loads(f"value = {text}")["value"])
    except (ValueError, RecursionError):
        return text.strip()
