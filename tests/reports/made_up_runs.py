"""Run directories with made-up findings, so that a report can be written without training anything."""

import hashlib
import json
from pathlib import Path
from typing import Any

from headway.head_analysis.head_runs import KINDS
from headway.results.attack import Attack, FailingInput, FamilyRow, MarginFall
from headway.runs import RunDirectory
from tests.reports.documents import make_document
from tests.reports.length_documents import lengths_document
from tests.results.made_up_values import typed
from tests.tiny import ADDITION, config

FINDINGS = [
    {
        "check": "first-token-never-predicted",
        "level": "error",
        "about": "harness",
        "evidence": "The loss looks at 4 of 5 target positions; the first is never predicted: 41.2 % are left.",
        "numbers": {"positions": 5, "looked_at": 4},
        "fix": "Begin the target with a start token.",
    },
    {
        "check": "not-yet-converged",
        "level": "warning",
        "about": "model",
        "evidence": "Validation loss fell by 12 % over the last 3 validations.",
        "numbers": {"fall": 0.12},
        "fix": "Train longer.",
    },
    {"check": "splits-overlap", "level": "fine", "about": "data", "evidence": "0 of 6.", "numbers": {}, "fix": ""},
]  # fmt: skip
PROVENANCE = {
    "commit": "0123abc",
    "versions": {"python": "3.11.7", "torch": "2.13.0+cpu"},
    "device": "cpu",
    "cores": 2,
    "threads": 1,
    "seed": 0,
    "command": ["/usr/bin/headway", "train", "quick-addition", "--seed", "0"],
    "time": "2026-01-02T03:04:05Z",
}


def heads_document(seed: int = 0, wrong: int = 3) -> dict[str, Any]:
    """Findings on a small encoder-decoder, with what only the report reads."""
    found = make_document(n_layers=1, n_heads=2, wrong=wrong, seed=seed)
    found |= {
        "run": "made-up",
        "warnings": [],
        "definitions": {"diagonal": "Share of attention on the query's own column."},
    }
    names = [head["head"] for head in found["heads"]]
    for index, head in enumerate(found["heads"]):
        head["scores"] = {"diagonal": None if index == 1 else 0.1 + 0.07 * index}
    found["prunable"] = {kind: {} for kind in KINDS}
    rows = [(1.0, 1, 0.25), (5.0, 3, 3.5)]
    found["joint"]["removable"] = [
        {
            "limit": limit,
            "heads": names[:count],
            "drop": drop,
            "drop_interval": [drop - 0.5, drop + 1.25],
            "alone_under_limit": {"heads": names[: count + 2], "drop": 20 * drop, "drop_interval": [4.5, 90.25]},
        }
        for limit, count, drop in rows
    ]
    found["joint"]["sufficient"] = {"heads": names[2:]}
    pair = {"heads": names[:2], "alone": [0.25, 1.5], "together": 37.5, "interaction": 35.75, "p_holm": 1e-9}
    found["joint"]["pairs"] = {"n": 795, "tested": 15, "pairs": [pair, {**pair, "p_holm": 0.7}]}
    return typed(found).to_json()


def evaluation_document(wrong: int) -> dict[str, Any]:
    n = 8100
    return {
        "all": {
            "exact_match": 1 - wrong / n,
            "split": "all",
            "step": 24,
            "n": n,
            "wrong": wrong,
            "interval": [0.9981, 0.9999],
            "loss": 0.125,
            "wrong_examples": [{"example": "5 8 + 5 3 -> 1 1 1", "answered": "1 1 0"}] * bool(wrong),
            "decoded_n": 900,
            "decoded_wrong": 0,
            "disagreements": 0,
        }
    }


def attack_document(path: Path, seed: int = 0, *, found: int = 2) -> Attack:
    """An attack at two lengths that found one failing input, or none."""
    rows = [
        FamilyRow(
            length=length,
            family=name,
            about=f"{name} made up",
            drawn=100 * length,
            whole=name == "plateaus",
            climbed=7,
            found=found if (length, name) == (8, "ends") else 0,
            smallest_margin=-0.75 if (found and length == 8 and name == "ends") else 3.25,
        )
        for length in (8, 32)
        for name in ("plateaus", "ends")
    ]
    failing = FailingInput(
        input="9 1 1 1 1 1 1 1",
        expected="0",
        answered="1",
        size=8,
        margin=-0.75,
        length=8,
        family="ends",
        climbed=True,
        tried=321,
        record={"sequence": [9, 1, 1, 1, 1, 1, 1, 1], "is_sorted": 0, "length": 8},
        link="#input=9+1+1+1+1+1+1+1",
    )
    return Attack(
        task="sortedness",
        run=str(path),
        seed=seed,
        step=24,
        unit="elements",
        lengths=(8, 32),
        attack_seed=0,
        seconds=30.0,
        took=29.5,
        ended="time",
        tried=sum(row.drawn + row.climbed for row in rows),
        found=found,
        smallest_margin=-0.75 if found else 3.25,
        counterexamples=(failing,) * bool(found),
        families=tuple(rows),
        trace=(MarginFall(tried=5, margin=4.5, length=8, family="ends", climbed=False),),
    )


def doctor_document(path: Path, findings: list[dict[str, Any]]) -> dict[str, Any]:
    found = {"run": str(path), "task": "addition", "step": 24, "findings": findings}
    return {"form": 1, **found, "checked": len(findings)}


def make_run(
    path: Path,
    *,
    seed: int = 0,
    wrong: int = 3,
    analyses: tuple[str, ...] = ("evaluation", "heads", "lengths", "attack", "doctor"),
) -> RunDirectory:
    """A finished run with some findings."""
    run = RunDirectory(path)
    run.create(config(ADDITION, seed=seed), {**PROVENANCE, "seed": seed})
    run.append_metrics({"step": 0, "validation": {"loss": 3.5, "accuracy": 0.0}})
    for step in range(1, 25):
        run.append_metrics({"step": step, "loss": 3.5 / step, "lr": 0.01})
        if step % 8 == 0:
            run.append_metrics({"step": step, "validation": {"loss": 3 / step, "accuracy": 1 - 4 / step}})
    place = run.checkpoint_path(24)
    place.mkdir(parents=True)
    state = {"step": 24, "seconds": 78.56, "best": {"step": 24, "loss": 0.125, "accuracy": 0.8333}}
    content = json.dumps({**state, "finished": True, "stopped_early": False}).encode()
    (place / "state.json").write_bytes(content)
    (place / "MANIFEST").write_text(f"{hashlib.sha256(content).hexdigest()}  state.json\n")
    documents = {
        "evaluation": evaluation_document(wrong),
        "heads": heads_document(seed, wrong),
        "lengths": lengths_document(seed=seed, sets=("swaps", "adjacent"), lengths=(8, 16, 32, 64)),
        "attack": attack_document(path, seed).to_json(),
        "doctor": doctor_document(path, FINDINGS),
    }
    for name in analyses:
        run.replace_analysis(name, documents[name])
    return run
