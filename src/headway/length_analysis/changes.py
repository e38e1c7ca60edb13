"""What counts as a change of a head: which number, against what, and how sure that is.

Every length is held against the longest training length, on pieces of that length out of the very same sequences: what
stands in them is the same and only the length differs. Where a piece is no example of the task, examples of that length
stand in. A number has changed where it is significantly further from what length alone would make it than `LARGE`
(attention) or `LARGE_EFFECT` (effects); Holm's correction is over all heads, scores, effects and lengths.
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
"""Of the attention, above what length alone explains."""
LARGE_EFFECT = 0.25
"""Of the model's own mean margin at the training length."""
ALPHA = 0.05
About = Literal["attention", "effect"]


def has_changed(change: Change) -> bool:
    return change.p_holm < ALPHA


def size_of(change: Change) -> float:
    """How many times as large as the smallest change that counts."""
    return abs(change.change) / limit_of(change.about)


def limit_of(about: About) -> float:
    return LARGE if about == "attention" else LARGE_EFFECT


@dataclass(frozen=True)
class Observed:
    """Every head at every length, and for lengths past the reference on pieces of the same sequences, where there are.

    Pieces are as long as the reference.
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
        """What a length is held against."""
        return self.pieces.get(length, self.base)


def find_changes(seen: Observed) -> list[Change]:
    """Every score and every effect at every length past the reference, tested as one family."""
    found = []
    for length in seen.longer:
        found += _compare_looks(seen.against(length), seen.at[length])
        found += _compare_effects(seen.against(length), seen.at[length], scale_of(seen.base))
    adjusted = holm([change.p for change in found])
    return [replace(change, p_holm=float(p)) for change, p in zip(found, adjusted, strict=True)]


def _compare_looks(base: Behaviour, behaviour: Behaviour) -> list[Change]:
    found = []
    for head, looks in behaviour.looks.items():
        for score, look in looks.items():
            before = base.looks.get(head, {}).get(score)
            if before is not None:
                wider = log(behaviour.length) / log(base.length) if score == "entropy" else 1.0
                found.append(_change(head, "attention", score, behaviour.length, before.value, look.value, wider))
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
    """How far a mean is from what the reference lets expect: its mean, or with `wider` its mean down to that / wider.

    A head that looks at three keys whatever the length has an entropy that stays, in bits, and falls as a share of
    the largest; one that looks everywhere has a share that stays. Both, and all between, are as before.
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
    """The mean margin of the right answer at the training length: what effects are shares of.

    Of a model that is no better than chance there, the mean size of its margins instead.
    """
    mean = sample_of(base.margin[0].astype(np.float64), base.groups).mean
    return mean if mean > 0 else float(np.abs(base.margin[0]).mean()) or 1.0


def effects(behaviour: Behaviour, scale: float) -> dict[str, dict[str, Sample]]:
    """What the margin loses without each head, in shares of `scale`; by kind of ablation."""
    margin = behaviour.margin.astype(np.float64) / scale
    return {
        head: {kind: sample_of(margin[0] - margin[behaviour.variant(head, kind)], behaviour.groups) for kind in KINDS}
        for head in behaviour.heads
    }


def in_order(changes: Sequence[Change]) -> list[Change]:
    """What changed, the first to change first; attention before effects at one length, then the largest."""
    changed = filter(has_changed, changes)
    return sorted(changed, key=lambda change: (change.length, change.about != "attention", -size_of(change)))
