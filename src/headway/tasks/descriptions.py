"""What a task says of itself in JSON: how the explorer shows it, how positions are found, and a record's tokens."""

from typing import TypedDict, cast

from headway.errors import InputError
from headway.json_values import JsonValue


class PageDescription(TypedDict, total=False):
    """How the explorer shows a task (`Task.page`); the keys from `base` on are of the view `sum`."""

    view: str
    values: int
    rule: str
    base: int
    digits: int | None
    falling: bool
    operands_falling: bool
    leading_zeros: bool


PositionRule = TypedDict(
    "PositionRule",
    {"by": str, "from": str, "answer": int, "source": list[int], "prefix": list[int]},
    total=False,
)
"""How the page finds positions (`Task.position_rule`): `by` the index, from fixed rows of a place, or by digits."""


def whole_numbers(value: JsonValue, key: str) -> list[int]:
    """The tokens that a record holds under a key; anything but a list of whole numbers is refused."""
    if not isinstance(value, list) or not all(type(token) is int for token in value):
        raise InputError(f"{key} is {value!r:.60}; a list of whole numbers needed")
    return cast(list[int], value)
