"""The mechanism of lengths.json, made up: numbers that a figure can be held against."""

from collections.abc import Sequence
from typing import Any

from headway.results.mechanism import Mechanism
from headway.results.schema import read

SCORES = ("diagonal", "boundary", "next_element", "previous_element", "inversion", "entropy")


def mechanism_document(
    layers: int = 2,
    heads: int = 4,
    lengths: Sequence[int] = (8, 16, 32, 64, 128, 256),
    *,
    culprit: str | None = "enc1.self.h1",
    fails_at: int | None = 64,
    scores: Sequence[str] = SCORES,
    captured: int = 1_024,
    pieces: bool = True,
) -> dict[str, Any]:
    """Heads that look at one part each, whatever the length; the culprit's attention on it halves from 64 on."""
    names = [f"enc{layer}.self.h{index}" for layer in range(layers) for index in range(heads)]
    change = None
    if culprit is not None:
        change = {"head": culprit, "about": "attention", "what": scores[-2], "length": 64, "before": 0.8}
        change |= {"after": 0.4, "change": -0.4, "interval": [-0.45, -0.35], "p": 0.0, "p_holm": 0.0}
    return {
        "form": 1,
        "set": "adjacent",
        "unit": "elements",
        "reference": 16,
        "large": {"attention": 0.1, "effect": 0.25},
        "alpha": 0.05,
        "family": 256,
        "definitions": {score: f"{score}." for score in scores},
        "lengths": [_length(length, fails_at, pieces) for length in lengths],
        "heads": [_head(name, place, lengths, scores, name == culprit, captured) for place, name in enumerate(names)],
        "changes": [change] if change else [],
        "first": change,
        "fails_at": fails_at,
        "check": None,
        "words": ["Accuracy at 16 is made up."],
    }


def make_mechanism(*given: Any, **more: Any) -> Mechanism:
    """The same, read as a result."""
    return read(Mechanism, mechanism_document(*given, **more), "lengths.json")


def _length(length: int, fails_at: int | None, with_pieces: bool) -> dict[str, Any]:
    accuracy = 0.5 if fails_at is not None and length >= fails_at else 0.99
    interval = [accuracy - 0.02, min(1.0, accuracy + 0.02)]
    row = {"length": length, "trained": length <= 16, "n": 500 if length < 256 else 250, "wrong": 0}
    margin = {"margin": 3.0, "margin_interval": [2.5, 3.5]}
    pieces = {**row, "accuracy": 0.97, "interval": [0.95, 0.99], **margin, "rise": 47.0, "rise_interval": [45, 49]}
    found = {**row, "accuracy": accuracy, "interval": interval, **margin, "n_attention": 64}
    return {**found, "pieces": pieces if length > 16 and with_pieces else None}


def _head(
    name: str, place: int, lengths: Sequence[int], scores: Sequence[str], culprit: bool, captured: int
) -> dict[str, Any]:
    looked = {score: [] for score in scores}  # type: dict[str, list[dict[str, Any] | None]]
    for length in lengths:
        for index, score in enumerate(scores):
            value = 0.8 if index == (len(scores) - 2 if culprit else place % len(scores)) else 0.02 * index - 0.1
            fell = culprit and value == 0.8 and length >= 64
            value = 0.4 if fell else value
            shares = {"share": value, "even": 0.05, "share_before": 0.8, "even_before": 0.06}
            looked[score].append(_cell(value, changed=fell, **shares) if length <= captured else None)
    effects = [_cell(1.1 - 0.3 * place, changed=False, accuracy=0.9, drop=9.0, drop_interval=[8, 10]) for _ in lengths]
    return {"head": name, "scores": looked, "effects": {"zero": effects, "mean": effects}}


def _cell(value: float, *, changed: bool, **more: Any) -> dict[str, Any]:
    found = {"value": value, "interval": [value - 0.03, value + 0.03], "n": 64, **more}
    return {**found, "before": 0.8, "change": 0.0, "change_interval": [-0.1, 0.1], "p_holm": 1.0, "changed": changed}
