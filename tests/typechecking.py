"""Types and shapes of every function of headway are checked at each call; an int may stand where a float is asked for.

jaxtyping's own decorator binds the signature at each call and checks every argument again with what is returned, which
was a good part of the suite's time. This one checks the same things once, and of a function with shapes the first
`FIRST` calls in every test and each `EVERY`-th after them: a loop over ten thousand batches repeats the same shapes.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from types import CodeType, FunctionType
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, install_import_hook, jaxtyped

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
sizes_of_one_call = jaxtyped("context")

FIRST, EVERY = 40, 16
test_number = [0]
"""Counts the tests, so that the calls of each are counted from the beginning; conftest.py adds to it."""

made: dict[tuple[str, str, CodeType], tuple[Callable[..., Any], bool]] = {}
"""Functions inside functions, whose checks are compiled once: attention makes one at every call."""


def check_package(name: str) -> None:
    """Every function and dataclass of a package that is imported from now on is checked."""
    # The hook looks its decorator up by this name.
    jaxtyping.jaxtyped = decorator  # type: ignore[assignment]
    install_import_hook(name, "tests.typechecking.check")


def decorator(*, typechecker: object) -> Callable[[Any], Any]:
    return checked


def checked(subject: Any) -> Any:
    """A function that checks its arguments and what it returns, or a dataclass that checks its fields."""
    if not isinstance(subject, type):
        return checked_function(subject)
    if is_dataclass(subject) and "__init__" in vars(subject):
        subject.__init__ = checked_function(subject.__init__)  # type: ignore[method-assign]
    return subject


def checked_function(function: Callable[..., Any]) -> Callable[..., Any]:
    key = function.__module__, function.__qualname__, function.__code__
    if key in made:
        return checked_like(*made[key], function)
    hints = {name: resolved(hint, function.__globals__) for name, hint in function.__annotations__.items()}
    shapes = [shape for hint in hints.values() for shape in shapes_in(hint)]
    if any("{" in shape.dim_str for shape in shapes):  # a size that is the value of an argument
        return jaxtyped(function, typechecker=check)
    function.__annotations__ = hints
    types_checked = check(function)
    if "<locals>" in function.__qualname__ and "__beartype_func" in (types_checked.__kwdefaults__ or {}):
        made[key] = types_checked, bool(shapes)
    return with_sizes_of_one_call(types_checked, function) if shapes else types_checked


def with_sizes_of_one_call(types_checked: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    calls, counted_in = 0, -1

    @functools.wraps(types_checked)
    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal calls, counted_in
        if counted_in != test_number[0]:
            calls, counted_in = 0, test_number[0]
        calls += 1
        # Sizes are those of this call in either case: a generator checks its arguments when its caller runs it.
        with sizes_of_one_call:
            return (plain if calls > FIRST and calls % EVERY else types_checked)(*arguments, **named)

    return call


def checked_like(other: Any, has_shapes: bool, function: Callable[..., Any]) -> Callable[..., Any]:
    """Checks that were compiled for another function of the same code, around this one."""
    types_checked = FunctionType(other.__code__, other.__globals__, argdefs=other.__defaults__)
    types_checked.__kwdefaults__ = {**other.__kwdefaults__, "__beartype_func": function}
    functools.update_wrapper(types_checked, function)
    return with_sizes_of_one_call(types_checked, function) if has_shapes else types_checked


def resolved(hint: object, names: Mapping[str, Any]) -> Any:
    """An annotation without quotes; anything goes where a name is not known yet, as with classes inside themselves."""

    def function(value: Any) -> None: ...

    function.__annotations__ = {"value": hint}
    try:
        return get_type_hints(function, dict(names), include_extras=True)["value"]
    except Exception:
        return Any


def shapes_in(hint: object) -> Iterator[type[AbstractArray]]:
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        yield hint
    for part in get_args(hint):
        yield from shapes_in(part)
