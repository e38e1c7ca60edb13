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

    gate: float = fact("validation accuracy from which a run has mastered")
    stops: bool = fact("whether training stopped at the gate", default=False)
    mastered: bool = fact("whether the run reached it")
    step: int | None = fact("step that reached it", unit="steps")
    accuracy: float = fact("validation accuracy of the chosen checkpoint")


@dataclass(frozen=True, kw_only=True)
class BestValidation:
    """Validation of the chosen checkpoint."""

    validation_loss: float = fact("loss", unit="nats")
    validation_accuracy: float = fact("accuracy")
    best_step: int = fact("its step", unit="steps")


@dataclass(frozen=True, kw_only=True)
class Training:
    """The training of a run."""

    run: str = fact("directory of the run")
    steps: int = fact("steps trained", unit="steps")
    seconds: float = fact("time; the seeds of one stack share it", unit="seconds")
    metrics: BestValidation | None = fact("validation of the chosen checkpoint", default=None)
    stopped_early: bool = fact("whether training stopped before its last step", default=False)
    mastery: Mastery | None = fact("the gate; null in documents of earlier versions", default=None)
    device: str | None = fact("GPU, or device", default=None)

    @property
    def name(self) -> str:
        return PurePath(self.run).name


@dataclass(frozen=True, kw_only=True)
class MeasuredRun(Lengths):
    """A run's lengths.json, and whether the run mastered its training lengths."""

    mastery: Mastery | None = fact("the gate; null in documents of earlier versions", default=None)

    @property
    def name(self) -> str:
        return PurePath(self.run).name

    @classmethod
    def of(cls, found: Lengths, mastery: Mastery | None) -> "MeasuredRun":
        """A run's document with its mastery."""
        return cls(**{**vars(found), "mastery": mastery})

    @property
    def passed(self) -> bool:
        """Whether the run passed the gate; True for documents of earlier versions, which have none."""
        return self.mastery is None or self.mastery.mastered

    def past_training(self, name: str) -> float | None:
        """The mean accuracy on a set over the tested lengths beyond training; None without any."""
        past = [row.accuracy for row in self.of_set(name).values() if row.length > self.training.longest]
        return fmean(past) if past else None

    def at_training(self, name: str) -> float | None:
        """The mean accuracy on a set over the tested training lengths; None without any."""
        own = [row.accuracy for row in self.of_set(name).values() if row.trained]
        return fmean(own) if own else None


