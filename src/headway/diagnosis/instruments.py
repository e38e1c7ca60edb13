"""Checks of the instruments, head by head, against an independent computation (`head_analysis/independent.py`)."""

from collections.abc import Mapping

from torch import Tensor

from headway.diagnosis.examination import Examination, apart
from headway.diagnosis.findings import Check, Verdict, error, fine
from headway.diagnosis.harness import NOISY, OTHER_SHAPES, SAME_NUMBERS
from headway.diagnosis.subject import ByHead
from headway.head_analysis.independent import differing, mixed
from headway.results.checks import OFF_ONE


def hook_silent(seen: Examination) -> Verdict | None:
    """The hook at every site is called in a forward pass."""
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
    """The attention weights of every query are non-negative and sum to 1."""
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
        return fine(f"The weights of every query sum to 1, within {worst:.1g} ({len(seen.few)} examples).", **numbers)
    return error(
        f"The attention weights of some query of {where or 'a head'} sum to 1 only within {worst:.2g}, the lowest "
        f"weight is {lowest:.2g}.",
        "Read the weights after the softmax over the keys, before dropout; entropy and scores need shares.",
        **numbers,
    )


def partial_forward_differs(seen: Examination) -> Verdict | None:
    """With every head kept, the partial forward pass equals the model's forward pass."""
    if seen.subject.partial_forward is None or seen.subject.forward is None:
        return None
    moved = apart(seen.subject.forward(seen.few), seen.subject.partial_forward(seen.few))
    if moved <= SAME_NUMBERS:
        return fine(f"With all heads kept, logits are the model's own ({len(seen.few)} examples).", moved=moved)
    return error(
        f"With all heads kept, logits differ from the model's by {moved:.2g} of their size ({len(seen.few)} examples).",
        "Fix the instrument first: every drop that it measures includes this difference.",
        moved=moved,
        n=len(seen.few),
    )


def hook_misplaced(seen: Examination) -> Verdict | None:
    """A hook at a head ablates that head."""
    return _against_route(seen, seen.subject.hooked, "the hook", "Attach the hook to the module of the requested site.")


def sweep_misplaced(seen: Examination) -> Verdict | None:
    """The sweep ablates the head for which it reports a drop."""
    return _against_route(
        seen, seen.subject.masked, "the sweep", "Count each site's heads in the order of the head masks."
    )


def pruned_differs(seen: Examination) -> Verdict | None:
    """A model pruned of a head gives the logits of the full model with that head ablated."""
    fix = "Remove the query, key and value rows and the output columns of the same head."
    return _against_route(seen, seen.subject.pruned, "cutting it out", fix)


def _against_route(seen: Examination, reading: ByHead | None, by: str, fix: str) -> Verdict | None:
    """Compare the logits without each head with those of the independent computation."""
    if reading is None or seen.subject.silenced is None:
        return None
    found, expected = reading(seen.one_by_one), seen.one_by_one_silenced
    apart = differing(found, expected, OTHER_SHAPES)
    n = len(seen.one_by_one)
    if not apart:
        return fine(
            f"Each of {len(expected)} heads ablated by {by}, one at a time: the logits are those with its columns "
            f"of the output projection at zero ({n} examples).",
            heads=len(expected),
            n=n,
        )
    head = max(apart, key=lambda name: apart[name])
    other = _taken_for(found[head], expected, head) if head in found else None
    meant = f"; it ablates {other} instead" * (other is not None)
    return error(
        f"{head} ablated by {by}: logits differ by {apart[head]:.2g} of their size from those with its columns of the "
        f"output projection at zero{meant} ({len(apart)} of {len(expected)} heads, {n} examples).",
        f"{fix} The reported drops belong to other heads.",
        heads=sorted(apart),
        head=head,
        taken_for=other,
        moved=apart[head],
        n=n,
    )


def _taken_for(found: Tensor, expected: Mapping[str, Tensor], head: str) -> str | None:
    """Another head whose ablation gives these logits."""
    others = (name for name in expected if name != head)
    return next((name for name in others if not differing({"": found}, {"": expected[name]}, OTHER_SHAPES)), None)


def map_misplaced(seen: Examination) -> Verdict | None:
    """The attention map of a head, applied to that head's values, gives the head's output."""
    if seen.subject.attention is None or seen.subject.mixing is None:
        return None
    parts, tables = seen.subject.mixing(seen.one_by_one), seen.subject.attention(seen.one_by_one)
    brought = {head: output for head, (_, output) in parts.items()}
    apart = differing(mixed(tables, parts), brought, OTHER_SHAPES)
    if not apart:
        return fine(f"The maps of all {len(brought)} heads give the head's output.", heads=len(brought))
    head = max(apart, key=lambda name: apart[name])
    return error(
        f"The attention map of {head}, applied to its own values, misses its output by {apart[head]:.2g} of its "
        f"size ({len(apart)} of {len(brought)} heads).",
        "Record the weights under the name of the site and the head that they come from.",
        heads=sorted(apart),
        head=head,
        moved=apart[head],
        n=len(seen.one_by_one),
    )


def checks_failed(seen: Examination) -> Verdict | None:
    """The instruments' self-checks in heads.json passed."""
    document = seen.subject.heads
    if document is None:
        return None
    failed = document.doubts()
    if not failed:
        return fine("All self-checks of the instruments in heads.json passed.", failed=[])
    return error(
        f"heads.json was written although self-checks of the instruments failed: {'; '.join(failed)}.",
        "Do not use its drops, scores or verdicts; fix the instrument and run headway heads again.",
        failed=failed,
    )


INSTRUMENTS = (
    Check("hook-silent", "instruments", hook_silent),
    Check("weights-off-one", "instruments", weights_off_one, ("not-finite",)),
    Check(
        "partial-forward-differs",
        "instruments",
        partial_forward_differs,
        (*NOISY, "padding-changes-output", "sees-the-future"),
    ),
    Check("hook-misplaced", "instruments", hook_misplaced, (*NOISY, "hook-silent")),
    Check("sweep-misplaced", "instruments", sweep_misplaced, (*NOISY, "partial-forward-differs")),
    Check("map-misplaced", "instruments", map_misplaced, (*NOISY, "weights-off-one")),
    Check("pruned-differs", "instruments", pruned_differs, NOISY),
    Check("checks-failed", "instruments", checks_failed),
)
