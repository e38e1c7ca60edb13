"""The allowance for rounding of a proof about sums: the largest bound over all its contexts.

A bound takes dozens of derivatives, small matrices of float64. Compiled for a GPU, with the operations between products
of matrices joined, so that less goes through memory, it takes a third of the time.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.errors import InstrumentError
from headway.proofs.sum_contexts import Contexts
from headway.proofs.sum_rounding import Bounded
from headway.proofs.sum_tables import Writer
from headway.proofs.sum_tail import Tail

AT_ONCE = {"cpu": 1 << 7, "cuda": 1 << 15}
"""Contexts per batch."""
AGREE = 1e-9
"""Largest relative difference between the compiled bound and the plain one: float64, in another order of addition."""


def largest_bound(tail: Tail, x: Bounded, heads: Bounded, right: Int[Tensor, " row"]) -> Float[Tensor, ""]:
    """The largest bound of the difference of two logits over the rows; infinity if a row has none."""
    return tail.forward(x, heads).difference_errors(right).amax()


def largest(write: Writer, contexts: Contexts, eos: int) -> float:
    """The largest bound over contexts."""
    found = [
        largest_bound(write.tail, write.x, write.heads(few), few.right(eos))
        for few in contexts.split(AT_ONCE[write.codes.device.type])
    ]
    return float(torch.stack(found).amax())


class Compiled:
    """`largest`, compiled. The first batch of every call is computed in both ways, which must agree.

    One shape is compiled, once: a batch of fewer than `size` contexts repeats its last one.
    """

    def __init__(self, size: int = AT_ONCE["cuda"], backend: str = "inductor"):
        self.size = size
        self.compiled = torch.compile(largest_bound, fullgraph=True, dynamic=False, backend=backend)

    def __call__(self, write: Writer, contexts: Contexts, eos: int) -> float:
        found = []
        for few in contexts.split(self.size):
            heads, right = write.heads(few), few.right(eos)
            rows = torch.arange(self.size, device=right.device).clamp(max=len(right) - 1)
            found.append(self.compiled(write.tail, write.x, heads[rows], right[rows]))
        check_agreement(float(found[0]), largest(write, next(contexts.split(self.size)), eos))
        return float(torch.stack(found).amax())


def check_agreement(compiled: float, plain: float) -> None:
    """Raise unless the compiled bound is the plain one up to float64's rounding."""
    if compiled != plain and not math.isclose(compiled, plain, rel_tol=AGREE):
        raise InstrumentError(f"the compiled bound of rounding is {compiled!r}, the plain one {plain!r}: not proved")
