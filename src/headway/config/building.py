"""Builds dataclasses from tables: every setting is declared once, with meaning and limits; unknown keys
are rejected.
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

from headway.errors import InputError, suggestion

LARGEST_WHOLE = 2**63 - 1
"""The largest integer of a setting without its own limit, such as a seed."""
UNSET = "none"
"""The value for an optional number that is not set, such as `model.window=none`, since TOML has no null."""

C = TypeVar("C")


def setting(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    formerly: Mapping[str, str] | None = None,
) -> Any:
    """A dataclass field with its meaning and its limits: low <= value <= high, value > above.

    `formerly` maps values of earlier versions to their current names; both are accepted.
    """
    limits = {"low": low, "high": high, "above": above}
    return field(default=default, metadata={"help": help, "formerly": formerly or {}, **limits})


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A registered name with its options, written in one table: `name = "learned"`, `table_size = 64`."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_table(self) -> dict[str, Any]:
        return {"name": self.name, **self.options}


def to_table(value: Any) -> Any:
    """Plain dictionaries and lists, as in a recipe."""
    if isinstance(value, Choice):
        return to_table(value.to_table())
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_table(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {key: to_table(item) for key, item in value.items()}
    return [to_table(item) for item in value] if isinstance(value, (list, tuple)) else value


def build(cls: type[C], table: Any, where: str) -> C:
    """Make the dataclass from a table; unknown keys, wrong types and values out of range raise `InputError`."""
    if not isinstance(table, Mapping):
        raise InputError(f"{where or 'recipe'}: expected a table, got {table!r}")
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    for key in table:
        if key not in known:
            raise InputError(f"unknown key {join(where, key)!r}; {suggestion(str(key), known)}")
    for name, f in known.items():
        if name not in table and f.default is MISSING and f.default_factory is MISSING:
            raise InputError(f"missing {join(where, name)}; {_expected(f.type)} needed")
    return cls(**{key: _convert(value, known[key], join(where, key)) for key, value in table.items()})


def options_of(cls: type[C], choice: Choice, where: str) -> C:
    """The options dataclass of a registered class, from its choice."""
    return build(cls, choice.options, where)


def with_options(choice: Choice, options: Any) -> Choice:
    """The same choice with all options filled in."""
    return replace(choice, options=asdict(options))


def join(where: str, key: object) -> str:
    return f"{where}.{key}" if where else str(key)


def _convert(value: Any, f: Field[Any], where: str) -> Any:
    allowed = get_args(f.type) if isinstance(f.type, UnionType) else (f.type,)
    if value is None:
        if NoneType in allowed:
            return None
        raise InputError(f"{where} is empty; {_expected(f.type)} needed")
    kind = next(option for option in allowed if option is not NoneType)
    if value == UNSET and NoneType in allowed and kind in (int, float):
        return None
    if kind is Choice:
        return _convert_choice(value, where)
    if isinstance(kind, type) and is_dataclass(kind):
        return build(kind, value, where)
    if isinstance(value, str):
        value = f.metadata.get("formerly", {}).get(value, value)
    value = _convert_plain(value, kind, where)
    _check_range(value, f, where)
    return value


def _convert_choice(value: Any, where: str) -> Choice:
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise InputError(f"{where}: expected a table with a name, got {value!r}")
    return Choice(name=value["name"], options={k: v for k, v in value.items() if k != "name"})


def _convert_plain(value: Any, kind: Any, where: str) -> Any:
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        if value not in choices:
            raise InputError(f"{where} = {value!r}; {suggestion(str(value), map(str, choices))}")
        return value
    if get_origin(kind) is tuple:
        if not isinstance(value, (list, tuple)):
            raise InputError(f"{where} = {value!r}; {_expected(kind)} needed")
        return tuple(_convert_plain(item, get_args(kind)[0], where) for item in value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) < 2**1023 else math.inf
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{where} = {value!r}; {_expected(kind)} needed")
    if kind is float and not math.isfinite(value):
        raise InputError(f"{where} = {value}; a finite number needed")
    return value


def _check_range(value: Any, f: Field[Any], where: str) -> None:
    low, high, above = (f.metadata.get(key) for key in ("low", "high", "above"))
    for number in value if isinstance(value, tuple) else (value,):
        too_low = (low is not None and number < low) or (above is not None and number <= above)
        if too_low or (high is not None and number > high):
            raise InputError(f"{where} = {number}; {describe_range(low, high, above)} needed")
        if isinstance(number, int) and number > LARGEST_WHOLE:
            raise InputError(f"{where} = {number}; {describe_range(low, LARGEST_WHOLE, above)} needed")


def describe_range(low: float | None, high: float | None, above: float | None) -> str:
    """The limits in words, as in errors and docs/recipes.md."""
    words = []
    if low is not None:
        words.append(f"at least {low:,}")
    if above is not None:
        words.append(f"more than {above:,}")
    if high is not None:
        words.append(f"at most {high:,}" if isinstance(high, int) else f"at most {high:,.12g}")
    return " and ".join(words)


def _expected(kind: Any) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text in quotes"}
    if get_origin(kind) is tuple:
        return "a list of whole numbers" if int in get_args(kind) else "a list of names"
    if isinstance(kind, UnionType):
        return _expected(next(option for option in get_args(kind) if option is not NoneType))
    return names.get(kind, "a table")
