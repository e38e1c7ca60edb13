"""The options of a command line, checked before they are read: numbers are numbers, and each is given once."""

import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any, get_args

from typer.core import TyperCommand

from headway.errors import InputError


class CheckedCommand(TyperCommand):
    """A command whose messages name option, value and what is allowed; the last of two values is never chosen."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        values, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for option, times in Counter(order).items():
            if times > 1 and not option.multiple and not getattr(option, "is_flag", False):
                raise InputError(f"{option.opts[0]} is given twice; once needed")
        numbers = {} if self.callback is None else numbers_of(self.callback)
        for option in self.params:
            text = values.get(option.name)
            if option.opts[0].startswith("--") and option.name in numbers and isinstance(text, str):
                check_number(option.opts[0], text, *numbers[option.name])
        return super().parse_args(ctx, args)


def numbers_of(function: Callable[..., Any]) -> dict[str, tuple[type[int] | type[float], float | None]]:
    """The type and the minimum of each number that a command's function takes, from its signature.

    The signature is ours: what typer makes of it differs from version to version.
    """
    found: dict[str, tuple[type[int] | type[float], float | None]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        hint, *options = get_args(parameter.annotation) or (parameter.annotation,)
        for kind in (int, float):
            if kind in (hint, *get_args(hint)):
                found[name] = kind, next((option.min for option in options if hasattr(option, "min")), None)
    return found


def check_number(name: str, text: str, kind: type[int] | type[float], minimum: float | None) -> None:
    """Raise if the text of an option is no number, or one that is too small; commands check finer limits."""
    at_least = "" if minimum is None else f" of at least {minimum}"
    needed = f"{'a whole number' if kind is int else 'a number'}{at_least} needed"
    try:
        number = kind(text if text.isascii() and "_" not in text else "")
    except ValueError:
        raise InputError(f"{name} {text!r}; {needed}") from None
    if minimum is not None and not number >= minimum:
        raise InputError(f"{name} {text}; {needed}")
