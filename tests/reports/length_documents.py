"""Made-up findings of the form of lengths.json: what a figure may meet, without training anything."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from headway.results.lengths import Lengths
from headway.results.mechanism import Mechanism
from headway.results.schema import read
from headway.statistics import wilson_interval

TRAINED = range(8, 17)
LONG = (32, 64, 128, 256, 512, 1024)
SETS = ("swaps", "adjacent", "matched")
N = 2000
Curve = Callable[[int, str], float]
"""(length, set) -> the share of right answers."""


def holds(until: float, end: float = 0.5) -> Curve:
    """Right up to some length, then falling to `end` over two octaves; sooner for one adjacent inversion."""

    def curve(length: int, name: str) -> float:
        limit = until if name == "swaps" else until / 3 if name == "adjacent" else until / 2
        fall = 1 / (1 + math.exp(3 * (math.log2(length) - math.log2(max(limit, 18)) - 1)))
        return end + (0.9995 - end) * fall

    return curve


def perfect(length: int, name: str) -> float:
    return 1.0


def gaps(length: int, name: str, share: float, random: np.random.Generator) -> list[dict[str, Any]]:
    """Small gaps are harder and, in longer natural sequences, the rule."""
    scale = 1 + (8 if name == "matched" else 130 / length)
    drawn = random.geometric(1 / scale, N // 2)
    rows = []
    for low, high in ((1, 1), (2, 2), (3, 3), (4, 4), (5, 8), (9, 16), (17, 32), (33, 64), (65, 128)):
        n = int(((drawn >= low) & (drawn <= high)).sum())
        wrong = int(random.binomial(n, (1 - share) * math.exp(-(low - 1) / 12)))
        if n:
            rows.append({"from": low, "value": high} | row(n, wrong))
    return rows


@cache
def interval_of(n: int, wrong: int) -> tuple[float, float]:
    return wilson_interval(n - wrong, n)


def row(n: int, wrong: int) -> dict[str, Any]:
    return {"n": n, "wrong": wrong, "accuracy": (n - wrong) / n, "interval": list(interval_of(n, wrong))}


def lengths_document(
    encoding: str = "rotary",
    pooling: str | None = "mean",
    seed: int = 0,
    curve: Curve = perfect,
    *,
    sets: Sequence[str] = SETS,
    lengths: Sequence[int] = (*TRAINED, *LONG),
    constant: tuple[str, int] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A run of sortedness; `constant` is (answer, from which length on)."""
    random = np.random.default_rng([seed, len(encoding), len(pooling or "")])
    rows = []
    for name in sets:
        for length in lengths:
            share = curve(length, name)
            fixed = constant[0] if constant and length >= constant[1] else None
            wrong = N // 2 if fixed else int(random.binomial(N, 1 - share))
            says = float(fixed) if fixed else 0.5 + 0.9 * wrong / N
            rows.append(
                row(N, wrong)
                | {"length": length, "negatives": name, "trained": length in TRAINED}
                | {"balanced_accuracy": 1 - wrong / N, "target_shares": {"0": 0.5, "1": 0.5}}
                | {"answer_shares": {"0": 1 - says, "1": says}, "constant": fixed}
                | {"by": {"gap": gaps(length, name, share, random)}}
            )
    held = {name: certify([one for one in rows if one["negatives"] == name]) for name in sets}
    return {
        "form": 1,
        "task": "sortedness",
        "run": f"{encoding}-{pooling}-seed{seed}",
        "seed": seed,
        "encoding": encoding,
        "pooling": pooling,
        "negatives_trained": "mixed",
        "checkpoint": {"step": 2400, "chosen_on": "validation loss at training lengths"},
        "training": {"shortest": 8, "longest": 16},
        "unit": "elements",
        "n": N,
        "threshold": 0.99,
        "confidence": 0.95,
        "lengths": rows,
        "held": held,
        "length_held": min(held.values(), default=0),
        "constant": {"answer": constant[0], "from": constant[1]} if constant else None,
        "positions": None,
        "mechanism": None,
        **more,
    }


def certify(rows: Sequence[dict[str, Any]]) -> int:
    held = 0
    for one in rows:
        if one["interval"][0] < 0.99:
            break
        held = one["length"]
    return held


def make_lengths(*given: Any, mechanism: Mechanism | None = None, **more: Any) -> Lengths:
    """The same, read as a result."""
    return replace(read(Lengths, lengths_document(*given, **more), "lengths.json"), mechanism=mechanism)


def make_sums(encoding: str = "coupled", seed: int = 0, until: int = 128) -> Lengths:
    """A run of long addition: whole answers, no classes, chains of carries."""
    found = lengths_document(encoding, None, seed, holds(until, 0.0), sets=["sums"], lengths=(16, 24, 32, 64, 128, 256))
    for one in found["lengths"]:
        one.update(answer_shares=None, target_shares=None, balanced_accuracy=None, trained=one["length"] <= 32)
        one["by"] = {"longest_chain": one["by"]["gap"]}
    found |= {"task": "addition-text", "training": {"shortest": 16, "longest": 32}, "unit": "characters"}
    return read(Lengths, found, "lengths.json")
