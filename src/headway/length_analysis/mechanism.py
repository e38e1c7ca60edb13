"""Mechanism against length: what each head does at each length, which head changes first, and whether it is the cause.

That a head changes first (`changes.py`) is a correlation. The causal tests are made at a length where the model fails:
with the head ablated, and with its attention repaired (`repair.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from headway.callbacks import OnProgress
from headway.errors import InputError
from headway.evaluation import Trained
from headway.head_analysis.variants import heads_of
from headway.length_analysis.behaviour import KINDS, Behaviour, Sample, captured_at, definitions, observe, sample_of
from headway.length_analysis.changes import (
    ALPHA,
    LARGE,
    LARGE_EFFECT,
    Observed,
    effects,
    find_changes,
    has_changed,
    in_order,
    scale_of,
)
from headway.length_analysis.repair import Judged, accuracy_row, check_repairs, rise_row
from headway.length_analysis.sets import length_set, plan_lengths
from headway.narration.mechanism import tell
from headway.randomness import generator
from headway.results.mechanism import (
    Change,
    Check,
    Compared,
    Crops,
    Effect,
    HeadAcrossLengths,
    Limits,
    Mechanism,
    ModelAtLength,
    Score,
)
from headway.results.schema import Interval
from headway.statistics import paired_interval, welch_interval
from headway.tasks import Examples

EXAMPLES, FEWEST, FULL_LENGTH = 500, 20, 128
"""Examples at lengths up to `FULL_LENGTH`, and the smallest accepted n; longer sequences get fewer examples."""
FEWEST_LONG = 64
HOLDS = 0.99


def mechanism(
    trained: Trained,
    lengths: Sequence[int],
    *,
    n: int = EXAMPLES,
    sets: str | None = None,
    progress: OnProgress = lambda done, total: None,
) -> Mechanism:
    """Scores and effects of every head at each length, the head that changes first, and a causal test.

    `sets` is one of the task's length sets; the default is `adjacent` if the task has it.
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
    seen = _observe_all(trained, drawn, plan.longest, progress)
    changes = find_changes(seen)
    rows = tuple(_length_row(seen, length) for length in seen.at)
    ordered = tuple(in_order(changes))
    fails_at = first_failing(rows, seen.reference)
    found = Mechanism(
        set_name=name,
        unit=plan.unit,
        reference=seen.reference,
        large=Limits(attention=LARGE, effect=LARGE_EFFECT),
        alpha=ALPHA,
        family=len(changes),
        definitions=definitions(trained.task),
        lengths=rows,
        heads=tuple(_head_rows(trained, seen, changes)),
        changes=ordered,
        first=ordered[0] if ordered else None,
        fails_at=fails_at,
        check=_check(trained, drawn, seen, ordered, fails_at),
    )
    return replace(found, words=tuple(map(str, tell(found))))


