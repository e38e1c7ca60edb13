"""Self-checks of the instruments. If one fails, no other result is valid."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.batches import make_batch
from headway.callbacks import OnProgress
from headway.errors import InstrumentError
from headway.evaluation import NEAR_TIE, Trained, decode, disagreeing
from headway.head_analysis.handles import edits_of, intervene
from headway.head_analysis.head_runs import KINDS, make_replacements
from headway.head_analysis.independent import differing, mixed, silenced, values_and_outputs
from headway.head_analysis.instrument import OneStep, Subject
from headway.head_analysis.partial_forward import PartialForward, Replacement, run_tree
from headway.head_analysis.variants import heads_of, zero
from headway.results.checks import Checks
from headway.tasks import Examples

IDENTITY_TOLERANCE = 1e-4
"""The partial forward pass does the model's own operations; the tolerance allows for the rounding of another kernel."""

SAME_HEAD = 1e-3
"""Tolerance, relative to the size of logits or of a head's output: fused and explicit attention sum in different
orders.
"""


class SelfChecks(OneStep[Checks]):
    """Checks of the instruments on a few examples."""

    name, result = "checks", Checks

    def make(self, subject: Subject, progress: OnProgress) -> Checks:
        return check_instruments(subject.trained, subject.examples.take(slice(0, subject.sizes["decoded"])))


def check_instruments(trained: Trained, examples: Examples, kinds: Sequence[str] = KINDS) -> Checks:
    """Every head and kind of ablation on a few examples: the fast sweep against a hook with greedy decoding."""
    batch = make_batch(trained.task, trained.model, examples, trained.device)
    forward = PartialForward(trained.model, batch.inputs)
    heads = heads_of(trained)
    replacements = [
        replacement(forward, slice(0, len(examples))) for replacement in make_replacements(trained, examples, kinds)[0]
    ]
    alone = np.eye(len(heads), dtype=np.int64)
    plan = np.concatenate(
        [np.zeros((1, len(heads)), dtype=np.int64), *(alone * (kind + 1) for kind in range(len(kinds)))]
    )
    logits: dict[int, Tensor] = {}
    run_tree(forward, plan, replacements, lambda alike, found: logits.update(dict.fromkeys(alike.tolist(), found)))
    record: dict[str, Tensor] = {}
    with torch.inference_mode():
        identity = float((trained.model(batch.inputs) - logits[0]).abs().max())
        trained.model(batch.inputs, record)
    if not identity <= IDENTITY_TOLERANCE:
        raise InstrumentError(
            f"with every head kept, the partial forward pass differs from the model by {identity:.3g}"
        )
    apart = [_disagreements(trained, batch, plan[row], replacements, logits[row]) for row in range(len(plan))]
    return Checks(
        identity=identity,
        decoded=len(plan) * len(examples),
        disagreements=sum(count for count, _ in apart),
        real_disagreements=sum(real for _, real in apart),
        weights_off_one=max((_off_one(table) for table in record.values()), default=0.0),
        misplaced=tuple(misplaced(trained, batch)),
    )


def misplaced(trained: Trained, batch: Any) -> list[str]:
    """Compare every instrument, head by head, with an independent computation."""
    expected = silenced(trained.model, batch.inputs)
    parts = values_and_outputs(trained.model, batch.inputs)
    brought = {name: output for name, (_, output) in parts.items()}
    readings = {
        "sweep": (swept(trained, batch), expected),
        "hook": (hooked(trained, batch), expected),
        "map": (mixed(mapped(trained, batch), parts), brought),
    }
    return [
        f"{instrument} {head}"
        for instrument, (found, right) in readings.items()
        for head in differing(found, right, SAME_HEAD)
    ]


def swept(trained: Trained, batch: Any) -> dict[str, Tensor]:
    """The logits without each head, by the sweep that measures all drops."""
    heads = heads_of(trained)
    forward = PartialForward(trained.model, batch.inputs)
    logits: dict[int, Tensor] = {}
    run_tree(
        forward,
        np.eye(len(heads), dtype=np.int64),
        [zero(forward, slice(None))],
        lambda alike, found: logits.update(dict.fromkeys(alike.tolist(), found)),
    )
    return {str(head): logits[row] for row, head in enumerate(heads)}


@torch.inference_mode()
def hooked(trained: Trained, batch: Any) -> dict[str, Tensor]:
    """The logits without each head, by the hook that also works in decoding."""
    forward = PartialForward(trained.model, batch.inputs)
    found = {}
    for head, row in zip(heads_of(trained), np.eye(len(heads_of(trained)), dtype=np.int64), strict=True):
        with intervene(trained.model, edits_of(trained.model, row, [zero(forward, slice(None))])):
            found[str(head)] = trained.model(batch.inputs)
    return found


@torch.inference_mode()
def mapped(trained: Trained, batch: Any) -> dict[str, Tensor]:
    """The attention weights of each head, as captures and scores read them."""
    record: dict[str, Tensor] = {}
    trained.model(batch.inputs, record)
    return {
        str(head): record[site.name][:, place] for site in trained.model.sites for place, head in enumerate(site.heads)
    }


def _off_one(weights: Tensor) -> float:
    sums = weights.sum(-1)
    return float((sums - 1)[sums > 0].abs().max()) if sums.numel() else 0.0


def _disagreements(
    trained: Trained, batch: Any, row: np.ndarray, replacements: Sequence[Replacement], predicted: Tensor
) -> tuple[int, int]:
    """How many answers differ when heads are replaced by a hook and the answer is decoded greedily."""
    with intervene(trained.model, edits_of(trained.model, row, replacements)), torch.inference_mode():
        if trained.task.kind == "class":
            apart = trained.model(batch.inputs).argmax(-1) != predicted.argmax(-1)
            places = torch.zeros_like(apart, dtype=torch.long)
            predicted = predicted[:, None]
        else:
            pad = trained.task.vocabulary.pad
            written = decode(trained.model, trained.task, batch, cache=False)
            width = batch.target.shape[1]
            written = torch.nn.functional.pad(written, (0, max(0, width - written.shape[1])), value=pad)[:, :width]
            wrong = disagreeing(written, predicted.argmax(-1), batch.target, pad)
            apart, places = wrong.any(1), wrong.int().argmax(1)
    best = predicted[torch.arange(len(apart), device=apart.device), places].topk(2).values
    real = apart & (best[:, 0] - best[:, 1] > NEAR_TIE)
    return int(apart.sum()), int(real.sum())
