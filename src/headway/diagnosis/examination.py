"""Shared inputs of the checks, computed once: a sample of the measured split and the answers to it."""

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from headway.diagnosis.subject import Answers, Subject, widened
from headway.randomness import generator
from headway.tasks import Examples

SAMPLE = 500
"""Examples that are answered: enough for shares within 4.5 points, and most faults show in far fewer."""
FEW = 48
"""Examples for checks in which all numbers must agree, so that one disagreement is enough."""

ONE_BY_ONE = 12
"""Examples that are run once for each head and instrument; two exchanged heads show in a single example."""


class Examination:
    """A subject and its answers to a sample; a value that needs a missing part of the subject is None."""

    def __init__(self, subject: Subject, size: int = SAMPLE):
        self.size = size
        self.subject, self.task = subject, subject.task
        self.is_class = subject.task.kind == "class"
        self.pad = subject.vocabulary.pad
        self.operands_falling = getattr(subject.task, "operands_falling", True)

    def sample_of(self, split: str) -> Examples | None:
        """At most `size` examples of a split; the same ones at every call."""
        if split not in self.subject.splits:
            return None
        examples = self.subject.splits[split]
        return examples.take(self.rows_of(len(examples), self.size))

    @staticmethod
    def rows_of(size: int, n: int) -> np.ndarray:
        return np.sort(generator(0, "doctor").permutation(size)[:n])

    @property
    def measured(self) -> str:
        """The split on which accuracy is measured: test, or the last split."""
        return "test" if "test" in self.subject.splits else list(self.subject.splits)[-1]

    @cached_property
    def sample(self) -> Examples:
        found = self.sample_of(self.measured)
        assert found is not None
        return found

    @cached_property
    def few(self) -> Examples:
        return self.sample.take(slice(0, FEW))

    @cached_property
    def one_by_one(self) -> Examples:
        return self.few.take(slice(0, ONE_BY_ONE))

    @cached_property
    def one_by_one_silenced(self) -> Mapping[str, Tensor]:
        """The logits without each head, by the independent computation."""
        assert self.subject.silenced is not None
        return self.subject.silenced(self.one_by_one)

    @cached_property
    def logits(self) -> Tensor | None:
        return None if self.subject.forward is None else self.subject.forward(self.sample)

    @cached_property
    def predicted(self) -> Answers | None:
        """The answers of the teacher-forced pass."""
        return None if self.logits is None else self.logits.argmax(-1).numpy()

    @cached_property
    def answers(self) -> Answers | None:
        """The answers: given predictions, else decoded answers, else the most likely class."""
        if self.measured in self.subject.predictions:
            given = self.subject.predictions[self.measured]
            rows = self.rows_of(len(self.subject.splits[self.measured]), self.size)
            return given[rows] if self.is_class else widened(given[rows], self.sample.target.shape[1], self.pad)
        if self.is_class:
            return self.predicted
        return None if self.subject.decode is None else self.subject.decode(self.sample, True)

    @cached_property
    def target(self) -> Answers:
        """The sample's targets, padded to the width of the answers."""
        target = self.sample.target
        return target if self.is_class or self.answers is None else widened(target, self.answers.shape[1], self.pad)

    @cached_property
    def right(self) -> np.ndarray | None:
        """Which answers the subject's own scoring accepts."""
        return None if self.answers is None else self.subject.score(self.answers, self.target)

    def accuracy_on(self, split: str) -> tuple[int, int] | None:
        """The number of right answers of the teacher-forced pass on a sample of a split, and the sample's size."""
        examples = self.sample_of(split)
        if examples is None or self.subject.forward is None:
            return None
        predicted = self.predicted if split == self.measured else self.subject.forward(examples).argmax(-1).numpy()
        assert predicted is not None
        return int(self.subject.score(predicted, examples.target).sum()), len(examples)

    def shown(self, row: int, answer: np.ndarray | int | None = None) -> str:
        """An example of the sample as text, with its target or another answer."""
        return self.task.show(self.sample.source[row], self.sample.target[row] if answer is None else answer)


def apart(one: Tensor, other: Tensor) -> float:
    """The largest difference between two arrays of logits, relative to their largest absolute value (at least 1)."""
    both = torch.stack([one, other])
    if not both.numel():
        return 0.0
    return float((one - other).abs().max() / both.abs().max().clamp(min=1))
