"""lengths.json of a study: its cells with their runs, what decides the length held, costs, and the answer in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from statistics import fmean
from typing import Literal

from headway.json_values import JsonObject, JsonValue
from headway.results.evaluation import SplitEvaluation
from headway.results.lengths import Lengths, SeedSummary
from headway.results.positions import Patterns
from headway.results.schema import Document, fact


@dataclass(frozen=True, kw_only=True)
class Mastery:
    """Whether a run mastered its training lengths."""

    gate: float = fact("validation accuracy required for mastery")
    stops: bool = fact("whether training stopped at the gate", default=False)
    mastered: bool = fact("whether the run reached it")
    step: int | None = fact("step that reached it", unit="steps")
    accuracy: float = fact("validation accuracy of the best checkpoint")


@dataclass(frozen=True, kw_only=True)
class BestValidation:
    """Validation of the checkpoint that counts."""

    validation_loss: float = fact("loss", unit="nats")
    validation_accuracy: float = fact("accuracy")
    best_step: int = fact("its step", unit="steps")


@dataclass(frozen=True, kw_only=True)
class Training:
    """What the training of a run took."""

    run: str = fact("directory of the run")
    steps: int = fact("steps trained", unit="steps")
    seconds: float = fact("time; the seeds of a stack share one time", unit="seconds")
    metrics: BestValidation | None = fact("validation of the best checkpoint", default=None)
    stopped_early: bool = fact("whether training stopped before its last step", default=False)
    mastery: Mastery | None = fact("the gate; null in documents of earlier versions", default=None)
    device: str | None = fact("GPU, or device", default=None)

    @property
    def name(self) -> str:
        return PurePath(self.run).name


@dataclass(frozen=True, kw_only=True)
class MeasuredRun(Lengths):
    """A run's lengths.json, and whether the run counts."""

    mastery: Mastery | None = fact("the gate; null in documents of earlier versions", default=None)

    @property
    def name(self) -> str:
        return PurePath(self.run).name

    @classmethod
    def of(cls, found: Lengths, mastery: Mastery | None) -> "MeasuredRun":
        """A run's document with what its study says of it."""
        return cls(**{**vars(found), "mastery": mastery})

    @property
    def passed(self) -> bool:
        """Whether the run passed the gate; one of an earlier version, which had none, did."""
        return self.mastery is None or self.mastery.mastered

    def past_training(self, name: str) -> float | None:
        """The mean accuracy on a set over the tested lengths that training did not have; None without any."""
        past = [row.accuracy for row in self.of_set(name).values() if row.length > self.training.longest]
        return fmean(past) if past else None

    def at_training(self, name: str) -> float | None:
        """The mean accuracy on a set over the tested training lengths; None without any."""
        own = [row.accuracy for row in self.of_set(name).values() if row.trained]
        return fmean(own) if own else None


