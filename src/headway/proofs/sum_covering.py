"""One sum for every local context of a column, for the check of a proof about sums.

Nothing here uses the proof's own list of contexts. All combinations of columns are generated, read as two numbers, and
kept if both numbers are valid for the task. The induction needs only that every context occurs in some sum.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import pad

from headway.proofs.sum_contexts import Reach
from headway.tasks import Examples
from headway.tasks.addition_text import AdditionText

AT_ONCE = 3
"""Columns whose combinations are generated in one batch: 66 states each."""
Digits = Int[Tensor, "sum column"]
Filler = tuple[tuple[int, int], ...]
"""Columns below those that vary."""


@dataclass(frozen=True)
class Sums:
    """Sums as columns, units first, -1 past the end of a number; `column` is the column whose token is checked."""

    first: Digits
    second: Digits
    column: int
    kind: str = ""

    def valid(self) -> Bool[Tensor, " sum"]:
        """Whether both rows are numbers: digits without a gap, and no leading 0 unless the number is 0."""
        return _is_number(self.first) & _is_number(self.second)

    def take(self, rows: Tensor) -> "Sums":
        return Sums(self.first[rows], self.second[rows], self.column, self.kind)

    def split(self, size: int) -> Iterator["Sums"]:
        """The same sums in batches of at most `size`."""
        for first, second in zip(self.first.split(size), self.second.split(size), strict=True):
            yield Sums(first, second, self.column, self.kind)

    def examples(self, task: AdditionText) -> Examples:
        first, second = self.first.cpu().numpy(), self.second.cpu().numpy()
        lengths = [(number >= 0).sum(1) for number in (first, second)]
        return task.encode(np.maximum(first, 0), np.maximum(second, 0), *lengths)


def _is_number(digits: Digits) -> Bool[Tensor, " sum"]:
    present = digits >= 0
    length = present.sum(1)
    whole = (present[:, 1:] <= present[:, :-1]).all(1) & (length > 0)
    top = digits.gather(1, (length - 1).clamp(min=0)[:, None])[:, 0]
    return whole & ((top > 0) | (length == 1))


def covering(reach: Reach, device: torch.device) -> Iterator[Sums]:
    """One sum for each context, with the context at the column that is checked.

    The contexts of the last column stand for those of all higher ones. If it sees the units, they are joined by those
    that the column above it has and it has not.
    """
    for column in range(1, reach.general + 1):
        last = column == reach.general
        kind = f"column {column}{' and above' if last else ''}"
        lowest = max(1, column - reach.below)
        width = column + reach.above - lowest + 1
        for filler in _fillers(lowest - 1):
            yield from _in_every_way(kind, column, width, filler, device)
        if last and lowest == 1:
            plain, carrying = _fillers(1)
            yield from _in_every_way(kind, column + 1, width, plain, device, beyond_units=True)
            yield from _in_every_way(kind, column + 1, width, carrying, device)


def _fillers(columns: int) -> list[Filler]:
    """This many columns with and without a carry out of them: lower columns matter through their carry alone."""
    if not columns:
        return [()]
    return [((1, 1),) * columns, ((1, 1),) * (columns - 1) + ((6, 5),)]


def _in_every_way(
    kind: str, column: int, width: int, filler: Filler, device: torch.device, *, beyond_units: bool = False
) -> Iterator[Sums]:
    """All rows of `width` columns above the filler, with one column more where a number would have a leading 0.

    `beyond_units`: only rows that are no numbers without the filler.
    """
    digits = [*product(range(10), range(10)), *((digit, -1) for digit in range(10)), (-1, -1)]
    # Attention does not see which number a digit belongs to.
    states = torch.tensor([state for state in digits if state[0] >= state[1]], device=device)
    each = torch.arange(len(states), device=device)
    below = torch.tensor(filler, dtype=torch.int64, device=device).view(1, -1, 2)
    varied = min(width, AT_ONCE)
    upper = torch.cartesian_prod(*[each] * varied).view(-1, varied)
    for lower in product(range(len(states)), repeat=width - varied):
        fixed = torch.tensor(lower, dtype=torch.int64, device=device).expand(len(upper), -1)
        rows = states[torch.cat([fixed, upper], dim=1)]
        sums = _numbers(torch.cat([below.expand(len(rows), -1, -1), rows], dim=1), column, kind)
        valid = sums.valid()
        if beyond_units:
            valid &= ~_numbers(rows, column, kind).valid()
        kept = sums.take(valid.nonzero()[:, 0])
        if len(kept.first):
            yield kept


def _numbers(columns: Int[Tensor, "sum column two"], column: int, kind: str) -> Sums:
    """Two numbers with these columns. The number that ends first gets the larger digit there, so no leading 0."""
    alone = pad(columns[:, 1:, 1] < 0, (0, 1))
    ends = alone & (columns[:, :, 1] >= 0)
    first = torch.where(ends, columns[:, :, 1], columns[:, :, 0])
    second = torch.where(ends, columns[:, :, 0], columns[:, :, 1])
    last = columns[:, -1]
    open_end = (last == 0).any(1, keepdim=True)  # both continue to a 1 above the visible columns
    on = torch.where(open_end & (last >= 0), 1, -1)
    return Sums(torch.cat([first, on[:, :1]], dim=1), torch.cat([second, on[:, 1:]], dim=1), column, kind)
