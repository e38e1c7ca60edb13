"""Independent check of a proof about sums: one real sum for every context, run through the model itself in fp32.

It uses neither the tables of the proof nor its list of contexts. All combinations of columns are generated, read as two
numbers, and kept if both numbers are valid for the task. The model's token at the column of interest is compared with
the right one. The induction needs only that every context occurs in some sum.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from jaxtyping import Bool, Int

from headway.batches import make_batch
from headway.callbacks import OnProgress
from headway.evaluation import Trained
from headway.proofs.claims import other_count, unfounded
from headway.proofs.sum_contexts import Reach
from headway.results.proof import Check, Proof
from headway.tasks import Examples
from headway.tasks.addition_text import AdditionText

AT_ONCE = 1 << 11
"""Sums per batch."""
MOST = 20_000_000
"""Largest number of contexts that the check covers."""
CLOSE, SHARE = 1e-2, 0.1
"""Largest accepted excess of a certificate's smallest margin over the measured one, which has fp32 precision: in
logits, and as a share of the allowance for rounding."""
METHOD = "one sum for every context, run through the model itself in fp32; the bound of rounding computed again"

Digits = Int[np.ndarray, "sum column"]


@dataclass(frozen=True)
class Sums:
    """Sums as columns, units first, -1 past the end of a number; `column` is the column whose token is checked."""

    first: Digits
    second: Digits
    column: int

    def valid(self) -> Bool[np.ndarray, " sum"]:
        """Whether both rows are numbers: digits without a gap, and no leading 0 unless the number is 0."""
        return _is_number(self.first) & _is_number(self.second)

    def take(self, rows: np.ndarray) -> "Sums":
        return Sums(self.first[rows], self.second[rows], self.column)

    def examples(self, task: AdditionText) -> Examples:
        lengths = [(number >= 0).sum(1) for number in (self.first, self.second)]
        return task.encode(np.maximum(self.first, 0), np.maximum(self.second, 0), *lengths)


def _is_number(digits: Digits) -> Bool[np.ndarray, " sum"]:
    present = digits >= 0
    length = present.sum(1)
    whole = (present[:, 1:] <= present[:, :-1]).all(1) & (length > 0)
    top = np.take_along_axis(digits, np.maximum(length - 1, 0)[:, None], axis=1)[:, 0]
    return whole & ((top > 0) | (length == 1))


def check(trained: Trained, proof: Proof, reach: Reach, progress: OnProgress) -> Check:
    """Verify that the model is right in every context and that the certificate does not claim more."""
    began, smallest = time.perf_counter(), float("inf")
    found: dict[str, int] = {}
    for sums in covering(reach):
        margin = _margins(trained, sums)
        kind = f"column {sums.column}{' and above' if sums.column == reach.general else ''}"
        found[kind] = found.get(kind, 0) + len(margin)
        smallest = min(smallest, float(margin.min(initial=np.inf)))
        progress(done := sum(found.values()), max(done, proof.contexts))
    reasons = tuple(_objections(proof, found, smallest))
    return Check(
        certificate="",
        holds=not reasons,
        reasons=reasons,
        contexts=sum(found.values()),
        margin=smallest,
        method=METHOD,
        seconds=time.perf_counter() - began,
    )


def _objections(proof: Proof, found: Mapping[str, int], smallest: float) -> Iterator[str]:
    """The reasons why a certificate claims more than the check found."""
    yield from other_count(proof, found)
    yield from unfounded(proof)
    if not smallest > 0:
        yield f"the model is wrong in a context (margin {smallest:.4g})"
    if proof.margin is None or proof.rounding is None:
        return
    allowance = proof.rounding.allowance
    if not proof.margin <= smallest + min(CLOSE, SHARE * allowance):
        yield f"it claims a smallest margin of {proof.margin}; the model's is {smallest:.6g}"
    elif not allowance < smallest:
        yield f"the smallest margin of {smallest:.6g} is not above its rounding allowance of {allowance:.6g}"
    elif not allowance >= abs(smallest - proof.margin):
        yield "its rounding allowance is smaller than the difference of the two margins"


def covering(reach: Reach) -> Iterator[Sums]:
    """One sum for each context, with the context at the column that is checked."""
    for column in range(1, reach.general + 1):
        lowest = max(1, column - reach.below)
        fillers: list[tuple[tuple[int, int], ...]] = [()]
        if lowest > 1:  # lower columns matter through their carry alone
            fillers = [((1, 1),) * (lowest - 1), ((1, 1),) * (lowest - 2) + ((6, 5),)]
        for filler in fillers:
            yield from _in_every_way(column, column + reach.above - lowest + 1, filler)


def _in_every_way(column: int, width: int, filler: tuple[tuple[int, int], ...]) -> Iterator[Sums]:
    """All rows of `width` columns above the filler, with one column more where a number would have a leading 0."""
    states = np.array([*product(range(10), range(10)), *((digit, -1) for digit in range(10)), (-1, -1)])
    states = states[states[:, 0] >= states[:, 1]]  # attention does not see which number a digit belongs to
    for low in range(len(states)):
        rows = np.array(list(product([low], *[range(len(states))] * (width - 1))))
        columns = np.concatenate(
            [np.tile(np.array(filler, dtype=np.int64).reshape(-1, 2), (len(rows), 1, 1)), states[rows]], axis=1
        )
        sums = _numbers(columns, column)
        kept = sums.take(np.flatnonzero(sums.valid()))
        if len(kept.first):
            yield kept


def _numbers(columns: Int[np.ndarray, "sum column two"], column: int) -> Sums:
    """Two numbers with these columns. The number that ends first gets the larger digit there, so no leading 0."""
    alone = np.pad(columns[:, 1:, 1] < 0, ((0, 0), (0, 1)))
    ends = alone & (columns[:, :, 1] >= 0)
    first = np.where(ends, columns[:, :, 1], columns[:, :, 0])
    second = np.where(ends, columns[:, :, 0], columns[:, :, 1])
    last = columns[:, -1]
    open_end = (last == 0).any(1)  # both continue to a 1 above the visible columns
    on = np.where(open_end[:, None], np.where(last >= 0, 1, -1), -1)
    return Sums(np.column_stack([first, on[:, 0]]), np.column_stack([second, on[:, 1]]), column)


@torch.inference_mode()
def _margins(trained: Trained, sums: Sums) -> np.ndarray:
    """The model's margins at the checked column, for the sums that have a token there."""
    assert isinstance(trained.task, AdditionText)
    found = []
    for start in range(0, len(sums.first), AT_ONCE):
        rows = np.arange(start, min(start + AT_ONCE, len(sums.first)))
        examples = sums.take(rows).examples(trained.task)
        if examples.target.shape[1] < sums.column:
            continue
        asked = examples.target[:, sums.column - 1] != trained.task.vocabulary.pad
        examples = examples.take(np.flatnonzero(asked))
        if not len(examples):
            continue
        batch = make_batch(trained.task, trained.model, examples, trained.device)
        logits = trained.model(batch.inputs)[:, sums.column - 1].float()
        right = batch.target[:, sums.column - 1, None]
        others = logits.scatter(1, right, -torch.inf).amax(1)
        found.append((logits.gather(1, right)[:, 0] - others).cpu().numpy())
    return np.concatenate(found) if found else np.zeros(0)
