"""Exhaustive search over sequences of every length, for contexts that the bounds leave open.

A sequence is a path through pairs of neighbours. Each step adds a triple and can only raise the maxima. A prefix is
dropped if another prefix that ends in the same pair has better maxima for a wrong answer in every feature, or if no
continuation can reach a wrong answer. There are finitely many maxima, so the search ends: with a sequence that is
answered wrongly, or with a proof that there is none.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from headway.proofs.sortedness_bounds import Descents, least_maxima, sorted_triples
from headway.proofs.sortedness_table import TripleTable

MOST_LABELS = 20_000
"""Largest number of stored prefixes; the search stops unfinished beyond it."""
CERTAIN = 2.0
"""The search stops at a sequence this many logits above the limit."""
EXPANDED = 256
"""Prefixes that are extended in one batch."""


Label = tuple[int, int, int, bool, np.ndarray]
"""A prefix: its number, its last two elements, whether it contains a descent, and its maxima."""


@dataclass(frozen=True)
class Found:
    """The result of a search.

    `ended`: no prefix is left. `highest`: the largest bound of a wrong answer's advantage among closed prefixes.
    `labels`: stored prefixes. `sequence`: the sequence with the largest `advantage`, if any.
    """

    ended: bool
    highest: float
    labels: int
    advantage: float = -np.inf
    sequence: tuple[int, ...] = ()


@dataclass(frozen=True)
class Question:
    """Is there a sequence whose advantage (weight . maxima + bias) is at least `limit`?

    `future[p]` bounds the features of every triple that can follow a pair that starts with p. `floor` is a lower bound
    of the maxima of every sequence that is searched. `ascending` searches sorted sequences only; otherwise only those
    with a descent.
    """

    features: Float[np.ndarray, "left itself right feature"]
    weight: Float[np.ndarray, " feature"]
    bias: float
    limit: float
    ascending: bool
    future: Float[np.ndarray, "value feature"]
    floor: Float[np.ndarray, " feature"]

    @property
    def values(self) -> int:
        return self.features.shape[1]

    def advantage(self, maxima: Float[np.ndarray, "*any feature"]) -> Float[np.ndarray, "*any"]:
        return maxima @ self.weight + self.bias

    def bound(self, maxima: Float[np.ndarray, "*any feature"], first: Int[np.ndarray, "*any"]) -> np.ndarray:
        """The largest advantage that any continuation of a prefix can have."""
        return self.advantage(np.where(self.weight > 0, np.maximum(maxima, self.future[first]), maxima))


def about_descents(table: TripleTable, limit: float, descents: Descents) -> Question:
    """The search for sequences with a descent whose margin is at least `limit`."""
    features, weight = table.features.numpy(), table.weight.numpy()
    a, x, y, b = descents.open.T
    floor = np.maximum(features[a, x, y], features[x, y, b]).min(0)
    if len(descents.open) < descents.n_open:  # some were not stored
        floor = np.where(np.isfinite(features), features, np.inf).reshape(-1, len(weight)).min(0)
    highest = features.reshape(-1, len(weight)).max(0)
    future = np.broadcast_to(highest, (table.values, len(weight)))
    return Question(features, weight, table.bias, limit, False, future, floor)


def about_chains(table: TripleTable, limit: float) -> Question:
    """The search for sorted sequences whose negated margin is at least `limit`."""
    features = np.where(sorted_triples(table.values).numpy()[..., None], table.features.numpy(), -np.inf)
    by_left = features[:-1].max((1, 2))  # the last index is "no neighbour", which nothing follows
    future = np.maximum.accumulate(by_left[::-1])[::-1]
    floor = least_maxima(table).numpy()
    return Question(table.features.numpy(), -table.weight.numpy(), -table.bias, limit, True, future, floor)


class Search:
    """Exhaustive search over prefixes of sequences. Each prefix has a number, its label."""

    def __init__(self, question: Question):
        self.question = question
        self.kept: dict[tuple[int, int, bool], list[np.ndarray]] = defaultdict(list)
        self.pairs: list[tuple[int, int]] = []
        self.parents: list[int] = []
        self.closed = -np.inf
        self.best, self.best_label = -np.inf, -1
        self.gain = np.sign(question.weight)

    def run(self, most: int = MOST_LABELS) -> Found:
        """Extend prefixes until none is left, a wrong answer is certain, or there are more than `most`."""
        waiting = self._starts()
        while waiting:
            batch, waiting = waiting[:EXPANDED], waiting[EXPANDED:]
            waiting += self._lengthen(batch)
            if self.best >= max(-self.question.limit, self.question.limit + CERTAIN) or len(self.pairs) > most:
                return self._found(ended=False)
        return self._found(ended=True)

    def _found(self, *, ended: bool) -> Found:
        labels, sequence, at = len(self.pairs), [], self.best_label
        while at >= 0:
            sequence.append(self.pairs[at][1])
            first, at = self.pairs[at][0], self.parents[at]
        words = (first, *reversed(sequence)) if sequence else ()
        return Found(ended, max(self.closed, self.best), labels, self.best, tuple(map(int, words)))

    def _starts(self) -> list[Label]:
        n = self.question.values
        first, second = (grid.ravel() for grid in np.indices((n, n)))
        if self.question.ascending:
            first, second = first[first <= second], second[first <= second]
        maxima = self.question.features[n, first, second]
        return self._keep(first, second, first > second, maxima, np.full(len(first), -1))

    def _lengthen(self, batch: list[Label]) -> list[Label]:
        n = self.question.values
        label, first, second = (np.array([one[i] for one in batch]) for i in range(3))
        seen, maxima = np.array([one[3] for one in batch]), np.stack([one[4] for one in batch])
        row, third = (grid.ravel() for grid in np.indices((len(batch), n)))
        if self.question.ascending:
            allowed = third >= second[row]
            row, third = row[allowed], third[allowed]
        raised = np.maximum(maxima[row], self.question.features[first[row], second[row], third])
        return self._keep(second[row], third, seen[row] | (second[row] > third), raised, label[row])

    def _keep(
        self,
        first: Int[np.ndarray, " row"],
        second: Int[np.ndarray, " row"],
        seen: Bool[np.ndarray, " row"],
        maxima: Float[np.ndarray, "row feature"],
        parent: Int[np.ndarray, " row"],
    ) -> list[Label]:
        """Store the prefixes that can still become wrong and that no stored prefix dominates."""
        question = self.question
        maxima = np.maximum(maxima, question.floor)
        bound = question.bound(maxima, first)
        closed = bound < question.limit
        self.closed = max(self.closed, float(bound[closed].max(initial=-np.inf)))
        fresh = []
        rows = np.flatnonzero(~closed)
        for at in rows[np.argsort(-bound[rows], kind="stable")]:
            key = (int(first[at]), int(second[at]), bool(seen[at]))
            if self._is_new(key, maxima[at] * self.gain):
                label = len(self.pairs)
                self.pairs.append(key[:2])
                self.parents.append(int(parent[at]))
                fresh.append((label, *key, maxima[at]))
                self._finish(label, key, maxima[at])
        return fresh

    def _is_new(self, key: tuple[int, int, bool], merit: np.ndarray) -> bool:
        kept = self.kept[key]
        if kept and bool((np.stack(kept) >= merit).all(1).any()):
            return False
        kept.append(merit)
        return True

    def _finish(self, label: int, key: tuple[int, int, bool], maxima: np.ndarray) -> None:
        """Score the sequence that ends with this prefix, if it is in the searched class."""
        question = self.question
        if question.ascending or key[2]:
            last = question.features[key[0], key[1], question.values]
            advantage = float(question.advantage(np.maximum(maxima, last)[None])[0])
            if advantage > self.best:
                self.best, self.best_label = advantage, label
