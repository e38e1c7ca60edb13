"""headway: a laboratory for small transformers.

import headway as hw

hw.train("addition", seed=0)                 # a recipe's name or path -> runs/addition-seed0
run = hw.load("addition-seed0")
hw.evaluate(run, "all").accuracy
hw.heads(run).top(3)                         # the heads it needs most
hw.lengths("sortedness-seed0").held          # how far past its training it holds
hw.report("addition-seed0").page             # all of it on one page
run.explore()                                # the model itself on a page, in a notebook
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "train": "headway.api",
    "load": "headway.evaluation",
    "evaluate": "headway.evaluation",
    "prune": "headway.api",
    "explore": "headway.explorer.writing",
    "sweep": "headway.api",
    "compare": "headway.sweeps.compare",
}
_ROOMS = ("heads", "lengths", "doctor", "report")
"""Packages that can be called; see headway.lazy."""

__all__ = ["__version__", *_PUBLIC, *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"headway.{name}")
    if name not in _PUBLIC:
        known = ", ".join(sorted([*_PUBLIC, *_ROOMS]))
        raise AttributeError(f"module 'headway' has no attribute {name!r}; it has: {known}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
