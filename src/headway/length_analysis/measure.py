"""Accuracy of one run at each length: what `headway lengths` measures, and `hw.lengths` from Python."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from headway.errors import InputError
from headway.evaluation import ClassEvaluation, SequenceEvaluation, Trained, evaluate_examples, load
from headway.length_analysis.held import THRESHOLD, by_set, constant_answer, held_from_shortest, length_held, not_held
from headway.length_analysis.mechanism import mechanism as compare_heads
from headway.length_analysis.positions import positions
from headway.length_analysis.sets import length_set, plan_lengths
from headway.statistics import wilson_interval
from headway.tasks import Examples
from headway.tasks.base import LengthPlan

FORM = 1
EXAMPLES = 2_000
"""Examples of each set at each length."""
MOST_EXAMPLES = 1_000_000
WHOLE = 200_000
"""A set with at most so many members is measured whole at the shortest length, unless asked otherwise."""
MOST_LISTED = 100_000_000
SHOWN = 3
"""Wrong answers of each set at each length that are kept in full."""
DECODED = 64
"""Answers of each set that are decoded for real, at most."""
CONFIDENCE = 0.95
ON_VALIDATION = "validation loss at training lengths"

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Lengths:
    """What was measured of one run against length; `document` is lengths.json."""

    document: Mapping[str, Any] = field(repr=False)

    @property
    def held(self) -> dict[str, int]:
        """The length held on each set: the largest tested one with at least 99 % (95 % interval)."""
        return dict(self.document.get("held", self.document["certified"]))

    @property
    def length_held(self) -> int:
        """The smallest of them."""
        return min(self.held.values())

    @property
    def rows(self) -> list[Mapping[str, Any]]:
        return list(self.document["lengths"])

    def at(self, length: int, negatives: str | None = None) -> Mapping[str, Any]:
        """The row of a set (the first one unless named) at a length."""
        name = negatives or self.rows[0]["negatives"]
        rows = {(row["negatives"], row["length"]): row for row in self.rows}
        if (name, length) not in rows:
            known = ", ".join(f"{known} at {tested}" for known, tested in rows)
            raise InputError(f"{name!r} was not measured at {length}; measured: {known}")
        return rows[name, length]

    def to_json(self) -> dict[str, Any]:
        return dict(self.document)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Lengths":
        if document.get("form") != FORM:
            raise InputError(f"lengths.json has form {document.get('form')!r}; this version reads {FORM}")
        return cls(document)

    def _repr_html_(self) -> str:
        tested = sorted({row["length"] for row in self.rows})
        lines = []
        for name, reached in self.held.items():
            found = {row["length"]: f"{row['accuracy']:.3f}" for row in self.rows if row["negatives"] == name}
            cells = "".join(f"<td>{found.get(length, '')}</td>" for length in tested)
            lines.append(f"<tr><td>{escape(name)}</td>{cells}<td>{reached}</td></tr>")
        header = "".join(f"<th>{length}</th>" for length in tested)
        return f"<table><tr><th>set</th>{header}<th>length held</th></tr>{''.join(lines)}</table>"


def measure_lengths(
    run: Trained | str | Path,
    *,
    at: Sequence[int] | None = None,
    n: int = EXAMPLES,
    whole: int = WHOLE,
    mechanism: bool = False,
    report: Progress = lambda done, total: None,
) -> Lengths:
    """Accuracy of a run on every set at every length, and the length held on each set; writes nothing.

    `at` are lengths to test in place of the task's own past its training range. A set of at most `whole` members is
    measured whole at the shortest length. A run is opened at the checkpoint that validation chose, which knows
    training lengths only. With `mechanism` every head is compared across the lengths too.

    >>> hw.lengths("sortedness-seed0").held   # doctest: +SKIP
    {'swaps': 256, 'adjacent': 64, 'matched': 128, 'plateaus': 16, 'descents': 64}
    """
    trained = run if isinstance(run, Trained) else load(run)
    if not 2 <= n <= MOST_EXAMPLES:
        raise InputError(f"--n {n}; 2 to {MOST_EXAMPLES:,} examples of a set needed")
    if not 0 <= whole <= MOST_LISTED:
        raise InputError(f"--whole {whole}; 0 to {MOST_LISTED:,} members needed")
    plan = plan_lengths(trained, at)
    rows = _rows(trained, plan, n, whole, report)
    constant = constant_answer(rows)
    if constant is not None:  # then it is so in sets of one class, too
        for row in (row for row in rows if row["one_class"] and row["length"] >= constant["from"]):
            row["constant"] = constant["answer"]
    sets = by_set(rows)
    held = {name: length_held(own) for name, own in sets.items()}
    certified = {name: held_from_shortest(own) for name, own in sets.items()}
    return Lengths(
        {
            "form": FORM,
            "task": trained.task.name,
            "run": str(trained.directory.path),
            **_recipe(trained),
            "checkpoint": {"step": trained.step, "chosen_on": _chosen_on(trained)},
            "unit": plan.unit,
            "training": {"shortest": plan.shortest, "longest": plan.longest},
            "at": None if at is None else sorted(set(at)),
            "n": n,
            "whole": whole,
            "threshold": THRESHOLD,
            "confidence": CONFIDENCE,
            "lengths": rows,
            "held": held,
            "not_held": {name: not_held(own) for name, own in sets.items()},
            "length_held": min(held.values()),
            # The largest length up to which every tested one is held, from the shortest on.
            "certified": certified,
            "certified_length": min(certified.values()),
            "constant": constant,
            "positions": positions(trained).to_json(),
            "mechanism": _mechanism(trained, plan, report) if mechanism else None,
        }
    )


def _rows(trained: Trained, plan: LengthPlan, n: int, whole: int, report: Progress) -> list[dict[str, Any]]:
    """Every set at every length; small sets as a whole at the shortest one."""
    asked = [
        Asked(trained, name, length, n, whole if length == min((*plan.trained, *plan.longer)) else 0)
        for name in plan.sets
        for length in (*plan.trained, *plan.longer)
    ]
    tokens = sum(one.size * one.length for one in asked)
    rows, done = [], 0
    for one in asked:
        inside = plan.shortest <= one.length <= plan.longest
        row = _measure(trained, one, lambda k, _: report(done + k * one.length, tokens))  # noqa: B023
        rows.append({"length": one.length, "negatives": one.name, "trained": inside, **row})
        done += one.size * one.length
        if row["n"] < one.size:  # a rare set that had fewer
            report(done, tokens)
    return rows


def _mechanism(trained: Trained, plan: LengthPlan, report: Progress) -> dict[str, Any]:
    """What each head does at the longest training length and past it, on the set whose negatives were trained on."""
    known = getattr(trained.task.options, "negatives", None)
    return compare_heads(
        trained, [plan.longest, *plan.longer], sets=known if known in plan.sets else None, report=report
    ).to_json()


def _recipe(trained: Trained) -> dict[str, Any]:
    model = trained.config.model
    return {
        "seed": trained.config.seed,
        "encoding": model.encoding.name,
        "pooling": model.pooling.name if model.pooling else None,
        "negatives_trained": getattr(trained.task.options, "negatives", None),
    }


def _chosen_on(trained: Trained) -> str:
    """Why it is this checkpoint: validation, whose sequences have training lengths, or the caller's word."""
    best = trained.directory.newest_state().get("best", {}).get("step")
    return ON_VALIDATION if trained.step == best else "asked for by step"


