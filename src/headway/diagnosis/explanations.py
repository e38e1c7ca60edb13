"""Simple behaviours of a broken or trivial model, each with the examples that it gets right."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from headway.diagnosis.foreign import ForeignData
from headway.diagnosis.published_results import Point
from headway.tasks import Examples, Task
from headway.tasks.addition import Addition
from headway.tasks.splits import problem_keys

Holds = Callable[[ForeignData, Examples], np.ndarray]
"""For each example, whether the candidate's behaviour answers it correctly."""


@dataclass(frozen=True)
class Candidate:
    """A simple behaviour that could explain a published accuracy; `holds` marks the examples that it gets right.

    `weight` is its share of the allowed probability of a false explanation. `either` allows another class for each
    number.
    """

    check: str
    words: str
    fix: str
    holds: Holds
    weight: float
    either: bool = False


@dataclass(frozen=True)
class Share:
    """The number of right answers of a candidate out of n examples."""

    right: int
    n: int


def candidates_of(task: Task) -> list[Candidate]:
    """The candidates for a task that foreign files can have; empty for other tasks."""
    found = {"addition": SUMS, "addition-text": SUMS_AS_TEXT, "sortedness": CLASS}.get(task.name, [])
    return [replace(one, words=one.words.replace(BELOW, _below(task))) for one in found]


def _below(task: Task) -> str:
    """`below 1000` for sums of three digits, also in other bases."""
    return f"below {task.base**task.digits}" if isinstance(task, Addition) else BELOW


def _same_class(label: int) -> Holds:
    return lambda data, examples: np.asarray(examples.target == label)


def _digits(data: ForeignData, examples: Examples) -> tuple[np.ndarray, np.ndarray]:
    """The digits of the right answers, most significant first, -1 where there is none; and a mask of the digits."""
    rows = data.task.answer(examples.source)
    inside = rows < 10
    return np.where(inside, rows, -1), inside


def _first_digit_zero(data: ForeignData, examples: Examples) -> np.ndarray:
    return np.asarray(data.task.features(examples.source)["carry_out"] == 0)


def _no_zero(data: ForeignData, examples: Examples) -> np.ndarray:
    return np.asarray((_digits(data, examples)[0] != 0).all(1))


def _below_without_zero(data: ForeignData, examples: Examples) -> np.ndarray:
    digits, inside = _digits(data, examples)
    zeros = ((digits == 0) & inside).sum(1)
    return np.asarray(_first_digit_zero(data, examples) & (zeros == 1))


def _no_carry(data: ForeignData, examples: Examples) -> np.ndarray:
    return np.asarray(data.task.features(examples.source)["carries"] == 0)


def _no_zero_after_first(data: ForeignData, examples: Examples) -> np.ndarray:
    return np.asarray((_digits(data, examples)[0][:, 1:] != 0).all(1))


def _in_training(data: ForeignData, examples: Examples) -> np.ndarray:
    known = {key for some in data.of_role("train") for key in problem_keys(data.task, some.source)}
    return np.array([key in known for key in problem_keys(data.task, examples.source)])


def _ends_rise(data: ForeignData, examples: Examples) -> np.ndarray:
    length = (examples.source != data.task.vocabulary.pad).sum(1)
    last = examples.source[np.arange(len(examples)), length - 1]
    return np.asarray((last >= examples.source[:, 0]) == (examples.target == 1))


ONE_ANSWER = "Count how often each class is answered; a model that gives one answer has learned nothing here."
SHARED = "Remove from training what is in the test files, and train again."
CLASS = [
    Candidate("constant-answer", "the shares of unsorted sequences", ONE_ANSWER, _same_class(0), 0.35),
    Candidate("constant-answer", "the shares of sorted sequences", ONE_ANSWER, _same_class(1), 0.35),
    Candidate(
        "constant-answer", "the shares of one class, not everywhere the same,", ONE_ANSWER, _same_class(0), 0.15, True
    ),
    Candidate(
        "trivial-rule",
        "what comparing the first element with the last gets right",
        "Test on sequences with one adjacent inversion, which this rule cannot see.",
        _ends_rise,
        0.15,
    ),
]
BELOW = "without a carry out of the top column"
PADDING = "Use a padding id that is not a digit; the loss must not ignore the digit 0."
SUMS = [
    Candidate(
        "first-digit-never-predicted",
        f"the share of sums {BELOW}",
        "Give the decoder a start token of its own and train it to write the first digit.",
        _first_digit_zero,
        0.3,
    ),
    Candidate(
        "zeros-not-scored",
        f"the share of sums {BELOW} with no other zero in them",
        f"{PADDING} Give the decoder a start token.",
        _below_without_zero,
        0.3,
    ),
    Candidate("zeros-not-scored", "the share of sums with no zero in them", PADDING, _no_zero, 0.1),
    Candidate(
        "zeros-not-scored",
        "the share of sums with no zero after the first digit",
        PADDING,
        _no_zero_after_first,
        0.1,
    ),
    Candidate(
        "trivial-rule", "the share of sums without a carry", "Look at the sums with carries alone.", _no_carry, 0.1
    ),
    Candidate("split-overlap", "the share of test sums that are also in training", SHARED, _in_training, 0.1),
]
SUMS_AS_TEXT = [
    replace(SUMS[2], weight=0.5),
    replace(SUMS[4], weight=0.25),
    replace(SUMS[5], weight=0.25),
]
"""A sum without padding has no leading digit that is mostly 0."""


def sets_of(data: ForeignData, point: Point) -> list[Examples]:
    """The sets on which a number can have been measured: of its length, its split, or the test file."""
    if isinstance(point.place, int):
        return data.by_length.get(point.place, [])
    return data.of_role(point.split) if point.split in ("train", "validation") else data.measured


def share_of(candidate: Candidate, data: ForeignData, examples: Examples) -> Share:
    key = (candidate.holds, id(examples))
    if key not in data.remembered:
        data.remembered[key] = Share(int(candidate.holds(data, examples).sum()), len(examples))
    return data.remembered[key]
