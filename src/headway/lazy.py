"""Rooms that can be called: `hw.heads` is the package `headway.heads` and the function that does its main job."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


def make_callable(module: str, target: str) -> None:
    """Let a module be called as the function at `package.module:function`, which is imported on the first call."""
    where, function = target.split(":")

    class CallableModule(ModuleType):
        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return getattr(import_module(where), function)(*arguments, **options)

    sys.modules[module].__class__ = CallableModule