@dataclass(frozen=True)
class Asked:
    """One set at one length: a sample of `n`, or all its members where these are at most `whole`."""

    trained: Trained
    name: str
    length: int
    n: int
    whole: int

    @property
    def listed(self) -> int | None:
        """How many members there are, if all of them are asked."""
        members = self.trained.task.set_size(self.name, self.length) if self.whole else None
        return members if members is not None and members <= self.whole else None

    @property
    def size(self) -> int:
        """Examples that are asked; a rare set may turn out to have fewer."""
        return self.listed or self.n

    def chunks(self) -> tuple[Iterator[Examples], int]:
        """The examples, and how many they are."""
        if self.listed is not None:
            return self.trained.task.list_set(self.name, self.length), self.listed
        examples = length_set(self.trained, self.name, self.length, self.n)
        return iter([examples]), len(examples)


def _measure(trained: Trained, asked: Asked, report: Progress) -> dict[str, Any]:
    """One set at one length: how often it is right, what is answered, and accuracy by what makes an example hard."""
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
        trained, asked.name, chunks, size, decoded=DECODED, shown=SHOWN, progress=report, observe=observe
    )
    right = np.concatenate(rights)
    return {
        "n": found.n,
        "whole": asked.listed is not None,
        "exhausted": asked.listed is None and found.n < asked.n,
        "wrong": found.wrong,
        "accuracy": found.accuracy,
        "interval": list(found.interval),
        "loss": found.loss,
        **(_answers(trained, labels, found) if isinstance(found, ClassEvaluation) else _decoding(found)),
        "wrong_examples": found.wrong_examples,
        "by": {feature: by_doubling(np.concatenate(values), right) for feature, values in hard.items()},
    }


def _answers(trained: Trained, labels: Mapping[int, int], found: ClassEvaluation) -> dict[str, Any]:
    """What a classifier answers, beside what is right.

    `constant` is its one answer where it gives only one to questions that have more (`one_class` says if they do not).
    """
    given = [label for label, share in found.answer_shares.items() if share > 0]
    return {
        "balanced_accuracy": found.balanced_accuracy,
        "answer_shares": found.answer_shares,
        "target_shares": {str(label): labels.get(label, 0) / found.n for label in range(trained.task.n_classes)},
        "one_class": len(labels) == 1,
        "constant": given[0] if len(given) == 1 and len(labels) > 1 else None,
        "decoded": None,
    }


def _decoding(found: SequenceEvaluation | ClassEvaluation) -> dict[str, Any]:
    """How real decoding of a sample agrees with the parallel pass."""
    assert isinstance(found, SequenceEvaluation)
    return {
        "balanced_accuracy": None,
        "answer_shares": None,
        "target_shares": None,
        "one_class": False,
        "constant": None,
        "decoded": {
            "n": found.decoded_n,
            "wrong": found.decoded_wrong,
            "disagreements": found.disagreements,
            "real_disagreements": found.real_disagreements,
        },
    }


def by_doubling(value: np.ndarray, right: np.ndarray) -> list[dict[str, Any]]:
    """Accuracy for the values 0, 1, 2, 3, 4, then 5 to 8, 9 to 16, ...: the same ranges at every length.

    A range is named by its ends, `from` and `value`. Values below 0 count nowhere; an empty range is left out.
    """
    edges = [-1, 0, 1, 2, 3, 4]
    while edges[-1] < value.max(initial=0):
        edges.append(2 * edges[-1])
    rows = []
    for below, top in pairwise(edges):
        inside = (value > below) & (value <= top)
        n, good = int(inside.sum()), int(right[inside].sum())
        counts = {"n": n, "wrong": n - good, "interval": list(wilson_interval(good, n))}
        if n:
            rows.append({"from": below + 1, "value": top, "accuracy": good / n, **counts})
    return rows
