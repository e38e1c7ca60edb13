"""The check of a certificate of sortedness, with other code than the proof's and in another order.

Three things are found again. What the pooling reads, by the real model's fp32 pass over real sequences that hold every
triple (`triple_pass.py`). The allowance for rounding, in NumPy and by left neighbours (`sortedness_recount.py`), beside
float64 numbers from which no fp32 number may be farther than its bound. The smallest margin, context by context, and
where bounds do not reach it, by a fixed point over the ends of sequences (`Ends`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from headway.callbacks import OnProgress
from headway.evaluation import Trained
from headway.proofs.sortedness_recount import Recount
from headway.proofs.sortedness_table import check_model
from headway.proofs.triple_pass import Seen, see
from headway.results.proof import Check, Proof

TOLERANCE = 1e-3
"""Logits by which a claimed margin may differ from the check's: fp32 passes of trained models differ by some 1e-5."""
CLOSE = 1e-6
"""Share by which a claimed allowance may be smaller than the check's: the same bound, computed in another order."""
MOST_ENDS = 200_000
"""Different maxima that the fixed point may hold; past it the certificate is not accepted."""
METHOD = "the model's own fp32 pass over a sequence that holds every triple, every context one by one"


def check(trained: Trained, proof: Proof, progress: OnProgress = lambda done, total: None) -> Check:
    """Verify a proof; every claim that is stronger than the check's own result is a reason against it."""
    check_model(trained)
    values = trained.task.options.values
    seen = see(trained, values, lambda done, total: progress(done, 2 * total))
    recount = Recount(trained.model, values)
    allowance, farthest = recount.run(seen.features, lambda done, total: progress(total + done, 2 * total))
    margins = Margins(seen)
    unsorted, contexts = margins.descents()
    ordered, more = margins.chains()
    lowest, claimed = min(unsorted, ordered), proof.smallest_margin
    reasons = [*_other_scope(proof, values, contexts + more), *_rounding(proof, allowance)]
    if farthest > 1:
        reasons.append(f"the model's own numbers are up to {farthest:.3g} times their bound for rounding apart")
    if claimed is None or not claimed > allowance:
        reasons.append(f"its margin of {claimed} does not exceed the allowance for rounding of {allowance:.4g}")
    elif claimed > lowest + TOLERANCE and not margins.closes(claimed, unsorted=unsorted, ordered=ordered):
        reasons.append(f"it claims a margin of {claimed:.6g}, and the check finds no more than {lowest:.6g}")
    return Check(
        certificate="",
        holds=not reasons,
        reasons=tuple(reasons),
        contexts=contexts + more,
        smallest_margin=lowest if claimed is None or lowest + TOLERANCE >= claimed else claimed,
        method=METHOD,
        seconds=0.0,
    )


def _other_scope(proof: Proof, values: int, contexts: int) -> Iterator[str]:
    about = f"every sequence of elements from 0 to {values - 1}"
    if proof.scope != about:
        yield f"it is about {proof.scope!r}; the check is about {about!r}"
    if proof.task != "sortedness":
        yield f"it is about task {proof.task!r}"
    if proof.contexts != contexts or sum(proof.contexts_by_kind.values()) != contexts:
        yield f"it counts {proof.contexts:,} contexts; there are {contexts:,}"
    if proof.open_contexts or proof.counterexamples:
        yield "it lists open contexts or counterexamples"


def _rounding(proof: Proof, allowance: float) -> Iterator[str]:
    if proof.rounding is None or proof.rounding.allowance < allowance * (1 - CLOSE):
        claimed = None if proof.rounding is None else proof.rounding.allowance
        yield f"it allows {claimed} logits for rounding; {allowance:.6g} are needed"


