"""The options of a command line, checked before they are read: numbers are numbers, and each is given once."""

from collections import Counter
from typing import Any

from typer.core import TyperCommand

from headway.errors import InputError


class CheckedCommand(TyperCommand):
    """A command whose messages name option, value and what is allowed; the last of two values is never chosen."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        values, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for option, times in Counter(order).items():
            if times > 1 and not option.multiple and not getattr(option, "is_flag", False):
                raise InputError(f"{option.opts[0]} is given twice; once needed")
        for option in self.params:
            if option.opts[0].startswith("--") and isinstance(values.get(option.name), str):
                check_number(option, values[option.name])
        return super().parse_args(ctx, args)


def check_number(option: Any, text: str) -> None:
    """Raise for an option that is a number, if its text is none or is too small; commands check finer limits."""
    kind, name = option.type_descriptor.annotation, option.opts[0]
    if kind not in (int, float):
        return
    at_least = "" if option.min is None else f" of at least {option.min}"
    needed = f"{'a whole number' if kind is int else 'a number'}{at_least} needed"
    try:
        number = kind(text if text.isascii() and "_" not in text else "")
    except ValueError:
        raise InputError(f"{name} {text!r}; {needed}") from None
    if option.min is not None and not number >= option.min:
        raise InputError(f"{name} {text}; {needed}")
