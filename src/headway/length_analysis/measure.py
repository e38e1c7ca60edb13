"""Accuracy of one run at each length: `headway lengths` and `hw.lengths`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TypedDict

import numpy as np

from headway.callbacks import OnProgress
from headway.errors import InputError
from headway.evaluation import Trained, evaluate_examples, load
from headway.length_analysis.held import THRESHOLD, by_set, constant_answer, held_from_shortest, length_held, not_held
from headway.length_analysis.mechanism import mechanism as compare_heads
from headway.length_analysis.positions import positions
from headway.length_analysis.sets import length_set, plan_lengths
from headway.results.evaluation import ClassEvaluation, SequenceEvaluation
from headway.results.lengths import (
    Checkpoint,
    ConstantAnswer,
    Decoding,
    DifficultyBin,
    LengthRow,
    Lengths,
    TrainingRange,
)
from headway.results.mechanism import Mechanism
from headway.statistics import wilson_interval
from headway.tasks import Examples
from headway.tasks.examples import LengthPlan

EXAMPLES = 2_000
"""Examples of each set at each length."""
MOST_EXAMPLES = 1_000_000
WHOLE = 200_000
"""A set with at most this many examples is measured completely at the shortest length, by default.

A set with fewer examples than a sample is measured completely at every length.
"""
MOST_LISTED = 100_000_000
SHOWN = 3
"""Wrong answers of each set at each length that are stored in full."""
DECODED = 64
"""Largest number of answers of each set that are decoded greedily."""
CONFIDENCE = 0.95
ON_VALIDATION = "validation loss at training lengths"


def measure_lengths(
    run: Trained | str | Path,
    *,
    at: Sequence[int] | None = None,
    n: int = EXAMPLES,
    whole: int = WHOLE,
    mechanism: bool = False,
    progress: OnProgress = lambda done, total: None,
) -> Lengths:
    """Accuracy of a run on every set at every length, and the length held on each set; writes nothing.

    `at` replaces the task's default test lengths beyond its training range. A set of at most `whole` examples is
    measured completely at the shortest length. The checkpoint is the one with the best validation loss, which has
    training lengths only. With `mechanism`, every head is also compared across lengths.

    >>> hw.lengths("sortedness-seed0").held   # doctest: +SKIP
    {'swaps': 256, 'adjacent': 64, 'matched': 128, 'plateaus': 16, 'descents': 64}
    """
    trained = run if isinstance(run, Trained) else load(run)
    check_sizes(n, whole)
    plan = plan_lengths(trained, at)
    rows = measure_sets(trained, plan, n, whole, progress)
    model = trained.config.model
    return Lengths(
        task=trained.task.name,
        run=str(trained.directory.path),
        seed=trained.config.seed,
        encoding=model.encoding.name,
        pooling=model.pooling.name if model.pooling else None,
        negatives_trained=getattr(trained.task.options, "negatives", None),
        checkpoint=Checkpoint(step=trained.step, chosen_on=_chosen_on(trained)),
        unit=plan.unit,
        training=TrainingRange(shortest=plan.shortest, longest=plan.longest),
        asked=None if at is None else tuple(sorted(set(at))),
        n=n,
        whole=whole,
        threshold=THRESHOLD,
        confidence=CONFIDENCE,
        **summarised(rows),
        positions=positions(trained),
        mechanism=_mechanism(trained, plan, progress) if mechanism else None,
    )


def check_sizes(n: int, whole: int) -> None:
    if not 2 <= n <= MOST_EXAMPLES:
        raise InputError(f"--n {n}; 2 to {MOST_EXAMPLES:,} examples of a set needed")
    if not 0 <= whole <= MOST_LISTED:
        raise InputError(f"--whole {whole}; 0 to {MOST_LISTED:,} members needed")


class Summary(TypedDict):
    """The fields of `Lengths` that follow from its rows."""

    rows: tuple[LengthRow, ...]
    held: dict[str, int]
    not_held: dict[str, tuple[int, ...]]
    length_held: int
    certified: dict[str, int]
    certified_length: int
    constant: ConstantAnswer | None


def summarised(rows: list[LengthRow]) -> Summary:
    """The lengths held on each set, and the answer of a model that always gives the same one."""
    constant = constant_answer(rows)
    if constant is not None:  # it is also constant in sets of one class
        rows = [
            replace(row, constant=constant.answer) if row.one_class and row.length >= constant.start else row
            for row in rows
        ]
    sets = by_set(rows)
    held = {name: length_held(own) for name, own in sets.items()}
    certified = {name: held_from_shortest(own) for name, own in sets.items()}
    return {
        "rows": tuple(rows),
        "held": held,
        "not_held": {name: not_held(own) for name, own in sets.items()},
        "length_held": min(held.values()),
        "certified": certified,
        "certified_length": min(certified.values()),
        "constant": constant,
    }


def measure_sets(trained: Trained, plan: LengthPlan, n: int, whole: int, progress: OnProgress) -> list[LengthRow]:
    """Every set at every length; small sets completely at the shortest length."""
    asked = [
        SetAtLength(trained, name, length, n, whole if length == min((*plan.trained, *plan.longer)) else 0)
        for name in plan.sets
        for length in (*plan.trained, *plan.longer)
    ]
    tokens = sum(one.size * one.length for one in asked)
    rows, done = [], 0
    for one in asked:
        inside = plan.shortest <= one.length <= plan.longest
        row = measure_set(trained, one, inside, lambda k, _: progress(done + k * one.length, tokens))  # noqa: B023
        rows.append(row)
        done += one.size * one.length
        if row.n < one.size:  # a small set had fewer examples
            progress(done, tokens)
    return rows


def _mechanism(trained: Trained, plan: LengthPlan, progress: OnProgress) -> Mechanism:
    """Compare heads from the longest training length on, on the set with the negatives of training."""
    known = getattr(trained.task.options, "negatives", None)
    return compare_heads(
        trained, [plan.longest, *plan.longer], sets=known if known in plan.sets else None, progress=progress
    )


def _chosen_on(trained: Trained) -> str:
    """The reason for this checkpoint: the best validation loss, or the caller's choice."""
    best = trained.directory.newest_state().get("best", {}).get("step")
    return ON_VALIDATION if trained.step == best else "asked for by step"


