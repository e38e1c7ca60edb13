"""Types of the callbacks for progress and events, and of the rows of metrics.jsonl."""

from collections.abc import Callable
from typing import Required, TypedDict

OnProgress = Callable[[int, int], None]
"""Called with the work done and the total."""
OnStepProgress = Callable[[str, int, int], None]
"""Called with the name of a step, the work done in it and its total."""
OnShare = Callable[[float], None]
"""Called with the share of the work that is done, from 0 to 1."""


class Validation(TypedDict, total=False):
    """Loss and accuracy on the validation set; in guided training, the contexts that a proof leaves open."""

    loss: Required[float]
    accuracy: Required[float]
    open_contexts: int


class CurvePoint(TypedDict, total=False):
    """A step of a training curve, and what was measured there."""

    step: int
    loss: float
    accuracy: float


class MetricsRow(TypedDict, total=False):
    """A line of metrics.jsonl: a training step, a validation, or the step from which a run was resumed."""

    step: int
    loss: float
    lr: float
    gradient: float
    validation: Validation
    resumed_at: int


class Event(TypedDict, total=False):
    """An event of a training, a sweep or a study; `event` is its kind and determines the other keys.

    step, validation, resumed, warning (of a run); planned, started, ended (of trials, by name); stage, progress,
    failed, training (of a study; `told` is the event of its run); share (of an analysis, by number).
    """

    event: Required[str]
    step: int
    total: int
    loss: float
    accuracy: float
    lr: float
    gradient: float
    validation: Validation
    text: str
    trial: str
    finished: int
    state: str
    error: str | None
    stage: str
    number: int
    of: int
    done: float
    note: str
    run: str
    told: "Event"
    share: float


OnEvent = Callable[[Event], None]
"""Called with every event."""