@dataclass(frozen=True, kw_only=True)
class StudyCell:
    """The runs of one combination of settings, one per seed."""

    cell: str = fact("arm and varied values")
    label: str | None = fact("varied values; null in documents of earlier versions", default=None)
    arm: str = fact("name of the arm")
    settings: JsonObject = fact("varied settings and their values")
    encoding: str | None = fact("positional encoding", default=None)
    pooling: str | None = fact("pooling of a classifier", default=None)
    planned: int | None = fact("runs planned", default=None)
    failed: Mapping[str, str] = fact("errors of failed runs, by name", default={})
    training: tuple[Training, ...] = fact("training of each run")
    together: SeedSummary | None = fact("summary over seeds; null without runs")
    runs: tuple[MeasuredRun, ...] = fact("each run's measurement")

    @property
    def judged(self) -> list[Mastery]:
        """The mastery of the runs that have one."""
        return [run.mastery for run in self.runs if run.mastery is not None]

    def held(self, name: str) -> list[int]:
        """The length held on a set, for every seed that passed the gate and was measured on it."""
        return [run.held[name] for run in self.runs if name in run.held and run.passed]

    def mean_past_training(self, name: str) -> float | None:
        """The mean accuracy beyond training over the seeds that passed the gate; None without any."""
        found = [mean for run in self.runs if run.passed and (mean := run.past_training(name)) is not None]
        return fmean(found) if found else None


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Shares of the sum of squares between the cells of one seed, one number per seed."""

    encoding: tuple[float, ...] = fact("explained by the encoding")
    pooling: tuple[float, ...] = fact("explained by the pooling")
    together: tuple[float, ...] = fact("explained by their interaction")


@dataclass(frozen=True, kw_only=True)
class RunCounts:
    """The number of runs with each value of a setting."""

    encoding: Mapping[str, int] = fact("runs by encoding")
    pooling: Mapping[str, int] = fact("runs by pooling")


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Encoding against pooling in one arm and on one set, for the runs that mastered the set at training lengths."""

    arm: str = fact("name of the arm")
    set_name: str = fact("set of examples", key="set")
    gate: float = fact("accuracy at training lengths from which a run has mastered the set")
    runs: int = fact("runs measured beyond training")
    mastered: int = fact("runs that mastered the set")
    best_at_training: float | None = fact("best accuracy at training lengths")
    not_mastered: Mapping[str, tuple[float, ...]] = fact("accuracies of runs that did not master, by combination")
    lowest: float | None = fact("lowest mean accuracy beyond training")
    highest: float | None = fact("highest mean accuracy beyond training")
    encoding: Mapping[str, float] = fact("mean accuracy beyond training by encoding")
    pooling: Mapping[str, float] = fact("mean accuracy beyond training by pooling")
    runs_by: RunCounts = fact("runs behind these means")
    seeds: tuple[int, ...] = fact("seeds for which every combination mastered the set")
    shares: Shares | None = fact("explained shares of these seeds; null without any")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of training in one arm."""

    arm: str = fact("name of the arm")
    runs: int = fact("runs trained")
    steps: int = fact("steps of all runs", unit="steps")
    seconds: float = fact("time; a stack of seeds counts once", unit="seconds")
    devices: tuple[str, ...] = fact("GPUs or devices")


Topic = Literal["gate", "furthest", "decision", "nothing decides", "constant", "mechanism", "descriptive", "other"]
"""The topic of a sentence; `other` for sentences of earlier versions, which have none."""


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """A sentence of the answer, with its topic."""

    kind: Topic = fact("topic of the sentence")
    set_name: str | None = fact("the set that it is about, if any", key="set", default=None)
    text: str = fact("the sentence")

    @classmethod
    def upgrade(cls, document: JsonValue) -> JsonValue:
        """Convert a sentence of earlier versions, which is plain text."""
        return {"kind": "other", "text": document} if isinstance(document, str) else document


@dataclass(frozen=True, kw_only=True)
class ArmRecord:
    """An arm of the study: a recipe, its changed settings and its varied settings."""

    name: str = fact("name of the arm")
    recipe: str = fact("name of the recipe")
    set: JsonObject = fact("changed settings")
    vary: JsonObject = fact("varied settings: their values, or named settings")
    seeds: tuple[int, ...] = fact("the arm's seeds", default=())
    refused: Mapping[str, str] = fact("encodings that the task rejects, with the reason", default={})


@dataclass(frozen=True, kw_only=True)
class StudyDocument(Document):
    """A summary of a study over its runs."""

    form: Literal[1] = fact("version of this document", default=1)
    experiment: str = fact("name of the experiment")
    preset: str = fact("size of the experiment")


@dataclass(frozen=True, kw_only=True)
class LengthStudy(StudyDocument):
    """analysis/lengths.json of a study."""

    arms: tuple[ArmRecord, ...] = fact("the arms of the study")
    n: int = fact("examples of each set at each length")
    cells: tuple[StudyCell, ...] = fact("one record per combination")
    decisions: tuple[Decision, ...] = fact("encoding against pooling", default=())
    costs: tuple[Cost, ...] = fact("cost of training", default=())
    answer: tuple[Sentence, ...] = fact("the sentences of the answer")
    patterns: Patterns | None = fact("pictures of every encoding", default=None)


@dataclass(frozen=True, kw_only=True)
class FailedTraining:
    """A run that failed and cannot be measured."""

    run: str = fact("directory of the run")
    error: str = fact("its error")


@dataclass(frozen=True, kw_only=True)
class EvaluatedRun:
    """The training of a run, and its accuracy."""

    training: Training | FailedTraining = fact("training, or its error")
    evaluation: SplitEvaluation | None = fact("accuracy on the whole domain, or on the test split; null if it failed")


@dataclass(frozen=True, kw_only=True)
class AccuracyStudy(StudyDocument):
    """analysis/summary.json of a study of accuracy."""

    runs: tuple[EvaluatedRun, ...] = fact("one record per run")
