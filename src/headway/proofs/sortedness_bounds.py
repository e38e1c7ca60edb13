"""Bounds that prove many contexts at once: descents with their neighbours, and all sorted sequences together.

An unsorted sequence contains a descent x > y, with a left neighbour a and a right neighbour b where they exist. Its
maxima are at least those of the triples (a, x, y) and (x, y, b). So its margin is at most the margin in which the
features that oppose "sorted" have those maxima, and the features that favour it have their largest value in the table.
The margin of a sorted sequence is at least the margin in which opposing features have their largest value over all
sorted triples, and favouring features the smallest maximum that a first and a last element imply.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.callbacks import OnProgress
from headway.proofs.sortedness_table import TripleTable

KEPT = 200_000
"""Open contexts that are stored; all of them are counted."""


@dataclass(frozen=True)
class Descents:
    """The contexts a x y b of all descents: the largest bound of their margins, and the contexts that are open."""

    contexts: int
    highest: float
    worst: tuple[int, int, int, int]
    n_open: int
    open: Int[np.ndarray, "context 4"]


def close_descents(table: TripleTable, limit: float, progress: OnProgress = lambda done, total: None) -> Descents:
    """Bound the margin of every context from above; those whose bound is below `limit` are closed."""
    n, highest, worst, n_open = table.values, -np.inf, (0, 0, 0, 0), 0
    kept: list[np.ndarray] = []
    for x, y, left, right, bound in bounds_of_descents(table, lambda: min(limit, highest)):  # noqa: B023
        at = np.unravel_index(int(bound.argmax()), bound.shape)
        if bound[at] > highest:
            highest, worst = float(bound[at]), (int(left[at[0]]), x, y, int(right[at[1]]))
        above = np.argwhere(bound >= limit)
        n_open += len(above)
        if len(above) and sum(len(one) for one in kept) < KEPT:
            kept.append(
                np.stack([left[above[:, 0]], *np.broadcast_arrays(x, y, above[:, 0])[:2], right[above[:, 1]]], 1)
            )
        progress(x, n - 1)
    contexts = (n + 1) ** 2 * n * (n - 1) // 2
    return Descents(contexts, highest, worst, n_open, np.concatenate([*kept, np.zeros((0, 4), dtype=np.int64)]))


Bounds = tuple[int, int, Int[np.ndarray, " left"], Int[np.ndarray, " right"], Float[np.ndarray, "left right"]]
"""A descent x > y, left neighbours, right neighbours, and the bound of the margin between each two of them."""


def bounds_of_descents(table: TripleTable, least: Callable[[], float]) -> Iterator[Bounds]:
    """Upper bounds of the margin of "sorted" by descent; contexts that lie below `least()` for sure may be left out."""
    ceiling = table.bias + float(
        (table.features[..., table.favours].flatten(0, 2).amax(0) * _of(table, "favours")).sum()
    )
    opposed = (table.features[..., table.opposes] * _of(table, "opposes")).numpy()
    alone = opposed.sum(-1)
    for x in range(1, table.values):
        for y in range(x):
            needed = least() - ceiling
            left, right = (np.flatnonzero(part >= needed) for part in (alone[:, x, y], alone[x, y]))
            bound = ceiling + np.minimum(opposed[left, x, y][:, None], opposed[x, y, right]).sum(-1)
            if bound.size:
                yield x, y, left, right, bound


def _of(table: TripleTable, side: str) -> Float[Tensor, " side"]:
    return table.weight[getattr(table, side)]


def sorted_triples(values: int) -> Bool[Tensor, "left itself right"]:
    """Mask of the triples that occur in sorted sequences; index `values` on the left or right means no neighbour."""
    at = torch.arange(values + 1)
    left, itself, right = at[:, None, None], at[None, :-1, None], at[None, None, :]
    found = ((left <= itself) | (left == values)) & (itself <= right)
    found[values, :, values] = False
    return found


@dataclass(frozen=True)
class Chains:
    """Sorted sequences, those of one element too: the lower bound of their margins, and the triples where it is."""

    contexts: int
    lowest: float
    worst: tuple[tuple[int, int, int], ...]


def close_chains(table: TripleTable) -> Chains:
    """Bound the margin of all sorted sequences from below."""
    possible = sorted_triples(table.values)
    rows, places = table.features[possible], possible.nonzero()
    highest, at = rows[:, table.opposes].max(0)
    least = least_maxima(table)[table.favours]
    lowest = table.bias + float(highest @ _of(table, "opposes")) + float(least @ _of(table, "favours"))
    worst = tuple(sorted({(int(a), int(b), int(c)) for a, b, c in places[at].tolist()}))
    alone = table.margin(table.alone).min(0)
    if float(alone.values) < lowest:
        lowest, worst = float(alone.values), ((table.values, int(alone.indices), table.values),)
    return Chains(len(rows) + table.values, lowest, worst)


def least_maxima(table: TripleTable) -> Float[Tensor, " feature"]:
    """Lower bounds of the maxima of every sorted sequence, from its first and its last element."""
    n, possible = table.values, sorted_triples(table.values)
    first, last = table.features[n][possible[n]], table.features[:, :, n][possible[:, :, n]]
    return torch.maximum(first.amin(0), last.amin(0))


def open_triples(table: TripleTable, need: float) -> int:
    """The number of sorted triples for which the margin of a sorted sequence is not yet proved to exceed `need`."""
    rows = table.features[sorted_triples(table.values)]
    opposing = float(rows[:, table.opposes].amax(0) @ _of(table, "opposes"))
    favouring = torch.maximum(rows, least_maxima(table))[:, table.favours] @ _of(table, "favours")
    return int((table.bias + opposing + favouring <= need).sum())
