"""What earlier commands found about a run, cut down to what the page shows beside its heads."""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from headway.checked import failed_checks
from headway.errors import InputError
from headway.origin import OtherOrigin
from headway.results.lengths import Lengths
from headway.runs import RunDirectory

Document = dict[str, Any]
Warn = Callable[[str], None]

MOST_CARRIERS = 24
MOST_PAIRS = 3
ALPHA = 0.05


def ignore(warning: str) -> None:
    """Nobody is warned."""


def head_findings(directory: RunDirectory, step: int, heads: list[str], warn: Warn = ignore) -> Document | None:
    """Verdicts, roles and scores of heads.json; None without one, and with a warning where it is of another model."""

    def choose(found: Document) -> Document | None:
        if [row["head"] for row in found["heads"]] != heads:
            warn(_left_out(directory, "heads", "a model with other heads"))
        elif found["step"] != step:
            warn(_left_out(directory, "heads", f"step {found['step']}, not of step {step}"))
        elif failed := failed_checks(found):
            warn(f"{directory.path}: analysis/heads.json is left out, as its instruments failed: {'; '.join(failed)}")
        else:
            return _heads(found)
        return None

    return _read(directory, "heads", step, choose, warn)


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


def _names(value: Any) -> list[str]:
    return [_text(name) for name in _list(value)]


# Heads


def _heads(found: Document) -> Document:
    baseline = found["baseline"]
    numbers = {key: _number(baseline[key]) for key in ("n", "wrong", "exact_match")}
    return {
        "n": _number(found["n"]),
        "split": _text(found["split"]),
        "baseline": {**numbers, "interval": _interval(baseline["interval"])},
        "definitions": {name: _text(words) for name, words in found["definitions"].items()},
        "heads": {_text(row["head"]): _head(row) for row in found["heads"]},
        "sufficient": _sufficient(found["joint"]["sufficient"]),
        "carries": carriers(_list(found["interventions"]["contrasts"])),
        "pairs": pairs(_list(found["joint"]["pairs"]["pairs"])),
    }


def _head(row: Mapping[str, Any]) -> dict[str, Any]:
    scores = {name: None if score is None else _number(score) for name, score in row["scores"].items()}
    drops = {kind: _drop(drop) for kind, drop in row["ablation"].items()}
    return {"verdict": _text(row["verdict"]), "role": _text(row["role"]), "scores": scores, "drops": drops}


def _drop(drop: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "drop": _number(drop["drop"]),
        "interval": _interval(drop["interval"]),
        "n": _number(drop["n"]),
        "verdict": _text(drop["verdict"]),
        "exact_match": _number(drop["exact_match"]),
    }


def _sufficient(found: Mapping[str, Any]) -> dict[str, Any]:
    share = {"exact_match": _number(found["exact_match"])} if "exact_match" in found else {}
    return {"heads": _names(found["heads"]), **share}


def carriers(contrasts: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Single heads by how often their output alone moves a difference from one example to another, best first."""
    found: list[dict[str, Any]] = [
        {
            "head": _text(row["who"]),
            "contrast": _text(contrast["name"]),
            "about": _text(contrast["about"]),
            "rate": _number(row["rate"]),
            "interval": _interval(row["interval"]),
            "usable": _number(contrast["usable"]),
        }
        for contrast in contrasts
        for row in contrast["rows"]
        if row["heads"] == [row["who"]]
    ]
    return sorted(found, key=lambda row: -float(row["rate"]))[:MOST_CARRIERS]


def pairs(found: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The pairs of heads that back each other up most, of those that surely do."""
    sure = [_pair(pair) for pair in found if _number(pair["p_holm"]) < ALPHA and _number(pair["interaction"]) > 0]
    return sorted(sure, key=lambda pair: -float(pair["interaction"]))[:MOST_PAIRS]


def _pair(pair: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {key: _number(pair[key]) for key in ("together", "interaction", "p_holm")}
    return {"heads": _names(pair["heads"]), "alone": _interval(pair["alone"]), **numbers}