@dataclass(frozen=True)
class Margins:
    """Margins of sequences from what the pooling read; index `values` is no neighbour."""

    seen: Seen

    @property
    def favours(self) -> Bool[np.ndarray, " feature"]:
        return self.seen.weight > 0

    def of(self, maxima: Float[np.ndarray, "*any feature"]) -> Float[np.ndarray, "*any"]:
        return np.asarray(maxima.astype(np.float64) @ self.seen.weight + self.seen.bias)

    def descents(self) -> tuple[float, int]:
        """The smallest margin of "not sorted" over all contexts a x y b with x > y, and how many there are."""
        features = self.seen.features
        n, smallest, contexts = features.shape[1], np.inf, 0
        most = self._longer().reshape(-1, features.shape[-1]).max(0)
        for x in range(1, n):
            before, after = features[:, x, :x, None], features[None, x, :x]
            margin = -self.of(np.where(self.favours, most, np.maximum(before, after)))
            smallest, contexts = min(smallest, float(margin.min())), contexts + margin.size
        return smallest, contexts

    def _longer(self) -> Float[np.ndarray, "left itself right feature"]:
        """The features without those of single elements."""
        found = self.seen.features.copy()
        found[-1, :, -1] = -np.inf
        return found

    def chains(self) -> tuple[float, int]:
        """A lower bound of the margin of sorted sequences, and how many triples they are made of."""
        features = self.seen.features
        n, contexts = features.shape[1], features.shape[1]
        most, least = np.full((n, features.shape[-1]), -np.inf), np.full((2, features.shape[-1]), np.inf)
        for c in range(n):
            inner = features[: c + 1, c, c:n].reshape(-1, features.shape[-1])
            first, last = features[n, c, c:n], features[: c + 1, c, n]
            least = np.minimum(least, [first.min(0), last.min(0)])
            most[c] = np.max([inner.max(0), first.max(0), last.max(0)], axis=0)
            contexts += len(inner) + len(first) + len(last)
        longer = float(self.of(np.where(self.favours, least.max(0), most.max(0))))
        return min(longer, float(self.of(features[n, :, n]).min())), contexts

    def closes(self, margin: float, *, unsorted: float, ordered: float) -> bool:
        """Whether the fixed point finds no sequence below a margin on the sides that the bounds leave open."""
        if float(self.of(self.seen.features[-1, :, -1]).min()) < margin - TOLERANCE:
            return False
        sides = [(False, unsorted), (True, ordered)]
        return all(Ends(self, margin - TOLERANCE, is_sorted).close() for is_sorted, found in sides if found < margin)


class Ends:
    """What whole sequences can have read by the time they end in a pair: a fixed point over the ends.

    Sequences grow from their last pair to the left. Of maxima that end alike, one that is at least as good for a wrong
    answer in every feature stands for the others.
    """

    def __init__(self, margins: Margins, margin: float, is_sorted: bool):
        self.margins, self.margin, self.is_sorted = margins, margin, is_sorted
        self.sign = np.where(margins.favours, -1.0, 1.0) * (1.0 if is_sorted else -1.0)
        rows = margins._longer()
        if is_sorted:
            n = rows.shape[1]
            left, right = np.arange(n + 1)[:, None, None], np.arange(n + 1)
            itself = np.arange(n)[:, None]
            rows = np.where((((left <= itself) | (left == n)) & (itself <= right))[..., None], rows, -np.inf)
        self.highest = rows.reshape(-1, rows.shape[-1]).max(0)
        self.ends: dict[tuple[int, int, bool], list[np.ndarray]] = {}
        self.held = 0

    def close(self) -> bool:
        """Whether no sequence of this side has less than the margin."""
        features = self.margins.seen.features
        n = features.shape[1]
        waiting = []
        for x in range(n):
            for y in range(n):
                if x <= y or not self.is_sorted:
                    waiting += self._hold(x, y, x > y, features[x, y, n].astype(np.float64))
        while waiting:
            x, y, descends, maxima = waiting.pop()
            if (self.is_sorted or descends) and self._wrong(np.maximum(maxima, features[n, x, y])):
                return False
            if self.held > MOST_ENDS:
                return False
            for before in range(x + 1 if self.is_sorted else n):
                grown = np.maximum(maxima, features[before, x, y])
                waiting += self._hold(before, x, descends or before > x, grown)
        return True

    def _wrong(self, maxima: Float[np.ndarray, " feature"]) -> bool:
        """Whether the margin of the right answer is below what is claimed."""
        own = float(self.margins.of(maxima))
        return (own if self.is_sorted else -own) < self.margin

    def _hold(
        self, x: int, y: int, descends: bool, maxima: Float[np.ndarray, " feature"]
    ) -> list[tuple[int, int, bool, np.ndarray]]:
        """The same end if it can still become wrong and no other one stands for it."""
        possible = np.where(self.sign > 0, np.maximum(maxima, self.highest), maxima)
        if not self._wrong(possible):
            return []
        merit, kept = self.sign * maxima, self.ends.setdefault((x, y, descends), [])
        if any(bool((one >= merit).all()) for one in kept):
            return []
        kept.append(merit)
        self.held += 1
        return [(x, y, descends, maxima)]
