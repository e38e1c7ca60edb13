"""Pruning: heads are removed from the weight matrices, and the logits equal those of the model with these heads
zeroed.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.batches import make_batch, make_model
from headway.callbacks import OnProgress
from headway.errors import InputError, InstrumentError
from headway.evaluation import Trained, teacher_forced_pass
from headway.head_analysis.ablation import as_row, paired_drop
from headway.head_analysis.head_runs import TrainedRuns
from headway.head_analysis.joint_ablation import largest_removable
from headway.head_analysis.partial_forward import PartialForward, run_tree
from headway.head_analysis.variants import heads_of, run_variants, zero
from headway.model.sites import Head, parse_heads
from headway.model.transformer import Transformer, count_parameters
from headway.results.schema import Document, Interval
from headway.tasks import Examples

TOLERANCE = 1e-4
"""Tolerance relative to the largest logit. Rounding in fp32 stays well below it; a larger difference is a bug."""
REPEATS = 7


@dataclass(frozen=True, kw_only=True)
class AccuracyDrop:
    """Accuracy of two models on the same examples of the test split; the drop is in points."""

    n: int
    exact_match_before: float
    exact_match_after: float
    drop: float
    drop_interval: Interval


@dataclass(frozen=True, kw_only=True)
class Finetuned(AccuracyDrop):
    """A pruned and fine-tuned model compared with the original."""

    steps: int
    best_step: int


@dataclass(frozen=True, kw_only=True)
class PrunedModel(AccuracyDrop):
    """A pruned model compared with the original."""

    parameters_before: int
    parameters_after: int
    speed: float
    """Speed-up: passes per second after pruning divided by those before, measured in alternation."""
    logits_apart: float


@dataclass(frozen=True, kw_only=True)
class PruneResult(PrunedModel, Document):
    """A pruned run compared with its original."""

    run: str
    pruned_from: str
    kept: list[str]
    removed: list[str]
    chosen: str
    finetuned: Finetuned | None = None


def choose_kept(
    trained: Trained,
    keep: Sequence[str] | None,
    max_drop: float | None,
    progress: OnProgress = lambda done, total: None,
) -> tuple[list[Head], str]:
    """The heads to keep, and how they were chosen: by name, or by elimination on the validation split."""
    heads = heads_of(trained)
    if (keep is None) == (max_drop is None):
        raise InputError("give one of --keep (heads that stay) and --max-drop (points that may be lost)")
    if keep is not None:
        chosen = parse_heads(keep, trained.model.sites)
        return [head for head in heads if head in chosen], "named"
    assert max_drop is not None
    if not 0 < max_drop <= 100:
        raise InputError(f"--max-drop {max_drop:g}; more than 0 and at most 100 points needed")
    examples = trained.examples("validation")
    gone = largest_removable(TrainedRuns(trained, examples), max_drop, progress)
    return [head for head in heads if head not in gone], f"elimination on {len(examples):,} validation examples"


def cut_model(trained: Trained, kept: Sequence[Head]) -> Transformer:
    """The model without the other heads: their rows of query, key and value and their columns of output are removed."""
    config = replace(trained.config.model, kept_heads=tuple(str(head) for head in kept))
    smaller = make_model(trained.task, config).to(trained.device, next(trained.model.parameters()).dtype)
    state = dict(trained.model.state_dict())
    for site in trained.model.sites:
        places = [place for place, head in enumerate(site.heads) if head in kept]
        stack, layer, looks = site.name.split(".")
        name = f"{stack}.{layer}.{'cross' if looks == 'cross' else 'own'}"
        for part in ("query", "key", "value"):
            for what in ("weight", "bias"):
                key = f"{name}.{part}.{what}"
                state[key] = _keep(state[key], 0, places, len(site.kept))
        state[f"{name}.output.weight"] = _keep(state[f"{name}.output.weight"], 1, places, len(site.kept))
    smaller.load_state_dict(state)
    return smaller.eval()


def _keep(tensor: Tensor, axis: int, places: Sequence[int], heads: int) -> Tensor:
    """The slices of an axis `(head d_head)` that belong to some heads."""
    if not heads:
        return tensor
    split = tensor.unflatten(axis, (heads, tensor.shape[axis] // heads))
    return split.index_select(axis, torch.tensor(places, dtype=torch.long, device=tensor.device)).flatten(
        axis, axis + 1
    )


def compare_pruned(trained: Trained, smaller: Trained, kept: Sequence[Head], examples: Examples) -> PrunedModel:
    """Compare the pruned model with the masked and with the whole model; unequal logits raise."""
    heads = heads_of(trained)
    gone = as_row(heads, [head for head in heads if head not in kept])[None]
    return PrunedModel(
        parameters_before=count_parameters(trained.model),
        parameters_after=count_parameters(smaller.model),
        logits_apart=logits_apart(trained, smaller, gone, examples.take(slice(0, 256))),
        speed=compare_speed(trained, smaller, examples),
        **vars(compare_accuracy(trained, smaller, examples)),
    )


def compare_accuracy(trained: Trained, smaller: Trained, examples: Examples) -> AccuracyDrop:
    """Exact match of both models on the same examples, and the paired drop."""
    before, after = (
        run_variants(one, examples, np.zeros((1, len(heads_of(one))), dtype=np.int64), [zero]).right[0]
        for one in (trained, smaller)
    )
    drop, interval = paired_drop(before, after)
    return AccuracyDrop(
        n=len(before),
        exact_match_before=float(before.mean()),
        exact_match_after=float(after.mean()),
        drop=drop,
        drop_interval=interval,
    )


def logits_apart(trained: Trained, smaller: Trained, gone: Any, examples: Examples) -> float:
    """The largest difference between the logits of the masked and of the pruned model."""
    batch = make_batch(trained.task, trained.model, examples, trained.device)
    masked: list[Tensor] = []
    forward = PartialForward(trained.model, batch.inputs)
    run_tree(forward, gone, [zero(forward, slice(None))], lambda alike, logits: masked.append(logits))
    with torch.inference_mode():
        apart = float((smaller.model(batch.inputs) - masked[0]).abs().max())
    if not apart <= TOLERANCE * max(1.0, float(masked[0].abs().max())):
        raise InstrumentError(f"the pruned model differs from the masked one by {apart:.3g} in its logits")
    return apart


def compare_speed(trained: Trained, smaller: Trained, examples: Examples) -> float:
    """The speed-up of a forward pass by pruning: the median of alternating runs."""
    batch = make_batch(trained.task, trained.model, examples.take(slice(0, 512)), trained.device)
    return median(_seconds(trained, batch) / _seconds(smaller, batch) for _ in range(REPEATS))


def _seconds(trained: Trained, batch: Any) -> float:
    start = time.perf_counter()
    for _ in range(3):
        teacher_forced_pass(trained.model, batch, trained.task.vocabulary.pad)
    if trained.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start
