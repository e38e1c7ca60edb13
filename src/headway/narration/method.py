"""Constants of the methods that sentences mention."""

from dataclasses import dataclass

from headway.narration.places import placed


@dataclass(frozen=True)
class Method:
    """Limits of verdicts, and the confidence of intervals."""

    confidence: float = 0.95
    critical_above: int = 10
    important_above: int = 1
    enough_seeds: int = 6  # equals statistics.ENOUGH_SEEDS, whose module needs scipy (tested)
    moves_above: float = 0.05


METHOD = placed(Method(), "method")
