"""The instruments on a foreign model, checked against the model itself and against changed weights."""

import numpy as np
import torch
from torch import Tensor

from headway.attached_analysis.attached_runs import AttachedRuns, masks_together
from headway.attached_analysis.examples import ModelExamples
from headway.attached_analysis.shared_prefix import SharedPrefix
from headway.attachment.attached import Attached
from headway.attachment.finding import is_transposed
from headway.attachment.verification import distance, functional_call_batch
from headway.errors import InputError
from headway.head_analysis.independent import differing
from headway.results.checks import Checks

SAME = 1e-3
"""Tolerance relative to the size of logits: zeros in the weights are another product than zeros at the handle."""
NEAR_TIE = 1e-3
BESIDE = ((0, 1, 2, 3), (0, 4, 5, 6))
"""The first example with some others, and with other ones; batches of one size round alike."""
MIXED = "nn.Transformer and nn.MultiheadAttention read (token, batch) unless batch_first=True"


@torch.no_grad()
def check_instruments(runs: AttachedRuns, examples: int) -> Checks:
    """Every head on a few examples: the sweep with shared layers against zeros in the weights, without any hook."""
    attached, part = runs.attached, runs.examples.take(slice(0, examples)).to(runs.attached.device)
    arguments = part.arguments()
    plain = attached.run(arguments)
    passes = SharedPrefix(attached, part)
    whole = passes.whole()
    names, swept = [str(head) for head in attached.heads], dict[str, Tensor]()

    def note(alike: np.ndarray, logits: Tensor) -> None:
        swept.update({names[row]: logits for row in alike})

    zero = {site.name: torch.zeros((), device=attached.device) for site in attached.sites}
    passes.run(np.eye(len(names), dtype=np.int64), [zero], note, masks_together(part, whole))
    expected = {name: weights_zeroed(attached, arguments, place) for place, name in enumerate(names)}
    answers = [(swept[name].argmax(-1), expected[name].argmax(-1), expected[name]) for name in names]
    apart = [(found != right) for found, right, _ in answers]
    real = [one & _clear(logits) for one, (_, _, logits) in zip(apart, answers, strict=True)]
    return Checks(
        identity=float((plain - whole).abs().max()),
        decoded=sum(one.numel() for one in apart),
        disagreements=sum(int(one.sum()) for one in apart),
        real_disagreements=sum(int(one.sum()) for one in real),
        weights_off_one=_off_one(attached, arguments),
        misplaced=tuple(f"sweep {name}" for name in differing(swept, expected, SAME)),
    )


@torch.no_grad()
def by_other_examples(attached: Attached, examples: ModelExamples) -> float:
    """How far the logits of the first example change with the examples beside it, in shares of the largest logit."""
    first, second = (attached.run(examples.take(np.array(rows)).to(attached.device).arguments())[0] for rows in BESIDE)
    scale = float(first.nan_to_num(0, 0, 0).abs().max()) or 1.0
    return distance(first, second) / scale


def check_examples_apart(attached: Attached, examples: ModelExamples) -> None:
    """Raise where the model mixes the examples of a batch."""
    by = by_other_examples(attached, examples)
    if by > SAME:
        raise InputError(
            f"other examples in the batch change the logits of the first by {by:.2g} of their size; {MIXED}"
        )


def _clear(logits: Tensor) -> Tensor:
    best = logits.topk(2, -1).values
    return best[..., 0] - best[..., 1] > NEAR_TIE


def _off_one(attached: Attached, arguments: object) -> float:
    """How far the weights of real queries are from adding up to 1."""
    real = attached.query_mask(arguments)
    found = 0.0
    for name, weights in attached.attention(arguments).items():
        sums = weights.sum(-1).transpose(1, 2)[real[name]]
        found = max(found, float((sums - 1)[sums > 0].abs().max())) if sums.numel() else found
    return found


def weights_zeroed(attached: Attached, arguments: object, place: int) -> Tensor:
    """The logits of the model whose output projection has zeros in the place of one head; no hook is used."""
    for site in attached.sites:
        if place < site.n_heads:
            break
        place -= site.n_heads
    projection = attached.module.get_submodule(site.path)
    columns = slice(place * site.d_head, (place + 1) * site.d_head)
    weight: Tensor = projection.weight.detach().clone()  # type: ignore[operator]
    weight[columns if is_transposed(projection) else (slice(None), columns)] = 0
    with attached.plain_pass():
        return attached.read(functional_call_batch(attached.module, {f"{site.path}.weight": weight}, arguments))
