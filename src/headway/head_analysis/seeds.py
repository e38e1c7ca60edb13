"""What several runs say together. The seed is the unit: nothing is pooled over examples.

Head 2 of one seed has nothing to do with head 2 of another. So heads are matched by rank (the head that costs
most, the next, ...) or by role (what they look at), never by index.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from headway.head_analysis.ablation import KINDS
from headway.results.heads import Head, HeadAnalysis, Prunable
from headway.results.joint_ablation import Comparison, HeadSet
from headway.results.patching import Contrast, Controls
from headway.results.schema import Interval
from headway.statistics import ENOUGH_SEEDS, median_interval

FEWEST_WITHIN = 3
"""Heads of one kind that a correlation needs: that of two is always 1 or -1."""
VERDICTS = ("critical", "important", "redundant", "harmful", "undecided", "depends on the ablation")
Measured = tuple[float, Interval]
"""A drop and its interval over examples."""


def over_seeds(values: Sequence[float], own: Sequence[Sequence[float] | None] | None = None) -> dict[str, Any]:
    """Every seed's value, their mean and median, and a 95 % interval of the median (none under six seeds).

    `own` are the seeds' intervals over examples, which widen it; `errors` says what it keeps. Where one is missing, as
    in an earlier version's document, it keeps the error of the seeds alone.
    """
    known = None if own is None or any(one is None for one in own) else [one for one in own if one is not None]
    interval = median_interval(values, own=known)
    return {
        "values": [float(value) for value in values],
        "mean": float(np.mean(values)),
        "median": float(np.median(values)),
        "interval": None if interval is None else list(interval),
        "errors": None if interval is None else ["seeds"] if known is None else ["seeds", "examples"],
    }


def put_together(documents: Sequence[HeadAnalysis]) -> dict[str, Any]:
    """The findings of several runs over seeds; fewer than six are labelled descriptive."""
    return {
        "seeds": len(documents),
        "runs": [document.run for document in documents],
        "descriptive": len(documents) < ENOUGH_SEEDS,
        "exact_match": over_seeds(
            [document.baseline.accuracy for document in documents],
            [document.baseline.interval for document in documents],
        ),
        "verdicts": _verdict_counts(documents),
        "prunable": _prunable(documents),
        "by_rank": _by_rank(documents),
        "by_role": _by_role(documents),
        "by_layer": _by_layer(documents),
        "removable": [_removable(documents, index) for index in range(len(documents[0].joint.removable))],
        "sufficient": over_seeds([len(document.joint.sufficient.heads) for document in documents]),
        "interventions": _interventions(documents),
        "correlations": _correlations(documents),
    }


def _verdict_counts(documents: Sequence[HeadAnalysis]) -> dict[str, Any]:
    """How many heads of each verdict a seed has: overall, and for each kind of ablation."""
    readings: dict[str, Callable[[Head], str]] = {"overall": lambda row: row.verdict}
    for kind in KINDS:
        readings[kind] = partial(_verdict_of, kind)
    return {
        name: {
            verdict: over_seeds([sum(read(row) == verdict for row in document.heads) for document in documents])
            for verdict in VERDICTS
            if any(read(row) == verdict for document in documents for row in document.heads)
        }
        for name, read in readings.items()
    }


def _verdict_of(kind: str, row: Head) -> str:
    return row.ablation[kind].verdict


def _prunable(documents: Sequence[HeadAnalysis]) -> dict[str, Any]:
    """Shares of heads that can go one at a time; where a run's share has an interval, it widens that over seeds."""
    return {kind: _shares([document.prunable[kind] for document in documents]) for kind in documents[0].prunable}


def _shares(found: Sequence[Prunable]) -> dict[str, Any]:
    return {
        "under_1_point": over_seeds(
            [one.under_1_point for one in found], [one.under_1_point_interval for one in found]
        ),
        "under_5_points": over_seeds(
            [one.under_5_points for one in found], [one.under_5_points_interval for one in found]
        ),
        "under_1_percent_of_loss": over_seeds([one.under_1_percent_of_loss for one in found]),
    }


def _ranked(heads: Iterable[Head]) -> list[Measured]:
    """Zero ablations of some heads, the largest drop first."""
    return sorted(((head.ablation["zero"].drop, head.ablation["zero"].interval) for head in heads), key=lambda d: -d[0])


def _drops_over_seeds(drops: Sequence[Measured]) -> dict[str, Any]:
    """One drop a seed, each with the interval of its examples."""
    return over_seeds([drop for drop, _ in drops], [interval for _, interval in drops])


def _cost(found: Comparison) -> Measured:
    return found.drop, found.drop_interval


def _by_rank(documents: Sequence[HeadAnalysis]) -> dict[str, Any]:
    """The drop of the head that costs most, of the next, and so on, within each kind of attention (zero ablation)."""
    found = {}
    for attention in dict.fromkeys(row.kind for row in documents[0].heads):
        ranked = [_ranked(head for head in one.heads if head.kind == attention) for one in documents]
        shortest = min(map(len, ranked))
        found[attention] = [_drops_over_seeds([drops[rank] for drops in ranked]) for rank in range(shortest)]
    return found


def _by_role(documents: Sequence[HeadAnalysis]) -> dict[str, Any]:
    """Each role: how many heads of a seed have it, and the mean drop of those heads in the seeds that have any."""
    roles = sorted({row.role for document in documents for row in document.heads})
    found = {}
    for role in roles:
        drops = [[r.ablation["zero"].drop for r in d.heads if r.role == role] for d in documents]
        present = [float(np.mean(one)) for one in drops if one]
        found[role] = {"heads": over_seeds([len(one) for one in drops]), "drop": over_seeds(present)}
    return found