@dataclass(frozen=True, kw_only=True)
class StudyCell:
    """The runs of one combination of settings, one a seed."""

    cell: str = fact("arm and varied values")
    label: str | None = fact("varied values; null in documents of earlier versions", default=None)
    arm: str = fact("name of the arm")
    settings: JsonObject = fact("varied settings and their values")
    encoding: str | None = fact("positional encoding", default=None)
    pooling: str | None = fact("pooling of a classifier", default=None)
    planned: int | None = fact("runs planned", default=None)
    failed: Mapping[str, str] = fact("why runs failed, by name", default={})
    training: tuple[Training, ...] = fact("training of each run")
    together: SeedSummary | None = fact("summary over seeds; null without runs")
    runs: tuple[MeasuredRun, ...] = fact("each run's measurement")

    @property
    def judged(self) -> list[Mastery]:
        """What the gate says of the runs that it was asked of."""
        return [run.mastery for run in self.runs if run.mastery is not None]

    def held(self, name: str) -> list[int]:
        """The length held on a set by every seed that passed the gate and was measured on it."""
        return [run.held[name] for run in self.runs if name in run.held and run.passed]

    def mean_past_training(self, name: str) -> float | None:
        """Accuracy past training in the mean of the seeds that passed the gate; None without any."""
        found = [mean for run in self.runs if run.passed and (mean := run.past_training(name)) is not None]
        return fmean(found) if found else None


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Shares of the sum of squares between the cells of one seed, a number a seed."""

    encoding: tuple[float, ...] = fact("explained by the encoding")
    pooling: tuple[float, ...] = fact("explained by the pooling")
    together: tuple[float, ...] = fact("explained by their interaction")


@dataclass(frozen=True, kw_only=True)
class RunCounts:
    """Runs with each value of a setting."""

    encoding: Mapping[str, int] = fact("runs by encoding")
    pooling: Mapping[str, int] = fact("runs by pooling")


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Encoding against pooling in one arm and on one set, of the runs that mastered the set at training lengths."""

    arm: str = fact("name of the arm")
    set_name: str = fact("set of examples", key="set")
    gate: float = fact("accuracy at training lengths required for mastery of the set")
    runs: int = fact("runs measured past training")
    mastered: int = fact("those that mastered the set")
    best_at_training: float | None = fact("best accuracy at training lengths")
    not_mastered: Mapping[str, tuple[float, ...]] = fact("accuracies of runs that did not master, by combination")
    lowest: float | None = fact("lowest mean accuracy past training")
    highest: float | None = fact("highest mean accuracy past training")
    encoding: Mapping[str, float] = fact("mean accuracy past training by encoding")
    pooling: Mapping[str, float] = fact("mean accuracy past training by pooling")
    runs_by: RunCounts = fact("runs behind these means")
    seeds: tuple[int, ...] = fact("seeds whose every combination mastered the set")
    shares: Shares | None = fact("explained shares of these seeds; null without any")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What training took in one arm."""

    arm: str = fact("name of the arm")
    runs: int = fact("runs trained")
    steps: int = fact("steps of all runs", unit="steps")
    seconds: float = fact("time; a stack of seeds counts once", unit="seconds")
    devices: tuple[str, ...] = fact("GPUs or devices")


Topic = Literal["gate", "furthest", "decision", "nothing decides", "constant", "mechanism", "descriptive", "other"]
"""What a sentence is about; `other` for sentences of earlier versions, which did not say."""


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """A sentence of the answer, with what it is about."""

    kind: Topic = fact("topic of the sentence")
    set_name: str | None = fact("the set that it is about, if one", key="set", default=None)
    text: str = fact("the sentence")

    @classmethod
    def upgrade(cls, document: JsonValue) -> JsonValue:
        """A sentence of earlier versions is a text alone."""
        return {"kind": "other", "text": document} if isinstance(document, str) else document


@dataclass(frozen=True, kw_only=True)
class ArmRecord:
    """An arm of the study: a recipe, what is changed in it, and what is varied."""

    name: str = fact("name of the arm")
    recipe: str = fact("name of the recipe")
    set: JsonObject = fact("changed settings")
    vary: JsonObject = fact("varied settings: their values, or named settings")
    seeds: tuple[int, ...] = fact("the arm's seeds", default=())
    refused: Mapping[str, str] = fact("encodings that the task refuses, with the reason", default={})


@dataclass(frozen=True, kw_only=True)
class StudyDocument(Document):
    """What a study says of its runs together."""

    form: Literal[1] = fact("version of this document", default=1)
    experiment: str = fact("name of the experiment")
    preset: str = fact("size of the experiment")


@dataclass(frozen=True, kw_only=True)
class LengthStudy(StudyDocument):
    """analysis/lengths.json of a study."""

    arms: tuple[ArmRecord, ...] = fact("what was trained")
    n: int = fact("examples of each set at each length")
    cells: tuple[StudyCell, ...] = fact("one record a combination")
    decisions: tuple[Decision, ...] = fact("encoding against pooling", default=())
    costs: tuple[Cost, ...] = fact("what training took", default=())
    answer: tuple[Sentence, ...] = fact("the answer, one sentence in each record")
    patterns: Patterns | None = fact("pictures of every encoding", default=None)


@dataclass(frozen=True, kw_only=True)
class FailedTraining:
    """A run of which there is nothing to measure."""

    run: str = fact("directory of the run")
    error: str = fact("why it failed")


@dataclass(frozen=True, kw_only=True)
class EvaluatedRun:
    """How a run was trained, and how often it is right."""

    training: Training | FailedTraining = fact("what training took, or why it failed")
    evaluation: SplitEvaluation | None = fact("accuracy on the whole domain, or on the test split; null if it failed")


@dataclass(frozen=True, kw_only=True)
class AccuracyStudy(StudyDocument):
    """analysis/summary.json of a study of accuracy."""

    runs: tuple[EvaluatedRun, ...] = fact("one record a run")
