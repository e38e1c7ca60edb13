"""Types of the functions that long work calls to say how far it is."""

from collections.abc import Callable, Mapping
from typing import Any

OnProgress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""
OnStepProgress = Callable[[str, int, int], None]
"""Called with the name of a step, how much of it is done, and of how much."""
OnShare = Callable[[float], None]
"""Called with the share that is done, from 0 to 1."""
OnEvent = Callable[[Mapping[str, Any]], None]
"""Called with every event: {"event": "step" | "validation" | "resumed" | "warning" | ..., ...}."""
