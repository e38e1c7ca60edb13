"""evaluation.json: the accuracy of a model, by split."""

from collections.abc import Mapping
from dataclasses import dataclass

from headway.results.schema import Document, Interval, fact, member


@dataclass(frozen=True, kw_only=True)
class WrongExample:
    """A wrong answer in full."""

    example: str = fact("the example with its right answer")
    answered: str = fact("the model's answer")


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """A decoded answer that the teacher-forced pass did not predict."""

    example: str = fact("the example with its right answer")
    token: int = fact("first answer token that differs, from 0")
    gap: float = fact("difference of the two best logits there; near 0, rounding decided", unit="logits")


@dataclass(frozen=True, kw_only=True)
class Evaluation(Document):
    """Accuracy of a model on a split, with a 95 % Wilson interval."""

    split: str = fact("train, validation, test, or all: the whole domain")
    step: int = fact("step of the checkpoint", unit="steps")
    n: int = fact("examples")
    wrong: int = fact("examples whose answer is wrong")
    accuracy: float = fact("share of examples that are right")
    interval: Interval = fact("95 % interval of the accuracy (Wilson)")
    loss: float = fact("mean cross-entropy of an answer token, or of a class", unit="nats")
    wrong_examples: tuple[WrongExample, ...] = fact("some of the wrong answers", default=())


@dataclass(frozen=True, kw_only=True)
class SequenceEvaluation(Evaluation):
    """Exact match of a teacher-forced pass, and of a greedily decoded sample."""

    accuracy: float = fact("share of answers that are right as a whole", key="exact_match")
    decoded_n: int = fact("examples that were decoded greedily", default=0)
    decoded_wrong: int = fact("decoded answers that are wrong", default=0)
    disagreements: int = fact("decoded answers that the teacher-forced pass did not predict", default=0)
    real_disagreements: int = fact("disagreements that rounding cannot explain", default=0)
    disagreement_examples: tuple[Disagreement, ...] = fact("some of the disagreements", default=())


@dataclass(frozen=True, kw_only=True)
class ClassEvaluation(Evaluation):
    """The answers of a classifier."""

    balanced_accuracy: float = fact("mean of the classes' accuracies", default=0.0)
    answer_shares: Mapping[str, float] = fact("share of each class among the answers", default={})


SplitEvaluation = SequenceEvaluation | ClassEvaluation


@dataclass(frozen=True, kw_only=True)
class Evaluations(Document):
    """The accuracies of a run, by split; `headway evaluate --json` prints that of one split."""

    train: SplitEvaluation | None = fact("accuracy on the training split", optional=True)
    validation: SplitEvaluation | None = fact("accuracy on the validation split", optional=True)
    test: SplitEvaluation | None = fact("accuracy on the test split", optional=True)
    whole: SplitEvaluation | None = fact("accuracy on the whole domain", key="all", optional=True)

    @property
    def splits(self) -> list[str]:
        """The measured splits."""
        return [split for split in ("train", "validation", "test", "all") if self.of(split) is not None]

    def of(self, split: str) -> SplitEvaluation | None:
        """The accuracy on a split; None if it was not measured."""
        found: SplitEvaluation | None = member(self, split)
        return found
