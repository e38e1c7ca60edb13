"""Checks of what Python callers pass to the public functions, by the annotations of their signatures.

Wrong types are named before any work, as options of the command line are: a text where a number is needed would end
deep inside with an error about something else, and 5.5 tries or `keep="enc0.self.h0"` would be taken for what they
are not.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from inspect import Parameter, signature
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from headway.errors import InputError

NEEDED = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "True or False",
    Path: "a path",
    NoneType: "None",
    Mapping: "a dictionary",
}
"""The types that are checked, and how a message names them."""


@cache
def checked(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function, which refuses arguments of another type than its signature says.

    It is one object with the address `headway.NAME`, so that it can be sent to another process.
    """
    known = signature(function)

    @wraps(function)
    def checking(*given: Any, **named: Any) -> Any:
        try:
            bound = known.bind(*given, **named).arguments
        except TypeError:
            bound = {}  # the function itself says which argument is unknown or missing
        for key, value in bound.items():
            check_argument(f"hw.{name}: {key}", known.parameters[key], value)
        return function(*given, **named)

    checking.__module__, checking.__qualname__, checking.__name__ = "headway", name, name
    return checking


def check_argument(where: str, parameter: Parameter, value: Any) -> None:
    """Raise if a value is of none of the types of its parameter; types of headway and torch are not looked at."""
    kinds = _kinds(parameter.annotation)
    if parameter.kind is parameter.VAR_POSITIONAL or not all(map(_is_known, kinds)):
        return
    if not any(_fits(kind, value) for kind in kinds):
        raise InputError(f"{where} is {value!r:.60}; {' or '.join(map(_needed, kinds))} needed")


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_known(kind: Any) -> bool:
    if get_origin(kind) is Sequence:
        return get_args(kind)[0] in NEEDED
    return (get_origin(kind) or kind) in NEEDED


def _fits(kind: Any, value: Any) -> bool:
    outer = get_origin(kind) or kind
    if outer is Sequence:
        (inner,) = get_args(kind)
        listed = not isinstance(value, str | bytes | Mapping) and hasattr(value, "__iter__")
        return listed and (not isinstance(value, list | tuple) or all(_fits(inner, one) for one in value))
    if outer is Mapping:
        return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
    is_boolean = type(value).__name__ in ("bool", "bool_")  # Python's and numpy's
    if outer in (int, float):
        return isinstance(value, Integral if outer is int else Real) and not is_boolean
    if outer is bool:
        return is_boolean
    # Recipes, runs and folders may be named by paths, wherever texts are.
    return isinstance(value, str | os.PathLike) if outer in (str, Path) else value is None


def _needed(kind: Any) -> str:
    if get_origin(kind) is Sequence:
        return f"a list of {NEEDED[get_args(kind)[0]].removeprefix('a ')}s"
    if get_origin(kind) is Mapping:
        return f"{NEEDED[Mapping]} with texts as keys"
    return NEEDED[kind]