def examples_at(n: int, length: int) -> int:
    """n up to length 128; beyond it fewer, but at least 64."""
    return min(n, max(FEWEST_LONG, n * FULL_LENGTH // max(length, FULL_LENGTH)))


def _observe_all(trained: Trained, drawn: Mapping[int, Examples], reference: int, progress: OnProgress) -> Observed:
    cut = {length: _cut(trained, drawn[length], length, reference) for length in drawn if length > reference}
    pieces = {length: examples for length, examples in cut.items() if examples is not None}
    jobs = [(False, length, drawn[length]) for length in drawn] + [(True, length, pieces[length]) for length in pieces]
    total, before = sum(examples.source.size for _, _, examples in jobs), 0
    found: dict[bool, dict[int, Behaviour]] = {False: {}, True: {}}
    for piece, length, examples in jobs:
        width = examples.source.shape[1]
        note = partial(_note, progress, before, width, total)
        found[piece][length] = observe(trained, examples, reference if piece else length, note)
        before += examples.source.size
    return Observed(reference, found[False], found[True])


def _note(progress: OnProgress, before: int, width: int, total: int, done: int, _: int) -> None:
    """Report progress in tokens, since long sequences take longer."""
    progress(before + done * width, total)


def _cut(trained: Trained, examples: Examples, length: int, reference: int) -> Examples | None:
    random = generator(trained.config.data.seed, "pieces", length)
    source = trained.task.pieces(random, examples.source, reference)
    return None if source is None else Examples(source, trained.task.answer(source))


# What a result holds


def first_failing(rows: Sequence[ModelAtLength], reference: int) -> int | None:
    """The first length beyond the reference with accuracy significantly below the reference's and below 99 %."""
    base = next(row for row in rows if row.length == reference)
    limit = min(HOLDS, base.interval[0])
    return next((row.length for row in rows if row.length > reference and row.interval[1] < limit), None)


def _length_row(seen: Observed, length: int) -> ModelAtLength:
    """The whole model at a length, and on crops of the same sequences."""
    behaviour, crops, on_crops = seen.at[length], seen.pieces.get(length), None
    if crops is not None:
        margin, interval = _margin(crops)
        rise = rise_row(behaviour.right[0], crops.right[0])
        on_crops = Crops(**vars(rise), margin=margin, margin_interval=interval)
    margin, interval = _margin(behaviour)
    return ModelAtLength(
        length=length,
        trained=length <= seen.reference,
        **vars(accuracy_row(behaviour.right[0])),
        margin=margin,
        margin_interval=interval,
        n_attention=min(captured_at(length), len(behaviour.groups)) if behaviour.attention else 0,
        crops=on_crops,
    )


def _margin(behaviour: Behaviour) -> tuple[float, Interval]:
    """The mean margin and its 95 % interval."""
    sample = sample_of(behaviour.margin[0].astype(np.float64), behaviour.groups)
    return sample.mean, _interval(sample)


Judgements = Mapping[tuple[str, str, int], Change]
"""(head, score or kind of ablation, length) -> its change."""


def _head_rows(trained: Trained, seen: Observed, changes: Sequence[Change]) -> list[HeadAcrossLengths]:
    """For each head, every score and effect at each length; None for a score that was not measured."""
    judged = {(change.head, change.what, change.length): change for change in changes}
    scale = scale_of(seen.base)
    brought = {length: effects(behaviour, scale) for length, behaviour in seen.at.items()}
    rows = []
    for head in seen.base.heads:
        scores = {
            score: tuple(_score(seen, length, head, score, judged) for length in seen.at)
            for score in definitions(trained.task)
        }
        effect_rows = {
            kind: tuple(_effect(seen.at[length], head, kind, brought[length][head][kind], judged) for length in seen.at)
            for kind in KINDS
        }
        applying = {score: along for score, along in scores.items() if any(along)}
        rows.append(HeadAcrossLengths(head=head, scores=applying, effects=effect_rows))
    return rows


def _score(seen: Observed, length: int, head: str, score: str, judged: Judgements) -> Score | None:
    after = seen.at[length].attention.get(head, {}).get(score)
    if after is None:
        return None
    before = seen.against(length).attention.get(head, {}).get(score) if length > seen.reference else None
    return Score(
        **vars(_compared(after.value, judged.get((head, score, length)))),
        share=after.share,
        even=after.even,
        share_before=before.share if before else None,
        even_before=before.even if before else None,
    )


def _effect(behaviour: Behaviour, head: str, kind: str, sample: Sample, judged: Judgements) -> Effect:
    before, after = behaviour.right[0], behaviour.right[behaviour.variant(head, kind)]
    lost, gained = int((before & ~after).sum()), int((~before & after).sum())
    low, high = paired_interval(lost, gained, len(before))
    return Effect(
        **vars(_compared(sample, judged.get((head, kind, behaviour.length)))),
        accuracy=float(after.mean()),
        drop=100 * (lost - gained) / len(before),
        drop_interval=(100 * float(low), 100 * float(high)),
    )


def _interval(sample: Sample) -> Interval:
    low, high = welch_interval(sample.mean, (sample.error, 0.0), (sample.n, sample.n))
    return float(low), float(high)


def _compared(sample: Sample, change: Change | None) -> Compared:
    """The fields that scores and effects share."""
    return Compared(
        value=sample.mean,
        interval=_interval(sample),
        n=sample.n,
        before=None if change is None else change.before,
        change=None if change is None else change.change,
        change_interval=None if change is None else change.interval,
        p_holm=None if change is None else change.p_holm,
        changed=change is not None and has_changed(change),
    )


def _check(
    trained: Trained, drawn: Mapping[int, Examples], seen: Observed, changes: Sequence[Change], fails_at: int | None
) -> Check | None:
    """The effect of repairs at the first failing length; None if no length fails."""
    if fails_at is None:
        return None
    moved = [change for change in changes if change.about == "attention" and change.length <= fails_at]
    names = list(dict.fromkeys(change.head for change in moved))
    failing, working = (Judged(drawn[at], seen.at[at].right[0]) for at in (fails_at, seen.reference))
    return check_repairs(trained, failing, working, names, fails_at)
