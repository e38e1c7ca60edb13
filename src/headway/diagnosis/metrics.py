"""Checks that the metrics of a run belong to its checkpoint and to the examples that they name."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.callbacks import Validation
from headway.diagnosis.examination import Examination
from headway.diagnosis.findings import Verdict, error, fine, warning
from headway.diagnosis.subject import Answers
from headway.narration.numbers import percent
from headway.tasks import Examples

LOSS_MOVED = 0.02
"""Relative difference allowed for a loss: ten times the effect of another device or order of sums."""
ACCURACY_MOVED = 0.005
"""The same for an accuracy, in addition to two examples that near-ties may decide."""
MOST_TRAINING = 4_000
"""Training examples on which loss and accuracy are computed for comparison with the metrics."""
MEMORY_SHOWS = 0.1
"""Difference of training and validation accuracy below which the two cannot be told apart."""


def checkpoint_mismatch(seen: Examination) -> Verdict | None:
    """Validation loss and accuracy of this checkpoint equal those in the metrics of its step."""
    forward, step, metrics = seen.subject.forward, seen.subject.step, seen.subject.metrics
    examples = seen.subject.splits.get("validation")
    if forward is None or step is None or examples is None or not any("validation" in row for row in metrics):
        return None
    said = [row["validation"] for row in metrics if "validation" in row and row["step"] == step]
    if not said:
        return warning(
            f"The metrics have no validation at step {step:,}, the step of this checkpoint.",
            "Use the best checkpoint, or validate this one.",
            step=step,
        )
    logits, n = forward(examples), len(examples)
    loss, accuracy = _loss(logits, examples.target, seen), float(_accuracy(seen, logits, examples))
    told = said[-1]
    numbers = {"step": step, "loss": loss, "accuracy": accuracy, "n": n}
    numbers |= {"recorded_loss": told["loss"], "recorded_accuracy": told["accuracy"]}
    close = _is_close(told, loss, accuracy, n)
    words = f"validation loss {loss:.4g} and accuracy {percent(accuracy)} on {n:,} examples"
    if close:
        return fine(f"Step {step:,} has {words}, as in its metrics.", **numbers)
    return error(
        f"This checkpoint has {words}; the metrics of step {step:,} say {told['loss']:.4g} and "
        f"{percent(told['accuracy'])}.",
        "Find the checkpoint of these metrics; results of this checkpoint do not belong to them.",
        **numbers,
    )


def measured_on_training(seen: Examination) -> Verdict | None:
    """The validation numbers in the metrics come from validation examples, not from training examples."""
    told, forward = _told(seen), seen.subject.forward
    splits = seen.subject.splits
    if told is None or forward is None or not {"train", "validation"} <= set(splits):
        return None
    train = splits["train"].take(Examination.rows_of(len(splits["train"]), MOST_TRAINING))
    found = {name: _measured(seen, some) for name, some in (("train", train), ("validation", splits["validation"]))}
    fits = {name: _is_close(told, *numbers, len(splits[name])) for name, numbers in found.items()}
    numbers = {
        "train_loss": found["train"][0],
        "validation_loss": found["validation"][0],
        "recorded_loss": told["loss"],
    }
    numbers |= {"train": found["train"][1], "validation": found["validation"][1], "recorded": told["accuracy"]}
    if fits["validation"] or not fits["train"] or found["train"][1] - found["validation"][1] < MEMORY_SHOWS:
        return fine("The metrics' validation numbers are not those of training examples.", **numbers)
    return error(
        f"The metrics call {percent(told['accuracy'])} validation accuracy; that is what {len(train):,} training "
        "examples "
        f"give, and validation examples give {percent(found['validation'][1])}.",
        "Measure on examples that training never saw.",
        **numbers,
    )


def _told(seen: Examination) -> Validation | None:
    """Validation loss and accuracy in the metrics at the checkpoint's step."""
    said = [
        row["validation"] for row in seen.subject.metrics if "validation" in row and row["step"] == seen.subject.step
    ]
    return said[-1] if said else None


def _measured(seen: Examination, examples: Examples) -> tuple[float, float]:
    assert seen.subject.forward is not None
    logits = seen.subject.forward(examples)
    return _loss(logits, examples.target, seen), float(_accuracy(seen, logits, examples))


def _is_close(told: Validation, loss: float, accuracy: float, n: int) -> bool:
    """Whether a loss and an accuracy equal the recorded ones, within the tolerance for another device."""
    close = abs(loss - told["loss"]) <= LOSS_MOVED * max(abs(told["loss"]), 0.05)
    return close and abs(accuracy - told["accuracy"]) <= ACCURACY_MOVED + 2 / n


def _loss(logits: Tensor, target: Answers, seen: Examination) -> float:
    pad = seen.task.vocabulary.pad
    return float(F.cross_entropy(logits.flatten(0, -2), torch.from_numpy(target).flatten(), ignore_index=pad))


def _accuracy(seen: Examination, logits: Tensor, examples: Examples) -> np.floating:
    return seen.subject.score(logits.argmax(-1).numpy(), examples.target).mean()
