"""Sweep directories with results that are written down, not trained."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.results.comparison import Outcome
from headway.runs import SweepDirectory
from headway.sweeps.plan import Trial, plan_grid
from tests.tiny_recipes import write_recipe

Measure = Callable[[Trial], float | str | None]
"""The accuracy of a trial, the error it failed with, or None for one that has not ended."""


def record(trial: Trial, accuracy: float | str, **more: float) -> Outcome:
    """A line of results.jsonl."""
    if isinstance(accuracy, str):
        return Outcome(trial.name, trial.settings, trial.seed, "failed", error=accuracy, seconds=2.0)
    counts = {"n": 1_000, "wrong": round(1_000 * (1 - accuracy))}
    metrics = {"steps": 4, "accuracy": accuracy, "loss": 1 - accuracy, **counts, **more}
    return Outcome(trial.name, trial.settings, trial.seed, "finished", metrics, seconds=2.0)


def add_line(directory: SweepDirectory, line: Mapping[str, Any]) -> None:
    """A line of results.jsonl that no trial wrote."""
    with directory.results_path.open("a") as handle:
        handle.write(json.dumps(line) + "\n")


def make_sweep(folder: Path, vary: Sequence[str], seeds: int, measure: Measure) -> SweepDirectory:
    """A sweep in folder/sweep over the tiny recipe whose trials reached what `measure` says."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = plan_grid(write_recipe(folder), [], vary, range(seeds))
    directory = SweepDirectory(folder / "sweep")
    directory.begin(plan.to_json())
    for trial in plan.trials:
        if (found := measure(trial)) is not None:
            directory.append_result(record(trial, found))
    return directory


ENCODINGS = "model.encoding.name=sinusoidal,rotary,learned"
RATES = "train.lr=0.001,0.01"


def by_settings(table: Mapping[Any, float]) -> Measure:
    """An accuracy for the first varied value, and a thousandth more for each seed."""
    return lambda trial: table[next(iter(trial.settings.values()))] + trial.seed / 1000
