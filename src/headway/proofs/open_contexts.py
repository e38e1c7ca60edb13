"""What guided training asks of a method of proof."""

from dataclasses import dataclass

from headway.tasks import Examples


@dataclass(frozen=True)
class OpenContexts:
    """How many contexts a proof would leave open, and short inputs in which some of them occur."""

    contexts: int
    examples: Examples
