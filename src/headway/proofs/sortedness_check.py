"""The check of a certificate of sortedness, with other code than the proof's and in another order.

Three things are found again. What the pooling reads, by the real model's fp32 pass over real sequences that hold every
triple (`triple_pass.py`). The allowance for rounding, in NumPy and by left neighbours (`sortedness_recount.py`), beside
float64 numbers from which no fp32 number may be farther than its bound. The smallest margin, context by context, and
where bounds do not reach it, by a fixed point over the ends of sequences (`Ends`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from jaxtyping import Bool, Float, Int

from headway.callbacks import OnProgress
from headway.evaluation import Trained
from headway.proofs.claims import other_count, other_subject, unfounded
from headway.proofs.sortedness_recount import Recount
from headway.proofs.sortedness_table import check_model
from headway.proofs.triple_pass import Seen, see
from headway.results.proof import Check, Proof

TOLERANCE, SHARE = 1e-3, 0.1
"""A claimed margin may differ from the check's by so many logits (fp32 passes of trained models differ by some 1e-5),
and by this share of the allowance for rounding."""
CLOSE = 1e-6
"""Share by which a claimed allowance may be smaller than the check's: the same bound, computed in another order."""
MOST_ENDS = 200_000
"""Ends of sequences that the fixed point may hold; past it the certificate is not accepted."""
METHOD = "the model's own fp32 pass over a sequence that holds every triple, every context one by one"


def check(trained: Trained, proof: Proof, progress: OnProgress = lambda done, total: None) -> Check:
    """Verify a proof; every claim that is stronger than the check's own result is a reason against it."""
    check_model(trained)
    values = trained.task.options.values
    seen = see(trained, values, lambda done, total: progress(done, 2 * total))
    recount = Recount(trained.model, values)
    allowance, farthest = recount.run(seen.features, lambda done, total: progress(total + done, 2 * total))
    tolerance = min(TOLERANCE, SHARE * allowance)
    margins = Margins(seen, tolerance)
    unsorted, descents = margins.descents()
    ordered, rows = margins.chains()
    counts = {"descents": descents, **rows}
    lowest, claimed = min(unsorted, ordered), proof.margin
    about = f"every sequence of elements from 0 to {values - 1}"
    reasons = [*other_subject(proof, trained, about), *other_count(proof, counts), *unfounded(proof)]
    reasons += _rounding(proof, allowance)
    if not farthest <= 1:
        reasons.append(f"the model's own numbers are up to {farthest:.3g} times their bound for rounding apart")
    if claimed is None or not claimed - tolerance > allowance:
        reasons.append(f"its margin of {claimed} does not exceed the allowance for rounding of {allowance:.4g}")
    elif not claimed <= lowest + tolerance and (why := margins.below(claimed, unsorted=unsorted, ordered=ordered)):
        reasons.append(f"it claims a margin of {claimed:.6g}; the bounds show {lowest:.6g}, and {why}")
    return Check(
        certificate="",
        holds=not reasons,
        reasons=tuple(reasons),
        contexts=sum(counts.values()),
        margin=lowest if claimed is None or lowest + tolerance >= claimed else claimed,
        method=METHOD,
        seconds=0.0,
    )


def _rounding(proof: Proof, allowance: float) -> Iterator[str]:
    if proof.rounding is None or not proof.rounding.allowance >= allowance * (1 - CLOSE):
        claimed = None if proof.rounding is None else proof.rounding.allowance
        yield f"it allows {claimed} logits for rounding; {allowance:.6g} are needed"


