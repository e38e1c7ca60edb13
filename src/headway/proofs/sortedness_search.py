"""An exhaustive search over sequences of every length, for what the bounds leave open.

A sequence is a path through pairs of neighbours; each step adds a triple and raises the maxima. Of two beginnings that
end in the same pair, one whose maxima are better for a wrong answer in every feature makes the other superfluous, and
a beginning that cannot reach a wrong answer any more, whatever follows, is dropped. There are finitely many maxima,
so the search ends: with a sequence that is answered wrongly, or with the proof that there is none.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from headway.proofs.sortedness_bounds import Descents, least_maxima, sorted_triples
from headway.proofs.sortedness_table import TripleTable

MOST_LABELS = 20_000
"""Beginnings that are kept, at most; past it the search gives up."""
CERTAIN = 2.0
"""A sequence this far above the limit (in logits) ends a search."""
EXPANDED = 256
"""Beginnings that are lengthened at once."""


Label = tuple[int, int, int, bool, np.ndarray]
"""A beginning: its number, its last two elements, whether a descent was seen, and the maxima so far."""


@dataclass(frozen=True)
class Found:
    """How a search ended: whether nothing is left, the highest advantage of a wrong answer that is still possible (the
    bound that closed it), beginnings kept, and the sequence with the highest advantage at or above the limit."""

    ended: bool
    highest: float
    labels: int
    advantage: float = -np.inf
    sequence: tuple[int, ...] = ()


@dataclass(frozen=True)
class Question:
    """Is there a sequence whose advantage (weight . maxima + bias) reaches `limit`?

    `future[p]` bounds the features of what may follow a pair that begins with p; `floor` is what the maxima of every
    sequence in question reach at least. `ascending` sequences alone are asked about, or those with a descent alone.
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
        """The highest advantage that anything beginning so can have."""
        return self.advantage(np.where(self.weight > 0, np.maximum(maxima, self.future[first]), maxima))


def about_descents(table: TripleTable, limit: float, descents: Descents) -> Question:
    """Sequences with a descent whose margin reaches `limit`."""
    features, weight = table.features.numpy(), table.weight.numpy()
    a, x, y, b = descents.open.T
    floor = np.maximum(features[a, x, y], features[x, y, b]).min(0)
    if len(descents.open) < descents.n_open:  # some were not kept
        floor = np.where(np.isfinite(features), features, np.inf).reshape(-1, len(weight)).min(0)
    highest = features.reshape(-1, len(weight)).max(0)
    future = np.broadcast_to(highest, (table.values, len(weight)))
    return Question(features, weight, table.bias, limit, False, future, floor)


def about_chains(table: TripleTable, limit: float) -> Question:
    """Sorted sequences whose margin, with its sign changed, reaches `limit`."""
    features = np.where(sorted_triples(table.values).numpy()[..., None], table.features.numpy(), -np.inf)
    by_left = features[:-1].max((1, 2))  # the last index is none: nothing that follows begins there
    future = np.maximum.accumulate(by_left[::-1])[::-1]
    floor = least_maxima(table).numpy()
    return Question(table.features.numpy(), -table.weight.numpy(), -table.bias, limit, True, future, floor)


class Search:
    """Beginnings (labels): a pair, whether a descent was seen, the maxima so far, and the label before."""

    def __init__(self, question: Question):
        self.question = question
        self.kept: dict[tuple[int, int, bool], list[np.ndarray]] = defaultdict(list)
        self.pairs: list[tuple[int, int]] = []
        self.parents: list[int] = []
        self.closed = -np.inf
        self.best, self.best_label = -np.inf, -1
        self.gain = np.sign(question.weight)

    def run(self, most: int = MOST_LABELS) -> Found:
        """Lengthen beginnings until none is left, one is certainly wrong, or there are too many."""
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
        """Those that can still become wrong and that no other one makes superfluous."""
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
        """Note the sequence that ends here, if it is one of those in question."""
        question = self.question
        if question.ascending or key[2]:
            last = question.features[key[0], key[1], question.values]
            advantage = float(question.advantage(np.maximum(maxima, last)[None])[0])
            if advantage > self.best:
                self.best, self.best_label = advantage, label
