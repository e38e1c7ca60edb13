"""Recorded values without what differs from one run to the next, and the comparison of two of them."""

import json
import math
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

MASKED = (
    "seconds",
    "time",
    "took",
    "sha256",
    "machine",
    "commit",
    "versions",
    "pid",
    "speed",
    "python",
    "torch",
    "numpy",
    "measured",
)
"""Fields that tell of the clock and the machine; the last is a largest rounding error."""
MASKS = (
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "<digest>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(Z| UTC)?"), "<time>"),
    (re.compile(r"\b\d[\d.,]* (ms|s|min|h|seconds|minutes|hours)\b(?! \d)"), "<seconds>"),
    (re.compile(r"\b\d[\d.,]*/s\b|[\d.]+ x as fast"), "<rate>"),
    (re.compile(r"value=[\d.]+ (data-at=\S*(took|seconds|measured))"), r"\1"),
    (re.compile(r"\d[\d.e-]*( logits)? measured|(within|by at most|to within) \d(\.\d+)?e-\d+"), "<rounding>"),
)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
ROUNDING = 1e-5
"""Which of many heads is farthest off by less than this is chance."""
LONG = 24
"""A list of more numbers is recorded by a few sums over it."""
CLOSE, NEAR_ZERO = 5e-4, 1.2e-4
"""Other processors add up in another order: a number may differ by this share of itself, or by this (documents round
some numbers to four decimals)."""
OF_SUMS = 2e-5
"""A sum may differ by this share of the sum of absolute numbers: rounding errors of many numbers cancel."""
PACKED = 400
"""Longer texts without a space are packed numbers."""
SHOWN = ("title", "aria-label", "data-value", "data-at", "href", "value", "alt", "placeholder", "content")
"""Attributes of a page that a reader meets."""


def normal(value: Any, folder: str = "") -> Any:
    """A JSON value without times, digests and paths; long lists of numbers as sums."""
    if isinstance(value, dict):
        if isinstance(value.get("off"), float) and value["off"] < ROUNDING:
            value = {key: one for key, one in value.items() if key not in ("off", "head")}
        return {str(key): normal(one, folder) for key, one in value.items() if key not in MASKED}
    if isinstance(value, (list, tuple)):
        numbers = _flat(value)
        return _sums(numbers) if numbers is not None else [normal(one, folder) for one in value]
    if isinstance(value, str):
        return masked(value, folder)
    return float(f"{value:.7g}") if isinstance(value, float) and math.isfinite(value) else value


def masked(text: str, folder: str = "") -> str:
    if len(text) > PACKED and " " not in text:
        return f"<{len(text)} characters>"
    text = text.replace(folder, ".") if folder else text
    for pattern, name in MASKS:
        text = pattern.sub(name, text)
    return text


def _flat(values: Any) -> list[float] | None:
    """The numbers of a long list, nested or not; None for anything else."""
    found: list[float] = []
    for one in values:
        inner = _flat(one) if isinstance(one, (list, tuple)) else [one]
        if inner is None or any(isinstance(number, bool) or not isinstance(number, (int, float)) for number in inner):
            return None
        found += [float(number) for number in inner]
    return found if len(found) > LONG or not values else None


def _sums(numbers: list[float]) -> dict[str, Any]:
    """Sums that change if a number changes or two are exchanged."""
    if not numbers:
        return {"numbers": 0}
    array = np.array(numbers)
    weights = np.cos(np.arange(len(array)) * 0.7) + np.arange(len(array)) / len(array)
    found = {"sum": array.sum(), "size": np.abs(array).sum(), "weighed": weights @ array, "top": array.max()}
    return {"numbers": len(array), **{name: float(f"{one:.7g}") for name, one in found.items()}}


def content_of(path: Path, folder: str) -> Any:
    """What a file says, in normal form; None for a drawing, whose PNG has the data."""
    if path.suffix == ".svg":
        return None
    if path.suffix == ".safetensors":
        return {name: normal([float(one) for one in array.ravel()]) for name, array in load_file(path).items()}
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".json", ".png"):
        return normal(json.loads(text), folder)
    if path.suffix == ".jsonl":
        return [normal(json.loads(line), folder) for line in text.splitlines()]
    if path.suffix == ".html":
        return read_page(text, folder)
    return [masked(line, folder) for line in text.splitlines()]


def read_page(text: str, folder: str) -> dict[str, Any]:
    """The words of a page, one element a line, with what else a reader meets; and the data it carries."""
    reader = _Reader()
    reader.feed(text)
    words = [masked(line, folder) for line in reader.lines]
    return {"words": words, "data": [normal(json.loads(one), folder) for one in reader.data]}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.data: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if ("type", "application/json") in attributes:
            self.data.append("")
        self.inside = "json data" if ("type", "application/json") in attributes else tag
        shown = [f"{name}={value}" for name, value in attributes if name in SHOWN and value and len(value) < 2_000]
        if shown and tag not in ("meta", "path", "use", "rect"):
            self.lines.append(f"<{tag} {' '.join(shown)}>")

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "json data":
            self.data[-1] += data
            return
        words = " ".join(data.split())
        if words and self.inside not in ("style", "script"):
            self.lines.append(words)


def differences(recorded: Any, found: Any, at: str = "") -> Iterator[str]:
    """Where two values in normal form differ, in words."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        if _same_sums(recorded, found):
            return
        for key in {**recorded, **found}:
            if key not in found or key not in recorded:
                yield f"{at}/{key}: {'not there any more' if key in recorded else 'was not there'}"
            else:
                yield from differences(recorded[key], found[key], f"{at}/{key}")
    elif isinstance(recorded, list) and isinstance(found, list):
        for index, (old, new) in enumerate(zip(recorded, found, strict=False)):
            yield from differences(old, new, f"{at}/{index}")
        if len(recorded) != len(found):
            yield f"{at}: {len(recorded)} before, {len(found)} now"
    elif not _same(recorded, found):
        yield f"{at}: {_short(recorded)} before, {_short(found)} now"


def _same_sums(recorded: dict[str, Any], found: dict[str, Any]) -> bool:
    if not {"numbers", "size"} <= set(recorded) == set(found) or recorded["numbers"] != found["numbers"]:
        return False
    allowed = OF_SUMS * recorded["size"] + NEAR_ZERO
    return all(abs(recorded[name] - found[name]) <= allowed for name in ("sum", "size", "weighed")) and _same(
        recorded["top"], found["top"]
    )


def _same(recorded: Any, found: Any) -> bool:
    if isinstance(recorded, str) and isinstance(found, str):
        return recorded == found or _same_text(recorded, found)
    if isinstance(recorded, float) and isinstance(found, (int, float)) and not isinstance(found, bool):
        return math.isclose(recorded, found, rel_tol=CLOSE, abs_tol=NEAR_ZERO) or recorded == found
    return type(recorded) is type(found) and recorded == found


def _same_text(recorded: str, found: str) -> bool:
    """Equal but for the last digit of a number with decimals: another processor may round it the other way."""
    if NUMBER.sub("#", recorded) != NUMBER.sub("#", found):
        return False
    return all(_same_number(*pair) for pair in zip(NUMBER.findall(recorded), NUMBER.findall(found), strict=True))


def _same_number(recorded: str, found: str) -> bool:
    mantissa = recorded.partition("e")[0]
    if recorded == found or "." not in mantissa:
        return recorded == found
    step = 10.0 ** -len(mantissa.partition(".")[2]) * 10.0 ** float(recorded.partition("e")[2] or 0)
    return abs(float(recorded) - float(found)) <= 1.01 * step


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 200 else text[:200] + "…"
