"""Independent check of a sortedness certificate: the model's own fp32 forward pass over real sequences.

A de Bruijn sequence contains every triple of values exactly once. It is split into inputs of ordinary length, which go
through the encoder; sequences of two elements give the triples with one neighbour. The pooling's input at each element
then determines every context. The check visits them one by one, in a different order than the proof.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from headway.batches import make_batch
from headway.callbacks import OnProgress
from headway.evaluation import Trained
from headway.model.poolings.detector import Detector
from headway.proofs.sortedness_search import Question, Search
from headway.proofs.sortedness_table import check_model, tabulate
from headway.results.proof import Check, Proof
from headway.tasks import Examples

PIECE = 512
"""Length of one input, in elements of the de Bruijn sequence."""
ROWS = 8
"""Inputs per batch."""
TOLERANCE = 1e-3
"""Largest accepted difference in logits between a claimed margin and the check's; fp32 passes differ by about 1e-5."""
METHOD = "the model's fp32 forward pass over sequences that contain every triple, each context checked separately"


def check(trained: Trained, proof: Proof, progress: OnProgress = lambda done, total: None) -> Check:
    """Verify a proof; every claim that is stronger than the check's own result is a reason against it."""
    check_model(trained)
    values = trained.task.options.values
    seen = see(trained, values, progress)
    allowance = tabulate(trained.model, values).allowance
    unsorted, contexts = seen.descents()
    ordered, more = seen.chains()
    lowest, claimed = min(unsorted, ordered), proof.smallest_margin
    reasons = [*_other_scope(proof, values, contexts + more), *_rounding(proof, allowance)]
    if claimed is None or not claimed > allowance:
        reasons.append(f"its margin of {claimed} does not exceed the rounding allowance of {allowance:.4g}")
    elif claimed > lowest + TOLERANCE and not seen.closes(claimed, unsorted=unsorted, ordered=ordered):
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
    about = f"every sequence of 2 or more elements from 0 to {values - 1}"
    if proof.scope != about:
        yield f"it is about {proof.scope!r}; the check is about {about!r}"
    if proof.task != "sortedness":
        yield f"it is about task {proof.task!r}"
    if proof.contexts != contexts or sum(proof.contexts_by_kind.values()) != contexts:
        yield f"it counts {proof.contexts:,} contexts; there are {contexts:,}"
    if proof.open_contexts or proof.counterexamples:
        yield "it lists open contexts or counterexamples"


def _rounding(proof: Proof, allowance: float) -> Iterator[str]:
    if proof.rounding is None or proof.rounding.allowance < allowance * (1 - 1e-9):
        claimed = None if proof.rounding is None else proof.rounding.allowance
        yield f"it allows {claimed} logits for rounding; {allowance:.6g} are needed"


@dataclass(frozen=True)
class Seen:
    """The pooling's input for every element and its neighbours (index `values`: none), and the readout weights."""

    features: Float[np.ndarray, "left itself right feature"]
    weight: Float[np.ndarray, " feature"]
    bias: float

    def descents(self) -> tuple[float, int]:
        """The smallest margin of "not sorted" over all contexts a x y b with x > y, and the number of contexts."""
        n, smallest, contexts = self.features.shape[1], np.inf, 0
        favours = self.weight > 0
        most = self.features.reshape(-1, len(self.weight)).max(0)
        for x in range(1, n):
            before, after = self.features[:, x, :x, None], self.features[None, x, :x]
            maxima = np.where(favours, most, np.maximum(before, after))
            margin = -(maxima.astype(np.float64) @ self.weight + self.bias)
            smallest, contexts = min(smallest, float(margin.min())), contexts + margin.size
        return smallest, contexts

    def chains(self) -> tuple[float, int]:
        """A lower bound of the margin of sorted sequences, and the number of their triples."""
        n, contexts = self.features.shape[1], 0
        most, least = np.full((n, len(self.weight)), -np.inf), np.full((2, len(self.weight)), np.inf)
        for c in range(n):
            inner = self.features[: c + 1, c, c:n].reshape(-1, len(self.weight))
            first, last = self.features[n, c, c:n], self.features[: c + 1, c, n]
            least = np.minimum(least, [first.min(0), last.min(0)])
            most[c] = np.max([inner.max(0), first.max(0), last.max(0)], axis=0)
            contexts += len(inner) + len(first) + len(last)
        maxima = np.where(self.weight > 0, least.max(0), most.max(0))
        return float(maxima @ self.weight + self.bias), contexts

    def closes(self, margin: float, *, unsorted: float, ordered: float) -> bool:
        """Whether an exhaustive search, from the end of sequences to the start, finds no sequence below a margin."""
        asked = [side for side, found in ((False, unsorted), (True, ordered)) if found < margin]
        for ascending in asked:
            found = Search(self._backwards(-margin + TOLERANCE, ascending=ascending)).run()
            if not found.ended or found.advantage >= -margin + TOLERANCE:
                return False
        return True

    def _backwards(self, limit: float, *, ascending: bool) -> Question:
        """The search problem for reversed sequences with values v replaced by n - 1 - v: sorted ones stay sorted."""
        n, sign = self.features.shape[1], -1.0 if ascending else 1.0
        flip = np.append(np.arange(n)[::-1], n)
        features = self.features[np.ix_(flip, flip[:-1], flip)].transpose(2, 1, 0, 3).astype(np.float64)
        finite = np.where(np.isfinite(features), features, np.nan).reshape(-1, len(self.weight))
        future = np.broadcast_to(np.nanmax(finite, axis=0), (n, len(self.weight)))
        floor = np.nanmin(finite, axis=0)
        return Question(features, sign * self.weight, sign * self.bias, limit, ascending, future, floor)


