"""Accuracy of one run at each length: what `headway lengths` measures, and `hw.lengths` from Python."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from headway.errors import InputError
from headway.evaluation import ClassEvaluation, SequenceEvaluation, Trained, evaluate_examples, load
from headway.lengths.certified import THRESHOLD, certified_lengths, constant_answer
from headway.lengths.mechanism import mechanism as compare_heads
from headway.lengths.positions import positions
from headway.lengths.sets import length_set, plan_lengths
from headway.statistics import wilson_interval
from headway.tasks import Examples
from headway.tasks.base import LengthPlan

FORM = 1
EXAMPLES = 2_000
"""Examples of each set at each length."""
MOST_EXAMPLES = 1_000_000
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
    def certified(self) -> dict[str, int]:
        """The certified length of each set."""
        return dict(self.document["certified"])

    @property
    def certified_length(self) -> int:
        """The smallest of them."""
        return int(self.document["certified_length"])

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
        for name, reached in self.certified.items():
            found = {row["length"]: f"{row['accuracy']:.3f}" for row in self.rows if row["negatives"] == name}
            cells = "".join(f"<td>{found.get(length, '')}</td>" for length in tested)
            lines.append(f"<tr><td>{escape(name)}</td>{cells}<td>{reached}</td></tr>")
        header = "".join(f"<th>{length}</th>" for length in tested)
        return f"<table><tr><th>set</th>{header}<th>certified</th></tr>{''.join(lines)}</table>"


def measure_lengths(
    run: Trained | str | Path,
    *,
    at: Sequence[int] | None = None,
    n: int = EXAMPLES,
    mechanism: bool = False,
    report: Progress = lambda done, total: None,
) -> Lengths:
    """Accuracy of a run on every set at every length, and the lengths up to which it is certified; writes nothing.

    `at` are lengths to test in place of the task's own past its training range. A run is opened at the checkpoint that
    validation chose, which knows training lengths only. With `mechanism` every head is compared across the lengths too.

    >>> hw.lengths("sortedness-seed0").certified   # doctest: +SKIP
    {'swaps': 256, 'adjacent': 64, 'matched': 128}
    """
    trained = run if isinstance(run, Trained) else load(run)
    if not 2 <= n <= MOST_EXAMPLES:
        raise InputError(f"--n {n}; 2 to {MOST_EXAMPLES:,} examples of a set needed")
    plan = plan_lengths(trained, at)
    tested = [(name, length) for name in plan.sets for length in (*plan.trained, *plan.longer)]
    tokens = n * sum(length for _, length in tested)
    rows, done = [], 0
    for name, length in tested:
        examples = length_set(trained, name, length, n)
        rows.append({"length": length, "negatives": name, "trained": plan.shortest <= length <= plan.longest})
        rows[-1] |= _measure(trained, name, examples, lambda k, _: report(done + k * length, tokens))  # noqa: B023
        done += n * length
    certified = certified_lengths(rows)
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
            "threshold": THRESHOLD,
            "confidence": CONFIDENCE,
            "lengths": rows,
            "certified": certified,
            "certified_length": min(certified.values()),
            "constant": constant_answer(rows),
            "positions": positions(trained).to_json(),
            "mechanism": _mechanism(trained, plan, report) if mechanism else None,
        }
    )


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


def _measure(trained: Trained, name: str, examples: Examples, report: Progress) -> dict[str, Any]:
    """One set at one length: how often it is right, what is answered, and accuracy by what makes an example hard."""
    rights: list[np.ndarray] = []
    found = evaluate_examples(
        trained,
        name,
        iter([examples]),
        len(examples),
        decoded=DECODED,
        shown=0,
        progress=report,
        observe=lambda _, right: rights.append(right),
    )
    row = {
        "n": found.n,
        "wrong": found.wrong,
        "accuracy": found.accuracy,
        "interval": list(found.interval),
        "loss": found.loss,
        **(_answers(trained, examples, found) if isinstance(found, ClassEvaluation) else _decoding(found)),
    }
    hard = trained.task.difficulty(examples.source)
    return {**row, "by": {feature: by_doubling(value, np.concatenate(rights)) for feature, value in hard.items()}}


def _answers(trained: Trained, examples: Examples, found: ClassEvaluation) -> dict[str, Any]:
    """What a classifier answers, beside what is right; `constant` is its one answer where it gives only one."""
    classes = range(trained.task.n_classes)
    given = [label for label, share in found.answer_shares.items() if share > 0]
    return {
        "balanced_accuracy": found.balanced_accuracy,
        "answer_shares": found.answer_shares,
        "target_shares": {str(label): float((examples.target == label).mean()) for label in classes},
        "constant": given[0] if len(given) == 1 else None,
        "decoded": None,
    }


def _decoding(found: SequenceEvaluation | ClassEvaluation) -> dict[str, Any]:
    """How real decoding of a sample agrees with the parallel pass."""
    assert isinstance(found, SequenceEvaluation)
    return {
        "balanced_accuracy": None,
        "answer_shares": None,
        "target_shares": None,
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