def _by_layer(documents: Sequence[HeadAnalysis]) -> dict[str, Any]:
    """The largest zero-ablation drop at each site: layers do correspond across seeds, heads do not."""
    sites = dict.fromkeys(row.site for row in documents[0].heads)
    return {
        site: _drops_over_seeds([_largest(head for head in one.heads if head.site == site) for one in documents])
        for site in sites
    }


def _largest(heads: Iterable[Head]) -> Measured:
    """The largest drop of a site; nothing where no heads are left."""
    return next(iter(_ranked(heads)), (0.0, (0.0, 0.0)))


def _removable(documents: Sequence[HeadAnalysis], index: int) -> dict[str, Any]:
    rows = [document.joint.removable[index] for document in documents]
    return {
        "limit": rows[0].limit,
        "heads": over_seeds([len(row.heads) for row in rows]),
        "drop": _drops_over_seeds([_cost(row) for row in rows]),
        "sum_of_single_drops": over_seeds([row.sum_of_single_drops for row in rows]),
        "alone_under_limit": _sets([row.alone_under_limit for row in rows]),
        "adding_up": _sets([row.adding_up for row in rows]),
    }


def _sets(found: Sequence[HeadSet]) -> dict[str, Any]:
    return {
        "heads": over_seeds([len(one.heads) for one in found]),
        "drop_together": _drops_over_seeds([_cost(one) for one in found]),
    }


OFTEN, SELDOM = 0.9, 0.1
"""A rate above the one is counted as often, below the other as seldom."""


def rates_over_seeds(values: Sequence[float]) -> dict[str, Any]:
    """Every seed's rate, and how many are high, low and between; no mean.

    Rates of seeds lie near 0 or near 1, as a seed has one head for a thing or several: their mean is no seed's rate.

    >>> rates_over_seeds([0.02, 0.5, 0.97, 1.0])
    {'values': [0.02, 0.5, 0.97, 1.0], 'above': 2, 'between': 1, 'below': 1, 'limits': [0.1, 0.9]}
    """
    rates = [float(value) for value in values]
    above, below = sum(rate > OFTEN for rate in rates), sum(rate < SELDOM for rate in rates)
    between = len(rates) - above - below
    return {"values": rates, "above": above, "between": between, "below": below, "limits": [SELDOM, OFTEN]}


def _interventions(documents: Sequence[HeadAnalysis]) -> list[dict[str, Any]]:
    """Rates over seeds: of the strongest single head of each kind, and of all heads of a kind or site together.

    The strongest head is chosen on other pairs than those its rate is of. A seed whose model gets no pair of a contrast
    right has no rate there, and is left out of it. With controls, also how often each group changes the answer when the
    source has the same carry, how often it brings the digits, and how many seeds have each reading.
    """
    found = []
    for index, contrast in enumerate(documents[0].interventions.contrasts):
        measured = [one for d in documents if (one := d.interventions.contrasts[index]).usable]
        groups = [row.who for row in contrast.rows if len(row.heads) > 1]
        together = {who: rates_over_seeds([_rate(one, who) for one in measured]) for who in groups if measured}
        row: dict[str, Any] = {
            "name": contrast.name,
            "about": contrast.about,
            "seeds": len(measured),
            "strongest": _strongest(documents, index),
            "together": together,
        }
        controlled = [one.control for one in measured if one.control and one.control.usable]
        if controlled:
            row["control"] = {"seeds": len(controlled), "together": {who: _controls(controlled, who) for who in groups}}
        found.append(row)
    return found


def _strongest(documents: Sequence[HeadAnalysis], index: int) -> dict[str, Any]:
    """Of each kind of attention the chosen head's rate in every seed that has one.

    Documents of earlier versions do not say which head was chosen on other pairs; theirs is the largest rate of all.
    """
    found: dict[str, Any] = {}
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


def _controls(controls: Sequence[Controls], who: str) -> dict[str, Any]:
    """One group's controls over seeds: any change of the answer, the digits, and the readings counted."""
    rows = [row for control in controls for row in control.rows if row.who == who]
    return {
        "changed": rates_over_seeds([row.rate for row in rows]),
        "digits": rates_over_seeds([row.digits.rate for row in rows]),
        "readings": dict(Counter(row.reading for row in rows)),
    }


def _correlations(documents: Sequence[HeadAnalysis]) -> dict[str, Any]:
    """Spearman's correlation between each score and the zero-ablation drop, over the heads of a seed.

    `within` has the same over the heads of one kind of attention: cross heads may both look and cost unlike encoder
    heads, and then a score tells the kinds apart and nothing about heads.
    """
    kinds = dict.fromkeys(row.kind for row in documents[0].heads)
    scores = list(documents[0].heads[0].scores)
    found = {score: over for score in scores if (over := _correlation(documents, score))}
    within = {
        kind: {score: over for score in scores if (over := _correlation(documents, score, kind))} for kind in kinds
    }
    return {**found, "within": within}


def _correlation(documents: Sequence[HeadAnalysis], score: str, kind: str | None = None) -> dict[str, Any] | None:
    """One score's correlation over seeds; None where it is the same for all heads of every seed."""
    values = []
    for document in documents:
        rows = [head for head in document.heads if kind in (None, head.kind)]
        pairs = [(x, head.ablation["zero"].drop) for head in rows if (x := head.scores.get(score)) is not None]
        if kind is not None and len(pairs) < FEWEST_WITHIN:
            continue
        if len({x for x, _ in pairs}) > 1 and len({y for _, y in pairs}) > 1:
            values.append(float(spearmanr(*zip(*pairs, strict=True)).statistic))
    return over_seeds(values) if values else None
