"""Summaries over several runs. The seed is the unit: examples are not pooled.

Head 2 of one seed has nothing to do with head 2 of another. So heads are matched by rank (the head that costs
most, the next, ...) or by role (what they look at), never by index.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.stats import spearmanr

from headway.head_analysis.head_runs import KINDS
from headway.results.heads import Head, HeadAnalysis, Prunable
from headway.results.heads_study import (
    ContrastOverSeeds,
    ControlOverSeeds,
    ControlsOverSeeds,
    Correlations,
    HeadsTogether,
    OverSeeds,
    PrunableOverSeeds,
    RatesOverSeeds,
    RemovableOverSeeds,
    RoleOverSeeds,
    SetOverSeeds,
)
from headway.results.joint_ablation import Comparison, HeadSet, Removable
from headway.results.patching import Contrast, Controls
from headway.results.schema import Interval
from headway.statistics import ENOUGH_SEEDS, median_interval

FEWEST_WITHIN = 3
"""Fewest heads of one kind for a correlation; with two heads it is always 1 or -1."""
VERDICTS = ("critical", "important", "redundant", "harmful", "undecided", "depends on the ablation")
Measured = tuple[float, Interval]
"""A drop and its interval over examples."""


def over_seeds(values: Sequence[float], own: Sequence[Interval | None] | None = None) -> OverSeeds:
    """Every seed's value, their mean and median, and a 95 % interval of the median (none under six seeds).

    `own` are the seeds' intervals over examples, which widen it; `errors` lists the included errors. If one is missing,
    as in documents of earlier versions, only the error between seeds is included.
    """
    known = None if own is None or any(one is None for one in own) else [one for one in own if one is not None]
    interval = median_interval(values, own=known)
    return OverSeeds(
        values=tuple(map(float, values)),
        mean=float(np.mean(values)),
        median=float(np.median(values)),
        interval=interval,
        errors=None if interval is None else ("seeds",) if known is None else ("seeds", "examples"),
    )


def summarise_seeds(documents: Sequence[HeadAnalysis]) -> HeadsTogether:
    """The findings of several runs, summarised over seeds; fewer than six seeds are labelled descriptive."""
    baselines = [document.baseline for document in documents]
    return HeadsTogether(
        seeds=len(documents),
        runs=tuple(document.run for document in documents),
        descriptive=len(documents) < ENOUGH_SEEDS,
        accuracy=over_seeds([one.accuracy for one in baselines], [one.interval for one in baselines]),
        verdicts=_verdict_counts(documents),
        prunable={kind: _shares([document.prunable[kind] for document in documents]) for kind in documents[0].prunable},
        by_rank=_by_rank(documents),
        by_role=_by_role(documents),
        by_layer=_by_layer(documents),
        removable=tuple(
            _removable(rows) for rows in zip(*(document.joint.removable for document in documents), strict=True)
        ),
        sufficient=over_seeds([len(document.joint.sufficient.heads) for document in documents]),
        interventions=tuple(_contrast(documents, index) for index in range(len(documents[0].interventions.contrasts))),
        correlations=_correlations(documents),
    )


def _verdict_counts(documents: Sequence[HeadAnalysis]) -> dict[str, dict[str, OverSeeds]]:
    """How many heads of each verdict a seed has: overall, and for each kind of ablation."""

    def counts(kind: str) -> dict[str, OverSeeds]:
        verdicts = [
            Counter(head.verdict if kind == "overall" else head.ablation[kind].verdict for head in document.heads)
            for document in documents
        ]
        there = [name for name in VERDICTS if any(one[name] for one in verdicts)]
        return {name: over_seeds([one[name] for one in verdicts]) for name in there}

    return {kind: counts(kind) for kind in ("overall", *KINDS)}


def _shares(found: Sequence[Prunable]) -> PrunableOverSeeds:
    """Shares of heads that can be removed one at a time.

    If a run's share has an interval, it widens the interval over seeds.
    """
    return PrunableOverSeeds(
        under_1_point=over_seeds([one.under_1_point for one in found], [one.under_1_point_interval for one in found]),
        under_5_points=over_seeds(
            [one.under_5_points for one in found], [one.under_5_points_interval for one in found]
        ),
        under_1_percent_of_loss=over_seeds([one.under_1_percent_of_loss for one in found]),
    )


def _ranked(heads: Iterable[Head]) -> list[Measured]:
    """Zero ablations of some heads, the largest drop first."""
    return sorted(((head.ablation["zero"].drop, head.ablation["zero"].interval) for head in heads), key=lambda d: -d[0])


def _drops_over_seeds(drops: Sequence[Measured]) -> OverSeeds:
    """One drop per seed, each with its interval over examples."""
    return over_seeds([drop for drop, _ in drops], [interval for _, interval in drops])


def _cost(found: Comparison) -> Measured:
    return found.drop, found.drop_interval


def _by_rank(documents: Sequence[HeadAnalysis]) -> dict[str, tuple[OverSeeds, ...]]:
    """The drop of the head that costs most, of the next, and so on, within each kind of attention (zero ablation)."""
    found = {}
    for attention in dict.fromkeys(row.kind for row in documents[0].heads):
        ranked = [_ranked(head for head in one.heads if head.kind == attention) for one in documents]
        shortest = min(map(len, ranked))
        found[attention] = tuple(_drops_over_seeds([drops[rank] for drops in ranked]) for rank in range(shortest))
    return found


def _by_role(documents: Sequence[HeadAnalysis]) -> dict[str, RoleOverSeeds]:
    """For each role: how many heads of a seed have it, and the mean drop of those heads over the seeds that have
    any.
    """
    roles = sorted({row.role for document in documents for row in document.heads})
    found = {}
    for role in roles:
        drops = [[r.ablation["zero"].drop for r in d.heads if r.role == role] for d in documents]
        present = [float(np.mean(one)) for one in drops if one]
        found[role] = RoleOverSeeds(heads=over_seeds([len(one) for one in drops]), drop=over_seeds(present))
    return found


def _by_layer(documents: Sequence[HeadAnalysis]) -> dict[str, OverSeeds]:
    """The largest zero-ablation drop at each site: layers do correspond across seeds, heads do not."""
    sites = dict.fromkeys(row.site for row in documents[0].heads)
    return {
        site: _drops_over_seeds([_largest(head for head in one.heads if head.site == site) for one in documents])
        for site in sites
    }


def _largest(heads: Iterable[Head]) -> Measured:
    """The largest drop at a site; None where all its heads were pruned."""
    return next(iter(_ranked(heads)), (0.0, (0.0, 0.0)))


def _removable(rows: Sequence[Removable]) -> RemovableOverSeeds:
    return RemovableOverSeeds(
        limit=rows[0].limit,
        heads=over_seeds([len(row.heads) for row in rows]),
        drop=_drops_over_seeds([_cost(row) for row in rows]),
        sum_of_single_drops=over_seeds([row.sum_of_single_drops for row in rows]),
        alone_under_limit=_sets([row.alone_under_limit for row in rows]),
        adding_up=_sets([row.adding_up for row in rows]),
    )


def _sets(found: Sequence[HeadSet]) -> SetOverSeeds:
    drops = _drops_over_seeds([_cost(one) for one in found])
    return SetOverSeeds(heads=over_seeds([len(one.heads) for one in found]), drop_together=drops)


OFTEN, SELDOM = 0.9, 0.1
"""Rates above the first limit count as often, below the second as seldom."""


def rates_over_seeds(values: Sequence[float]) -> RatesOverSeeds:
    """The rate of every seed, and how many are high, low and between; a mean would hide the difference.

    Rates are near 0 or near 1, because a seed has either one head for a function or several; their mean describes no
    seed.

    >>> rates_over_seeds([0.02, 0.5, 0.97, 1.0])
    RatesOverSeeds(values=(0.02, 0.5, 0.97, 1.0), above=2, between=1, below=1, limits=(0.1, 0.9))

    """
    rates = tuple(map(float, values))
    above, below = sum(rate > OFTEN for rate in rates), sum(rate < SELDOM for rate in rates)
    between = len(rates) - above - below
    return RatesOverSeeds(values=rates, above=above, between=between, below=below, limits=(SELDOM, OFTEN))


def _contrast(documents: Sequence[HeadAnalysis], index: int) -> ContrastOverSeeds:
    """Rates over seeds: of the strongest single head of each kind, and of all heads of a kind or site together.

    The strongest head is chosen on other pairs than those for its rate. A seed whose model answers no pair of a
    contrast correctly is left out of it. With controls, also how often each group changes the answer when the source
    has the same carry, how often it flips the digits, and how many seeds have each reading.
    """
    contrast = documents[0].interventions.contrasts[index]
    measured = [one for d in documents if (one := d.interventions.contrasts[index]).usable]
    groups = [row.who for row in contrast.rows if len(row.heads) > 1]
    controlled = [one.control for one in measured if one.control and one.control.usable]
    control = ControlsOverSeeds(seeds=len(controlled), together={who: _controls(controlled, who) for who in groups})
    return ContrastOverSeeds(
        name=contrast.name,
        about=contrast.about,
        seeds=len(measured),
        strongest=_strongest(documents, index),
        together={who: rates_over_seeds([_rate(one, who) for one in measured]) for who in groups if measured},
        control=control if controlled else None,
    )


def _strongest(documents: Sequence[HeadAnalysis], index: int) -> dict[str, RatesOverSeeds]:
    """For each kind of attention, the rate of the chosen head in every seed that has one.

    Documents of earlier versions have no head chosen on other pairs; their largest rate is used.
    """
    found = {}
    for kind in dict.fromkeys(row.kind for row in documents[0].heads):
        rates = [rate for d in documents if (rate := _strongest_rate(d, index, kind)) is not None]
        if rates:
            found[kind] = rates_over_seeds(rates)
    return found


def _strongest_rate(document: HeadAnalysis, index: int, kind: str) -> float | None:
    contrast = document.interventions.contrasts[index]
    if not contrast.usable:
        return None
    if contrast.strongest is not None:
        return contrast.strongest[kind].rate if kind in contrast.strongest else None
    heads = {head.name for head in document.heads if head.kind == kind}
    return max((row.rate for row in contrast.rows if row.who in heads), default=0.0)


def _rate(contrast: Contrast, who: str) -> float:
    return next((row.rate for row in contrast.rows if row.who == who), 0.0)


def _controls(controls: Sequence[Controls], who: str) -> ControlOverSeeds:
    """One group's controls over seeds: any change of the answer, the digits, and the readings counted."""
    rows = [row for control in controls for row in control.rows if row.who == who]
    return ControlOverSeeds(
        changed=rates_over_seeds([row.rate for row in rows]),
        digits=rates_over_seeds([row.digits.rate for row in rows]),
        readings=dict(Counter(row.reading for row in rows)),
    )


