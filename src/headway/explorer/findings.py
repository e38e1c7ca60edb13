"""What earlier commands found about a run, cut down to what the page shows beside its heads."""

from collections.abc import Callable, Mapping
from typing import Any

from headway.errors import InputError
from headway.runs import RunDirectory

Document = dict[str, Any]

KEPT_OF_A_DROP = ("drop", "interval", "n", "verdict", "exact_match")
MOST_CARRIERS = 24
MOST_PAIRS = 3
ALPHA = 0.05


def head_findings(directory: RunDirectory, step: int, heads: list[str]) -> Document | None:
    """Verdicts, roles and scores of heads.json; None without one, or where it is of another model."""

    def choose(found: Document) -> Document | None:
        fits = found["step"] == step and [row["head"] for row in found["heads"]] == heads
        return _heads(found) if fits else None

    return _read(directory, "heads", choose)


def length_findings(directory: RunDirectory, step: int) -> Document | None:
    """Accuracy against length of lengths.json; None without one, or where it is of another checkpoint."""
    return _read(directory, "lengths", lambda found: _lengths(found) if found["checkpoint"]["step"] == step else None)


def _read(directory: RunDirectory, name: str, choose: Callable[[Document], Document | None]) -> Document | None:
    """What a command found, cut down; a file that it did not write so is refused."""
    found = directory.read_analysis(name)
    try:
        return None if found is None else choose(found)
    except (KeyError, TypeError, AttributeError):
        raise InputError(
            f"{directory.path}: analysis/{name}.json is not as headway {name} writes it; run headway {name} again"
        ) from None


def _heads(found: Document) -> Document:
    return {
        "n": found["n"],
        "split": found["split"],
        "baseline": {key: found["baseline"][key] for key in ("n", "wrong", "exact_match", "interval")},
        "definitions": found["definitions"],
        "heads": {row["head"]: _head(row) for row in found["heads"]},
        "sufficient": found["joint"]["sufficient"],
        "carries": carriers(found["interventions"]["contrasts"]),
        "pairs": pairs(found["joint"]["pairs"]["pairs"]),
    }


def _head(row: Mapping[str, Any]) -> dict[str, Any]:
    drops = {kind: {key: drop[key] for key in KEPT_OF_A_DROP} for kind, drop in row["ablation"].items()}
    return {"verdict": row["verdict"], "role": row["role"], "scores": row["scores"], "drops": drops}


def carriers(contrasts: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Single heads by how often their output alone moves a difference from one example to another, best first."""
    found = [
        {
            "head": row["who"],
            "contrast": contrast["name"],
            "about": contrast["about"],
            "rate": row["rate"],
            "interval": row["interval"],
            "usable": contrast["usable"],
        }
        for contrast in contrasts
        for row in contrast["rows"]
        if row["heads"] == [row["who"]]
    ]
    return sorted(found, key=lambda row: -float(row["rate"]))[:MOST_CARRIERS]


def pairs(found: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The pairs of heads that back each other up most, of those that surely do."""
    sure = [dict(pair) for pair in found if pair["p_holm"] < ALPHA and pair["interaction"] > 0]
    return sorted(sure, key=lambda pair: -float(pair["interaction"]))[:MOST_PAIRS]


def _lengths(found: Document) -> Document:
    return {
        "unit": found["unit"],
        "trained": [found["training"]["shortest"], found["training"]["longest"]],
        "threshold": found["threshold"],
        "certified": found["certified_length"],
        "rows": [
            {"set": row["negatives"], **{key: row[key] for key in ("length", "n", "accuracy", "interval")}}
            for row in found["lengths"]
        ],
    }
