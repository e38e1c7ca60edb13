"""Activation patching between paired examples of a foreign model: base and source, row by row.

A pair counts if the model is right on both, and their targets differ. A patch flips it if the model then gives the
source's target. Of a real-valued metric, the effect is the change that the patch makes as a share of the difference
between source and base, 1 if the base becomes the source.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headway.attached_analysis.attached_runs import AttachedRuns
from headway.attached_analysis.examples import ModelExamples
from headway.callbacks import OnProgress
from headway.errors import InputError
from headway.head_analysis.ablation import as_row
from headway.head_analysis.head_runs import heads_in
from headway.head_analysis.interventions import groups_of, rate
from headway.model.sites import Head
from headway.results.patching import Contrast, Patched, Patching
from headway.statistics import moments_of, values_interval

NOTHING = Patching(n=0, contrasts=())


def patch_pairs(runs: AttachedRuns, source: ModelExamples, progress: OnProgress = lambda done, total: None) -> Patching:
    """How often, and how far, patching each group of heads turns the base's answer into the source's."""
    if len(source) != len(runs):
        raise InputError(f"{len(runs)} examples have {len(source)} sources; one source for each needed")
    groups = groups_of(runs.sites)
    heads = heads_in(runs.sites)
    masks = np.stack([np.zeros(len(heads), dtype=np.int64), *(as_row(heads, chosen) for chosen in groups.values())])
    paired = AttachedRuns(runs.attached, runs.examples, runs.metric, runs.seed, scale=runs.scale, patch_sources=source)
    asked = AttachedRuns(
        runs.attached,
        with_targets_of(runs.examples, source),
        runs.metric,
        runs.seed,
        scale=runs.scale,
        patch_sources=source,
    )
    toward = asked.run(masks, ["patch"], progress)
    own = paired.run(masks[:1], ["patch"])
    there = AttachedRuns(runs.attached, source, runs.metric, runs.seed, scale=runs.scale).run(masks[:1])
    usable = own.right[0] & there.right[0] & ~toward.right[0]
    rows = [
        _row(who, chosen, toward.right[place + 1] & usable, usable, toward.values, there.values[0], place + 1)
        for place, (who, chosen) in enumerate(groups.items())
    ]
    found = Contrast(
        name="given pairs",
        about="the source's answer",
        token="answer",
        n=len(runs),
        usable=int(usable.sum()),
        rows=tuple(rows),
    )
    return Patching(n=len(runs), contrasts=(found,))


def with_targets_of(base: ModelExamples, source: ModelExamples) -> ModelExamples:
    """The base's inputs, scored by the source's targets."""
    targets = {name: source.columns[name] for name in ("labels", "answer", "other") if name in source.columns}
    return replace(base, columns={**base.columns, **targets})


def _row(
    who: str,
    heads: Sequence[Head],
    flipped: np.ndarray,
    usable: np.ndarray,
    values: np.ndarray,
    source: np.ndarray,
    place: int,
) -> Patched:
    found = rate(int(flipped.sum()), int(usable.sum()))
    effect, ends = _effect(values[0], values[place], source, usable)
    return Patched(who=who, heads=tuple(map(str, heads)), effect=effect, effect_interval=ends, **vars(found))


def _effect(
    before: np.ndarray, after: np.ndarray, source: np.ndarray, usable: np.ndarray
) -> tuple[float | None, tuple[float, float] | None]:
    """The mean change over the mean difference between source and base, and its interval, which takes the
    difference for known.
    """
    if before.dtype == bool or usable.sum() < 2:
        return None, None
    whole = float((source[usable].astype(np.float64) - before[usable]).mean())
    if whole == 0:
        return None, None
    change = moments_of((after[usable].astype(np.float64) - before[usable]) / whole)
    low, high = values_interval(change)
    return float(change.mean), (float(low), float(high))
