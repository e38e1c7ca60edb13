"""Recipes: TOML files, and changes by `--set a.b=c`."""

import tomllib
from collections.abc import Iterable, Sequence
from copy import deepcopy
from datetime import date, time
from pathlib import Path
from typing import Any

from headway.bounded_files import check_size
from headway.config.building import build
from headway.config.settings import RunConfig
from headway.errors import InputError

LARGEST_RECIPE = 1_000_000
"""Bytes of a recipe; those of headway have about a thousand."""
Assignment = str | tuple[str, Any]
"""`"train.lr=0.1"` as on the command line, or `("train.lr", 0.1)` from Python."""


def parse_assignments(assignments: Iterable[Assignment]) -> list[tuple[list[str], Any]]:
    """`["a.b=3"]` -> `[(["a", "b"], 3)]`; a value that is not TOML is a text. Names come first."""
    parsed: list[tuple[list[str], Any]] = []
    for text in assignments:
        if isinstance(text, tuple):
            parsed.append((text[0].split("."), text[1]))
            continue
        key, equals, value = text.partition("=")
        path = key.strip().split(".")
        if "\n" in text or "\r" in text:
            raise InputError(f"--set {text!r}: a line break; use --set once for each setting")
        if not equals or not all(path):
            raise InputError(f"--set {text!r}: write it as key.key=value, for example train.lr=0.001")
        try:
            parsed.append((path, without_dates(printable(tomllib.loads(f"value = {value}")["value"]))))
        except (ValueError, RecursionError):
            parsed.append((path, value.strip()))
    _check_given_once([".".join(path) for path, value in parsed if value is not None])
    return sorted(parsed, key=lambda one: one[0][-1] != "name")


def _check_given_once(keys: Sequence[str]) -> None:
    """Raise if a setting has two values, or the length of training is given twice: none is chosen in silence."""
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"{key} is given twice; once needed, by --set or --vary")
    if {"train.epochs", "train.steps"} <= set(keys):
        raise InputError("train.epochs and train.steps are both given; one of the two needed, by --set or --vary")


def printable(value: Any) -> Any:
    """Return the value; raises `ValueError` for an integer so long that Python cannot print it in an error."""
    str(value)
    return value


def without_dates(value: Any) -> Any:
    """The value with dates and times as texts, since no setting is one and JSON has none."""
    if isinstance(value, dict):
        return {key: without_dates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_dates(item) for item in value]
    return value.isoformat() if isinstance(value, date | time) else value


def assign(table: dict[str, Any], assignments: Iterable[Assignment]) -> dict[str, Any]:
    """A copy of the table with `--set` applied; a new `name` drops the options of the old one."""
    result = deepcopy(table)
    for path, value in parse_assignments(assignments):
        target = result
        for key in path[:-1]:
            inner = target.setdefault(key, {})
            if not isinstance(inner, dict):
                inner = target[key] = {"name": inner} if isinstance(inner, str) else {}
            target = inner
        if path[-1] == "name" and target.get("name") != value:
            target.clear()
        if path[-1] == "epochs":
            target.pop("steps", None)
        if path[-1] == "steps":
            target.pop("epochs", None)
        target[path[-1]] = value
    return result


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a recipe file; a file that is missing or not TOML raises `InputError`."""
    try:
        tables: dict[str, Any] = without_dates(printable(tomllib.loads(_text_of(path))))
        return tables
    except FileNotFoundError:
        raise InputError(f"no recipe at {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not TOML: {error}".replace("\n", " ")) from None


def _text_of(path: Path) -> str:
    check_size(path, LARGEST_RECIPE)
    return path.read_text(encoding="utf-8")


def load_recipe(path: Path, assignments: Sequence[Assignment] = (), seed: int | None = None) -> RunConfig:
    """Read a recipe, apply `--set`, and check every key; errors name the file."""
    table = assign(read_toml(path), assignments)
    if seed is not None:
        table["seed"] = seed
    try:
        return build(RunConfig, table, "")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
