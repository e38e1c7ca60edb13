"""Checks of training: parameters that did not move, abnormal losses, heads that do nothing."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from headway.diagnosis.examination import Examination
from headway.diagnosis.findings import Check, Verdict, error, fine, warning
from headway.diagnosis.harness import NOISY
from headway.diagnosis.positions import rows_untrained
from headway.head_analysis.independent import module_name
from headway.narration.numbers import percent

STILL_FALLING = 0.1
"""Relative fall of the best validation loss in the last fifth of training that counts as not yet converged."""
LEARNED = 0.01
"""A validation loss below this counts as learned; a further fall does not matter."""
EXPLODED = 3.0
"""Ratio of the smoothed loss to its earlier minimum that is too large for batch noise."""
UNIFORM = 0.99
"""Share of the largest possible entropy from which attention counts as uniform."""
FIXED = 0.99
"""Mean weight on one position, over all queries and examples, from which attention counts as fixed."""

SAME_HEAD = 1e-3
"""Relative difference below which two heads' weights count as equal; independent weights differ by 1.4."""
BATCHES = 8
"""Batches around the checkpoint for which the training loss is recomputed."""
UNEXPLAINED = 1.25
"""Largest ratio of the recorded loss to the loss of these weights. Replacing a fifth of the labels gives 1.3 to 1.7,
healthy runs have 1.00 to 1.03. A run stopped while it learned fast had 1.5, so the first loss is compared too.
"""
SAME_LOSS = 2e-4
"""Relative difference allowed between the first loss and the loss of the initial weights on the first batch. On one
device it was within 2e-7; with a fifth of the labels replaced it was 1e-3 to 0.2.
"""
SMALL_LOSS = 0.05
"""Losses below this are learned; ratios of them mean nothing."""
NOT_THESE_WEIGHTS = ("not-finite", "another-seed", "another-step", "weights-of-another-run", "checkpoint-mismatch")
"""Errors after which recorded losses cannot be compared with the weights."""


def _unmoved(seen: Examination) -> list[str] | None:
    """Parameters that are exactly equal to those of step 0; None if there is nothing to compare."""
    now, before = seen.subject.weights, seen.subject.initial
    trained = any("loss" in row for row in seen.subject.metrics)
    if now is None or before is None or not trained:
        return None
    return [name for name, tensor in now.items() if name in before and torch.equal(tensor, before[name].cpu())]


def weights_unmoved(seen: Examination) -> Verdict | None:
    """Training changed every parameter."""
    unmoved = _unmoved(seen)
    if unmoved is None:
        return None
    assert seen.subject.weights is not None
    rest, count = [name for name in unmoved if not name.startswith("encoding.")], len(seen.subject.weights)
    numbers = {"unmoved": rest, "parameters": count, "step": seen.subject.step}
    if not rest:
        return fine(f"All {count} parameter tensors moved from their initial values, positions aside.", **numbers)
    if len(unmoved) == count:
        return _nothing_moved(seen, numbers)
    return error(
        f"{len(rest)} of {count} parameter tensors did not move from initialisation: {', '.join(rest[:4])}.",
        "Check that the optimiser has these parameters, and that the loss reaches them.",
        **numbers,
    )


def _nothing_moved(seen: Examination, numbers: Mapping[str, object]) -> Verdict:
    """Either training did nothing, or validation never improved, so that step 0 is the best checkpoint."""
    last = max(row["step"] for row in seen.subject.metrics)
    if not seen.subject.step and seen.subject.best:
        return warning(
            f"This is the checkpoint of step 0, before training; validation's best is step {seen.subject.best:,}.",
            "These weights are untrained; use the best checkpoint.",
            **numbers,
        )
    if not seen.subject.step:
        return warning(
            f"The best checkpoint is that of step 0: in {last:,} steps validation was never better than untrained.",
            "Train longer or with another learning rate; this model is untrained.",
            **numbers,
        )
    return error(
        f"All {numbers['parameters']} parameter tensors are those of step 0, although training reached step {last:,}.",
        "Check that the optimiser has the parameters, and that the loss reaches them.",
        **numbers,
    )


