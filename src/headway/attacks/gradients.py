"""Which single tokens to change so that the margin falls most, by its gradient with respect to the token embeddings.

The change is estimated to first order, for all places and tokens at once, with the right answer held fixed (HotFlip,
Ebrahimi et al. 2018). A change of the input may change the right answer too, so these are suggestions to be tried.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.batches import make_batch
from headway.evaluation import Trained
from headway.head_analysis.variants import answer_margin
from headway.tasks import Examples

Rows = Int[np.ndarray, "batch width"]
TOP = 64
"""Changes of each input that are suggested."""


def steepest(
    trained: Trained, rows: Rows, tokens: Int[np.ndarray, " token"]
) -> tuple[Int[np.ndarray, "batch top"], Int[np.ndarray, "batch top"]] | None:
    """Places and tokens that lower the margin most, by their first-order estimate; None without a gradient."""
    task, model = trained.task, trained.model
    batch = make_batch(task, model, Examples(rows, task.answer(rows)), trained.device)
    embedded: list[Tensor] = []

    def keep(module: nn.Module, given: object, out: Tensor) -> Tensor | None:
        if embedded:  # the source comes first, in a decoder-only model together with the prefix
            return None
        embedded.append(out.detach().requires_grad_(True))
        return embedded[0]

    hook = model.embedding.register_forward_hook(keep)
    try:
        with torch.enable_grad():
            pad = task.vocabulary.pad if task.kind == "sequence" else -1
            lead = answer_margin(model(batch.inputs), batch.target.reshape(len(rows), -1), pad)
            if not embedded or not lead.requires_grad:
                return None
            (slope,) = torch.autograd.grad(lead.sum(), embedded)
    finally:
        hook.remove()
    width = batch.inputs.source.shape[1]
    change = _changes(model.embedding, slope[:, :width], embedded[0].detach()[:, :width], tokens)
    change = change.masked_fill((batch.inputs.source == task.vocabulary.pad)[..., None], torch.inf).flatten(1)
    found = change.topk(min(TOP, change.shape[1]), largest=False)
    best = torch.where(found.values.isfinite(), found.indices, found.indices[:, :1]).cpu().numpy()  # never padding
    return best // len(tokens), tokens[best % len(tokens)]


def _changes(
    embedding: nn.Embedding,
    slope: Float[Tensor, "batch place d_model"],
    own: Float[Tensor, "batch place d_model"],
    tokens: Int[np.ndarray, " token"],
) -> Float[Tensor, "batch place token"]:
    """By how much the margin would change with each token in each place, to first order."""
    other = embedding.weight.detach()[torch.from_numpy(tokens).to(slope.device)]
    return (slope @ other.T - (slope * own).sum(-1, keepdim=True)).nan_to_num(nan=torch.inf)
