"""Joint ablation: which sets of heads can be removed, which must stay, and which pairs are redundant.

A head that is redundant alone may be needed once another one is removed. So: greedy backward elimination with its whole
curve, Shapley values, and the interaction of every pair. What is chosen on some examples is reported on others.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import factorial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from headway.callbacks import OnProgress
from headway.evaluation import Trained
from headway.head_analysis.ablation import as_row, make_replacements, paired_drop
from headway.head_analysis.variants import ReplacementOf, heads_of, run_variants
from headway.head_analysis.verdicts import judge
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
from headway.statistics import difference_interval, holm, mean_is_zero, wilson_interval
from headway.tasks import Examples

LIMITS = (1.0, 5.0)
"""Limits of the drop, in points, for which the largest removable sets are sought."""
EXACT_HEADS = 12
"""Up to this many heads, every subset is run."""
MOST_PAIRS = 2_000
SHOWN_PAIRS = 40

Subsets = Bool[np.ndarray, "subset head"]


class AblationContext:
    """A model and the examples on which sets of its heads are ablated."""

    def __init__(self, trained: Trained, examples: Examples, kind: str = "zero"):
        self.trained, self.examples, self.kind = trained, examples, kind
        self.heads = heads_of(trained)
        self.replacements: list[ReplacementOf] = make_replacements(trained, examples, [kind])[0]

    def right_without(
        self, plan: Int[np.ndarray, "variant head"], progress: OnProgress = lambda done, total: None
    ) -> Any:
        """The outcomes of each variant; a 1 in the mask ablates that head."""
        return run_variants(self.trained, self.examples, plan, self.replacements, progress)


# Elimination


class Eliminated(NamedTuple):
    """The whole elimination curve, the largest removable set for each limit, and the heads left at the smallest
    limit.
    """

    elimination: Elimination
    removable: tuple[Removable, ...]
    sufficient: HeadSet


def eliminate(
    chosen_on: AblationContext,
    reported_on: AblationContext,
    single_drops: dict[str, float],
    progress: OnProgress = lambda done, total: None,
) -> Eliminated:
    """Remove the head that costs least, until no head is left.

    The order is found on one set of examples (accuracy first, then loss), and the single drops were; the curve and
    the largest removable sets are reported on the other.
    """
    order, searched = _elimination_order(chosen_on, progress)
    heads = chosen_on.heads
    nested = [as_row(heads, order[:count]) for count in range(len(order) + 1)]
    others: list[list[Head]] = []
    for limit in LIMITS:
        others += [_alone_under(heads, single_drops, limit), _adding_up(heads, single_drops, limit)]
    outcomes = reported_on.right_without(np.stack([*nested, *(as_row(heads, chosen) for chosen in others)]))
    found = [paired_comparison(outcomes.right, row) for row in range(len(outcomes))]
    promised = np.cumsum([0.0, *(single_drops[str(head)] for head in order)])
    steps = tuple(
        Step(
            left=len(heads) - count,
            removed=str(order[count - 1]) if count else None,
            accuracy_when_chosen=float(searched[count]),
            sum_of_single_drops=float(promised[count]),
            **vars(found[count]),
        )
        for count in range(len(order) + 1)
    )
    removable = []
    for index, limit in enumerate(LIMITS):
        count = _most_under(searched, limit)
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
        kind=chosen_on.kind,
        n_chosen_on=len(chosen_on.examples),
        n_reported_on=len(reported_on.examples),
        steps=steps,
    )
    enough = _set_of([head for head in heads if head in order[gone:]], found[gone])
    return Eliminated(elimination, tuple(removable), enough)


def names(heads: Sequence[Head]) -> tuple[str, ...]:
    return tuple(map(str, heads))


def _set_of(heads: Sequence[Head], found: Comparison) -> HeadSet:
    return HeadSet(heads=names(heads), **vars(found))


def _elimination_order(context: AblationContext, progress: OnProgress) -> tuple[list[Head], np.ndarray]:
    """The order in which heads are removed, and the accuracy after each removal."""
    gone: list[Head] = []
    accuracy = [_accuracy_of_all(context)]
    for head, left in _cheapest_first(context):
        gone.append(head)
        accuracy.append(left)
        progress(len(gone), len(context.heads))
    return gone, np.array(accuracy)


def largest_removable(
    context: AblationContext, limit: float, progress: OnProgress = lambda done, total: None
) -> list[Head]:
    """The longest prefix of the elimination order whose drop is under `limit` points."""
    order, accuracy = _elimination_order(context, progress)
    return order[: _most_under(accuracy, limit)]


def _most_under(accuracy: np.ndarray, limit: float) -> int:
    """The largest number of removed heads whose drop is under the limit; the curve may fall and recover."""
    return int(np.flatnonzero(_points(accuracy[0], accuracy) < limit)[-1])


def single_drops(context: AblationContext) -> dict[str, float]:
    """What each head costs alone, in points."""
    alone = np.eye(len(context.heads), dtype=np.int64)
    accuracy = context.right_without(alone).accuracy if len(alone) else np.zeros(0)
    drops = _points(_accuracy_of_all(context), accuracy)
    return {str(head): float(drop) for head, drop in zip(context.heads, drops, strict=True)}


def _accuracy_of_all(context: AblationContext) -> float:
    return float(context.right_without(np.zeros((1, len(context.heads)), dtype=np.int64)).accuracy[0])


def _points(before: float, after: Any) -> Any:
    """The drop between two accuracies in points, rounded so that 29 to 28 right of 100 is exactly one point."""
    return np.round(100 * (before - after), 9)


def _cheapest_first(context: AblationContext) -> Iterator[tuple[Head, float]]:
    """Yield the head that costs least (by accuracy, then by loss) and the accuracy without it, until none is left."""
    heads = context.heads
    gone: list[Head] = []
    while len(gone) < len(heads):
        left = [head for head in heads if head not in gone]
        outcomes = context.right_without(np.stack([as_row(heads, [*gone, head]) for head in left]))
        best = min(range(len(left)), key=lambda i: (-outcomes.accuracy[i], outcomes.mean_loss[i]))
        gone.append(left[best])
        yield left[best], float(outcomes.accuracy[best])


def _alone_under(heads: Sequence[Head], drops: dict[str, float], limit: float) -> list[Head]:
    """Every head whose own drop is under the limit: the set that single ablations suggest."""
    return [head for head in heads if drops[str(head)] < limit]


def _adding_up(heads: Sequence[Head], drops: dict[str, float], limit: float) -> list[Head]:
    """The largest set of heads whose single drops sum to less than the limit."""
    ranked = sorted(heads, key=lambda head: drops[str(head)])
    total = np.cumsum([drops[str(head)] for head in ranked])
    within = np.flatnonzero(total < limit)
    return ranked[: int(within[-1]) + 1] if len(within) else []


def paired_comparison(right: Bool[np.ndarray, "variant example"], row: int) -> Comparison:
    """Accuracy of a variant, and its paired drop from the first variant, in points."""
    drop, interval = paired_drop(right[0], right[row])
    return Comparison(
        accuracy=float(right[row].mean()),
        interval=wilson_interval(int(right[row].sum()), right.shape[1]),
        drop=drop,
        drop_interval=interval,
    )


# Shapley values


def shapley_exact(
    context: AblationContext, players: Sequence[Head], progress: OnProgress = lambda done, total: None
) -> Shapley:
    """Exact Shapley values of some heads over all their subsets, with the other heads left on; in points of accuracy.

    value(h) = sum over sets S without h of |S|! (m - |S| - 1)! / m! x (accuracy with S and h - accuracy with S).
    It is a mean over examples of each example's own value, and its standard error comes from their spread.
    """
    subsets = all_subsets(len(players))
    right = context.right_without(_plan_keeping(context, players, subsets), progress).right
    values = 100 * shapley_values(subsets, right.astype(np.float64))
    return Shapley(
        exact=True,
        subsets=len(subsets),
        n=right.shape[1],
        values=tuple(
            Credit(head=str(head), value=float(v.mean()), error=float(v.std(ddof=1) / len(v) ** 0.5))
            for head, v in zip(players, values, strict=True)
        ),
        smallest_sufficient=_smallest(players, subsets, right),
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


def _plan_keeping(context: AblationContext, players: Sequence[Head], kept: Subsets) -> Int[np.ndarray, "subset every"]:
    plan = np.zeros((len(kept), len(context.heads)), dtype=np.int64)
    plan[:, [context.heads.index(head) for head in players]] = ~kept
    return plan


def _smallest(players: Sequence[Head], subsets: Subsets, right: Bool[np.ndarray, "subset example"]) -> HeadSet:
    """The smallest subset of these heads that costs less than a point (the best of equal ones), with the other heads
    on.

    Chosen on every other example, reported on those between.
    """
    accuracy, others = right[:, ::2].mean(1), right[:, 1::2]
    enough = np.flatnonzero(_points(accuracy[-1], accuracy) < LIMITS[0])
    best = min(enough.tolist(), key=lambda i: (int(subsets[i].sum()), -accuracy[i]))
    kept = [head for head, stays in zip(players, subsets[best], strict=True) if stays]
    return _set_of(kept, paired_comparison(np.stack([others[-1], others[best]]), 1))


def shapley_sampled(
    context: AblationContext,
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
    right = context.right_without(_plan_keeping(context, players, unique), progress).right
    where = where.reshape(len(orders), m + 1)
    by_order = np.zeros((len(orders), m))
    by_example = np.zeros((m, right.shape[1]))
    for order, rows in zip(orders, where, strict=True):
        gain = right[rows[1:]].astype(np.float64) - right[rows[:-1]]
        by_example[order] += gain / len(orders)
    for index, (order, rows) in enumerate(zip(orders, where, strict=True)):
        by_order[index, order] = right[rows[1:]].mean(1) - right[rows[:-1]].mean(1)
    by_pair = by_order.reshape(pairs, 2, m).mean(1)
    value = 100 * by_pair.mean(0)
    error = 100 * np.sqrt(by_pair.var(0, ddof=1) / pairs + by_example.var(1, ddof=1) / right.shape[1])
    found = zip(players, value, error, strict=True)
    return Shapley(
        exact=False,
        permutations=len(orders),
        subsets=len(unique),
        n=right.shape[1],
        values=tuple(Credit(head=str(head), value=float(v), error=float(e)) for head, v, e in found),
    )


def _there_and_back(order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return order, order[::-1]


def shapley(
    context: AblationContext,
    players: Sequence[Head],
    permutations: int,
    random: np.random.Generator,
    progress: OnProgress,
) -> Shapley:
    """Exact Shapley values if every subset can be run, sampled ones otherwise."""
    if len(players) <= EXACT_HEADS:
        return shapley_exact(context, players, progress)
    return shapley_sampled(context, players, permutations, random, progress)


# Pairs


def which_pairs(heads: Sequence[Head]) -> list[tuple[int, int]]:
    """All pairs of heads; for a model with very many heads, the pairs within each site."""
    pairs = list(combinations(range(len(heads)), 2))
    return pairs if len(pairs) <= MOST_PAIRS else [(i, j) for i, j in pairs if heads[i].site == heads[j].site]


def measure_pairs(context: AblationContext, progress: OnProgress = lambda done, total: None) -> Pairs:
    """The interaction of every pair, positive for redundant pairs, strongest first.

    interaction = drop of both - drop of one - drop of the other, example by example; it is -2 to 2. What is tested is
    the mean that is reported, against 0; Holm over the pairs.
    """
    heads = context.heads
    pairs = which_pairs(heads)
    if not pairs:
        return Pairs(n=len(context.examples), tested=0, pairs=())
    first, second = np.array(pairs).T
    alone = np.eye(len(heads), dtype=np.int64)
    plan = np.concatenate([np.zeros((1, len(heads)), dtype=np.int64), alone, alone[first] + alone[second]])
    right = context.right_without(plan, progress).right.astype(np.int64)
    before, single, both = right[0], right[1 : len(heads) + 1], right[len(heads) + 1 :]
    extra = single[first] + single[second] - before - both
    p = holm(mean_is_zero(np.stack([(extra == size).sum(1) for size in range(-2, 3)], axis=1)))
    n = right.shape[1]
    lost, gained = ((before == 1) & (both == 0)).sum(1), ((before == 0) & (both == 1)).sum(1)
    judged = judge(lost, gained, n)
    mean, ends = 100 * extra.mean(1), [100 * end for end in difference_interval(extra)]
    drops = 100 * (before.mean() - single.mean(1))
    found = [
        Pair(
            heads=(str(heads[i]), str(heads[j])),
            alone=(float(drops[i]), float(drops[j])),
            together=100 * float(before.mean() - both[k].mean()),
            together_interval=judged.ends(k),
            verdict_together=str(judged.verdict[k]),
            interaction=float(mean[k]),
            interval=(float(ends[0][k]), float(ends[1][k])),
            p_holm=float(p[k]),
        )
        for k, (i, j) in enumerate(pairs)
    ]
    found.sort(key=lambda pair: -abs(pair.interaction))
    return Pairs(n=n, tested=len(pairs), pairs=tuple(found[:SHOWN_PAIRS]))
