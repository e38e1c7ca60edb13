"""Plans a search: all settings are drawn from ranges and lists before anything runs."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any

from headway.config import Assignment, RunConfig, assign, read_toml
from headway.errors import InputError, suggestion
from headway.json_values import JsonObject
from headway.randomness import derive
from headway.sweeps.halving import Records, plan_rungs, settings_of
from headway.sweeps.plan import (
    Choices,
    Rung,
    Search,
    SweepPlan,
    Trial,
    Vary,
    check_seeds,
    check_size,
    make_trial,
    read_vary,
)
from headway.sweeps.ranges import Range

KINDS = ("random", "halving")


def plan_search(
    recipe: Path,
    set: Sequence[Assignment],
    vary: Vary,
    seeds: Sequence[int],
    *,
    trials: int,
    search: str = "random",
    budget: int | None = None,
) -> SweepPlan:
    """A plan of drawn settings, each with every seed; the same arguments draw the same settings."""
    table, varied = read_toml(recipe), read_vary(vary)
    check_seeds(seeds)
    _check(varied, trials, search, budget)
    check_size(trials * len(seeds))
    unchanged = make_trial(table, set, {}, 0, str(recipe))
    settings = draw(varied, trials, derive(unchanged.config.data.seed, "search"))
    drawn = tuple(make_trial(table, set, one, seed, str(recipe)) for one in settings for seed in seeds)
    rungs = _rungs(drawn, len(seeds), budget) if search == "halving" else ()
    return SweepPlan(recipe.stem, assign(table, set), varied, tuple(seeds), drawn, Search(trials, rungs))


def _check(varied: Mapping[str, Choices], trials: int, search: str, budget: int | None) -> None:
    if search not in KINDS:
        raise InputError(f"--search {search!r}; {suggestion(search, KINDS)}")
    if trials < 1:
        raise InputError(f"--trials {trials}; at least 1 needed")
    if not varied:
        raise InputError(f"--trials {trials}: nothing is varied; name the settings to draw with --vary")
    if budget is not None and search != "halving":
        raise InputError("--budget is for --search halving; a random search takes trials x seeds x steps")
    if find_spec("optuna") is None:
        raise InputError("a search needs the extra: pip install 'headway[search]'")


def draw(varied: Mapping[str, Choices], count: int, seed: int) -> list[JsonObject]:
    """Up to `count` different settings drawn at random from the seed.

    A larger count draws the same settings first.
    """
    study = _silent_study(seed)
    distributions = {key: _distribution(choices) for key, choices in varied.items()}
    found: dict[str, JsonObject] = {}
    for _ in range(count):
        drawn = study.ask(distributions).params
        settings = {key: _value(choices, drawn[key]) for key, choices in varied.items()}
        found.setdefault(json.dumps(settings), settings)
    return list(found.values())


def _silent_study(seed: int) -> Any:
    """A study with a random sampler, created without a log message."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        return optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed % 2**32))
    finally:
        optuna.logging.set_verbosity(before)


def _distribution(choices: Choices) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not isinstance(choices, Range):
        return CategoricalDistribution(range(len(choices)))  # a value may be a table, which Optuna does not accept
    kind: Any = IntDistribution if choices.whole else FloatDistribution
    return kind(choices.low, choices.high, log=choices.log)


def _value(choices: Choices, drawn: Any) -> Any:
    if not isinstance(choices, Range):
        return choices[drawn]
    return drawn if choices.whole else choices.rounded(drawn)


def _rungs(trials: Sequence[Trial], seeds: int, budget: int | None) -> tuple[Rung, ...]:
    totals = sorted({_total(trial.config) for trial in trials})
    if len(totals) > 1:
        raise InputError(
            "--search halving compares settings at the same step, so all need the same number of steps; "
            f"these have from {totals[0]:,} to {totals[-1]:,}: fix train.steps"
        )
    every = math.lcm(*{trial.config.train.validate_every for trial in trials})
    rungs = plan_rungs(len(trials) // seeds, seeds, totals[0], every, budget)
    if len(rungs) == 1 and len(trials) > seeds:
        raise InputError(
            f"--search halving: no rung ends before step {totals[0]:,}, the last, with a validation every {every:,}; "
            "make train.validate_every smaller"
        )
    return rungs


def _total(config: RunConfig) -> int:
    return config.train.total_steps(config.data)


def measured_split(split: str | None, plan: SweepPlan) -> str | None:
    """The split of the final evaluation; "auto" is the test split for a grid and none for a search.

    A search chooses by validation. It must not see the test split, because choosing biases it upwards.
    """
    if plan.search is None:
        return "test" if split == "auto" else split
    if split in ("test", "all"):
        raise InputError(
            f"--split {split} with a search: the choice of a setting must not use the test set; omit --split, and "
            "test the best setting afterwards on new seeds"
        )
    return None if split == "auto" else split


@dataclass(frozen=True)
class Best:
    """The fully trained setting with the lowest mean validation loss over its seeds."""

    settings: Mapping[str, Any]
    validation_loss: float
    seeds: int


@dataclass(frozen=True)
class SearchResult:
    """The result of a search so far: the number of trials stopped at a rung, and the best setting."""

    stopped: int
    best: Best | None


def find_best(plan: SweepPlan, records: Records) -> SearchResult:
    """The result of a search, from results.jsonl."""
    stopped = sum(records[trial.name].state == "stopped" for trial in plan.trials if trial.name in records)
    return SearchResult(stopped, best_setting(plan, records))


def best_setting(plan: SweepPlan, records: Records) -> Best | None:
    """The best setting; every seed of it must have finished."""
    found = []
    for setting in settings_of(plan):
        ended = [records[trial.name] for trial in setting if trial.name in records]
        if len(ended) == len(setting) and all(one.state == "finished" for one in ended):
            loss = fmean(one.metrics["validation_loss"] for one in ended)
            found.append(Best(setting[0].settings, loss, len(ended)))
    return min(found, key=lambda best: best.validation_loss, default=None)
