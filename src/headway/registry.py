"""Names that stand for classes; a class is imported when its name is asked for."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar

from headway.errors import InputError, suggestion

T = TypeVar("T")


class Registry(Generic[T]):
    """A table from name to `module:attribute`, resolved lazily."""

    def __init__(self, kind: str, entries: Mapping[str, str]):
        self.kind = kind
        self._entries = dict(entries)

    def names(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def get(self, name: str) -> type[T]:
        """The class behind `name`; an unknown name raises with the known ones and the nearest."""
        if name not in self._entries:
            raise InputError(f"unknown {self.kind} {name!r}; {suggestion(name, self._entries)}")
        module, attribute = self._entries[name].split(":")
        found: Any = getattr(import_module(module), attribute)
        return found
