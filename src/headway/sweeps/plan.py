"""The trials of a sweep: the varied settings crossed with the seeds, each named after its settings."""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headway.config import Assignment, RunConfig, assign, build, read_toml, to_table
from headway.errors import InputError
from headway.json_values import JsonObject
from headway.sweeps.ranges import Range, parse_range, read_value

FORM = 1
"""Version of the form of sweep.json."""
LONGEST_NAME = 120
DIGEST = 12
"""Characters of a hash that distinguish names with equal words."""
LARGEST_SWEEP = 100_000


@dataclass(frozen=True)
class Trial:
    """One run of a sweep: its name, its varied settings, and the complete config with its seed."""

    name: str
    settings: Mapping[str, Any]
    config: RunConfig

    @property
    def seed(self) -> int:
        return self.config.seed


@dataclass(frozen=True)
class Rung:
    """A rung of successive halving: `settings` settings with all their seeds are trained up to step `until`."""

    settings: int
    until: int


@dataclass(frozen=True)
class Search:
    """The number of drawn settings, and the rungs of successive halving (none: all are trained fully)."""

    drawn: int
    rungs: tuple[Rung, ...] = ()


Choices = list[Any] | Range
"""The values of a varied setting."""


@dataclass(frozen=True)
class SweepPlan:
    """A planned sweep: `recipe` is the recipe's tables with `--set` applied.

    The trials of a setting are adjacent, one per seed. `search` is set if settings were drawn. `split` is the split of
    the final evaluation.
    """

    name: str
    recipe: Mapping[str, Any]
    vary: Mapping[str, Choices]
    seeds: tuple[int, ...]
    trials: tuple[Trial, ...]
    search: Search | None = None
    split: str | None = "test"

    def to_json(self) -> JsonObject:
        trials: list[JsonObject] = [
            {"name": one.name, "settings": dict(one.settings), "seed": one.seed} for one in self.trials
        ]
        vary = {key: str(one) if isinstance(one, Range) else list(one) for key, one in self.vary.items()}
        search = {} if self.search is None else {"search": asdict(self.search)}
        return {
            "form": FORM,
            "recipe_name": self.name,
            "recipe": dict(self.recipe),
            "vary": vary,
            "seeds": list(self.seeds),
            "split": self.split,
            **search,
            "trials": trials,
        }


Vary = Sequence[str] | Mapping[str, Any]
"""`["a.b=x,y"]` as on the command line, or `{"a.b": ["x", "y"]}` from Python; strings are parsed: `{"a.b": "1..5"}`."""


def plan_grid(recipe: Path, set: Sequence[Assignment], vary: Vary, seeds: Sequence[int]) -> SweepPlan:
    """Every combination of the varied values with every seed; invalid keys and values raise."""
    check_seeds(seeds)
    table = read_toml(recipe)
    varied = {key: _listed(key, choices) for key, choices in read_vary(vary).items()}
    check_size(math.prod(map(len, varied.values())) * len(seeds))
    combinations = [dict(zip(varied, values, strict=True)) for values in itertools.product(*varied.values())]
    trials = tuple(make_trial(table, set, settings, seed, str(recipe)) for settings in combinations for seed in seeds)
    return SweepPlan(recipe.stem, assign(table, set), varied, tuple(seeds), trials)


def _listed(key: str, choices: Choices) -> list[Any]:
    if isinstance(choices, Range):
        raise InputError(f"--vary {key}={choices} is a range; give the number of settings to draw with --trials")
    return choices


def check_seeds(seeds: Sequence[int]) -> None:
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"--seeds: {'a seed is repeated' if seeds else 'at least one seed needed'}")


def check_size(trials: int) -> None:
    if trials > LARGEST_SWEEP:
        raise InputError(f"the sweep would have {trials:,} trials; at most {LARGEST_SWEEP:,} are allowed")


def check_plan(plan: SweepPlan) -> None:
    """Raise for errors that every trial of a setting would meet: unknown options, sizes, a domain too large to list."""
    from headway.tasks import make_task
    from headway.training.preparation import resolve

    distinct = {json.dumps([to_table(t.config.task), to_table(t.config.model)]): t for t in plan.trials}
    for trial in distinct.values():
        try:
            task = make_task(trial.config.task)
            resolve(trial.config, task)
        except InputError as error:
            raise InputError(f"{trial.name}: {error}") from None
        if plan.split == "all" and not task.domain_size():
            raise InputError(f"--split all: the domain of {task.name} is too large to list; use test or validation")


