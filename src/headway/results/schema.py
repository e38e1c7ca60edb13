"""Typed results: frozen dataclasses that are read from JSON and written to it by one reader and one writer.

    @dataclass(frozen=True, kw_only=True)
    class Drop:
        n: int = fact("examples")
        drop: float = fact("accuracy lost", unit="points")
        interval: Interval = fact("95 % interval of the drop", unit="points")

    read(Drop, {"n": 400, "drop": "x"}, "heads.json")
    InputError: heads.json: drop is "x"; a number needed

Every field declares its meaning and unit, from which docs/result-files.md is made. A class whose form has changed may
have a class method `upgrade`, which converts documents of earlier versions to the current form.
"""

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import cache
from importlib import import_module
from inspect import getdoc
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from headway.errors import InputError
from headway.json_values import JsonObject, JsonValue

R = TypeVar("R")
Interval = tuple[float, float]
"""Lower and upper end; 95 % unless the field says otherwise."""
LONGEST_SHOWN = 40
Hint: TypeAlias = Any
"""A type as an annotation writes it."""
ANYTHING: tuple[Hint, ...] = (object, JsonValue)
"""Types that any JSON fits."""


def fact(
    meaning: str,
    *,
    unit: str = "",
    key: str | None = None,
    formerly: tuple[str, ...] = (),
    default: Any = MISSING,
    optional: bool = False,
    low: float = -math.inf,
    high: float = math.inf,
    some: bool = False,
    further: Callable[[], Mapping[str, type]] | None = None,
) -> Any:
    """A field of a result with its meaning and unit.

    `key` is its name in JSON if it differs from Python's; `formerly` are its names in documents of earlier versions. A
    field with a default may be missing from a document. An `optional` field is None by default, and then not written.
    The reader rejects numbers (also in lists) below `low` or above `high`, and with `some` an empty list or mapping.
    The entries of a mapping with `further` are written beside the other fields; `further` gives the possible names and
    their types.
    """
    metadata: dict[str, Any] = {
        "meaning": meaning,
        "unit": unit,
        "key": key,
        "formerly": formerly,
        "optional": optional,
    }
    metadata |= {"low": low, "high": high, "some": some, "further": further}
    if optional:
        return field(default=None, metadata=metadata)
    if default is MISSING:
        return field(metadata=metadata)
    if isinstance(default, (dict, list)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def fraction(meaning: str, **more: Any) -> Any:
    """A field for a share, a rate, a p-value or an interval of one: from 0 to 1."""
    return fact(meaning, low=0, high=1, **more)


def count(meaning: str, **more: Any) -> Any:
    """A field for a count: at least 0."""
    return fact(meaning, low=0, **more)


def key_of(f: Field[Any]) -> str:
    """A field's name in JSON."""
    return f.metadata.get("key") or f.name


def names_of(f: Field[Any]) -> tuple[str, ...]:
    """A field's names in documents of this version and of earlier ones."""
    return (key_of(f), *f.metadata.get("formerly", ()))


def _stays(f: Field[Any]) -> bool:
    """Whether a None field is written as null."""
    return not f.metadata.get("optional", False)


@cache
def types_of(cls: type) -> dict[str, Hint]:
    return get_type_hints(cls)


class OtherForm(InputError):
    """A document of a version that is not read."""


class Document:
    """A result that is a whole JSON document: a file, or what a command prints with --json."""

    def to_json(self) -> JsonObject:
        return cast(JsonObject, write(self))

    @classmethod
    def from_json(cls: type[R], document: JsonObject, file: str = "the document") -> R:
        return read(cls, document, file)

    def _repr_html_(self) -> str | None:
        """The result in a notebook; None where it has no display of its own."""
        # Imported by name, because reports may import results but not the reverse.
        shown: str | None = import_module("headway.reports.notebook").display(self)
        return shown


def write(value: Any) -> JsonValue:
    """The value as plain dictionaries, lists and numbers."""
    if is_dataclass(value) and not isinstance(value, type):
        found: dict[str, JsonValue] = {}
        for f in fields(value):
            item = getattr(value, f.name)
            if f.metadata.get("further"):
                found |= {key: write(part) for key, part in item.items()}
            elif item is not None or _stays(f):
                found[key_of(f)] = write(item)
        return found
    if isinstance(value, Mapping):
        return {str(key): write(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [write(item) for item in value]
    return cast(JsonValue, value)


def member(value: Any, key: str) -> Any:
    """The value of a result under a JSON key; None if it has no such field."""
    for f in fields(value):
        item = getattr(value, f.name)
        if f.metadata.get("further") and key in item:
            return item[key]
        if key_of(f) == key:
            return item
    return None


def blank(cls: type[R], **given: Any) -> R:
    """A result with zero, empty or absent values for all facts that are not given; for synthetic results."""
    kinds = {f.name: types_of(cls)[f.name] for f in fields(cls) if f.default is MISSING}  # type: ignore[arg-type]
    return cls(**{name: _nothing(kind) for name, kind in kinds.items() if name not in given}, **given)


def _nothing(kind: Any) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        return blank(kind)
    if origin is tuple:
        return () if inner[-1] is Ellipsis else tuple(map(_nothing, inner))
    if origin in (UnionType, Union):
        return None if NoneType in inner else _nothing(inner[0])
    return {} if origin is not None else kind()


def read(cls: type[R], value: Any, file: str) -> R:
    """Read a document into its dataclass; a value that does not fit raises with file and path."""
    try:
        found: R = _read(cls, value, "")
    except InputError as error:
        raise type(error)(f"{file}: {error}") from None
    return found


def check(kind: Hint, value: Any, where: str) -> None:
    """Raise unless a value fits a type, such as `dict[str, int]`, `float | None` or a class of `results/`."""
    _read(kind, value, where)


def _read(kind: Hint, value: Any, where: str) -> Any:
    if kind in ANYTHING:
        return value
    if isinstance(kind, type) and is_dataclass(kind):
        return _read_dataclass(kind, value, where)
    origin, inner = _parts(kind)
    if origin in (UnionType, Union):
        return _read_union(kind, value, where)
    if origin is Literal:
        if value not in inner:
            _refuse(kind, value, where)
        return value
    if origin is tuple:
        return _read_tuple(kind, value, where)
    if origin is list and isinstance(value, list):
        return [_read(inner[0], item, f"{where}[{index}]") for index, item in enumerate(value)]
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            _refuse(kind, value, where)
        return {
            _key(inner[0], key): _read(inner[1], item, f"{where}.{key}" if where else key)
            for key, item in value.items()
        }
    if kind is float and is_number(value):
        return float(value)
    if origin is list or kind is float or not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        _refuse(kind, value, where)
    return value


def _parts(kind: Hint) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(kind), get_args(kind)


def _key(kind: Any, key: str) -> Any:
    """Convert JSON's text keys of a mapping from integers."""
    return int(key) if kind is int else key


def _read_dataclass(cls: type, value: Any, where: str) -> Any:
    if hasattr(cls, "upgrade"):
        value = cls.upgrade(value)
    if not isinstance(value, Mapping):
        _refuse(cls, value, where)
    found: dict[str, Any] = {}
    for f in fields(cls):
        if further := f.metadata.get("further"):
            found[f.name] = {
                name: _read(kind, value[name], _join(where, name)) for name, kind in further().items() if name in value
            }
            continue
        names = [name for name in names_of(f) if name in value]
        if names:
            found[f.name] = _read(types_of(cls)[f.name], value[names[0]], _join(where, key_of(f)))
            _check_limits(f, found[f.name], _join(where, key_of(f)))
        elif f.default is MISSING and f.default_factory is MISSING:
            raise InputError(f"{_join(where, key_of(f))} is missing; {expected(types_of(cls)[f.name])} needed")
    return cls(**found)


ROUNDING = 1e-9
"""Tolerance of computed shares at 0 and 1."""


def _check_limits(f: Field[Any], value: Any, where: str) -> None:
    """Raise for impossible values, such as an accuracy of 7.5 or -5 examples."""
    low, high = f.metadata.get("low", -math.inf), f.metadata.get("high", math.inf)
    if f.metadata.get("some") and not value:
        raise InputError(f"{where} is {json.dumps(value)}; at least one entry needed")
    if math.isinf(low) and math.isinf(high):
        return
    if isinstance(value, tuple):
        for index, item in enumerate(value):
            _check_limits(f, item, f"{where}[{index}]")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _check_limits(f, item, f"{where}.{key}")
    elif is_number(value) and not low - ROUNDING <= value <= high + ROUNDING:
        allowed = f"from {low:g} to {high:g}" if math.isfinite(high) else f"of at least {low:g}"
        raise InputError(f"{where} is {json.dumps(value)}; a number {allowed} needed")


def _read_union(kind: Any, value: Any, where: str) -> Any:
    options = get_args(kind)
    if value is None and NoneType in options:
        return None
    others = [option for option in options if option is not NoneType]
    if isinstance(value, Mapping):  # the likeliest type last, because its error is raised
        others.sort(key=lambda option: -_missing(option, value))
    for option in others[:-1]:
        try:
            return _read(option, value, where)
        except InputError:
            continue
    return _read(others[-1], value, where)


def _missing(kind: Hint, value: JsonObject) -> float:
    """The number of required fields of a type that are missing."""
    if not is_dataclass(kind):
        return math.inf
    needed = [f for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    return sum(not any(name in value for name in names_of(f)) for f in needed)


def _read_tuple(kind: Any, value: Any, where: str) -> Any:
    inner = get_args(kind)
    if not isinstance(value, (list, tuple)):
        _refuse(kind, value, where)
    plain = inner[-1] is Ellipsis and inner[0] in (int, float) and all(type(item) is inner[0] for item in value)
    if plain and all(map(math.isfinite, value)):  # tables of learned positions have thousands of numbers
        return tuple(value)
    kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else list(inner)
    if len(kinds) != len(value):
        _refuse(kind, value, where)
    return tuple(
        _read(one, item, f"{where}[{index}]") for index, (one, item) in enumerate(zip(kinds, value, strict=True))
    )


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _refuse(kind: Any, value: Any, where: str) -> None:
    shown = json.dumps(value, default=repr)
    shown = shown if len(shown) <= LONGEST_SHOWN else f"{shown[: LONGEST_SHOWN - 3]}..."
    raise InputError(f"{where or 'the document'} is {shown}; {expected(kind)} needed")


def expected(kind: Any) -> str:
    """The allowed values, in words."""
    if kind in ANYTHING:
        return "any value"
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (UnionType, Union):
        named = dict.fromkeys(expected(one) for one in inner if not (one is int and float in inner))
        return " or ".join(named)
    if origin is Literal:
        return " or ".join(json.dumps(one) for one in inner)
    if origin is tuple and inner[-1] is not Ellipsis:
        return f"a list of {len(inner)}"
    if origin is tuple:
        return "a list"
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", NoneType: "null"}
    return names.get(kind, "an object")


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


# Description of a document, for docs/result-files.md


def described(cls: type, path: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Path, type, unit and meaning of every field of a document, outer fields first."""
    for f in fields(cls):
        if further := f.metadata.get("further"):
            for name, part in further().items():
                about = (getdoc(part) or "").split("\n\n")[0].replace("\n", " ")
                yield _join(path, name), "object", "", f"{about} (`part({part.__name__})`)"
                yield from described(part, _join(path, name))
            continue
        kind = types_of(cls)[f.name]
        place = _join(path, key_of(f))
        inner, suffix = _innermost(kind)
        named = "" if key_of(f) == f.name else f" (attribute `{f.name}`)"
        yield place + suffix, _type_text(kind), f.metadata.get("unit", ""), f.metadata.get("meaning", "") + named
        parts = [one for one in (inner, *get_args(inner)) if is_dataclass(one) and isinstance(one, type)]
        yield from {row[0]: row for part in reversed(parts) for row in described(part, place + suffix)}.values()


def _innermost(kind: Any) -> tuple[Any, str]:
    """The type inside lists, mappings and options, and the suffix of its path: `[]` or `.NAME`."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (UnionType, Union):
        others = [one for one in inner if one is not NoneType]
        return _innermost(others[0]) if len(others) == 1 else (kind, "")
    if origin is tuple and inner[-1] is Ellipsis:
        found, suffix = _innermost(inner[0])
        return found, f"[]{suffix}"
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        found, suffix = _innermost(inner[1])
        return found, f".NAME{suffix}"
    return kind, ""


def _type_text(kind: Any) -> str:
    inner, _ = _innermost(kind)
    optional = NoneType in get_args(kind)
    name = "interval" if inner == Interval else expected(inner).removeprefix("a ").removeprefix("an ")
    return name + (" or null" if optional and "null" not in name and kind not in ANYTHING else "")
