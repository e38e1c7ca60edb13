"""Joint ablation: which sets of heads can be removed, which must stay, and which pairs are redundant.

A head that is redundant alone may be needed once its redundant partner is ablated too. So this module has greedy
backward elimination with its whole curve, Shapley values, and the interaction of every pair. Sets are chosen on some
examples and measured on others.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import factorial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from headway.callbacks import OnProgress
from headway.head_analysis.ablation import as_row, paired_drop, paired_drops
from headway.head_analysis.head_runs import HeadRuns, heads_in
from headway.head_analysis.variants import Outcomes
from headway.head_analysis.verdicts import judge_drops
from headway.model.sites import Head
from headway.results.joint_ablation import (
    Comparison,
    Credit,
    Elimination,
    HeadSet,
    Pair,
    Pairs,
    Removable,
    Shapley,
    Step,
)
from headway.statistics import (
    difference_interval,
    holm,
    mean_differs,
    mean_is_zero,
    moments_of,
    values_interval,
    wilson_interval,
)

LIMITS = (1.0, 5.0)
"""Limits of the drop, in points, for which the largest removable sets are sought."""
EXACT_HEADS = 12
"""Up to this many heads, every subset is run."""
MOST_PAIRS = 2_000
SHOWN_PAIRS = 40
KIND = "zero"
"""Heads are ablated together by zeros."""

Subsets = Bool[np.ndarray, "subset head"]


# Elimination


class Eliminated(NamedTuple):
    """The whole elimination curve, the largest removable set for each limit, and the heads left at the smallest
    limit.
    """

    elimination: Elimination
    removable: tuple[Removable, ...]
    sufficient: HeadSet


def eliminate(
    chosen_on: HeadRuns,
    reported_on: HeadRuns,
    single_drops: dict[str, float],
    progress: OnProgress = lambda done, total: None,
) -> Eliminated:
    """Remove the head that costs least, until no head is left.

    The order is found on one set of examples (accuracy first, then loss), and the single drops were; the curve and
    the largest removable sets are reported on the other.
    """
    order, searched = _elimination_order(chosen_on, progress)
    heads = heads_in(chosen_on.sites)
    nested = [as_row(heads, order[:count]) for count in range(len(order) + 1)]
    others: list[list[Head]] = []
    for limit in LIMITS:
        others += [_alone_under(heads, single_drops, limit), _adding_up(heads, single_drops, limit)]
    outcomes = reported_on.run(np.stack([*nested, *(as_row(heads, chosen) for chosen in others)]))
    found = [paired_comparison(outcomes, row, reported_on.largest_change) for row in range(len(outcomes))]
    promised = np.cumsum([0.0, *(single_drops[str(head)] for head in order)])
    steps = tuple(
        Step(
            left=len(heads) - count,
            removed=str(order[count - 1]) if count else None,
            accuracy_when_chosen=float(searched.accuracy[count]),
            sum_of_single_drops=float(promised[count]),
            **vars(found[count]),
        )
        for count in range(len(order) + 1)
    )
    removable = []
    for index, limit in enumerate(LIMITS):
        count = _most_under(searched.value, limit)
        alone, adding = (2 * index + which for which in (0, 1))
        removable.append(
            Removable(
                limit=limit,
                heads=names(order[:count]),
                sum_of_single_drops=float(promised[count]),
                alone_under_limit=_set_of(others[alone], found[len(nested) + alone]),
                adding_up=_set_of(others[adding], found[len(nested) + adding]),
                **vars(found[count]),
            )
        )
    gone = len(removable[0].heads)
    elimination = Elimination(
        kind=KIND,
        n_chosen_on=len(chosen_on),
        n_reported_on=len(reported_on),
        steps=steps,
    )
    enough = _set_of([head for head in heads if head in order[gone:]], found[gone])
    return Eliminated(elimination, tuple(removable), enough)


def names(heads: Sequence[Head]) -> tuple[str, ...]:
    return tuple(map(str, heads))


def _set_of(heads: Sequence[Head], found: Comparison) -> HeadSet:
    return HeadSet(heads=names(heads), **vars(found))


class Searched(NamedTuple):
    """After each removal, on the examples that chose it: the mean of what drops are measured in, and the accuracy."""

    value: np.ndarray
    accuracy: np.ndarray


def _elimination_order(runs: HeadRuns, progress: OnProgress) -> tuple[list[Head], Searched]:
    """The order in which heads are removed, and what is left after each removal."""
    heads, gone = heads_in(runs.sites), list[Head]()
    whole = _whole(runs)
    found = [(float(whole.values.mean(1)[0]), float(whole.accuracy[0]))]
    for head, value, accuracy in _cheapest_first(runs):
        gone.append(head)
        found.append((value, accuracy))
        progress(len(gone), len(heads))
    return gone, Searched(*np.array(found).T)


def largest_removable(runs: HeadRuns, limit: float, progress: OnProgress = lambda done, total: None) -> list[Head]:
    """The longest prefix of the elimination order whose drop is under `limit` points."""
    order, searched = _elimination_order(runs, progress)
    return order[: _most_under(searched.value, limit)]


def _most_under(value: np.ndarray, limit: float) -> int:
    """The largest number of removed heads whose drop is under the limit; the curve may fall and recover."""
    return int(np.flatnonzero(_points(value[0], value) < limit)[-1])


def single_drops(runs: HeadRuns) -> dict[str, float]:
    """What each head costs alone, in points."""
    heads = heads_in(runs.sites)
    alone = np.eye(len(heads), dtype=np.int64)
    values = runs.run(alone).values.mean(1) if len(alone) else np.zeros(0)
    drops = _points(float(_whole(runs).values.mean(1)[0]), values)
    return {str(head): float(drop) for head, drop in zip(heads, drops, strict=True)}


def _whole(runs: HeadRuns) -> Outcomes:
    return runs.run(np.zeros((1, len(heads_in(runs.sites))), dtype=np.int64))


def _points(before: float, after: Any) -> Any:
    """The drop between two means in points, rounded so that 29 to 28 right of 100 is exactly one point."""
    return np.round(100 * (before - after), 9)


def _cheapest_first(runs: HeadRuns) -> Iterator[tuple[Head, float, float]]:
    """Yield the head that costs least (then by loss), and mean and accuracy without it, until none is left."""
    heads = heads_in(runs.sites)
    gone: list[Head] = []
    while len(gone) < len(heads):
        left = [head for head in heads if head not in gone]
        outcomes = runs.run(np.stack([as_row(heads, [*gone, head]) for head in left]))
        value = outcomes.values.mean(1)
        best = min(range(len(left)), key=lambda i: (-value[i], outcomes.mean_loss[i]))
        gone.append(left[best])
        yield left[best], float(value[best]), float(outcomes.accuracy[best])


def _alone_under(heads: Sequence[Head], drops: dict[str, float], limit: float) -> list[Head]:
    """Every head whose own drop is under the limit: the set that single ablations suggest."""
    return [head for head in heads if drops[str(head)] < limit]


def _adding_up(heads: Sequence[Head], drops: dict[str, float], limit: float) -> list[Head]:
    """The largest set of heads whose single drops sum to less than the limit."""
    ranked = sorted(heads, key=lambda head: drops[str(head)])
    total = np.cumsum([drops[str(head)] for head in ranked])
    within = np.flatnonzero(total < limit)
    return ranked[: int(within[-1]) + 1] if len(within) else []


def paired_comparison(outcomes: Outcomes, row: int, largest: float | None = None) -> Comparison:
    """Accuracy of a variant, and its paired drop from the first variant, in points."""
    return _comparison(outcomes.right[row], outcomes.values[0], outcomes.values[row], largest)


def _comparison(right: np.ndarray, before: np.ndarray, after: np.ndarray, largest: float | None) -> Comparison:
    drop, interval = paired_drop(before, after, largest)
    return Comparison(
        accuracy=float(right.mean()),
        interval=wilson_interval(int(right.sum()), len(right)),
        drop=drop,
        drop_interval=interval,
    )


# Shapley values


def shapley_exact(runs: HeadRuns, players: Sequence[Head], progress: OnProgress = lambda done, total: None) -> Shapley:
    """Exact Shapley values of some heads over all their subsets, with the other heads left on; in points.

    value(h) = sum over sets S without h of |S|! (m - |S| - 1)! / m! x (accuracy with S and h - accuracy with S).
    It is a mean over examples of each example's own value, and its standard error comes from their spread.
    """
    subsets = all_subsets(len(players))
    outcomes = runs.run(_plan_keeping(runs, players, subsets), progress=progress)
    values = 100 * shapley_values(subsets, outcomes.values.astype(np.float64))
    return Shapley(
        exact=True,
        subsets=len(subsets),
        n=len(runs),
        values=tuple(
            Credit(head=str(head), value=float(v.mean()), error=float(v.std(ddof=1) / len(v) ** 0.5))
            for head, v in zip(players, values, strict=True)
        ),
        smallest_sufficient=_smallest(players, subsets, outcomes, runs.largest_change),
    )


def all_subsets(size: int) -> Subsets:
    """Every subset of `size` things; row i holds the bits of i, so the last row has everything."""
    return (np.arange(2**size)[:, None] >> np.arange(size)) & 1 == 1


def shapley_values(subsets: Subsets, value: Float[np.ndarray, "subset example"]) -> Float[np.ndarray, "head example"]:
    """Exact Shapley values from the value of every subset, in the order of `all_subsets`."""
    size = subsets.shape[1]
    weight = np.array([factorial(k) * factorial(size - k - 1) / factorial(size) for k in range(size)])
    found = np.zeros((size, value.shape[1]))
    for player in range(size):
        without = np.flatnonzero(~subsets[:, player])
        gain = value[without + (1 << player)] - value[without]
        found[player] = weight[subsets[without].sum(1)] @ gain
    return found


def _plan_keeping(runs: HeadRuns, players: Sequence[Head], kept: Subsets) -> Int[np.ndarray, "subset every"]:
    heads = heads_in(runs.sites)
    plan = np.zeros((len(kept), len(heads)), dtype=np.int64)
    plan[:, [heads.index(head) for head in players]] = ~kept
    return plan


def _smallest(players: Sequence[Head], subsets: Subsets, outcomes: Outcomes, largest: float | None) -> HeadSet:
    """The smallest subset of these heads that costs less than a point (the best of equal ones), with the other heads
    on.

    Chosen on every other example, reported on those between.
    """
    value, others = outcomes.values[:, ::2].mean(1), outcomes.values[:, 1::2]
    enough = np.flatnonzero(_points(value[-1], value) < LIMITS[0])
    best = min(enough.tolist(), key=lambda i: (int(subsets[i].sum()), -value[i]))
    kept = [head for head, stays in zip(players, subsets[best], strict=True) if stays]
    return _set_of(kept, _comparison(outcomes.right[best, 1::2], others[-1], others[best], largest))


def shapley_sampled(
    runs: HeadRuns,
    players: Sequence[Head],
    permutations: int,
    random: np.random.Generator,
    progress: OnProgress = lambda done, total: None,
) -> Shapley:
    """Shapley values from random orders in which heads are switched on; each order is also used reversed.

    The standard error adds up, as squares, the spread between pairs of orders and the spread between examples.
    """
    m, pairs = len(players), max(2, permutations // 2)
    orders = [order for _ in range(pairs) for order in _there_and_back(random.permutation(m))]
    kept = np.stack([np.isin(np.arange(m), order[:count]) for order in orders for count in range(m + 1)])
    unique, where = np.unique(kept, axis=0, return_inverse=True)
    value_of = runs.run(_plan_keeping(runs, players, unique), progress=progress).values.astype(np.float64)
    where = where.reshape(len(orders), m + 1)
    by_order = np.zeros((len(orders), m))
    by_example = np.zeros((m, len(runs)))
    for order, rows in zip(orders, where, strict=True):
        gain = value_of[rows[1:]] - value_of[rows[:-1]]
        by_example[order] += gain / len(orders)
    for index, (order, rows) in enumerate(zip(orders, where, strict=True)):
        by_order[index, order] = value_of[rows[1:]].mean(1) - value_of[rows[:-1]].mean(1)
    by_pair = by_order.reshape(pairs, 2, m).mean(1)
    value = 100 * by_pair.mean(0)
    error = 100 * np.sqrt(by_pair.var(0, ddof=1) / pairs + by_example.var(1, ddof=1) / len(runs))
    found = zip(players, value, error, strict=True)
    return Shapley(
        exact=False,
        permutations=len(orders),
        subsets=len(unique),
        n=len(runs),
        values=tuple(Credit(head=str(head), value=float(v), error=float(e)) for head, v, e in found),
    )


def _there_and_back(order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return order, order[::-1]


def shapley(
    runs: HeadRuns,
    players: Sequence[Head],
    permutations: int,
    random: np.random.Generator,
    progress: OnProgress,
) -> Shapley:
    """Exact Shapley values if every subset can be run, sampled ones otherwise."""
    if len(players) <= EXACT_HEADS:
        return shapley_exact(runs, players, progress)
    return shapley_sampled(runs, players, permutations, random, progress)


# Pairs


def which_pairs(heads: Sequence[Head]) -> list[tuple[int, int]]:
    """All pairs of heads; for a model with very many heads, the pairs within each site."""
    pairs = list(combinations(range(len(heads)), 2))
    return pairs if len(pairs) <= MOST_PAIRS else [(i, j) for i, j in pairs if heads[i].site == heads[j].site]


def measure_pairs(runs: HeadRuns, progress: OnProgress = lambda done, total: None) -> Pairs:
    """The interaction of every pair, positive for redundant pairs, strongest first.

    interaction = drop of both - drop of one - drop of the other, example by example; for right answers it is -2 to 2.
    The reported mean is tested against 0, with Holm's correction over the pairs.
    """
    heads = heads_in(runs.sites)
    pairs = which_pairs(heads)
    if not pairs:
        return Pairs(n=len(runs), tested=0, pairs=())
    first, second = np.array(pairs).T
    alone = np.eye(len(heads), dtype=np.int64)
    plan = np.concatenate([np.zeros((1, len(heads)), dtype=np.int64), alone, alone[first] + alone[second]])
    values = runs.run(plan, progress=progress).values
    judged = judge_drops(paired_drops(values[:1], values[len(heads) + 1 :], runs.largest_change))
    exact = values.astype(np.int64 if values.dtype == bool else np.float64)
    before, single, both = exact[0], exact[1 : len(heads) + 1], exact[len(heads) + 1 :]
    extra = single[first] + single[second] - before - both
    p, low, high = _interaction(extra, runs.largest_change)
    mean, drops = 100 * extra.mean(1), 100 * (before.mean() - single.mean(1))
    found = [
        Pair(
            heads=(str(heads[i]), str(heads[j])),
            alone=(float(drops[i]), float(drops[j])),
            together=100 * float(before.mean() - both[k].mean()),
            together_interval=judged.ends(k),
            verdict_together=str(judged.verdict[k]),
            interaction=float(mean[k]),
            interval=(100 * float(low[k]), 100 * float(high[k])),
            p_holm=float(p[k]),
        )
        for k, (i, j) in enumerate(pairs)
    ]
    found.sort(key=lambda pair: -abs(pair.interaction))
    return Pairs(n=len(runs), tested=len(pairs), pairs=tuple(found[:SHOWN_PAIRS]))


def _interaction(extra: np.ndarray, largest: float | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The corrected p-value of every interaction, and the ends of its interval, as shares of everything."""
    if extra.dtype == np.int64:
        counts = np.stack([(extra == size).sum(1) for size in range(-2, 3)], axis=1)
        return holm(mean_is_zero(counts)), *difference_interval(extra)
    moments = moments_of(extra, None if largest is None else 2 * largest)
    return holm(mean_differs(moments)), *values_interval(moments)