def positions_unmoved(seen: Examination) -> Verdict | None:
    """Training changed the table of positions."""
    unmoved = _unmoved(seen)
    if unmoved is None or seen.subject.weights is None or not seen.subject.step:
        return None
    own = [name for name in seen.subject.weights if name.startswith("encoding.")]
    still = [name for name in unmoved if name in own]
    if not own:
        return None
    if not still:
        return fine(f"The encoding's {len(own)} parameter tensors moved from their initial values.", unmoved=[])
    rows = seen.subject.weights[still[0]].shape[0]
    return error(
        f"{still[0]} ({rows:,} rows) is exactly as at step 0: positions were never trained.",
        "Give the optimiser the encoding's parameters; without training this is a fixed random encoding.",
        unmoved=still,
        rows=rows,
    )


def _validation(seen: Examination) -> list[tuple[int, float]]:
    return [(row["step"], float(row["validation"]["loss"])) for row in seen.subject.metrics if "validation" in row]


def not_converged(seen: Examination) -> Verdict | None:
    """Validation had stopped improving when training ended."""
    curve = _validation(seen)
    if len(curve) < 3:
        return None
    steps, losses = (np.array(column) for column in zip(*curve, strict=True))
    late = steps > 0.8 * steps[-1]
    before, after = float(losses[~late].min()), float(losses[late].min())
    fall = 1 - after / before if before > 0 else 0.0
    numbers = {"before": before, "after": after, "fall": fall, "steps": int(steps[-1])}
    if fall > STILL_FALLING and after > LEARNED:
        return warning(
            f"In the last fifth of {steps[-1]:,} steps the best validation loss still fell by {percent(fall)}, from "
            f"{before:.3g} to {after:.3g}.",
            "Train longer before comparing this model with another.",
            **numbers,
        )
    words = f"fell by {percent(fall)}" if fall > 0 else "did not fall"
    return fine(
        f"In the last fifth of {steps[-1]:,} steps the best validation loss {words} (now {after:.3g}).", **numbers
    )


