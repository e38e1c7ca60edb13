"""Documents whose values know their place in the document.

`placed(found, "runs/0/heads")` is the same result, of the same types, in which every number, text, list and table has a
`place`: a path of JSON keys such as `runs/0/heads/baseline/wrong`. Values computed from them have none.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from headway.results.schema import key_of

T = TypeVar("T")


class _Int(int):
    place: str


class _Float(float):
    place: str


class _Str(str):
    place: str


class _List(list[Any]):
    place: str


class _Tuple(tuple[Any, ...]):
    place: str


class _Dict(dict[Any, Any]):
    place: str


KINDS: dict[type, type] = {int: _Int, float: _Float, str: _Str, list: _List, tuple: _Tuple, dict: _Dict}


def placed(value: T, place: str) -> T:
    """The value, and everything in it, with its place.

    >>> place_of(placed({"heads": [{"drop": 0.5}]}, "runs/0")["heads"][0]["drop"])
    'runs/0/heads/0/drop'
    """
    return _placed(value, place)


def _placed(value: Any, place: str) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        places = {f.name: place if f.metadata.get("further") else _inside(place, key_of(f)) for f in fields(value)}
        return replace(value, **{name: _placed(getattr(value, name), where) for name, where in places.items()})
    if isinstance(value, Mapping):
        value = {key: _placed(item, _inside(place, key)) for key, item in value.items()}
    elif isinstance(value, (list, tuple)):
        value = type(value)([_placed(item, _inside(place, index)) for index, item in enumerate(value)])
    if type(value) not in KINDS:
        return value
    found = KINDS[type(value)](value)
    found.place = place
    return found


def _inside(place: str, key: object) -> str:
    return f"{place}/{key}" if place else str(key)


def place_of(value: object) -> str:
    """The place of a value of a placed document; empty for any other value."""
    return getattr(value, "place", "")
