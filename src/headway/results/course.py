"""The files that the course asks for: training log, ablation, specialization of heads, and extrapolation."""

from collections.abc import Mapping
from dataclasses import dataclass

from headway.results.schema import Document, Interval, count, fact, fraction

WRITER = "headway"


@dataclass(frozen=True, kw_only=True)
class CourseEpoch:
    """One validation."""

    step: int = count("training step", unit="steps")
    epoch: float | None = fact("passes over the training set; null where examples are drawn anew at every step")
    train_loss: float | None = fact("mean loss of the training steps since the validation before", unit="nats")
    val_loss: float = fact("validation loss", unit="nats")
    val_accuracy: float = fraction("share of validation answers that are right")


@dataclass(frozen=True, kw_only=True)
class CourseTrainingRun:
    """How one run was trained."""

    run: str = fact("name of the run")
    seed: int = fact("seed")
    log: tuple[CourseEpoch, ...] = fact("every validation")
    jump_between: tuple[int, int] | None = fact("steps of the two validations between which accuracy rose most")


@dataclass(frozen=True, kw_only=True)
class TrainingLog(Document):
    """training_log.json"""

    generator: str = fact("the program that wrote the file", default=WRITER)
    runs: tuple[CourseTrainingRun, ...] = fact("every run")


@dataclass(frozen=True, kw_only=True)
class CourseAblation:
    """A model without one head."""

    head: str = fact("name of the head")
    attention: str = fact("encoder, decoder or cross")
    layer: int = fact("layer, from 0")
    index: int = fact("index in its layer, from 0")
    accuracy: float = fraction("accuracy without the head")
    accuracy_drop: float = fact("accuracy lost", unit="points")
    interval: Interval = fact("95 % interval of the drop", unit="points")
    loss_change_percent: float | None = fact("change of the mean loss", unit="%")
    verdict: str = fact("critical, important, redundant, harmful, undecided, or depends on the ablation")


@dataclass(frozen=True, kw_only=True)
class CourseJoint:
    """Heads removed together for a limit."""

    limit: float = fact("accuracy that may be lost", unit="points")
    heads: tuple[str, ...] = fact("the heads, chosen on other examples than the drop is measured on")
    accuracy_drop: float = fact("accuracy lost without all of them", unit="points")
    interval: Interval = fact("95 % interval of the drop", unit="points")
    alone_under_limit: int = count("heads under the limit one at a time")
    alone_together_drop: float = fact("accuracy lost without all heads that are under the limit alone", unit="points")


@dataclass(frozen=True, kw_only=True)
class CourseAblationRun:
    """The ablations of one run."""

    run: str = fact("name of the run")
    seed: int = fact("seed")
    n: int = count("examples")
    ablation: str = fact("kind of ablation")
    baseline_accuracy: float = fraction("accuracy of the whole model")
    heads: tuple[CourseAblation, ...] = fact("every head, the largest drop first")
    prunable_under_1_point: float | None = fraction("share of heads under 1 point, one at a time")
    prunable_under_5_points: float | None = fraction("share of heads under 5 points, one at a time")
    prunable_under_1_percent_of_loss: float | None = fraction("share of heads under 1 % of the loss, one at a time")
    together: tuple[CourseJoint, ...] = fact("heads removed together, for each limit")


@dataclass(frozen=True, kw_only=True)
class AblationResults(Document):
    """ablation_results.json"""

    generator: str = fact("the program that wrote the file", default=WRITER)
    runs: tuple[CourseAblationRun, ...] = fact("every run whose heads were analysed")


@dataclass(frozen=True, kw_only=True)
class CourseHead:
    """What one head attends to."""

    head: str = fact("name of the head")
    role: str = fact("kind of attention, and the part that it favours most")
    scores: Mapping[str, float | None] = fact("mean of each score; null where it does not apply")


@dataclass(frozen=True, kw_only=True)
class CourseHeadsRun:
    """The heads of one run."""

    run: str = fact("name of the run")
    seed: int = fact("seed")
    heads: tuple[CourseHead, ...] = fact("every head")


@dataclass(frozen=True, kw_only=True)
class HeadSpecialization(Document):
    """head_specialization.json"""

    generator: str = fact("the program that wrote the file", default=WRITER)
    definitions: Mapping[str, str] = fact("meaning of each score")
    runs: tuple[CourseHeadsRun, ...] = fact("every run whose heads were analysed")


@dataclass(frozen=True, kw_only=True)
class CourseLengths:
    """Accuracy of one run on one set, by length."""

    run: str = fact("name of the run")
    seed: int = fact("seed")
    encoding: str = fact("positional encoding")
    pooling: str | None = fact("pooling of a classifier")
    set_name: str = fact("set of examples", key="set")
    trained_on: tuple[int, int] = fact("shortest and longest training length")
    accuracy: Mapping[str, float] = fact("accuracy at each length")
    interval: Mapping[str, Interval] = fact("95 % interval at each length")
    constant_from: int | None = fact("length from which the model gives one answer to everything; null if it does not")


@dataclass(frozen=True, kw_only=True)
class ExtrapolationResults(Document):
    """extrapolation_results.json"""

    generator: str = fact("the program that wrote the file", default=WRITER)
    unit: str = fact("what a length counts")
    results: tuple[CourseLengths, ...] = fact("every run on every set")
