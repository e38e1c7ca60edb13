"""What earlier commands found about a run, cut down to what the page shows beside its heads."""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

from headway.checked import failed_checks
from headway.errors import InputError
from headway.origin import OtherOrigin
from headway.results.heads import Drop, Head, HeadAnalysis, read_heads
from headway.results.joint_ablation import Pairs
from headway.results.lengths import Lengths
from headway.results.patching import Contrast
from headway.runs import RunDirectory

Document = dict[str, Any]
Warn = Callable[[str], None]

MOST_CARRIERS = 24
MOST_PAIRS = 3


def ignore(warning: str) -> None:
    """Nobody is warned."""


def head_findings(directory: RunDirectory, step: int, heads: list[str], warn: Warn = ignore) -> Document | None:
    """Verdicts, roles and scores of heads.json; None without one, and with a warning where it is of another model."""
    try:
        found = read_heads(directory, step)
    except OtherOrigin as problem:
        warn(str(problem))
        return None
    if found is None:
        return None
    if [head.name for head in found.heads] != heads:
        warn(_left_out(directory, "heads", "a model with other heads"))
    elif found.step != step:
        warn(_left_out(directory, "heads", f"step {found.step}, not of step {step}"))
    elif failed := failed_checks(found.checks):
        warn(f"{directory.path}: analysis/heads.json is left out, as its instruments failed: {'; '.join(failed)}")
    else:
        return _heads(found)
    return None


def length_findings(directory: RunDirectory, step: int, warn: Warn = ignore) -> Document | None:
    """Accuracy against length of lengths.json; None without one, and with a warning where it is of another step."""
    try:
        found = directory.read_result(Lengths, "lengths", step)
    except OtherOrigin as problem:
        warn(str(problem))
        return None
    except InputError as problem:
        raise InputError(f"{problem}; run headway lengths again") from None
    if found is None:
        return None
    if found.checkpoint.step != step:
        warn(_left_out(directory, "lengths", f"step {found.checkpoint.step}, not of step {step}"))
        return None
    return {
        "unit": found.unit,
        "trained": [found.training.shortest, found.training.longest],
        "threshold": found.threshold,
        "held": found.length_held,
        "rows": [
            {
                "set": row.set_name,
                "length": row.length,
                "n": row.n,
                "accuracy": row.accuracy,
                "interval": list(row.interval),
            }
            for row in found.rows
        ],
    }


def _left_out(directory: RunDirectory, name: str, of: str) -> str:
    return f"{directory.path}: analysis/{name}.json is of {of}, and is left out; run headway {name} again"


def _read(
    directory: RunDirectory, name: str, step: int, choose: Callable[[Document], Document | None], warn: Warn
) -> Document | None:
    """What a command found, cut down; a file that it did not write so is refused, another checkpoint's is left out."""
    try:
        found = directory.read_analysis(name, step)
    except OtherOrigin as problem:
        warn(str(problem))
        return None
    try:
        return None if found is None else choose(found)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise InputError(
            f"{directory.path}: analysis/{name}.json is not as headway {name} writes it; run headway {name} again"
        ) from None


# Values as the page needs them; a file can hold anything


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise TypeError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _interval(value: Any) -> list[int | float]:
    low, high = _list(value)
    return [_number(low), _number(high)]


# Heads


def _heads(found: HeadAnalysis) -> Document:
    baseline = found.baseline
    return {
        "n": found.n,
        "split": found.split,
        "baseline": {
            "n": baseline.n,
            "wrong": baseline.wrong,
            "exact_match": baseline.accuracy,
            "interval": baseline.interval,
        },
        "definitions": dict(found.definitions),
        "heads": {head.name: _head(head) for head in found.heads},
        "sufficient": {"heads": found.joint.sufficient.heads, "exact_match": found.joint.sufficient.accuracy},
        "carries": carriers(found.interventions.contrasts),
        "pairs": pairs(found.joint.pairs),
    }


def _head(head: Head) -> Document:
    drops = {kind: _drop(drop) for kind, drop in head.ablation.items()}
    return {"verdict": head.verdict, "role": head.role, "scores": dict(head.scores), "drops": drops}


def _drop(drop: Drop) -> Document:
    return {
        "drop": drop.drop,
        "interval": drop.interval,
        "n": drop.n,
        "verdict": drop.verdict,
        "exact_match": drop.accuracy,
    }


def carriers(contrasts: Sequence[Contrast]) -> list[Document]:
    """Single heads by how often their output alone moves a difference from one example to another, best first."""
    found = [(contrast, row) for contrast in contrasts for row in contrast.rows if row.is_single]
    return [
        {
            "head": row.who,
            "contrast": contrast.name,
            "about": contrast.about,
            "rate": row.rate,
            "interval": row.interval,
            "usable": contrast.usable,
        }
        for contrast, row in sorted(found, key=lambda one: -one[1].rate)[:MOST_CARRIERS]
    ]


def pairs(found: Pairs) -> list[Document]:
    """The pairs of heads that are most redundant, of those that surely are."""
    return [
        {
            "heads": pair.heads,
            "alone": pair.alone,
            "together": pair.together,
            "interaction": pair.interaction,
            "p_holm": pair.p_holm,
        }
        for pair in sorted(found.redundant(), key=lambda pair: -pair.interaction)[:MOST_PAIRS]
    ]
