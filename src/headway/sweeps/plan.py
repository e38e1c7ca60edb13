"""Which trials a sweep has: the varied settings crossed with the seeds, each named after its settings."""

import hashlib
import itertools
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.config import Assignment, RunConfig, assign, build, read_toml
from headway.errors import InputError

FORM = 1
"""Version of the form of sweep.json."""
LONGEST_NAME = 120
LARGEST_SWEEP = 100_000


@dataclass(frozen=True)
class Trial:
    """One run of a sweep: its name, the settings that were varied, and the whole config with its seed."""

    name: str
    settings: Mapping[str, Any]
    config: RunConfig

    @property
    def seed(self) -> int:
        return self.config.seed


@dataclass(frozen=True)
class Plan:
    """A sweep before it is run: `recipe` is the tables of the recipe with `--set` applied."""

    name: str
    recipe: Mapping[str, Any]
    vary: Mapping[str, Sequence[Any]]
    seeds: tuple[int, ...]
    trials: tuple[Trial, ...]

    def to_json(self) -> dict[str, Any]:
        trials = [{"name": one.name, "settings": dict(one.settings), "seed": one.seed} for one in self.trials]
        vary = {key: list(values) for key, values in self.vary.items()}
        return {
            "form": FORM,
            "recipe_name": self.name,
            "recipe": dict(self.recipe),
            "vary": vary,
            "seeds": list(self.seeds),
            "trials": trials,
        }


def plan_grid(recipe: Path, set: Sequence[Assignment], vary: Sequence[str], seeds: Sequence[int]) -> Plan:
    """Every combination of the varied values, with every seed; a key or value no recipe can have is refused."""
    table = assign(read_toml(recipe), set)
    varied = dict(parse_vary(text) for text in vary)
    if len(varied) < len(vary):
        raise InputError("--vary: a setting stands there twice; list its values after one --vary")
    if "seed" in varied:
        raise InputError("--vary seed: use --seeds")
    size = len(seeds)
    for values in varied.values():
        size *= len(values)
    if size > LARGEST_SWEEP:
        raise InputError(f"the sweep would have {size:,} trials; at most {LARGEST_SWEEP:,} are allowed")
    combinations = [dict(zip(varied, values, strict=True)) for values in itertools.product(*varied.values())]
    trials = tuple(make_trial(table, settings, seed, str(recipe)) for settings in combinations for seed in seeds)
    return Plan(recipe.stem, table, varied, tuple(seeds), trials)


def make_trial(recipe: Mapping[str, Any], settings: Mapping[str, Any], seed: int, where: str = "recipe") -> Trial:
    """The trial of some settings: those of the recipe, changed, with a seed."""
    table = {**assign(dict(recipe), list(settings.items())), "seed": seed}
    try:
        config = build(RunConfig, table, "")
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return Trial(trial_name(settings, seed), dict(settings), config)


def parse_vary(text: str) -> tuple[str, list[Any]]:
    """`a.b=x,y` -> the key and its values, each read as `--set` reads it.

    >>> parse_vary("train.lr=1e-3,2e-3")
    ('train.lr', [0.001, 0.002])
    """
    key, equals, values = text.partition("=")
    parts = split_values(values)
    if not equals or not key.strip() or not all(part.strip() for part in parts):
        raise InputError(f"--vary {text!r}: write it as key.key=value,value, for example train.lr=0.001,0.002")
    found = [read_value(part) for part in parts]
    if len({json.dumps(value, sort_keys=True, default=str) for value in found}) < len(found):
        raise InputError(f"--vary {text!r}: a value stands there twice")
    return key.strip(), found


def split_values(text: str) -> list[str]:
    """Parts between commas that stand outside brackets, braces and quotes.

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


def read_value(text: str) -> Any:
    """A TOML value, or the text itself where it is none."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text.strip()


def trial_name(settings: Mapping[str, Any], seed: int) -> str:
    """A directory's name that says what the trial is, the same wherever and whenever the sweep is planned.

    >>> trial_name({"model.encoding.name": "rotary", "train.lr": 0.001}, 3)
    'encoding=rotary,lr=0.001,seed=3'
    """
    words = short_names(settings)
    exact = ",".join([*(f"{words[key]}={value_text(value)}" for key, value in settings.items()), f"seed={seed}"])
    plain = re.sub(r"[^A-Za-z0-9.,=+_-]+", "-", exact)
    if plain == exact and len(exact) <= LONGEST_NAME:
        return exact
    canonical = json.dumps([sorted(settings.items()), seed], default=str)
    return f"{plain[: LONGEST_NAME - 9]}-{hashlib.sha256(canonical.encode()).hexdigest()[:8]}"


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """Each key without its section and without a trailing `.name`; in full where two would be alike."""
    short = {key: key.removesuffix(".name").split(".")[-1] for key in keys}
    return {key: word if list(short.values()).count(word) == 1 else key for key, word in short.items()}


def value_text(value: Any) -> str:
    """A setting's value as a person writes it; tables and lists as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, default=str)
