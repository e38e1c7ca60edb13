"""Mechanism against length: what each head does at each length, which changes first, and whether that is why.

Every length is compared with the longest training length. A head has changed where the change is significantly larger
than length alone would make it, by more than `LARGE` in a score of its attention or `LARGE_EFFECT` in its effect;
Holm's correction is over all heads, scores, effects and lengths. That a head changed first is a correlation. What
follows from it is measured where the model fails: without the head, and with its attention repaired.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from math import log
from typing import Any

import numpy as np

from headway.errors import InputError
from headway.evaluation import Trained
from headway.heads.ablation import paired_drop
from headway.heads.variants import Report, heads_of
from headway.lengths.behaviour import KINDS, Behaviour, Look, Sample, captured_at, definitions, observe, sample_of
from headway.lengths.explanation import tell
from headway.lengths.repair import repaired, repairs_for
from headway.lengths.sets import length_set, plan_lengths
from headway.model.sites import Head
from headway.statistics import differs_by_more, holm, paired_interval, welch_interval, wilson_interval
from headway.tasks import Examples

FORM = 1
EXAMPLES, FEWEST, FULL_LENGTH = 500, 20, 128
"""Examples up to a length; past it fewer, so that all lengths have about as many tokens."""
FEWEST_LONG = 64
LARGE = 0.1
"""Of the attention, above what length alone explains."""
LARGE_EFFECT = 0.25
"""Of the model's own mean margin at the training length."""
ALPHA = 0.05
HOLDS = 0.99
MOST_REPAIRED = 6
"""Heads that are repaired one by one: the first that changed."""


@dataclass(frozen=True)
class Change:
    """One number of one head at one length against the longest training length."""

    head: str
    about: str
    """attention or effect."""
    what: str
    """The score, or the kind of ablation."""
    length: int
    before: float
    after: float
    change: float
    interval: tuple[float, float]
    p: float
    p_holm: float = 1.0

    @property
    def changed(self) -> bool:
        return self.p_holm < ALPHA

    @property
    def size(self) -> float:
        """How many times as large as the smallest change that counts."""
        return abs(self.change) / (LARGE if self.about == "attention" else LARGE_EFFECT)


@dataclass(frozen=True)
class Mechanism:
    """What was found about the heads of a run against length; `document` is the `mechanism` of lengths.json."""

    document: Mapping[str, Any] = field(repr=False)

    @property
    def first(self) -> Change | None:
        """The change that comes first; attention before effects at one length, then the largest."""
        found = self.document["first"]
        return None if found is None else Change(**{**found, "interval": tuple(found["interval"])})

    @property
    def fails_at(self) -> int | None:
        """The first length at which the model is significantly worse than at the training length, and below 99 %."""
        found: int | None = self.document["fails_at"]
        return found

    @property
    def words(self) -> list[str]:
        """The answer to "why did it fail?", in sentences."""
        return list(self.document["words"])

    def to_json(self) -> dict[str, Any]:
        return dict(self.document)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Mechanism":
        if document.get("form") != FORM:
            raise InputError(
                f"the mechanism of lengths.json has form {document.get('form')!r}; this version reads {FORM}"
            )
        return cls(document)

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(sentence)}</p>" for sentence in self.words)


def mechanism(
    trained: Trained,
    lengths: Sequence[int],
    *,
    n: int = EXAMPLES,
    sets: str | None = None,
    report: Report = lambda done, total: None,
) -> Mechanism:
    """Scores and effects of every head at each length, the head that changes first, and a check of the cause.

    `sets` is one of the task's sets at a length: `adjacent` where there is one, unless told otherwise.
    """
    if n < FEWEST:
        raise InputError(f"n = {n} examples at each length; at least {FEWEST} needed")
    if not heads_of(trained):
        raise InputError(f"{trained.directory.path} has no heads left; there is nothing to compare")
    plan = plan_lengths(trained)
    name = sets or ("adjacent" if "adjacent" in plan.sets else plan.sets[0])
    drawn = {
        length: length_set(trained, name, length, examples_at(n, length)) for length in sorted({*lengths, plan.longest})
    }
    seen = _observe_all(trained, drawn, report)
    changes = compare(seen, plan.longest)
    document = _document(trained, seen, changes, plan.longest) | {"set": name, "unit": plan.unit}
    document["check"] = _check(trained, drawn, seen, changes, plan.longest, document["fails_at"])
    return Mechanism({**document, "words": tell(document)})


