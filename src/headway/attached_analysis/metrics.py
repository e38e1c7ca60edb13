"""What is measured of an example, from the logits of a model.

    accuracy              the class, or every token of the answer, is right (`labels`); -100 is not scored
    next_token_loss       mean cross-entropy of the next token, in nats
    next_token_accuracy   share of next tokens that are right
    logit_difference      logit of `answer` less that of `other`, after the last token
    kl                    KL divergence of the whole model's prediction from this one's, in nats; needs no labels
    generated             the text that `model.generate` writes is `labels`

A metric chooses logits and targets, `row token class` and `row token`. All else is scored as headway scores its own
models: right answers, loss and margin. A real-valued metric adds a value for each example.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.attached_analysis.examples import IGNORED, ModelExamples
from headway.errors import InputError, suggestion

Scored = tuple[Tensor, Tensor]
"""Logits `row token class`, and the right class of each, `row token`."""


@dataclass(frozen=True)
class Metric:
    """One metric; `value` is None where right or wrong is all that is measured."""

    name: str
    definition: str
    unit: str = "share"
    higher_is_better: bool = True
    scale: float | None = 1.0
    """100 points of a drop, in the unit; None for the size of the whole model's mean."""
    largest: float | None = None
    """The most that the value of an example can change; None if there is no bound."""
    positions: Callable[[ModelExamples], Tensor] | None = None
    """At which positions logits are needed, `row token`; None for all that the model gives."""
    reads: tuple[str, ...] = ()
    """Columns of the data that hold classes of the model."""
    scored: Callable[[Tensor, ModelExamples, Tensor], Scored] | None = None
    """Logits at those positions, the examples, and the logits of the whole model, scored."""
    value: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None
    """Scored logits, targets and the scored logits of the whole model -> a value for each row."""

    @property
    def sign(self) -> int:
        return 1 if self.higher_is_better else -1


def _labels(logits: Tensor, examples: ModelExamples, whole: Tensor) -> Scored:
    labels = examples.column("labels", "accuracy")
    if logits.shape[:-1] not in (labels.shape, labels.shape[:1] if labels.shape[1:] == (1,) else None):
        raise InputError(f"logits of shape {tuple(logits.shape)} do not fit labels of shape {tuple(labels.shape)}")
    return (logits[:, None], labels.reshape(-1, 1)) if logits.ndim == 2 else (logits, labels)


def check_classes(metric: Metric, examples: ModelExamples, logits: Tensor) -> None:
    """Raise for a label that is no class of the model."""
    classes = logits.shape[-1]
    for name in metric.reads:
        column = examples.column(name, metric.name)
        if name == "labels":
            _labels(logits, examples, logits)  # another shape explains wrong classes
        if column.is_floating_point():
            raise InputError(f"{name} of type {column.dtype}; whole numbers needed, the numbers of the right classes")
        wrong = column[((column < 0) & (column != IGNORED)) | (column >= classes)]
        if wrong.numel():
            raise InputError(f"{name} holds {int(wrong[0])}; the model has the classes 0 to {classes - 1}")


def last_token(examples: ModelExamples) -> Tensor:
    """The place of the last real token of each row, `row 1`."""
    real = examples.real()
    return (real * torch.arange(1, real.shape[1] + 1, device=real.device)).argmax(1, keepdim=True)


def all_but_last(examples: ModelExamples) -> Tensor:
    inputs = examples.inputs
    return torch.arange(inputs.shape[1] - 1, device=inputs.device).expand(len(inputs), -1)


def _next_tokens(logits: Tensor, examples: ModelExamples, whole: Tensor) -> Scored:
    real = examples.real()
    target = examples.inputs[:, 1:].masked_fill(~(real[:, 1:] & real[:, :-1]), IGNORED)
    return logits, target


def _two_answers(logits: Tensor, examples: ModelExamples, whole: Tensor) -> Scored:
    """Logits of the two answers alone, of which the first is right."""
    chosen = torch.stack([examples.column(name, "logit_difference") for name in ("answer", "other")], dim=1)
    return logits.gather(2, chosen[:, None]), torch.zeros_like(chosen[:, :1])


def _as_whole(logits: Tensor, examples: ModelExamples, whole: Tensor) -> Scored:
    target = whole.argmax(-1)
    if logits.ndim == 2:
        return logits[:, None], target[:, None]
    real = examples.real()
    return logits, target.masked_fill(~real, IGNORED) if real.shape == target.shape else target


def mean_over_scored(values: Tensor, target: Tensor) -> Tensor:
    counted = target != IGNORED
    return (values * counted).sum(1) / counted.sum(1).clamp(min=1)


def _cross_entropy(logits: Tensor, target: Tensor, whole: Tensor) -> Tensor:
    lost = F.cross_entropy(logits.transpose(1, 2), target, ignore_index=IGNORED, reduction="none")
    return mean_over_scored(lost, target)


def _share_right(logits: Tensor, target: Tensor, whole: Tensor) -> Tensor:
    return mean_over_scored((logits.argmax(-1) == target).float(), target)


def _difference(logits: Tensor, target: Tensor, whole: Tensor) -> Tensor:
    return logits[:, 0, 0] - logits[:, 0, 1]


def _divergence(logits: Tensor, target: Tensor, whole: Tensor) -> Tensor:
    before, after = whole.log_softmax(-1), logits.log_softmax(-1)
    return mean_over_scored((before.exp() * (before - after)).sum(-1), target)


METRICS = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "the class, or every token of the answer, is right", reads=("labels",), scored=_labels),
        Metric(
            "next_token_loss",
            "mean cross-entropy of the next token",
            unit="nats",
            higher_is_better=False,
            scale=None,
            positions=all_but_last,
            scored=_next_tokens,
            value=_cross_entropy,
        ),
        Metric(
            "next_token_accuracy",
            "share of the next tokens of an example that are right",
            largest=1.0,
            positions=all_but_last,
            scored=_next_tokens,
            value=_share_right,
        ),
        Metric(
            "logit_difference",
            "logit of the right answer less that of the other one, after the last token",
            unit="logits",
            scale=None,
            positions=last_token,
            reads=("answer", "other"),
            scored=_two_answers,
            value=_difference,
        ),
        Metric(
            "kl",
            "KL divergence of the whole model's prediction from the ablated model's",
            unit="nats",
            higher_is_better=False,
            scored=_as_whole,
            value=_divergence,
        ),
        Metric("generated", "the text that the model generates is the label"),
    )
}


def find_metric(metric: str | Metric) -> Metric:
    if isinstance(metric, Metric):
        return metric
    if metric not in METRICS:
        raise InputError(f"unknown metric {metric!r}; {suggestion(metric, METRICS)}")
    return METRICS[metric]
