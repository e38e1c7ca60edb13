"""Maps names to classes: headway's own, those of installed packages, and `package.module:Class`.

    name = "rotary"                      a class of headway
    name = "my_package.tasks:Reverse"    a class of any importable module, also from the current folder
    name = "reverse"                     a class of an installed package, by its entry point `headway.tasks`

A class is imported when its name is looked up.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from headway.errors import InputError, suggestion

T = TypeVar("T")


class Registry(Generic[T]):
    """A table from name to `module:attribute`, resolved lazily; every class in it derives from `base`."""

    def __init__(self, kind: str, base: str, entries: Mapping[str, str]):
        self.kind, self.base = kind, base
        self._entries = dict(entries)

    def names(self) -> tuple[str, ...]:
        """The names of headway's own classes."""
        return tuple(self._entries)

    def get(self, name: str) -> type[T]:
        """The class for `name`; an unknown name raises with the known names and the nearest match."""
        if name in self._entries:
            return load_class(self._entries[name])
        target = name if ":" in name else self._installed().get(name)
        if target is None:
            known = [*self._entries, *self._installed()]
            raise InputError(f"unknown {self.kind} {name!r}; {suggestion(name, known)}, or package.module:Class")
        return self._foreign(name, target)

    def _installed(self) -> dict[str, str]:
        return {point.name: point.value for point in entry_points(group=f"headway.{self.kind}s")}

    def _foreign(self, name: str, target: str) -> type[T]:
        """A class from outside; raises with one line if it cannot be used."""
        start = f"{self.kind} {name!r}"
        module, _, attribute = target.partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), attribute)):
            raise InputError(f"{start} is not the name of a class; package.module:Class needed")
        if str(Path.cwd()) not in sys.path and "" not in sys.path:
            sys.path.append(str(Path.cwd()))  # as for `python -m`
        try:
            found = getattr(import_module(module), attribute, None)
        except ModuleNotFoundError as problem:
            where = "install its package, or start from the folder that holds it"
            raise InputError(f"{start}: no module named {problem.name!r}; {where}") from None
        except Exception as problem:
            why = " ".join(f"{type(problem).__name__}: {problem}".split())
            raise InputError(f"{start}: its module cannot be imported ({why})") from problem
        base = load_class(self.base)
        if found is None:
            raise InputError(f"{start}: module {module} has no {attribute}")
        if not (isinstance(found, type) and issubclass(found, base)):
            raise InputError(
                f"{start} is not a {self.kind}; a class that derives from {self.base.replace(':', '.')} needed"
            )
        return found


def load_class(target: str) -> Any:
    """The class at `module:attribute`."""
    module, attribute = target.split(":")
    return getattr(import_module(module), attribute)
