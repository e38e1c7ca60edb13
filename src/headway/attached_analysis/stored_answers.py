"""Answers of a foreign model without each head, for pages that cannot run it."""

import torch
from torch import Tensor

from headway.attached_analysis.examples import ModelExamples
from headway.attached_analysis.token_scores import Names, shown
from headway.attachment.attached import Attached, Edit
from headway.results.analysed_model import StoredExample


@torch.no_grad()
def stored_examples(attached: Attached, examples: ModelExamples, maps: int, names: Names) -> tuple[StoredExample, ...]:
    """The examples whose attention is captured, answered by the whole model and with each head's output zero."""
    return tuple(_stored(attached, one, names) for one, _, _ in shown(attached, examples, maps, names))


def _stored(attached: Attached, one: ModelExamples, names: Names) -> StoredExample:
    without = {}
    for site in attached.sites:
        for place, head in enumerate(site.heads):
            with attached.intervene({site.name: _zero(place)}):
                without[str(head)] = _answer(attached, one, names)
    return StoredExample(answer=_answer(attached, one, names), without=without)


def _zero(place: int) -> Edit:
    def edit(heads: Tensor) -> Tensor:
        changed = heads.clone()
        changed[..., place, :] = 0
        return changed

    return edit


def _answer(attached: Attached, one: ModelExamples, names: Names) -> tuple[str, ...]:
    """The class, or the most likely token at every real position."""
    best = attached.logits(one.arguments())[0].argmax(-1)
    if best.ndim == 0:
        return (str(int(best)),)
    real = one.real()[0]
    return tuple(names([int(token) for token in (best[real] if len(real) == len(best) else best)]))
