"""The interface of a head analysis: one class with its computation and its cost.

    class DirectLogitAttribution(OneStep[Attribution]):
        name, result = "attribution", Attribution

The result provides its sentences and figures (`results.analyses.Finding`), and `results.analyses` lists all analyses.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from headway.callbacks import OnProgress, OnStepProgress

if TYPE_CHECKING:
    from headway.evaluation import Trained
    from headway.head_analysis.head_runs import HeadRuns
    from headway.model.sites import HeadSite
    from headway.tasks import Examples

R = TypeVar("R")


class Clock:
    """Measures the time of each step and passes its progress on."""

    def __init__(self, progress: OnStepProgress):
        self.progress = progress
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, step: str) -> Iterator[OnProgress]:
        start = time.perf_counter()
        self.progress(step, 0, 1)
        yield lambda done, total: self.progress(step, done, total)
        self.seconds[step] = round(time.perf_counter() - start, 3)


@dataclass(frozen=True)
class Cost:
    """The budget of a step, in passes over one example of three-digit addition on a CPU; larger models get fewer
    examples.

    `passes` is the number of passes per example for a model's sites and a number of sampled orders, and `most` the
    largest useful number of examples out of n.
    """

    budget: int
    passes: "Callable[[Sequence[HeadSite], int], int]"
    most: Callable[[int], int] = lambda n: n


@dataclass(frozen=True)
class Subject:
    """A run under analysis: its examples, the number that each step may use, and earlier results."""

    trained: "Trained"
    examples: "Examples"
    split: str
    maps: int
    sizes: Mapping[str, int]
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def runs(self) -> "HeadRuns":
        """The model and the examples, as ablations ask for them."""
        from headway.head_analysis.head_runs import TrainedRuns

        return TrainedRuns(self.trained, self.examples)


class Analysis(ABC, Generic[R]):
    """One analysis, in one step (`OneStep`) or in several, which it names."""

    name: ClassVar[str]
    result: ClassVar[type]
    steps: ClassVar[tuple[str, ...]] = ()

    def costs(self) -> Mapping[str, Cost]:
        """The cost of each step that uses fewer examples of an expensive model; `Subject.sizes` has the numbers."""
        return {}

    @abstractmethod
    def run(self, subject: Subject, clock: Clock) -> R:
        """The result for the subject; the clock times each step under its name."""

    @classmethod
    def of(cls, subject: Subject) -> R:
        """The earlier result of this analysis for the subject."""
        found: R = subject.found[cls.name]
        return found


class OneStep(Analysis[R]):
    """An analysis with a single step, which has the analysis's name."""

    @abstractmethod
    def make(self, subject: Subject, progress: OnProgress) -> R:
        """The result for the subject."""

    def run(self, subject: Subject, clock: Clock) -> R:
        with clock(self.name) as progress:
            return self.make(subject, progress)
