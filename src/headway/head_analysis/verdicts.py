"""When a head is called critical, important, redundant or harmful: each verdict is a claim with its own test.

Drops are in points (100 = everything). Of whole-answer accuracy, `lost` counts examples right before and wrong after,
`gained` those wrong before and right after (`CountedDrops`). Of a real-valued metric, a point is a hundredth of the
metric's scale (`MeasuredDrops`). All claims of a sweep are corrected as one family.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from headway.statistics import (
    Moments,
    drop_above,
    holm,
    holm_at_once,
    mcnemar,
    mean_above,
    mean_differs,
    paired_interval,
    values_interval,
)

CRITICAL, IMPORTANT = 10.0, 1.0
"""Limits of the drop, in points: above CRITICAL, above IMPORTANT; redundant means within IMPORTANT of zero."""
ALPHA = 0.05
TAILS = 2
"""How many claims about one drop can be false at once."""
DEPENDS = "depends on the ablation"
LARGEST_N = 10_000_000
"""Larger numbers of examples are not suggested."""


@dataclass(frozen=True)
class Claims:
    """Uncorrected p-values of the claims that verdicts make about paired drops; arrays of one shape."""

    critical: np.ndarray
    important: np.ndarray
    harmful: np.ndarray
    redundant: np.ndarray


@runtime_checkable
class Drops(Protocol):
    """Paired drops of several variants, as shares of everything, and what can be claimed of them."""

    def above(self, limit: float) -> np.ndarray:
        """P-value of "the drop is above the limit"."""

    def below(self, limit: float) -> np.ndarray:
        """P-value of "the drop is below the limit"."""

    def differs(self) -> np.ndarray:
        """P-value of "the drop is not 0"."""

    def interval(self, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        """The ends of an interval of each drop."""

    def at_sizes(self, one: int, sizes: np.ndarray) -> "Drops":
        """One of the drops as more examples would show it, if its rates stayed as they are."""


@dataclass(frozen=True)
class CountedDrops:
    """Drops of accuracy, from the examples that were lost and gained."""

    lost: Any
    gained: Any
    n: Any

    def above(self, limit: float) -> np.ndarray:
        return drop_above(self.lost, self.gained, self.n, limit)

    def below(self, limit: float) -> np.ndarray:
        return drop_above(self.gained, self.lost, self.n, -limit)

    def differs(self) -> np.ndarray:
        return mcnemar(self.lost, self.gained)

    def interval(self, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        return paired_interval(self.lost, self.gained, self.n, confidence)

    def at_sizes(self, one: int, sizes: np.ndarray) -> "CountedDrops":
        lost, gained, n = (np.broadcast_to(x, np.shape(self.lost))[one] for x in (self.lost, self.gained, self.n))
        scaled_lost = np.rint(lost * sizes / n)
        return CountedDrops(scaled_lost, np.minimum(np.rint(gained * sizes / n), sizes - scaled_lost), sizes)


@dataclass(frozen=True)
class MeasuredDrops:
    """Drops of a real-valued metric, from the moments of the paired differences."""

    found: Moments

    def above(self, limit: float) -> np.ndarray:
        return mean_above(self.found, limit)

    def below(self, limit: float) -> np.ndarray:
        return mean_above(-self.found, -limit)

    def differs(self) -> np.ndarray:
        return mean_differs(self.found)

    def interval(self, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        return values_interval(self.found, confidence)

    def at_sizes(self, one: int, sizes: np.ndarray) -> "MeasuredDrops":
        parts = (self.found.mean, self.found.deviation, self.found.skewness)
        mean, deviation, skewness = (np.full(sizes.shape, part[one]) for part in parts)
        return MeasuredDrops(Moments(mean, deviation, skewness, sizes))


def claims_about(drops: Drops) -> Claims:
    """Test "above 10 points", "above 1", "below -1" and "within 1 either way".

    Who is above 10 is above 1, and who is below -1 is below 1: no p-value is smaller than that of what follows from it.
    """
    above, below = drops.above(IMPORTANT / 100), drops.below(IMPORTANT / 100)
    return Claims(
        critical=np.maximum(drops.above(CRITICAL / 100), above),
        important=above,
        harmful=np.maximum(drops.below(-IMPORTANT / 100), below),
        redundant=np.maximum(drops.above(-IMPORTANT / 100), below),
    )


def claims_of(lost: Any, gained: Any, n: Any) -> Claims:
    """The same of counts of examples."""
    return claims_about(CountedDrops(lost, gained, n))


def correct(claims: Claims) -> Claims:
    """All claims of a sweep as one family: if those below ALPHA are made, P(any of them is false) ≤ ALPHA.

    Whatever a true drop is, what is false of it comes from at most two tails (at a drop of 1 point: "above 1" from the
    upper, "below -1" and "within 1" both from the lower), and from one if it is above 10 or below -1. So two claims a
    drop can be false at once, one fewer for each that is shown to be critical or harmful: Holm's steps with it.
    """
    p = np.concatenate([claims.critical, claims.important, claims.harmful, claims.redundant])
    tests = len(claims.critical)
    frees = np.repeat([True, False, True, False], tests)
    return Claims(*holm_at_once(p, TAILS * tests, frees).reshape(4, -1))


@dataclass(frozen=True)
class Judged:
    """A family of paired drops: intervals in points, tests with and without correction, verdicts."""

    low: np.ndarray
    high: np.ndarray
    low_90: np.ndarray
    high_90: np.ndarray
    p: np.ndarray
    p_holm: np.ndarray
    p_equivalence: np.ndarray
    p_equivalence_holm: np.ndarray
    p_critical_holm: np.ndarray
    p_important_holm: np.ndarray
    p_harmful_holm: np.ndarray
    verdict: np.ndarray

    def ends(self, index: int) -> tuple[float, float]:
        return float(self.low[index]), float(self.high[index])

    def ends_90(self, index: int) -> tuple[float, float]:
        return float(self.low_90[index]), float(self.high_90[index])


def judge(lost: Int[np.ndarray, " test"], gained: Int[np.ndarray, " test"], n: int) -> Judged:
    """Judge drops of accuracy as one family."""
    return judge_drops(CountedDrops(lost, gained, n))


def judge_drops(drops: Drops) -> Judged:
    """Judge drops as one family: a verdict is made where its own claim survives the correction."""
    p = drops.differs()
    claims = claims_about(drops)
    corrected = correct(claims)
    low, high = (100 * end for end in drops.interval(0.95))
    low_90, high_90 = (100 * end for end in drops.interval(0.90))
    return Judged(
        low=low,
        high=high,
        low_90=low_90,
        high_90=high_90,
        p=p,
        p_holm=holm(p),
        p_equivalence=claims.redundant,
        p_equivalence_holm=corrected.redundant,
        p_critical_holm=corrected.critical,
        p_important_holm=corrected.important,
        p_harmful_holm=corrected.harmful,
        verdict=decide(corrected),
    )


def decide(corrected: Claims) -> np.ndarray:
    """The verdict of each drop: the strongest claim whose corrected p-value is below ALPHA, else `undecided`."""
    made = [p < ALPHA for p in (corrected.critical, corrected.important, corrected.harmful, corrected.redundant)]
    return np.select(made, ["critical", "important", "harmful", "redundant"], "undecided")


def overall(verdicts: Sequence[str]) -> str:
    """A head's verdict over all kinds of ablation, independent of their order.

    Kinds that contradict each other (redundant beside important, critical or harmful; harmful beside important or
    critical) make it depend on the ablation. `redundant` and `critical` must be shown by every kind. `important` and
    `harmful` must be shown by some kind, and the others may be undecided; critical counts as important.
    """
    found = set(verdicts)
    sides = [found & {"critical", "important"}, found & {"redundant"}, found & {"harmful"}]
    if sum(map(bool, sides)) > 1:
        return DEPENDS
    if len(found) == 1:
        return verdicts[0]
    if sides[0]:
        return "important"
    return "harmful" if sides[2] else "undecided"


def n_to_decide(lost: int, gained: int, n: int, family: int = TAILS) -> int | None:
    """The same for one drop of accuracy."""
    return examples_to_decide(CountedDrops(np.array([lost]), np.array([gained]), n), 0, n, family)


def examples_to_decide(drops: Drops, one: int, n: int, family: int) -> int | None:
    """How many examples would decide the verdict if the rates stayed the same; None if no reasonable number would.

    Its p-value must then be below ALPHA after multiplication by the largest number of claims in the family that can be
    false at once, which is the strictest correction.
    """
    sizes = [n]
    while (larger := int(sizes[-1] * 1.2) + 1) <= LARGEST_N:
        sizes.append(larger)
    size = np.array(sizes[1:], dtype=np.int64)
    claims = claims_about(drops.at_sizes(one, size))
    corrected = Claims(*(family * getattr(claims, one.name) for one in fields(Claims)))
    decided = np.flatnonzero(decide(corrected) != "undecided")
    return int(size[decided[0]]) if len(decided) else None


def share_under(lost: np.ndarray, gained: np.ndarray, n: int | np.ndarray, limit: float) -> tuple[float, float]:
    """The same of drops of accuracy."""
    return share_of_drops_under(CountedDrops(lost, gained, n), len(lost), limit)


def share_of_drops_under(drops: Drops, tests: int, limit: float) -> tuple[float, float]:
    """The 95 % interval of the share of heads whose true drop is under a limit, in points.

    The ends count the heads shown to be under the limit, and all heads except those shown not to be. For each drop one
    of the two claims is false, so p-values are multiplied by the number of drops.
    """
    if not tests:
        return (0.0, 0.0)
    above, under = drops.above(limit / 100), drops.below(limit / 100)
    return float(np.mean(tests * under < ALPHA)), float(1 - np.mean(tests * above < ALPHA))
