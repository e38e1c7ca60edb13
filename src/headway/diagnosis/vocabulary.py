"""A check that no two symbols are exchanged between training and evaluation."""

import numpy as np
from torch import Tensor

from headway.diagnosis.examination import Examination
from headway.diagnosis.findings import Verdict, error, fine
from headway.statistics import above_share
from headway.tasks import Examples

MOST_SUSPECTS = 10
"""Number of symbols that are exchanged in pairs: those with the lowest accuracy."""
MOST_EXCHANGED = 200
"""Examples for each pair, enough to show a gain of 10 points."""
SCREENED = 48
"""Examples for choosing the most suspicious pair, which is then tested on all examples."""
FEWEST_EXCHANGED = 20
EXCHANGED = 0.05
"""Share of answers that must improve when two symbols are exchanged; a healthy model loses by any exchange."""
BY_CHANCE = 1e-4
"""Largest p-value, over all pairs, of more answers improving than worsening (sign test)."""


def tokens_exchanged(seen: Examination) -> Verdict | None:
    """No exchange of two symbols improves the answers."""
    forward = seen.subject.forward
    if forward is None or seen.predicted is None or len(seen.sample) < FEWEST_EXCHANGED:
        return None
    examples = seen.sample.take(slice(0, MOST_EXCHANGED))
    right = _right_by_row(seen, forward(examples), examples)
    # If nearly all answers are right, no exchange can gain enough.
    pairs = _suspects(seen, examples, right) if (right < 1).mean() >= EXCHANGED else []
    first = slice(0, SCREENED)
    gains = {pair: _gain(seen, examples.take(first), right[first], pair) for pair in pairs}
    found = max(gains, key=lambda pair: gains[pair][0] - gains[pair][1], default=(0, 0))
    best = _gain(seen, examples, right, found) if pairs else (0, 0)
    n, (gained, lost) = len(examples), best
    by_chance = min(1.0, above_share(gained, gained + lost, 0.5) * len(pairs)) if gained else 1.0
    numbers = {"gained": gained, "lost": lost, "by_chance": by_chance, "n": n}
    if by_chance > BY_CHANCE or gained - lost < EXCHANGED * n:
        return fine(f"No exchange of two symbols ({len(pairs)} pairs) makes {n} answers better.", **numbers)
    names = [seen.task.vocabulary.tokens[token] for token in found]
    return error(
        f"With {names[0]} and {names[1]} exchanged in the input, {gained} of {n} answers are better and "
        f"{lost} worse (by chance {by_chance:.1g}): the two are mixed up.",
        "Use the same vocabulary, in the same order, for training and evaluation.",
        symbols=names,
        **numbers,
    )


def _gain(seen: Examination, examples: Examples, right: np.ndarray, pair: tuple[int, int]) -> tuple[int, int]:
    """The numbers of answers that improve and worsen when two symbols are exchanged in the input."""
    assert seen.subject.forward is not None
    source, target = (_exchange(rows, *pair) for rows in (examples.source, examples.target))
    read = Examples(source, examples.target if seen.is_class else target)
    after = _right_by_row(seen, seen.subject.forward(read), examples)
    return int((after > right).sum()), int((after < right).sum())


def _suspects(seen: Examination, examples: Examples, right: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of the symbols with the lowest accuracy."""
    own = seen.task.vocabulary
    symbols = set(np.unique(examples.source).tolist()) - {own.pad, own.bos, own.eos}
    score = {token: float(right[(examples.source == token).any(1)].mean()) for token in symbols}
    worst = sorted(symbols, key=lambda token: score[token])[:MOST_SUSPECTS]
    return [(one, other) for place, one in enumerate(worst) for other in worst[place + 1 :]]


def _exchange(rows: np.ndarray, one: int, other: int) -> np.ndarray:
    return np.where(rows == one, other, np.where(rows == other, one, rows))


def _right_by_row(seen: Examination, logits: Tensor, examples: Examples) -> np.ndarray:
    """The share of right answer tokens of each example; 0 or 1 for classes."""
    right = logits.argmax(-1).numpy() == examples.target
    if seen.is_class:
        return np.asarray(right, dtype=np.float64)
    there = examples.target != seen.task.vocabulary.pad
    return np.asarray((right & there).sum(1) / there.sum(1).clip(1))
