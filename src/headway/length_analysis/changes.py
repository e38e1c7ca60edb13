"""Tests for changes of a head with length: the compared number, the reference, and the significance.

Every length is compared with the longest training length, on crops of that length from the same sequences, so that only
the length differs. If a crop is not an example of the task, other examples of that length are used. A number has
changed if its distance from the value expected by length alone is significantly larger than `LARGE` (attention) or
`LARGE_EFFECT` (effects). Holm's correction covers all heads, scores, effects and lengths.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Literal

import numpy as np

from headway.length_analysis.behaviour import KINDS, Behaviour, Sample, sample_of
from headway.results.mechanism import Change
from headway.statistics import differs_by_more, holm, welch_interval

LARGE = 0.1
"""Smallest relevant change of attention, in normalised units."""
LARGE_EFFECT = 0.25
"""Smallest relevant change of an effect, as a share of the model's mean margin at the training length."""
ALPHA = 0.05
About = Literal["attention", "effect"]


def has_changed(change: Change) -> bool:
    return change.p_holm < ALPHA


def size_of(change: Change) -> float:
    """The change as a multiple of the smallest relevant change."""
    return abs(change.change) / limit_of(change.about)


def limit_of(about: About) -> float:
    return LARGE if about == "attention" else LARGE_EFFECT


@dataclass(frozen=True)
class Observed:
    """Every head at every length and, beyond the reference length, on crops of the same sequences.

    Crops are as long as the reference.
    """

    reference: int
    at: Mapping[int, Behaviour]
    pieces: Mapping[int, Behaviour]

    @property
    def base(self) -> Behaviour:
        return self.at[self.reference]

    @property
    def longer(self) -> list[int]:
        return [length for length in self.at if length > self.reference]

    def against(self, length: int) -> Behaviour:
        """The behaviour that a length is compared with: on crops, or at the reference length."""
        return self.pieces.get(length, self.base)


def find_changes(seen: Observed) -> list[Change]:
    """Changes of every score and effect at every length beyond the reference, corrected as one family."""
    found = []
    for length in seen.longer:
        found += _compare_attention(seen.against(length), seen.at[length])
        found += _compare_effects(seen.against(length), seen.at[length], scale_of(seen.base))
    adjusted = holm([change.p for change in found])
    return [replace(change, p_holm=float(p)) for change, p in zip(found, adjusted, strict=True)]


def _compare_attention(base: Behaviour, behaviour: Behaviour) -> list[Change]:
    found = []
    for head, attention in behaviour.attention.items():
        for score, after in attention.items():
            before = base.attention.get(head, {}).get(score)
            if before is not None:
                wider = log(behaviour.length) / log(base.length) if score == "entropy" else 1.0
                found.append(_change(head, "attention", score, behaviour.length, before.value, after.value, wider))
    return found


def _compare_effects(base: Behaviour, behaviour: Behaviour, scale: float) -> list[Change]:
    before, after = (effects(one, scale) for one in (base, behaviour))
    return [
        _change(head, "effect", kind, behaviour.length, before[head][kind], after[head][kind])
        for head in after
        for kind in KINDS
    ]


def _change(
    head: str, about: About, what: str, length: int, before: Sample, after: Sample, wider: float = 1.0
) -> Change:
    """The distance of a mean from its expected range: the reference mean, or with `wider` from mean / wider to mean.

    A head that attends to three keys at every length keeps its entropy in bits, and loses as a share of the largest
    possible entropy. A head that attends evenly keeps its share. Both, and everything between, count as unchanged.
    """
    expected = float(np.clip(after.mean, before.mean / wider, before.mean))
    shrunk = wider if expected < before.mean else 1.0
    change = after.mean - expected
    errors, sizes = (before.error / shrunk, after.error), (before.n, after.n)
    low, high = welch_interval(change, errors, sizes)
    return Change(
        head=head,
        about=about,
        what=what,
        length=length,
        before=before.mean,
        after=after.mean,
        change=change,
        interval=(float(low), float(high)),
        p=float(differs_by_more(change, errors, sizes, limit_of(about))),
    )


def scale_of(base: Behaviour) -> float:
    """The mean margin of the right answer at the training length, the unit of effects.

    For a model no better than chance at that length, the mean absolute margin.
    """
    mean = sample_of(base.margin[0].astype(np.float64), base.groups).mean
    return mean if mean > 0 else float(np.abs(base.margin[0]).mean()) or 1.0


def effects(behaviour: Behaviour, scale: float) -> dict[str, dict[str, Sample]]:
    """The loss of margin without each head, as a share of `scale`, by kind of ablation."""
    margin = behaviour.margin.astype(np.float64) / scale
    return {
        head: {kind: sample_of(margin[0] - margin[behaviour.variant(head, kind)], behaviour.groups) for kind in KINDS}
        for head in behaviour.heads
    }


def in_order(changes: Sequence[Change]) -> list[Change]:
    """The significant changes, shortest length first, then attention before effects, then the largest first."""
    changed = filter(has_changed, changes)
    return sorted(changed, key=lambda change: (change.length, change.about != "attention", -size_of(change)))