def examples_at(n: int, length: int) -> int:
    """All up to length 128; past it fewer, but at least 64 of them."""
    return min(n, max(FEWEST_LONG, n * FULL_LENGTH // max(length, FULL_LENGTH)))


def _observe_all(trained: Trained, drawn: Mapping[int, Examples], report: Report) -> list[Behaviour]:
    total, before, seen = sum(map(len, drawn.values())), 0, []
    for length, examples in drawn.items():
        seen.append(observe(trained, examples, length, lambda done, _: report(before + done, total)))  # noqa: B023
        before += len(examples)
    return seen


# Changes


def compare(seen: Sequence[Behaviour], reference: int) -> list[Change]:
    """Every score and every effect at every length past the reference, tested as one family."""
    base = next(behaviour for behaviour in seen if behaviour.length == reference)
    found = []
    for behaviour in seen:
        if behaviour.length > reference:
            found += _compare_looks(base, behaviour) + _compare_effects(base, behaviour)
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


def _compare_effects(base: Behaviour, behaviour: Behaviour) -> list[Change]:
    before, after = (effects(one, scale_of(base)) for one in (base, behaviour))
    return [
        _change(head, "effect", kind, behaviour.length, before[head][kind], after[head][kind])
        for head in after
        for kind in KINDS
    ]


def _change(head: str, about: str, what: str, length: int, before: Sample, after: Sample, wider: float = 1.0) -> Change:
    """How far a mean is from what the reference lets expect: its mean, or with `wider` its mean down to that / wider.

    A head that looks at three keys whatever the length has an entropy that stays, in bits, and falls as a share of
    the largest; one that looks everywhere has a share that stays. Both, and all between, are as before.
    """
    expected = float(np.clip(after.mean, before.mean / wider, before.mean))
    shrunk = wider if expected < before.mean else 1.0
    change = after.mean - expected
    errors, sizes = (before.error / shrunk, after.error), (before.n, after.n)
    low, high = welch_interval(change, errors, sizes)
    p = differs_by_more(change, errors, sizes, LARGE if about == "attention" else LARGE_EFFECT)
    return Change(head, about, what, length, before.mean, after.mean, change, (float(low), float(high)), float(p))


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
    changed = [change for change in changes if change.changed]
    return sorted(changed, key=lambda change: (change.length, change.about != "attention", -change.size))


# The document


def _document(trained: Trained, seen: list[Behaviour], changes: list[Change], reference: int) -> dict[str, Any]:
    rows = [_length_row(behaviour, reference) for behaviour in seen]
    ordered = [asdict(change) for change in in_order(changes)]
    return {
        "form": FORM,
        "reference": reference,
        "large": {"attention": LARGE, "effect": LARGE_EFFECT},
        "alpha": ALPHA,
        "family": len(changes),
        "definitions": definitions(trained.task),
        "lengths": rows,
        "heads": _head_rows(trained, seen, changes, reference),
        "changes": ordered,
        "first": ordered[0] if ordered else None,
        "fails_at": first_failing(rows, reference),
    }


def first_failing(rows: Sequence[Mapping[str, Any]], reference: int) -> int | None:
    """The first length past the reference whose accuracy is significantly below the reference's, and below 99 %."""
    base = next(row for row in rows if row["length"] == reference)
    limit = min(HOLDS, base["interval"][0])
    return next((row["length"] for row in rows if row["length"] > reference and row["interval"][1] < limit), None)


def _length_row(behaviour: Behaviour, reference: int) -> dict[str, Any]:
    margin = _sample_row(sample_of(behaviour.margin[0].astype(np.float64), behaviour.groups))
    return {
        "length": behaviour.length,
        "trained": behaviour.length <= reference,
        **_accuracy(behaviour.right[0]),
        "margin": margin["value"],
        "margin_interval": margin["interval"],
        "n_attention": min(captured_at(behaviour.length), len(behaviour.groups)) if behaviour.looks else 0,
    }


def _accuracy(right: np.ndarray) -> dict[str, Any]:
    count, n = int(right.sum()), len(right)
    return {"n": n, "wrong": n - count, "accuracy": count / n, "interval": wilson_interval(count, n)}


def _head_rows(trained: Trained, seen: list[Behaviour], changes: list[Change], reference: int) -> list[dict[str, Any]]:
    """For each head, every score and every effect along the lengths; None where a score was not looked at."""
    judged = {(change.head, change.what, change.length): change for change in changes}
    scale = scale_of(next(one for one in seen if one.length == reference))
    brought = [(one, effects(one, scale)) for one in seen]
    rows = []
    for head in seen[0].heads:
        scores = {
            score: [
                _look_row(one.looks.get(head, {}).get(score), judged.get((head, score, one.length))) for one in seen
            ]
            for score in definitions(trained.task)
        }
        effect_rows = {
            kind: [_effect_row(one, head, kind, own[head][kind], judged) for one, own in brought] for kind in KINDS
        }
        applying = {score: along for score, along in scores.items() if any(along)}
        rows.append({"head": head, "scores": applying, "effects": effect_rows})
    return rows


def _look_row(look: Look | None, change: Change | None) -> dict[str, Any] | None:
    if look is None:
        return None
    return {**_sample_row(look.value), "share": look.share, "even": look.even, **_change_row(change)}


def _effect_row(
    behaviour: Behaviour, head: str, kind: str, sample: Sample, judged: Mapping[tuple[str, str, int], Change]
) -> dict[str, Any]:
    after = behaviour.right[behaviour.variant(head, kind)]
    drop = paired_drop(behaviour.right[0], after)
    change = _change_row(judged.get((head, kind, behaviour.length)))
    return {**_sample_row(sample), "accuracy": float(after.mean()), **drop, **change}


def _sample_row(sample: Sample) -> dict[str, Any]:
    low, high = welch_interval(sample.mean, (sample.error, 0.0), (sample.n, sample.n))
    return {"value": sample.mean, "interval": (float(low), float(high)), "n": sample.n}


def _change_row(change: Change | None) -> dict[str, Any]:
    if change is None:
        return {"change": None, "change_interval": None, "p_holm": None, "changed": False}
    return {
        "change": change.change,
        "change_interval": change.interval,
        "p_holm": change.p_holm,
        "changed": change.changed,
    }


# The check where the model fails


def _check(
    trained: Trained,
    drawn: Mapping[int, Examples],
    seen: Sequence[Behaviour],
    changes: Sequence[Change],
    reference: int,
    fails_at: int | None,
) -> dict[str, Any] | None:
    """What repairs do at the failing length, on several groups of heads, and at the training length as a control."""
    if fails_at is None:
        return None
    moved = [change for change in in_order(changes) if change.about == "attention" and change.length <= fails_at]
    names = list(dict.fromkeys(change.head for change in moved))
    at, control = drawn[fails_at], drawn[reference]
    right = {one.length: one.right[0] for one in seen}
    repairs = repairs_for(trained, control.take(slice(0, captured_at(reference))))
    groups = _to_repair(trained, names)
    confidence = 1 - ALPHA / max(1, len(repairs) * len(groups))
    rows = [
        {
            "repair": name,
            "who": who,
            "heads": [str(head) for head in heads],
            "at": _repaired_row(right[fails_at], repaired(trained, at, heads, repair), confidence),
            "control": _repaired_row(right[reference], repaired(trained, control, heads, repair), confidence),
        }
        for name, repair in repairs.items()
        for who, heads in groups.items()
    ]
    return {"length": fails_at, "looking_elsewhere": names, "confidence": confidence, "repairs": rows}


def _to_repair(trained: Trained, changed: Sequence[str]) -> dict[str, list[Head]]:
    """Groups of heads of self-attention, under a name: changed ones alone and together, each layer, all of them."""
    sites = [site for site in trained.model.sites if not site.across and site.kept]
    known = {str(head): head for site in sites for head in site.heads}
    names = [name for name in changed if name in known]
    groups = {name: [known[name]] for name in names[:MOST_REPAIRED]}
    groups["the heads that look elsewhere"] = [known[name] for name in names]
    groups |= {f"all heads of {site.name}": site.heads for site in sites} | {"all heads": list(known.values())}
    once = {frozenset(heads): name for name, heads in reversed(groups.items()) if heads}
    return {name: heads for name, heads in groups.items() if once.get(frozenset(heads)) == name}


def _repaired_row(before: np.ndarray, after: np.ndarray, confidence: float) -> dict[str, Any]:
    """Accuracy after a repair and its rise in points; all rises together are as sure as one alone would be at 95 %."""
    lost, gained = int((before & ~after).sum()), int((~before & after).sum())
    low, high = paired_interval(gained, lost, len(before), confidence)
    rise = 100 * (gained - lost) / len(before)
    return {**_accuracy(after), "rise": rise, "rise_interval": (100 * float(low), 100 * float(high))}
