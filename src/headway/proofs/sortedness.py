"""Proof that a windowed classifier of sortedness is right on every sequence."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

from headway.batches import make_batch
from headway.callbacks import OnProgress
from headway.evaluation import Trained
from headway.proofs.claims import differs
from headway.proofs.rounding import NoBound
from headway.proofs.sortedness_bounds import (
    Chains,
    Descents,
    close_chains,
    close_descents,
    open_triples,
    sorted_triples,
)
from headway.proofs.sortedness_check import check
from headway.proofs.sortedness_open import open_contexts
from headway.proofs.sortedness_search import Found, Search, about_chains, about_descents
from headway.proofs.sortedness_table import TripleTable, check_config, check_model, tabulate
from headway.randomness import generator
from headway.results.proof import Answer, Counterexample, Proof, Rounding
from headway.tasks import Examples
from headway.tasks.links import explorer_link

__all__ = ["check", "check_config", "open_contexts", "prove"]

MEASURED = (1, 2, 3, 8, 32, 128)
"""Lengths at which the model's own margins are compared with the table's."""
EACH = 400
"""Sequences of each of these lengths."""
TRIED = 2_000
"""Sequences of one family that are run through the model: those with the worst margins in the table."""
SHOWN = 20
"""Largest number of counterexamples in a proof."""
METHOD = "every descent with its neighbours, and sorted sequences by the largest value of every feature"
SAFETY = 1.25
"""A context counts as proved if its bound exceeds the rounding allowance by this factor."""


@dataclass
class Evidence:
    """The bounds, searches and wrong answers found so far for one model."""

    trained: Trained
    table: TripleTable
    descents: Descents
    chains: Chains
    searches: dict[str, Found] = field(default_factory=dict)
    searched: int = 0
    wrong: list[Counterexample] = field(default_factory=list)

    @property
    def need(self) -> float:
        return SAFETY * self.table.allowance

    def open_sides(self) -> dict[str, bool]:
        """For each class, whether its bounds leave contexts open."""
        return {"unsorted": self.descents.n_open > 0, "sorted": self.chains.lowest <= self.need}

    def run(self, rows: Int[np.ndarray, "row element"]) -> None:
        """Run sequences of one length through the model and keep those that it answers wrongly."""
        self.searched += len(rows)
        self.wrong += answered_wrongly(self.trained, rows, 2 * self.table.allowance)


def prove(trained: Trained, progress: OnProgress = lambda done, total: None) -> Proof:
    """Compute bounds, then run sequences from open contexts through the model, then search exhaustively."""
    check_model(trained)
    try:
        table = tabulate(trained.model, trained.task.options.values, progress)
    except NoBound as problem:
        return _no_bound(trained, str(problem))
    need = SAFETY * table.allowance
    evidence = Evidence(trained, table, close_descents(table, -need), close_chains(table))
    if any(evidence.open_sides().values()):
        for rows in families(evidence):
            evidence.run(rows)
    if not evidence.wrong:
        _search(evidence)
    return _conclude(evidence)


def _search(evidence: Evidence) -> None:
    sides, limit = evidence.open_sides(), -evidence.need
    if sides["sorted"]:
        evidence.searches["sorted"] = Search(about_chains(evidence.table, limit)).run()
    if sides["unsorted"]:
        evidence.searches["unsorted"] = Search(about_descents(evidence.table, limit, evidence.descents)).run()
    for found in evidence.searches.values():
        if found.sequence:
            evidence.run(np.array([found.sequence]))


# Sequences that may be answered wrongly


def families(evidence: Evidence) -> Iterator[Int[np.ndarray, "row element"]]:
    """Sequences built from open contexts, alone and padded with constant runs to the shortest training length.

    Each family is limited to the sequences with the worst margins in the table.
    """
    sides = evidence.open_sides()
    if sides["unsorted"]:
        yield from _around(evidence, evidence.descents.open, 1)
    if sides["sorted"]:
        values = evidence.table.values
        yield _worst_rows(evidence.table, np.arange(values)[:, None], -1, -evidence.need)
        yield from _around(evidence, sorted_triples(values).nonzero().numpy(), -1)


def _around(
    evidence: Evidence, contexts: Int[np.ndarray, "context element"], sign: int
) -> Iterator[Int[np.ndarray, "row element"]]:
    n, middle = evidence.table.values, contexts.shape[1] - 2
    fill = max(2, -(-(evidence.trained.task.options.min_length - middle) // 2))
    for left in (False, True):
        for right in (False, True):
            inside = contexts[((contexts[:, 0] < n) == left) & ((contexts[:, -1] < n) == right)]
            for repeats in (1, fill * (2 if left != right else 1)):
                if len(inside) and (repeats == 1 or left or right):
                    rows = np.repeat(inside, [repeats * left, *[1] * middle, repeats * right], axis=1)
                    yield _worst_rows(evidence.table, rows, sign, -evidence.need)


def _worst_rows(table: TripleTable, rows: Int[np.ndarray, "row element"], sign: int, limit: float) -> np.ndarray:
    advantage = sign * table.of_sequences(torch.from_numpy(rows)).numpy()
    worst = np.argsort(-advantage, kind="stable")[:TRIED]
    return rows[worst[advantage[worst] > limit]]


def answered_wrongly(trained: Trained, rows: Int[np.ndarray, "row element"], certain: float) -> list[Counterexample]:
    """The sequences (of one length) that the model answers wrongly, also alone.

    What rounding can change lies within twice its allowance, `certain`. There a batch may turn a tie of logits, so such
    a sequence is run once more, by itself.
    """
    if not len(rows):
        return []
    margin, right = margins(trained, rows), trained.task.answer(rows)
    for at in np.flatnonzero(((margin > 0) != (right == 1)) & (np.abs(margin) <= certain)):
        margin[at] = margins(trained, rows[at : at + 1])[0]
    names = trained.task.class_names()
    wrong = np.flatnonzero((margin > 0) != (right == 1))
    return [
        Counterexample(
            input=trained.task.show(rows[at]),
            expected=names[int(right[at])],
            answered=names[1 - int(right[at])],
            tokens=tuple(map(int, rows[at])),
            length=rows.shape[1],
            margin=float(-abs(margin[at])),
            link=explorer_link(trained.task, rows[at]),
        )
        for at in wrong
    ]


@torch.inference_mode()
def margins(trained: Trained, rows: Int[np.ndarray, "row element"]) -> Float[np.ndarray, " row"]:
    """The model's margin of "sorted", for sequences of one length."""
    found = []
    for part in np.array_split(rows, max(1, rows.size // 8_192)):
        batch = make_batch(trained.task, trained.model, Examples(part, trained.task.answer(part)), trained.device)
        logits = trained.model(batch.inputs).double().cpu()
        found.append((logits[:, 1] - logits[:, 0]).numpy())
    return np.concatenate(found)


# The answer


def _conclude(evidence: Evidence) -> Proof:
    open_sides = evidence.open_sides()
    left = [side for side, is_open in open_sides.items() if is_open and not _is_closed(evidence, side)]
    if evidence.wrong:
        first, *further = _shown_wrong(evidence)
        return _proof(
            evidence,
            "counterexample",
            counterexample=first,
            further_counterexamples=tuple(further),
            open_contexts=_open(evidence, left),
        )
    if left:
        return _proof(evidence, "undecided", missing=_missing(evidence, left), open_contexts=_open(evidence, left))
    lowest = {
        "unsorted": -evidence.need if open_sides["unsorted"] else evidence.descents.highest,
        "sorted": -evidence.need if open_sides["sorted"] else -evidence.chains.lowest,
    }
    side, rounding = max(lowest, key=lambda one: lowest[one]), measure_rounding(evidence)
    if other := differs(rounding):
        found = _proof(evidence, "undecided", rounding=rounding, missing=other)
        return replace(found, open_contexts=found.contexts)
    return _proof(evidence, "proved", margin=-lowest[side], worst_context=_worst(evidence, side), rounding=rounding)


def _shown_wrong(evidence: Evidence) -> list[Counterexample]:
    """The shortest counterexamples, and the shortest of training length; of one length, the worst margin first."""
    different = {one.tokens: one for one in evidence.wrong}.values()
    ordered = sorted(different, key=lambda one: (one.length, one.margin))
    trained = [one for one in ordered if one.length >= evidence.trained.task.options.min_length][: SHOWN // 2]
    short = [one for one in ordered if one not in trained][: SHOWN - len(trained)]
    return [one for one in ordered if one in short or one in trained]


def _is_closed(evidence: Evidence, side: str) -> bool:
    found = evidence.searches.get(side)
    if side == "sorted" and _alone(evidence).min() <= evidence.need:
        return False  # the search begins with two elements
    return found is not None and found.ended and found.highest < -evidence.need


def _alone(evidence: Evidence) -> Float[np.ndarray, " value"]:
    """The margins of single elements."""
    found: np.ndarray = evidence.table.margin(evidence.table.alone).numpy()
    return found


def _open(evidence: Evidence, sides: list[str]) -> int:
    """The open contexts of these sides. If sorted ones are open only in their bound together, they count as one."""
    alone = int((_alone(evidence) <= evidence.need).sum())
    ordered = max(1, open_triples(evidence.table, evidence.need) + alone)
    counts = {"unsorted": evidence.descents.n_open, "sorted": ordered}
    return sum(counts[side] for side in sides)


def _missing(evidence: Evidence, sides: list[str]) -> str:
    said = []
    for side in sides:
        found = evidence.searches[side]
        alone = _alone(evidence).min() if side == "sorted" else np.inf
        smallest = min(float(alone), -found.highest)
        if found.ended or alone <= evidence.need:
            needed = f"not above {evidence.need:.3g}, {SAFETY:g} times the rounding allowance"
            said.append(f"a margin of {side} sequences is {smallest:.3g} logits, {needed}")
        if not found.ended:
            said.append(f"the search of {side} sequences stopped at its limit after {found.labels:,} prefixes")
    return "; ".join(said).capitalize() + "."


def _worst(evidence: Evidence, side: str) -> str:
    n = evidence.table.values
    if side in evidence.searches:
        return f"{side} sequences, by exhaustive search"
    if side == "unsorted":
        return f"the descent {_shown(evidence.descents.worst, n)}"
    return f"sorted sequences with {' and '.join(_shown(one, n) for one in evidence.chains.worst[:4])}"


def _shown(context: tuple[int, ...], none: int) -> str:
    return " ".join("." if value == none else str(value) for value in context)


def scope(values: int) -> str:
    """What a proof of this task is about."""
    return f"every sequence of elements from 0 to {values - 1}"


def _proof(evidence: Evidence, answer: Answer, **facts: Any) -> Proof:
    how = METHOD
    if evidence.searches:
        labels = sum(found.labels for found in evidence.searches.values())
        how += f"; then an exhaustive search over pairs of neighbours ({labels:,} prefixes)"
    return _about(evidence.trained, answer, method=how, searched=evidence.searched, **facts)


def _no_bound(trained: Trained, why: str) -> Proof:
    """Nothing can be said of a model whose rounding errors have no bound."""
    proof = _about(trained, "undecided", method=METHOD, missing=why)
    return replace(proof, open_contexts=proof.contexts)


def _about(trained: Trained, answer: Answer, **facts: Any) -> Proof:
    values = trained.task.options.values
    counts = contexts_of(values)
    return Proof(
        task=trained.task.name,
        run=str(trained.directory.path),
        seed=trained.config.seed,
        answer=answer,
        scope=scope(values),
        contexts=sum(counts.values()),
        contexts_by_kind=counts,
        seconds=0.0,
        **{"margin": None, **facts},
    )


def contexts_of(values: int) -> dict[str, int]:
    """How many contexts there are: descents with both neighbours or none, and what sorted sequences are made of."""
    n = values
    descents = (n + 1) ** 2 * n * (n - 1) // 2
    triples = {"sorted triples": n * (n + 1) * (n + 2) // 6, "first or last": n * (n + 1), "one element": n}
    return {"descents": descents, **triples}


def measure_rounding(evidence: Evidence) -> Rounding:
    """The largest measured difference between margins of the model and of the table, on random sequences."""
    random = generator(evidence.trained.config.data.seed, "rounding")
    largest = 0.0
    for length in MEASURED:
        rows = random.integers(0, evidence.table.values, size=(EACH, length))
        rows[: EACH // 2].sort(axis=1)
        apart = margins(evidence.trained, rows) - evidence.table.of_sequences(torch.from_numpy(rows)).numpy()
        largest = max(largest, float(np.abs(apart).max()))
    inputs = EACH * len(MEASURED)
    return Rounding(allowance=evidence.table.allowance, measured=largest, inputs=inputs, strength="rigorous")
