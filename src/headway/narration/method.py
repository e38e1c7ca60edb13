"""Fixed numbers of the methods, which sentences may name."""

from dataclasses import dataclass

from headway.narration.places import placed


@dataclass(frozen=True)
class Method:
    """Where verdicts begin, and how sure an interval is."""

    confidence: float = 0.95
    critical_above: int = 10
    important_above: int = 1
    enough_seeds: int = 6  # statistics.ENOUGH_SEEDS, whose module needs scipy; a test holds both alike
    moves_above: float = 0.05


METHOD = placed(Method(), "method")
