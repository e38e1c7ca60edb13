"""What several runs say together. The seed is the unit: nothing is pooled over examples.

Head 2 of one seed has nothing to do with head 2 of another. So heads are matched by rank (the head that costs
most, the next, ...) or by role (what they look at), never by index.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from headway.heads.ablation import KINDS
from headway.statistics import ENOUGH_SEEDS, median_interval

VERDICTS = ("critical", "important", "redundant", "harmful", "undecided", "depends on the ablation")
Document = Mapping[str, Any]
NOTHING = {"drop": 0.0, "interval": (0.0, 0.0)}
"""The drop of a site that has no heads left."""


HIGH, LOW = 0.9, 0.1
"""A flip rate above the one nearly always flips, below the other hardly ever."""


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


def rates_over_seeds(values: Sequence[float]) -> dict[str, Any]:
    """Every seed's flip rate, and how many seeds nearly always flip, hardly ever, or now and then.

    Rates of seeds are often near 1 in some and near 0 in others. Their mean is then no seed's, and has no place here.
    """
    high, low = sum(value > HIGH for value in values), sum(value < LOW for value in values)
    counts = {"above_90_percent": high, "between": len(values) - high - low, "below_10_percent": low}
    return {"values": [float(value) for value in values], "counts": counts}


def put_together(documents: Sequence[Document]) -> dict[str, Any]:
    """The findings of several runs over seeds; fewer than six are labelled descriptive."""
    return {
        "seeds": len(documents),
        "runs": [document["run"] for document in documents],
        "descriptive": len(documents) < ENOUGH_SEEDS,
        "exact_match": over_seeds(
            [document["baseline"]["exact_match"] for document in documents],
            [document["baseline"].get("interval") for document in documents],
        ),
        "verdicts": _verdict_counts(documents),
        "prunable": _prunable(documents),
        "by_rank": _by_rank(documents),
        "by_role": _by_role(documents),
        "by_layer": _by_layer(documents),
        "removable": [_removable(documents, index) for index in range(len(documents[0]["joint"]["removable"]))],
        "sufficient": over_seeds([len(document["joint"]["sufficient"]["heads"]) for document in documents]),
        "interventions": _interventions(documents),
        "correlations": _correlations(documents),
    }


def _verdict_counts(documents: Sequence[Document]) -> dict[str, Any]:
    """How many heads of each verdict a seed has: overall, and for each kind of ablation."""
    readings: dict[str, Callable[[Mapping[str, Any]], str]] = {"overall": lambda row: str(row["verdict"])}
    for kind in KINDS:
        readings[kind] = partial(_verdict_of, kind)
    return {
        name: {
            verdict: over_seeds([sum(read(row) == verdict for row in document["heads"]) for document in documents])
            for verdict in VERDICTS
            if any(read(row) == verdict for document in documents for row in document["heads"])
        }
        for name, read in readings.items()
    }


def _verdict_of(kind: str, row: Mapping[str, Any]) -> str:
    return str(row["ablation"][kind]["verdict"])


def _prunable(documents: Sequence[Document]) -> dict[str, Any]:
    """Shares of heads that can go one at a time; where a run's share has an interval, it widens that over seeds."""
    shares = [document["prunable"] for document in documents]
    return {
        kind: {
            limit: over_seeds(
                [share[kind][limit] for share in shares], [share[kind].get(f"{limit}_interval") for share in shares]
            )
            for limit, share in limits.items()
            if isinstance(share, int | float)
        }
        for kind, limits in shares[0].items()
    }


def _ranked(document: Document, **where: str) -> list[Document]:
    """Zero ablations of the heads of one site or kind of attention, the largest drop first."""
    rows = [row for row in document["heads"] if all(row[key] == value for key, value in where.items())]
    return sorted((row["ablation"]["zero"] for row in rows), key=lambda drop: -drop["drop"])


def _drops_over_seeds(drops: Sequence[Document]) -> dict[str, Any]:
    """One drop a seed, each with the interval of its examples."""
    return over_seeds([drop["drop"] for drop in drops], [_interval_of(drop) for drop in drops])


def _interval_of(drop: Document) -> Sequence[float] | None:
    """The interval of a drop; beside an accuracy of its own it is called `drop_interval`."""
    return drop.get("drop_interval", drop.get("interval"))


