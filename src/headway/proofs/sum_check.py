"""A second look at a proof of sums: every context as a real sum, run through the model itself in fp32.

Nothing here uses the tables of the proof, nor its list of contexts. Columns are written down in every way, read as two
numbers, and kept where both are numbers as the task writes them; what the model says at the asked column is compared
with the right answer. That each context is met by some sum is all that the induction needs.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from jaxtyping import Bool, Int

from headway.batches import make_batch
from headway.callbacks import OnProgress
from headway.evaluation import Trained
from headway.proofs.sum_contexts import Reach
from headway.results.proof import Check, Proof
from headway.tasks import Examples
from headway.tasks.addition_text import AdditionText

AT_ONCE = 1 << 11
"""Sums that are run at once."""
MOST = 20_000_000
"""Contexts that are looked at one by one."""
CLOSE = 1e-2
"""How much larger than the smallest margin of the model itself a certificate's may be: fp32 is coarser."""
METHOD = "one real sum for every context, run through the model itself in fp32"

Digits = Int[np.ndarray, "sum column"]


@dataclass(frozen=True)
class Sums:
    """Sums by columns, units first, -1 where a number has ended; `column` is the one whose token is asked."""

    first: Digits
    second: Digits
    column: int

    def valid(self) -> Bool[np.ndarray, " sum"]:
        """Whether both rows are numbers: digits without a gap, and no 0 at the top of two digits or more."""
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
    """Whether the model is right in every context, and the certificate claims no more than that."""
    began, found, smallest = time.perf_counter(), 0, float("inf")
    for sums in covering(reach):
        margin = _margins(trained, sums)
        found += len(margin)
        smallest = min(smallest, float(margin.min(initial=np.inf)))
        progress(found, max(found, proof.contexts))
    reasons = tuple(_objections(proof, found, smallest))
    return Check(
        certificate="",
        holds=not reasons,
        reasons=reasons,
        contexts=found,
        smallest_margin=smallest,
        method=METHOD,
        seconds=time.perf_counter() - began,
    )


def _objections(proof: Proof, found: int, smallest: float) -> Iterator[str]:
    """Why a certificate claims more than was found."""
    if proof.contexts != found:
        yield f"it names {proof.contexts:,} contexts, and there are {found:,}"
    if smallest <= 0:
        yield f"the model is wrong in a context (margin {smallest:.4g})"
    if proof.smallest_margin is None or proof.smallest_margin > smallest + CLOSE:
        yield f"it claims a smallest margin of {proof.smallest_margin}, and the model has {smallest:.6g}"
    elif proof.rounding is None or not proof.rounding.allowance < proof.smallest_margin:
        yield "its margin is not above what it allows for rounding"
    elif proof.rounding.allowance < abs(smallest - proof.smallest_margin):
        yield "it allows less for rounding than the two margins differ"


def covering(reach: Reach) -> Iterator[Sums]:
    """Sums in which every context occurs at the asked column, one for each."""
    for column in range(1, reach.general + 1):
        lowest = max(1, column - reach.below)
        fillers: list[tuple[tuple[int, int], ...]] = [()]
        if lowest > 1:  # what lies below is seen by its carry alone
            fillers = [((1, 1),) * (lowest - 1), ((1, 1),) * (lowest - 2) + ((6, 5),)]
        for filler in fillers:
            yield from _in_every_way(column, column + reach.above - lowest + 1, filler)


def _in_every_way(column: int, width: int, filler: tuple[tuple[int, int], ...]) -> Iterator[Sums]:
    """Every row of so many columns above the filler, and a column above them where a number would end in 0."""
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
    """Two numbers of the columns: where the second one ends it takes the larger digit, which is 0 only if both are."""
    alone = np.pad(columns[:, 1:, 1] < 0, ((0, 0), (0, 1)))
    ends = alone & (columns[:, :, 1] >= 0)
    first = np.where(ends, columns[:, :, 1], columns[:, :, 0])
    second = np.where(ends, columns[:, :, 0], columns[:, :, 1])
    last = columns[:, -1]
    open_end = (last == 0).any(1)  # then both go on, and end in a 1 above the columns in view
    on = np.where(open_end[:, None], np.where(last >= 0, 1, -1), -1)
    return Sums(np.column_stack([first, on[:, 0]]), np.column_stack([second, on[:, 1]]), column)


@torch.inference_mode()
def _margins(trained: Trained, sums: Sums) -> np.ndarray:
    """The model's margins at the asked column, of the sums that have a token there."""
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
