"""Independent check of a proof about sums: the model itself, in fp32, in one sum for every context.

It uses neither the tables of the proof nor its list of contexts. The model's token at the column of interest is
compared with the right one. Up to `MOST_RUN` contexts are run as whole sums; more, on a GPU, as cut-outs of sums.
"""

import time
from collections.abc import Callable, Iterator, Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from headway.batches import make_batch
from headway.callbacks import OnProgress
from headway.evaluation import Trained
from headway.proofs.claims import other_count, unfounded
from headway.proofs.sum_contexts import Reach
from headway.proofs.sum_covering import Sums, covering
from headway.proofs.sum_cutouts import CutOuts, lead
from headway.results.proof import Check, Proof
from headway.tasks.addition_text import AdditionText

AT_ONCE = 1 << 11
"""Sums per batch."""
MOST_RUN = 20_000_000
"""Largest number of contexts that are run as whole sums."""
MOST = {"cpu": MOST_RUN, "cuda": 20_000_000_000}
"""Largest number of contexts that the check covers: more would take hours."""
CLOSE, SHARE = 1e-2, 0.1
"""Largest accepted excess of a certificate's smallest margin over the measured one, which has fp32 precision: in
logits, and as a share of the allowance for rounding."""
METHOD = "{contexts}, run through the model itself in fp32; the bound of rounding computed again"
Margins = Callable[[Sums], Float[Tensor, " context"]]


def method(contexts: int) -> str:
    """How this many contexts are checked, in words."""
    whole = "one sum for every context" if contexts <= MOST_RUN else "a cut-out of a sum for every context"
    return METHOD.format(contexts=whole)


def check(trained: Trained, proof: Proof, reach: Reach, progress: OnProgress) -> Check:
    """Verify that the model is right in every context and that the certificate does not claim more."""
    began, smallest = time.perf_counter(), torch.tensor(torch.inf, device=trained.device)
    margins: Margins = CutOuts(trained, reach).margins if proof.contexts > MOST_RUN else lambda sums: run(trained, sums)
    found: dict[str, int] = {}
    for sums in covering(reach, trained.device):
        margin = margins(sums)
        found[sums.kind] = found.get(sums.kind, 0) + len(margin)
        if len(margin):
            smallest = torch.minimum(smallest, margin.amin())  # NaN if one of both is
        progress(done := sum(found.values()), max(done, proof.contexts))
    reasons = tuple(_objections(proof, found, float(smallest)))
    return Check(
        certificate="",
        holds=not reasons,
        reasons=reasons,
        contexts=sum(found.values()),
        margin=float(smallest),
        method=method(proof.contexts),
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


@torch.inference_mode()
def run(trained: Trained, sums: Sums) -> Float[Tensor, " context"]:
    """The model's margins at the checked column, for the sums that have a token there."""
    assert isinstance(trained.task, AdditionText)
    found = [torch.zeros(0, device=trained.device)]
    for few in sums.split(AT_ONCE):
        examples = few.examples(trained.task)
        if examples.target.shape[1] < sums.column:
            continue
        asked = examples.target[:, sums.column - 1] != trained.task.vocabulary.pad
        examples = examples.take(asked.nonzero()[0])
        if not len(examples):
            continue
        batch = make_batch(trained.task, trained.model, examples, trained.device)
        logits = trained.model(batch.inputs)[:, sums.column - 1].float()
        found.append(lead(logits, batch.target[:, sums.column - 1]))
    return torch.cat(found)