@torch.inference_mode()
def see(trained: Trained, values: int, progress: OnProgress) -> Seen:
    """Run sequences that contain every triple through the model and store the pooling's input."""
    model, n = trained.model, values
    width = model.pooling.project.in_features if isinstance(model.pooling, Detector) else model.config.d_model
    features = np.full((n + 1, n, n + 1, width), -np.inf, dtype=np.float32)
    pieces = list(_pieces(n))
    for done, rows in enumerate(pieces):
        read = _read(trained, rows)
        edge = np.full((len(rows), 1), n)
        left, right = np.hstack([edge, rows[:, :-1]]), np.hstack([rows[:, 1:], edge])
        features[left, rows, right] = read
        progress(done + 1, len(pieces))
    weight, bias = _readout(trained)
    return Seen(features, weight, bias)


def _pieces(values: int) -> Iterator[Int[np.ndarray, "row element"]]:
    """Batches of sequences that contain every triple, and every first and last pair."""
    whole = de_bruijn(values)
    starts = range(0, max(1, len(whole) - 2), PIECE - 2)  # pieces overlap by two elements, so that no triple is cut
    pieces = [whole[start : start + PIECE] for start in starts]
    full = [piece for piece in pieces if len(piece) == PIECE]
    for at in range(0, len(full), ROWS):
        yield np.stack(full[at : at + ROWS])
    yield from (piece[None] for piece in pieces if len(piece) < PIECE)
    pairs = np.indices((values, values)).reshape(2, -1).T
    yield from np.array_split(pairs, max(1, len(pairs) // 2_048))


def de_bruijn(values: int) -> Int[np.ndarray, " element"]:
    """A sequence that contains every triple of values exactly once; its last two elements repeat the first two.

    It is the concatenation of all Lyndon words of one and of three letters in order (Fredricksen and Maiorana). With
    two values: 0 001 011 1, and then 0 0.
    """
    words: list[np.ndarray] = []
    for a in range(values):
        words.append(np.array([a]))
        rest = np.arange(a + 1, values)
        for b in range(a, values):
            words.append(np.stack([np.full_like(rest, a), np.full_like(rest, b), rest], axis=1).ravel())
    whole = np.concatenate(words)
    return np.concatenate([whole, whole[:2]])


def _read(trained: Trained, rows: Int[np.ndarray, "row element"]) -> Float[np.ndarray, "row element feature"]:
    model = trained.model
    batch = make_batch(trained.task, model, Examples(rows, trained.task.answer(rows)), trained.device)
    hidden = model.encode(model.placed(batch.inputs))
    if isinstance(model.pooling, Detector):
        hidden = model.pooling.read(hidden)
    found: np.ndarray = hidden.cpu().numpy()
    return found


def _readout(trained: Trained) -> tuple[Float[np.ndarray, " feature"], float]:
    """Weight and bias of the margin, found by applying the readout to zeros and to each unit vector."""
    model = trained.model
    layers = [model.pooling.project] if isinstance(model.pooling, Detector) else []
    layers.append(model.readout)
    probe = torch.cat([torch.zeros(1, layers[0].in_features), torch.eye(layers[0].in_features)]).double()
    for layer in layers:
        probe = probe @ layer.weight.cpu().double().T + layer.bias.cpu().double()
    margin = (probe[:, 1] - probe[:, 0]).numpy()
    return margin[1:] - margin[0], float(margin[0])
