"""headway: a laboratory for small transformers.

import headway as hw

hw.train("addition", seed=0)                 # a recipe's name or path -> runs/addition-seed0
run = hw.load("addition-seed0")
hw.evaluate(run, "all").accuracy
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "train": "headway.api",
    "load": "headway.evaluation",
    "evaluate": "headway.evaluation",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'headway' has no attribute {name!r}; it has: {', '.join(sorted(_PUBLIC))}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
