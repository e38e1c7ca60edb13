"""Single-token changes that lower the margin most, by its gradient with respect to the token embeddings.

The change of the margin is estimated to first order, for all positions and tokens at once, with the right answer held
fixed (HotFlip, Ebrahimi et al. 2018). A change of the input can change the right answer, so every suggestion must be
tested.
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
"""Suggested changes for each input."""


def steepest(
    trained: Trained, rows: Rows, tokens: Int[np.ndarray, " token"]
) -> tuple[Int[np.ndarray, "batch top"], Int[np.ndarray, "batch top"]] | None:
    """Positions and tokens that lower the margin most by the first-order estimate; None if there is no gradient."""
    task, model = trained.task, trained.model
    if getattr(model, "embedding", None) is None:  # a model of another program may embed by its own code
        return None
    batch = make_batch(task, model, Examples(rows, task.answer(rows)), trained.device)
    embedded: list[Tensor] = []

    def keep(module: nn.Module, given: object, out: Tensor) -> Tensor | None:
        if embedded:  # the first call embeds the source; in a decoder-only model also the prefix
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
    own = tokens + getattr(model, "lowest", 0)  # the elements of another program may not begin at 0
    change = _changes(model.embedding, slope[:, :width], embedded[0].detach()[:, :width], own)
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
    """First-order estimate of the margin's change for each token at each position."""
    other = embedding.weight.detach()[torch.from_numpy(tokens).to(slope.device)]
    return (slope @ other.T - (slope * own).sum(-1, keepdim=True)).nan_to_num(nan=torch.inf)
