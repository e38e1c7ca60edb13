"""Checks of the instruments: a reading counts only if the instrument does nothing when it is asked to do nothing."""

import torch

from headway.doctor.examination import Examination, apart
from headway.doctor.findings import Check, Verdict, error, fine
from headway.doctor.harness import NOISY, OTHER_SHAPES, SAME_NUMBERS

OFF_ONE = 1e-4
"""How far weights in fp32 may be from adding up to 1, over thousands of keys."""


def hook_silent(seen: Examination) -> Verdict | None:
    """The hook at every site is called in a pass."""
    if seen.subject.fired is None:
        return None
    calls = dict(seen.subject.fired(seen.few))
    silent = [site for site, count in calls.items() if not count]
    if not silent:
        return fine(f"The hooks at all {len(calls)} sites were called.", calls=calls)
    return error(
        f"The hook at {', '.join(silent[:4])} ({len(silent)} of {len(calls)} sites) was never called: an ablation "
        "there changes nothing, and its drop of 0 is no finding.",
        "Attach the hook to the module that the forward pass calls; a fused path may go around it.",
        silent=silent,
        calls=calls,
    )


def weights_off_one(seen: Examination) -> Verdict | None:
    """The attention weights of every query are shares: none below 0, and they add up to 1."""
    if seen.subject.attention is None:
        return None
    worst, where, lowest = 0.0, "", 0.0
    for head, weights in seen.subject.attention(seen.few).items():
        sums = weights.sum(-1)
        lowest = min(lowest, float(weights.min())) if weights.numel() else lowest
        off = float((sums - 1)[sums != 0].abs().max()) if (sums != 0).any() else 0.0
        if off > worst:
            worst, where = off, head
    numbers = {"off": worst, "head": where, "lowest": lowest, "n": len(seen.few)}
    if worst <= OFF_ONE and lowest >= 0:
        return fine(
            f"The weights of every query add up to 1, within {worst:.1g} ({len(seen.few)} examples).", **numbers
        )
    return error(
        f"The attention weights of some query of {where or 'a head'} add up to 1 only within {worst:.2g}, the lowest "
        f"weight is {lowest:.2g}.",
        "Read the weights after the softmax over the keys, before dropout; entropy and scores need shares.",
        **numbers,
    )


def walk_differs(seen: Examination) -> Verdict | None:
    """With every head kept, the instruments' pass is the model's own."""
    if seen.subject.walked is None or seen.subject.forward is None:
        return None
    moved = apart(seen.subject.forward(seen.few), seen.subject.walked(seen.few))
    if moved <= SAME_NUMBERS:
        return fine(f"With all heads kept, logits are the model's own ({len(seen.few)} examples).", moved=moved)
    return error(
        f"With all heads kept, logits differ from the model's by {moved:.2g} of their size ({len(seen.few)} examples).",
        "Mend the instrument first: every drop that it measures holds this difference too.",
        moved=moved,
        n=len(seen.few),
    )


def pruned_differs(seen: Examination) -> Verdict | None:
    """A model without some heads gives the logits of the whole model with those heads at zero."""
    if seen.subject.masked is None or seen.subject.pruned is None:
        return None
    masked, pruned = seen.subject.masked(seen.few), seen.subject.pruned(seen.few)
    moved = apart(masked, pruned)
    if moved <= OTHER_SHAPES and bool(torch.isfinite(pruned).all()):
        return fine(
            f"One head of each site cut out or set to zero: the same logits ({len(seen.few)} examples).", moved=moved
        )
    return error(
        f"One head of each site cut out or set to zero: logits differ by {moved:.2g} of their size.",
        "Cut the rows of query, key and value and the columns of the output that belong to the same head.",
        moved=moved,
        n=len(seen.few),
    )


INSTRUMENTS = (
    Check("hook-silent", "instruments", hook_silent),
    Check("weights-off-one", "instruments", weights_off_one, ("not-finite",)),
    Check("walk-differs", "instruments", walk_differs, (*NOISY, "padding-changes-output", "sees-the-future")),
    Check("pruned-differs", "instruments", pruned_differs, NOISY),
)
