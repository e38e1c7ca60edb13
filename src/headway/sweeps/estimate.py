"""Estimates the duration of a sweep from a few measured training steps of some of its settings."""

import json
import statistics
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from headway.callbacks import Event
from headway.sweeps.plan import SweepPlan, Trial
from headway.sweeps.trial import JobOptions

BUDGET = 10.0
"""Seconds for all measurements together."""
MOST_MEASURED = 8
STEPS = 6


@dataclass(frozen=True)
class Pace:
    """Seconds of the parts of a trial: startup, one step, one validation with its checkpoint."""

    start: float
    step: float
    validation: float

    def seconds(self, trial: Trial, evaluated: float) -> float:
        """Seconds of a full trial without early stopping; `evaluated` is the final evaluation in units of
        a validation.
        """
        steps = trial.config.train.total_steps(trial.config.data)
        validations = steps // trial.config.train.validate_every + 1
        return self.start + steps * self.step + (validations + evaluated) * self.validation


def estimate(plan: SweepPlan, how: JobOptions) -> dict[str, float]:
    """Seconds of each trial by name; a setting that was not measured gets the mean pace of the measured ones."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(how.threads)
    try:
        paces = _measure_some(plan, how)
    finally:
        torch.set_num_threads(threads)
    parts = [statistics.fmean(part) for part in zip(*(vars(pace).values() for pace in paces.values()), strict=True)]
    mean = Pace(*parts)
    return {
        trial.name: paces.get(_setting(trial), mean).seconds(trial, _evaluated(trial, how.split))
        for trial in plan.trials
    }


def _setting(trial: Trial) -> str:
    return json.dumps(sorted(trial.settings.items()), default=str)


def _measure_some(plan: SweepPlan, how: JobOptions) -> dict[str, Pace]:
    settings = list({_setting(trial): trial for trial in plan.trials}.items())
    every = -(-len(settings) // MOST_MEASURED)
    chosen = settings[::every]
    measure_pace(chosen[0][1], how, 0)  # the first training of a process is slower than later ones
    return {setting: measure_pace(trial, how, BUDGET / (1 + len(chosen))) for setting, trial in chosen}


class _Enough(Exception):
    """The time for a measurement is used up."""


def measure_pace(trial: Trial, how: JobOptions, budget: float) -> Pace:
    """Train a few steps in a temporary directory, at least two if there are two, fewer if steps are slow."""
    from headway.training import train

    began = time.perf_counter()
    moments: list[tuple[str, float]] = []

    def note(event: Event) -> None:
        now = time.perf_counter()
        moments.append((event["event"], now))
        if now - began > budget and [kind for kind, _ in moments].count("step") >= 2:
            raise _Enough

    with tempfile.TemporaryDirectory() as folder:
        # Only the first and the last validation, so that the time between two steps is that of one step.
        config = replace(trial.config, train=replace(trial.config.train, validate_every=STEPS))
        with suppress(_Enough):
            train(config, Path(folder) / "run", device=how.device, until=STEPS, on_event=note)
        ended = time.perf_counter()
    return _pace(began, ended, moments)


def _pace(began: float, ended: float, moments: list[tuple[str, float]]) -> Pace:
    first = next(moment for kind, moment in moments if kind == "validation")
    steps = [moment for kind, moment in moments if kind == "step"]
    # The first step also waits for the first checkpoint.
    step = statistics.median([after - before for before, after in pairwise(steps)] or [steps[0] - first])
    validation = max(steps[0] - first - step, 0.0)
    if moments[-1][0] == "validation" and moments[-1][1] > first:
        validation = ended - steps[-1]
    return Pace(max(first - began - validation, 0.0), step, validation)


def _evaluated(trial: Trial, split: str | None) -> float:
    """The size of the final evaluation relative to one validation."""
    from headway.tasks import make_task

    data = trial.config.data
    sizes = {None: 0, "train": data.train, "validation": data.validation, "test": data.test}
    size = make_task(trial.config.task).domain_size() or 0 if split == "all" else sizes[split]
    return size / data.validation