@dataclass(frozen=True)
class SetAtLength:
    """One set at one length: a sample of `n`, or all examples if there are at most `whole` or fewer than `n`."""

    trained: Trained
    name: str
    length: int
    n: int
    whole: int

    @property
    def listed(self) -> int | None:
        """The number of examples in the set if all are used; else None."""
        members = self.trained.task.set_size(self.name, self.length)
        return members if members is not None and members <= max(self.whole, self.n) else None

    @property
    def size(self) -> int:
        """The number of examples used; a small set may have fewer."""
        return self.listed or self.n

    def chunks(self) -> tuple[Iterator[Examples], int]:
        """The examples, and their number."""
        if self.listed is not None:
            return self.trained.task.list_set(self.name, self.length), self.listed
        examples = length_set(self.trained, self.name, self.length, self.n)
        return iter([examples]), len(examples)


def measure_set(trained: Trained, asked: SetAtLength, inside: bool, progress: OnProgress) -> LengthRow:
    """One set at one length: accuracy, distribution of answers, and accuracy by difficulty."""
    chunks, size = asked.chunks()
    rights: list[np.ndarray] = []
    hard: dict[str, list[np.ndarray]] = {}
    labels: dict[int, int] = {}

    def observe(examples: Examples, right: np.ndarray) -> None:
        rights.append(right)
        for feature, value in trained.task.difficulty(examples.source).items():
            hard.setdefault(feature, []).append(value.astype(np.int32))
        if trained.task.kind == "class":
            for label, count in zip(*np.unique(examples.target, return_counts=True), strict=True):
                labels[int(label)] = labels.get(int(label), 0) + int(count)

    found = evaluate_examples(
        trained, asked.name, chunks, size, decoded=DECODED, shown=SHOWN, progress=progress, observe=observe
    )
    right = np.concatenate(rights)
    row = LengthRow(
        length=asked.length,
        set_name=asked.name,
        trained=inside,
        n=found.n,
        whole=asked.listed is not None,
        exhausted=asked.listed is None and found.n < asked.n,
        wrong=found.wrong,
        accuracy=found.accuracy,
        interval=found.interval,
        loss=found.loss,
        wrong_examples=found.wrong_examples,
        by={feature: by_doubling(np.concatenate(values), right) for feature, values in hard.items()},
    )
    return _with_answers(row, labels, found) if isinstance(found, ClassEvaluation) else _with_decoding(row, found)


def _with_answers(row: LengthRow, labels: Mapping[int, int], found: ClassEvaluation) -> LengthRow:
    """Add the distribution of a classifier's answers and of the right answers.

    `constant` is its only answer, if it gives a single one although the set has several right answers; `one_class`
    marks a set with one right answer.
    """
    given = [label for label, share in found.answer_shares.items() if share > 0]
    return replace(
        row,
        balanced_accuracy=found.balanced_accuracy,
        answer_shares=found.answer_shares,
        target_shares={label: labels.get(int(label), 0) / found.n for label in found.answer_shares},
        one_class=len(labels) == 1,
        constant=given[0] if len(given) == 1 and len(labels) > 1 else None,
    )


def _with_decoding(row: LengthRow, found: SequenceEvaluation) -> LengthRow:
    """Add the agreement of greedy decoding with the teacher-forced pass, on a sample."""
    decoded = Decoding(
        n=found.decoded_n,
        wrong=found.decoded_wrong,
        disagreements=found.disagreements,
        real_disagreements=found.real_disagreements,
    )
    return replace(row, decoded=decoded)


def by_doubling(value: np.ndarray, right: np.ndarray) -> tuple[DifficultyBin, ...]:
    """Accuracy for the values 0, 1, 2, 3, 4, then 5 to 8, 9 to 16, ...: the same ranges at every length.

    Negative values are ignored; empty ranges are omitted.
    """
    edges = [-1, 0, 1, 2, 3, 4]
    while edges[-1] < value.max(initial=0):
        edges.append(2 * edges[-1])
    bins = []
    for below, top in pairwise(edges):
        inside = (value > below) & (value <= top)
        n, good = int(inside.sum()), int(right[inside].sum())
        if n:
            interval = wilson_interval(good, n)
            bins.append(
                DifficultyBin(low=below + 1, high=top, accuracy=good / n, n=n, wrong=n - good, interval=interval)
            )
    return tuple(bins)
