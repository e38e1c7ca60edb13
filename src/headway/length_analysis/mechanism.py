"""Mechanism against length: what each head does at each length, which changes first, and whether that is why.

That a head changed first (`changes.py`) is a correlation. What follows from it is measured where the model fails:
without the head, and with its attention repaired (`repair.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from html import escape
from typing import Any

import numpy as np

from headway.errors import InputError
from headway.evaluation import Trained
from headway.head_analysis.ablation import paired_drop
from headway.head_analysis.variants import Report, heads_of
from headway.length_analysis.behaviour import KINDS, Behaviour, Sample, captured_at, definitions, observe, sample_of
from headway.length_analysis.changes import (
    ALPHA,
    LARGE,
    LARGE_EFFECT,
    Change,
    Observed,
    compare,
    effects,
    in_order,
    scale_of,
)
from headway.length_analysis.explanation import tell
from headway.length_analysis.repair import Judged, accuracy_row, check_repairs, rise_row
from headway.length_analysis.sets import length_set, plan_lengths
from headway.randomness import generator
from headway.statistics import welch_interval
from headway.tasks import Examples

FORM = 1
EXAMPLES, FEWEST, FULL_LENGTH = 500, 20, 128
"""Examples up to a length; past it fewer, so that all lengths have about as many tokens."""
FEWEST_LONG = 64
HOLDS = 0.99


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
    seen = _observe_all(trained, drawn, plan.longest, report)
    changes = compare(seen)
    document = _document(trained, seen, changes) | {"set": name, "unit": plan.unit}
    document["check"] = _check(trained, drawn, seen, changes, document["fails_at"])
    return Mechanism({**document, "words": tell(document)})


def examples_at(n: int, length: int) -> int:
    """All up to length 128; past it fewer, but at least 64 of them."""
    return min(n, max(FEWEST_LONG, n * FULL_LENGTH // max(length, FULL_LENGTH)))


def _observe_all(trained: Trained, drawn: Mapping[int, Examples], reference: int, report: Report) -> Observed:
    cut = {length: _cut(trained, drawn[length], length, reference) for length in drawn if length > reference}
    pieces = {length: examples for length, examples in cut.items() if examples is not None}
    jobs = [(False, length, drawn[length]) for length in drawn] + [(True, length, pieces[length]) for length in pieces]
    total, before = sum(examples.source.size for _, _, examples in jobs), 0
    found: dict[bool, dict[int, Behaviour]] = {False: {}, True: {}}
    for piece, length, examples in jobs:
        width = examples.source.shape[1]
        note = partial(_note, report, before, width, total)
        found[piece][length] = observe(trained, examples, reference if piece else length, note)
        before += examples.source.size
    return Observed(reference, found[False], found[True])


def _note(report: Report, before: int, width: int, total: int, done: int, _: int) -> None:
    """Progress in tokens: long sequences take longer."""
    report(before + done * width, total)


def _cut(trained: Trained, examples: Examples, length: int, reference: int) -> Examples | None:
    random = generator(trained.config.data.seed, "pieces", length)
    source = trained.task.pieces(random, examples.source, reference)
    return None if source is None else Examples(source, trained.task.answer(source))


# The document


def _document(trained: Trained, seen: Observed, changes: list[Change]) -> dict[str, Any]:
    rows = [_length_row(seen, length) for length in seen.at]
    ordered = [asdict(change) for change in in_order(changes)]
    return {
        "form": FORM,
        "reference": seen.reference,
        "large": {"attention": LARGE, "effect": LARGE_EFFECT},
        "alpha": ALPHA,
        "family": len(changes),
        "definitions": definitions(trained.task),
        "lengths": rows,
        "heads": _head_rows(trained, seen, changes),
        "changes": ordered,
        "first": ordered[0] if ordered else None,
        "fails_at": first_failing(rows, seen.reference),
    }


def first_failing(rows: Sequence[Mapping[str, Any]], reference: int) -> int | None:
    """The first length past the reference whose accuracy is significantly below the reference's, and below 99 %."""
    base = next(row for row in rows if row["length"] == reference)
    limit = min(HOLDS, base["interval"][0])
    return next((row["length"] for row in rows if row["length"] > reference and row["interval"][1] < limit), None)


def _length_row(seen: Observed, length: int) -> dict[str, Any]:
    """The whole model at a length, and on pieces of the same sequences."""
    behaviour, pieces = seen.at[length], seen.pieces.get(length)
    return {
        "length": length,
        "trained": length <= seen.reference,
        **_model_row(behaviour),
        "n_attention": min(captured_at(length), len(behaviour.groups)) if behaviour.looks else 0,
        "pieces": None if pieces is None else _model_row(pieces) | rise_row(behaviour.right[0], pieces.right[0]),
    }


def _model_row(behaviour: Behaviour) -> dict[str, Any]:
    margin = _sample_row(sample_of(behaviour.margin[0].astype(np.float64), behaviour.groups))
    return {**accuracy_row(behaviour.right[0]), "margin": margin["value"], "margin_interval": margin["interval"]}


def _head_rows(trained: Trained, seen: Observed, changes: list[Change]) -> list[dict[str, Any]]:
    """For each head, every score and every effect along the lengths; None where a score was not looked at."""
    judged = {(change.head, change.what, change.length): change for change in changes}
    scale = scale_of(seen.base)
    brought = {length: effects(behaviour, scale) for length, behaviour in seen.at.items()}
    rows = []
    for head in seen.base.heads:
        scores = {
            score: [_look_row(seen, length, head, score, judged) for length in seen.at]
            for score in definitions(trained.task)
        }
        effect_rows = {
            kind: [_effect_row(seen.at[length], head, kind, brought[length][head][kind], judged) for length in seen.at]
            for kind in KINDS
        }
        applying = {score: along for score, along in scores.items() if any(along)}
        rows.append({"head": head, "scores": applying, "effects": effect_rows})
    return rows


def _look_row(
    seen: Observed, length: int, head: str, score: str, judged: Mapping[tuple[str, str, int], Change]
) -> dict[str, Any] | None:
    look = seen.at[length].looks.get(head, {}).get(score)
    if look is None:
        return None
    before = seen.against(length).looks.get(head, {}).get(score) if length > seen.reference else None
    held = {"share_before": before.share if before else None, "even_before": before.even if before else None}
    change = _change_row(judged.get((head, score, length)))
    return {**_sample_row(look.value), "share": look.share, "even": look.even, **held, **change}


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
        return {"before": None, "change": None, "change_interval": None, "p_holm": None, "changed": False}
    return {
        "before": change.before,
        "change": change.change,
        "change_interval": change.interval,
        "p_holm": change.p_holm,
        "changed": change.changed,
    }


def _check(
    trained: Trained, drawn: Mapping[int, Examples], seen: Observed, changes: Sequence[Change], fails_at: int | None
) -> dict[str, Any] | None:
    """What repairs do at the failing length; None where there is none."""
    if fails_at is None:
        return None
    moved = [change for change in in_order(changes) if change.about == "attention" and change.length <= fails_at]
    names = list(dict.fromkeys(change.head for change in moved))
    failing, working = (Judged(drawn[at], seen.at[at].right[0]) for at in (fails_at, seen.reference))
    return {"length": fails_at, "looking_elsewhere": names, **check_repairs(trained, failing, working, names)}