def make_trial(
    recipe: JsonObject,
    set: Sequence[Assignment],
    settings: JsonObject,
    seed: int,
    where: str = "recipe",
) -> Trial:
    """The trial of given settings: the recipe, changed by `--set`, then by the varied settings, with a seed.

    Both changes are applied as one list, so that an option that is set stays if its table's name is varied.
    """
    table = {**assign(dict(recipe), [*set, *settings.items()]), "seed": seed}
    try:
        config = build(RunConfig, table, "")
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return Trial(trial_name(settings, seed), dict(settings), config)


def read_vary(vary: Vary) -> dict[str, Choices]:
    """The varied settings and their values, without repeats."""
    if isinstance(vary, Mapping):
        pairs = [
            parse_vary(f"{key}={one}") if isinstance(one, str) else (key, _values(key, one))
            for key, one in vary.items()
        ]
    else:
        pairs = [parse_vary(text) for text in vary]
    varied = dict(pairs)
    if len(varied) < len(pairs):
        raise InputError("--vary: a setting is repeated; list its values after one --vary")
    if "seed" in varied:
        raise InputError("--vary seed: use --seeds")
    for whole, part in itertools.permutations(varied, 2):
        if part.startswith(f"{whole}."):
            raise InputError(f"--vary {whole} and --vary {part}: the first contains the second; vary one of them")
    for key, values in varied.items():
        if isinstance(values, Range):
            continue
        try:
            written = [json.dumps(value, sort_keys=True, allow_nan=False) for value in values]
        except (TypeError, ValueError):
            raise InputError(f"--vary {key}: a value must be a text, a finite number, true, false or a table") from None
        if len(set(written)) < len(written) or not written:
            raise InputError(f"--vary {key}: {'a value is repeated' if written else 'no value is given'}")
    return varied


def _values(key: str, values: Any) -> list[Any]:
    if not isinstance(values, Iterable) or isinstance(values, Mapping):
        raise InputError(f"vary {key}: a list of values needed, got {values!r}")
    return list(values)


def parse_vary(text: str) -> tuple[str, Choices]:
    """`a.b=x,y` -> the key and its values, parsed as in `--set`; or a range.

    >>> parse_vary("train.lr=1e-3,2e-3")
    ('train.lr', [0.001, 0.002])
    """
    key, equals, values = text.partition("=")
    parts = split_values(values)
    if not equals or not key.strip() or not all(part.strip() for part in parts):
        raise InputError(f"--vary {text!r}: write it as key.key=value,value, for example train.lr=0.001,0.002")
    ranges = [parse_range(key.strip(), part) for part in parts]
    if ranges[0] is not None and len(ranges) == 1:
        return key.strip(), ranges[0]
    if any(ranges):
        raise InputError(f"--vary {text}: a range cannot be part of a list")
    return key.strip(), [read_value(part) for part in parts]


def split_values(text: str) -> list[str]:
    """Split at commas outside of brackets, braces and quotes.

    >>> split_values('learned,{name="learned", table_size=64}')
    ['learned', '{name="learned", table_size=64}']
    """
    parts, depth, quote = [""], 0, ""
    for sign in text:
        if sign == "," and not depth and not quote:
            parts.append("")
            continue
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        depth += (sign in "[{") - (sign in "]}") if not quote else 0
        parts[-1] += sign
    return parts


def trial_name(settings: JsonObject, seed: int) -> str:
    """A directory name made of the trial's settings; the same for every planning of the sweep.

    >>> trial_name({"model.encoding.name": "rotary", "train.lr": 0.001}, 3)
    'encoding=rotary,lr=0.001,seed=3'
    """
    words = short_names(settings)
    exact = ",".join([*(f"{words[key]}={value_text(value)}" for key, value in settings.items()), f"seed={seed}"])
    plain = re.sub(r"[^A-Za-z0-9.,=+_-]+", "-", exact)
    if plain == exact and len(exact) <= LONGEST_NAME and not any(map(_is_ambiguous, settings.values())):
        return exact
    canonical = json.dumps([sorted(settings.items()), seed], default=str)
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:DIGEST]
    return f"{plain[: LONGEST_NAME - DIGEST - 1]}-{digest}"


def _is_ambiguous(value: Any) -> bool:
    """Whether another value could be written the same way, such as the text "1" and the number."""
    return isinstance(value, str) and (bool(re.search("[,=]", value)) or read_value(value) != value)


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """Each key without its section and a trailing `.name`; the full key if two would be equal.

    `data.seed` is not shortened, because the run's own seed stands beside it.
    """
    short = {key: key.removesuffix(".name").split(".")[-1] for key in keys}
    words = [*short.values(), "seed"]
    return {key: word if words.count(word) == 1 else key for key, word in short.items()}


def value_text(value: Any) -> str:
    """A setting's value as a person writes it; tables and lists as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, default=str)