def _correlations(documents: Sequence[HeadAnalysis]) -> Correlations:
    """Spearman's correlation between each score and the zero-ablation drop, over the heads of a seed.

    `within` has the same over the heads of one kind of attention: cross-attention heads may differ from encoder heads
    in both score and drop, and then a correlation over all heads reflects the kinds only.
    """
    kinds = dict.fromkeys(row.kind for row in documents[0].heads)
    scores = list(documents[0].heads[0].scores)
    found = {score: over for score in scores if (over := _correlation(documents, score))}
    within = {
        kind: {score: over for score in scores if (over := _correlation(documents, score, kind))} for kind in kinds
    }
    return {**found, "within": within}


def _correlation(documents: Sequence[HeadAnalysis], score: str, kind: str | None = None) -> OverSeeds | None:
    """One score's correlation over seeds; None if the score is constant over the heads of every seed."""
    values = []
    for document in documents:
        rows = [head for head in document.heads if kind in (None, head.kind)]
        pairs = [(x, head.ablation["zero"].drop) for head in rows if (x := head.scores.get(score)) is not None]
        if kind is not None and len(pairs) < FEWEST_WITHIN:
            continue
        if len({x for x, _ in pairs}) > 1 and len({y for _, y in pairs}) > 1:
            values.append(float(spearmanr(*zip(*pairs, strict=True)).statistic))
    return over_seeds(values) if values else None