def _by_rank(documents: Sequence[Document]) -> dict[str, Any]:
    """The drop of the head that costs most, of the next, and so on, within each kind of attention (zero ablation)."""
    found = {}
    for attention in dict.fromkeys(row["kind"] for row in documents[0]["heads"]):
        ranked = [_ranked(document, kind=attention) for document in documents]
        shortest = min(map(len, ranked))
        found[attention] = [_drops_over_seeds([drops[rank] for drops in ranked]) for rank in range(shortest)]
    return found


def _by_role(documents: Sequence[Document]) -> dict[str, Any]:
    """Each role: how many heads of a seed have it, and the mean drop of those heads in the seeds that have any."""
    roles = sorted({row["role"] for document in documents for row in document["heads"]})
    found = {}
    for role in roles:
        drops = [[r["ablation"]["zero"]["drop"] for r in d["heads"] if r["role"] == role] for d in documents]
        present = [float(np.mean(one)) for one in drops if one]
        found[role] = {"heads": over_seeds([len(one) for one in drops]), "drop": over_seeds(present)}
    return found


def _by_layer(documents: Sequence[Document]) -> dict[str, Any]:
    """The largest zero-ablation drop at each site: layers do correspond across seeds, heads do not."""
    sites = dict.fromkeys(row["site"] for row in documents[0]["heads"])
    return {
        site: _drops_over_seeds([next(iter(_ranked(document, site=site)), NOTHING) for document in documents])
        for site in sites
    }


def _removable(documents: Sequence[Document], index: int) -> dict[str, Any]:
    rows = [document["joint"]["removable"][index] for document in documents]
    return {
        "limit": rows[0]["limit"],
        "heads": over_seeds([len(row["heads"]) for row in rows]),
        "drop": _drops_over_seeds(rows),
        "sum_of_single_drops": over_seeds([row["sum_of_single_drops"] for row in rows]),
        **{
            name: {
                "heads": over_seeds([len(row[name]["heads"]) for row in rows]),
                "drop_together": _drops_over_seeds([row[name] for row in rows]),
            }
            for name in ("alone_under_limit", "adding_up")
        },
    }


def _interventions(documents: Sequence[Document]) -> list[dict[str, Any]]:
    """Flip rates seed by seed: of the strongest single head of each kind, and of all heads of a kind or site together.

    A seed whose model gets no pair of a contrast right has no rate there, and is left out of it.
    """
    found = []
    for index, contrast in enumerate(documents[0]["interventions"]["contrasts"]):
        measured = [d for d in documents if d["interventions"]["contrasts"][index]["usable"]]
        kinds = dict.fromkeys(row["kind"] for row in documents[0]["heads"])
        strongest = {
            kind: rates_over_seeds([_strongest(d, index, kind) for d in measured]) for kind in kinds if measured
        }
        groups = [row["who"] for row in contrast["rows"] if len(row["heads"]) > 1]
        together = {who: rates_over_seeds([_rate(d, index, who) for d in measured]) for who in groups if measured}
        found.append(
            {
                "name": contrast["name"],
                "about": contrast["about"],
                "seeds": len(measured),
                "strongest": strongest,
                "together": together,
            }
        )
    return found


def _strongest(document: Document, index: int, kind: str) -> float:
    heads = {row["head"] for row in document["heads"] if row["kind"] == kind}
    rows = document["interventions"]["contrasts"][index]["rows"]
    return max((row["rate"] for row in rows if row["who"] in heads), default=0.0)


def _rate(document: Document, index: int, who: str) -> float:
    rows = document["interventions"]["contrasts"][index]["rows"]
    return next((row["rate"] for row in rows if row["who"] == who), 0.0)


def _correlations(documents: Sequence[Document]) -> dict[str, Any]:
    """Spearman's correlation between each score and the zero-ablation drop, over the heads of a seed."""
    found = {}
    for score in documents[0]["heads"][0]["scores"]:
        values = []
        for document in documents:
            rows = [row for row in document["heads"] if row["scores"].get(score) is not None]
            pairs = [(row["scores"][score], row["ablation"]["zero"]["drop"]) for row in rows]
            if len({x for x, _ in pairs}) > 1 and len({y for _, y in pairs}) > 1:
                values.append(float(spearmanr(*zip(*pairs, strict=True)).statistic))
        if values:
            found[score] = over_seeds(values)
    return found
