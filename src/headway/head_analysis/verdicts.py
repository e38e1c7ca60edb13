"""When a head is called critical, important, redundant or harmful: each verdict is a claim with its own test.

The drop of accuracy is in points (100 = everything). `lost` counts examples right before and wrong after, `gained`
those wrong before and right after. All claims of a sweep are corrected as one family.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Int

from headway.statistics import drop_above, holm, holm_at_once, mcnemar, paired_interval

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


def claims_of(lost: Any, gained: Any, n: Any) -> Claims:
    """Test "above 10 points", "above 1", "below -1" and "within 1 either way".

    Who is above 10 is above 1, and who is below -1 is below 1: no p-value is smaller than that of what follows from it.
    """
    above, below = drop_above(lost, gained, n, IMPORTANT / 100), drop_above(gained, lost, n, -IMPORTANT / 100)
    return Claims(
        critical=np.maximum(drop_above(lost, gained, n, CRITICAL / 100), above),
        important=above,
        harmful=np.maximum(drop_above(gained, lost, n, IMPORTANT / 100), below),
        redundant=np.maximum(drop_above(lost, gained, n, -IMPORTANT / 100), below),
    )


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
    """Judge drops as one family: a verdict is made where its own claim survives the correction."""
    p = mcnemar(lost, gained)
    claims = claims_of(lost, gained, n)
    corrected = correct(claims)
    low, high = (100 * end for end in paired_interval(lost, gained, n))
    low_90, high_90 = (100 * end for end in paired_interval(lost, gained, n, confidence=0.90))
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
    """How many examples would decide the verdict if the rates stayed the same; None if no reasonable number would.

    Its p-value must then stay below ALPHA when multiplied by all that can be false at once in the family, which is the
    most that the correction can ask.
    """
    sizes = [n]
    while (larger := int(sizes[-1] * 1.2) + 1) <= LARGEST_N:
        sizes.append(larger)
    size = np.array(sizes[1:], dtype=np.int64)
    scaled_lost = np.rint(lost * size / n)
    claims = claims_of(scaled_lost, np.minimum(np.rint(gained * size / n), size - scaled_lost), size)
    corrected = Claims(*(family * getattr(claims, one.name) for one in fields(Claims)))
    decided = np.flatnonzero(decide(corrected) != "undecided")
    return int(size[decided[0]]) if len(decided) else None


def share_under(lost: np.ndarray, gained: np.ndarray, n: int | np.ndarray, limit: float) -> tuple[float, float]:
    """The 95 % interval of the share of heads whose true drop is under a limit.

    The ends are those that are shown to be under it, and all but those that are shown not to be. Of each drop one of
    the two is false, so as many can be as there are drops: p-values are multiplied by their number.
    """
    if not len(lost):
        return (0.0, 0.0)
    above, under = drop_above(lost, gained, n, limit / 100), drop_above(gained, lost, n, -limit / 100)
    return float(np.mean(len(lost) * under < ALPHA)), float(1 - np.mean(len(lost) * above < ALPHA))