@dataclass(frozen=True)
class Margins:
    """Margins of sequences from what the pooling read; index `values` is no neighbour.

    A margin counts as confirmed if none is smaller by more than `tolerance`.
    """

    seen: Seen
    tolerance: float = TOLERANCE

    @property
    def favours(self) -> Bool[np.ndarray, " feature"]:
        return self.seen.weight > 0

    def of(self, maxima: Float[np.ndarray, "*any feature"]) -> Float[np.ndarray, "*any"]:
        return np.asarray(maxima.astype(np.float64) @ self.seen.weight + self.seen.bias)

    def descents(self) -> tuple[float, int]:
        """The smallest margin of "not sorted" over all contexts a x y b with x > y, and how many there are."""
        features = self.seen.features
        n, smallest, contexts = features.shape[1], np.inf, 0
        most = self.longer().reshape(-1, features.shape[-1]).max(0)
        for x in range(1, n):
            before, after = features[:, x, :x, None], features[None, x, :x]
            margin = -self.of(np.where(self.favours, most, np.maximum(before, after)))
            smallest, contexts = min(smallest, float(margin.min())), contexts + margin.size
        return smallest, contexts

    def longer(self) -> Float[np.ndarray, "left itself right feature"]:
        """The features without those of single elements."""
        found = self.seen.features.copy()
        found[-1, :, -1] = -np.inf
        return found

    def chains(self) -> tuple[float, dict[str, int]]:
        """A lower bound of the margin of sorted sequences, and how many triples of each kind they are made of."""
        features = self.seen.features
        n = features.shape[1]
        counts = {"sorted triples": 0, "first or last": 0, "one element": n}
        most, least = np.full((n, features.shape[-1]), -np.inf), np.full((2, features.shape[-1]), np.inf)
        for c in range(n):
            inner = features[: c + 1, c, c:n].reshape(-1, features.shape[-1])
            first, last = features[n, c, c:n], features[: c + 1, c, n]
            least = np.minimum(least, [first.min(0), last.min(0)])
            most[c] = np.max([inner.max(0), first.max(0), last.max(0)], axis=0)
            counts["sorted triples"] += len(inner)
            counts["first or last"] += len(first) + len(last)
        longer = float(self.of(np.where(self.favours, least.max(0), most.max(0))))
        return min(longer, float(self.of(features[n, :, n]).min())), counts

    def below(self, margin: float, *, unsorted: float, ordered: float) -> str | None:
        """Why a margin is not confirmed on the sides that the bounds leave open; None if no sequence has less."""
        alone = float(self.of(self.seen.features[-1, :, -1]).min())
        if alone < margin - self.tolerance:
            return f"a single element has a margin of {alone:.6g}"
        sides = [(False, unsorted), (True, ordered)]
        reasons = (
            Ends(self, margin - self.tolerance, is_sorted).below() for is_sorted, found in sides if found < margin
        )
        return next((reason for reason in reasons if reason is not None), None)


End = tuple[int, int, bool, Float[np.ndarray, " feature"]]
"""The first two elements of a sequence without what stands before them, whether it descends, and its maxima."""


class Ends:
    """The ends of sequences that may have less than a margin: a fixed point, grown from the last pair to the left.

    Of maxima that begin with the same pair, one that is at least as good for a wrong answer in every feature stands for
    the others. The worst end is grown first, so that it stands for the others as early as possible: with one feature,
    every pair is grown once.
    """

    def __init__(self, margins: Margins, margin: float, is_sorted: bool):
        self.margins, self.margin, self.is_sorted = margins, margin, is_sorted
        self.sign = np.where(margins.favours, -1.0, 1.0) * (1.0 if is_sorted else -1.0)
        rows = margins.longer()
        if is_sorted:
            n = rows.shape[1]
            left, right = np.arange(n + 1)[:, None, None], np.arange(n + 1)
            itself = np.arange(n)[:, None]
            rows = np.where((((left <= itself) | (left == n)) & (itself <= right))[..., None], rows, -np.inf)
        self.highest = rows.reshape(-1, rows.shape[-1]).max(0)
        self.kept: dict[tuple[int, int, bool], list[np.ndarray]] = {}
        self.waiting: list[tuple[float, int, End]] = []
        self.held = 0

    def below(self) -> str | None:
        """A sequence of this side with less than the margin, or that there are too many ends; None if there is none."""
        features, side = self.margins.seen.features, "a sorted" if self.is_sorted else "an unsorted"
        n = features.shape[1]
        for y in range(n):
            first = np.arange(y + 1 if self.is_sorted else n)
            self._hold(first, y, first > y, features[first, y, n].astype(np.float64))
        while self.waiting and self.held <= MOST_ENDS:
            *_, (x, y, descends, maxima) = heappop(self.waiting)
            whole = np.maximum(maxima, features[n, x, y])
            if (self.is_sorted or descends) and self._right(whole) < self.margin:
                return f"{side} sequence that begins with {x} {y} has a margin of {self._right(whole):.6g}"
            before = np.arange(x + 1 if self.is_sorted else n)
            self._hold(before, x, descends | (before > x), np.maximum(maxima, features[before, x, y]))
        return f"more than {MOST_ENDS:,} ends of sequences would have to be checked" if self.waiting else None

    def _right(self, maxima: Float[np.ndarray, "*any feature"]) -> Float[np.ndarray, "*any"]:
        """The margin of the right answer."""
        own = self.margins.of(maxima)
        return own if self.is_sorted else np.asarray(-own)

    def _hold(
        self,
        first: Int[np.ndarray, " end"],
        second: int,
        descends: Bool[np.ndarray, " end"],
        maxima: Float[np.ndarray, "end feature"],
    ) -> None:
        """Keep the ends that can still become wrong and that no kept one stands for."""
        possible = np.where(self.sign > 0, np.maximum(maxima, self.highest), maxima)
        for at in np.flatnonzero(self._right(possible) < self.margin):
            merit = self.sign * maxima[at]
            kept = self.kept.setdefault((int(first[at]), second, bool(descends[at])), [])
            if any(bool((one >= merit).all()) for one in kept):
                continue
            kept.append(merit)
            self.held += 1
            end = (int(first[at]), second, bool(descends[at]), maxima[at])
            heappush(self.waiting, (float(self._right(maxima[at])), self.held, end))