def loss_exploded(seen: Examination) -> Verdict | None:
    """The training loss never rose to a multiple of its earlier minimum."""
    losses = np.array([row["loss"] for row in seen.subject.metrics if "loss" in row], dtype=np.float64)
    if len(losses) < 50:
        return None
    window = max(5, len(losses) // 50)
    smooth = np.convolve(losses, np.full(window, 1 / window), mode="valid")
    lowest = np.minimum.accumulate(smooth)
    # A tiny loss doubles by a single example, so a rise is measured against the initial loss as well.
    ratio = smooth / np.maximum(lowest, 0.1 * smooth[0])
    worst = int(ratio.argmax())
    numbers = {
        "ratio": float(ratio[worst]),
        "step": worst + window,
        "lowest": float(lowest[worst]),
        "peak": float(smooth[worst]),
    }
    if ratio[worst] < EXPLODED:
        return fine(f"The loss, averaged over {window} steps, never rose to {EXPLODED:g} times its lowest.", **numbers)
    return warning(
        f"Near step {worst + window:,} the loss rose from {lowest[worst]:.3g} to {smooth[worst]:.3g} and ended at "
        f"{smooth[-1]:.3g} (averages over {window} steps).",
        "Lower the learning rate or the clipping threshold; the model may have lost what it had learned.",
        final=float(smooth[-1]),
        **numbers,
    )


def idle_heads(seen: Examination) -> Verdict | None:
    """Every head's attention is neither uniform nor fixed on one position."""
    if seen.subject.attention is None:
        return None
    examples = seen.few
    tables = seen.subject.attention(examples)
    uniform = [head for head, weights in tables.items() if _is_uniform(weights)]
    fixed = [head for head, weights in tables.items() if head not in uniform and _is_fixed(weights)]
    count = len(tables)
    numbers = {"uniform": uniform, "fixed": fixed, "heads": count, "n": len(examples)}
    if not uniform and not fixed:
        return fine(
            f"The attention of each of {count} heads is neither uniform nor fixed ({len(examples)} examples).",
            **numbers,
        )
    parts = [f"{len(uniform)} attend to everything evenly ({', '.join(uniform[:4])})"] * bool(uniform)
    parts += [f"{len(fixed)} attend to one fixed position ({', '.join(fixed[:4])})"] * bool(fixed)
    return warning(
        f"Of {count} heads {' and '.join(parts)}, on {len(examples)} examples.",
        "Do not interpret their attention; prune them, or try a lower learning rate or fewer layers.",
        **numbers,
    )


def _is_fixed(table: Tensor) -> bool:
    """Whether every query of every example attends to the same position."""
    return bool(table.numel()) and float(table.mean((0, 1)).max()) > FIXED


def _is_uniform(table: Tensor) -> bool:
    """Whether the mean entropy of queries with at least two visible keys is nearly the largest possible."""
    keys = (table > 0).sum(-1)
    several = keys > 1
    if not several.any():
        return False
    entropy = -(table * table.clamp(min=1e-12).log()).sum(-1)
    return bool((entropy[several] / keys[several].float().log()).mean() > UNIFORM)


def heads_alike(seen: Examination) -> Verdict | None:
    """No two heads have the same weights."""
    weights = seen.subject.weights
    if weights is None or not seen.subject.sites:
        return None
    heads = _head_weights(seen)
    names = list(heads)
    twins = [
        (one, other)
        for place, one in enumerate(names)
        for other in names[place + 1 :]
        if _are_twins(heads[one], heads[other])
    ]
    if not twins:
        return fine(f"Each of {len(names)} heads has its own weights.", heads=len(names), twins=[])
    pairs = ", ".join(f"{one} and {other}" for one, other in twins[:3])
    return error(
        f"{pairs} have the same query, key and value weights: {len(twins)} pairs among {len(names)} heads.",
        "Initialise every head independently; drops and rankings of identical heads mean nothing.",
        twins=[list(pair) for pair in twins],
        heads=len(names),
    )


def _first_loss_agrees(seen: Examination, losses: Mapping[int, float]) -> bool:
    """Whether the first recorded loss equals the loss of the initial weights on the first batch."""
    first = seen.subject.first_loss
    if first is None or 0 not in losses:
        return False
    return abs(first() - losses[0]) <= SAME_LOSS * abs(losses[0])


def _head_weights(seen: Examination) -> dict[str, Tensor]:
    """The query, key and value rows of each head."""
    weights, found = seen.subject.weights, {}
    assert weights is not None
    for site in (site for site in seen.subject.sites if site.kept):
        own = module_name(site)
        parts = [weights[f"{own}.{part}.weight"].float().chunk(len(site.kept), 0) for part in ("query", "key", "value")]
        for place, head in enumerate(site.heads):
            found[str(head)] = torch.stack([part[place] for part in parts])
    return found


def _are_twins(one: Tensor, other: Tensor) -> bool:
    size = float(one.norm())
    return one.shape == other.shape and size > 0 and float((one - other).norm()) < SAME_HEAD * size


def loss_not_explained(seen: Examination) -> Verdict | None:
    """The recorded training loss is that of the weights on the same batches."""
    again, step = seen.subject.training_loss, seen.subject.step
    losses = {row["step"] - 1: float(row["loss"]) for row in seen.subject.metrics if "loss" in row}
    if again is None or not step or len(losses) < 2 * BATCHES:
        return None
    # The loss that is recorded as step t + 1 is of the weights of step t, on the batch of step t.
    near = sorted(losses, key=lambda t: (t < step, abs(t - step)))[:BATCHES]
    recorded, own = float(np.mean([losses[t] for t in near])), float(np.mean([again(t) for t in near]))
    exact = _first_loss_agrees(seen, losses)
    numbers = {"recorded": recorded, "expected": own, "batches": len(near), "step": step, "first_agrees": exact}
    if recorded <= UNEXPLAINED * own + SMALL_LOSS or exact:
        return fine(
            f"Around step {step:,} the training loss was {recorded:.3g}; the weights give {own:.3g} on those batches.",
            **numbers,
        )
    return error(
        f"Around step {step:,} the training loss was {recorded:.3g}, and the weights give {own:.3g} on the same "
        f"{len(near)} batches: training used other targets than the data has.",
        "Look for noise in the labels, or a transformation of them before the loss.",
        **numbers,
    )


LEARNING = (
    Check("weights-unmoved", "model", weights_unmoved),
    Check("positions-unmoved", "model", positions_unmoved, ("weights-unmoved",)),
    Check("rows-untrained", "model", rows_untrained, ("weights-unmoved", "positions-unmoved")),
    Check("heads-alike", "model", heads_alike, ("weights-unmoved",)),
    Check("loss-not-explained", "model", loss_not_explained, ("weights-unmoved", *NOT_THESE_WEIGHTS)),
    Check("loss-exploded", "model", loss_exploded),
    Check("not-converged", "model", not_converged),
    Check("idle-heads", "model", idle_heads, (*NOISY, "weights-unmoved")),
)
