"""Compares the settings of a sweep, one row per setting with the seed as the unit, from sweep.json and
results.jsonl.
"""

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from headway.errors import InputError, suggestion
from headway.results.comparison import Comparison, Effect, Level, Outcome, PlannedTrial, Row, SweepRecord, best_first
from headway.results.schema import Interval, read
from headway.runs import SweepDirectory
from headway.statistics import ENOUGH_SEEDS, clopper_pearson, median_interval, newcombe_interval, wilson_interval
from headway.sweeps.plan import short_names, split_values, value_text
from headway.sweeps.ranges import read_value
from headway.sweeps.tables import LOWER_IS_BETTER, METRICS, SHARES, SUCCESS

LARGEST = 1e100
"""Largest accepted number; the square of a number within it is finite."""
MOST_LISTED = 30
"""Largest number of known values that an error message lists."""


@dataclass(frozen=True)
class Entry:
    """A planned trial and its outcome; `state` is None until it ends."""

    name: str
    settings: Mapping[str, Any]
    seed: int
    state: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None


def compare(
    sweep: SweepDirectory | Path | str,
    *,
    metric: str | None = None,
    where: Sequence[str] = (),
    sort: str | None = None,
    success: float | None = None,
    by: Sequence[str] = (),
) -> Comparison:
    """One row for each combination of varied values, the best mean first; writes nothing.

    >>> hw.compare("encodings", where=["model.encoding.name=rotary"]).top(3)   # doctest: +SKIP
    """
    directory = sweep if isinstance(sweep, SweepDirectory) else SweepDirectory.find(str(sweep))
    plan = read_plan(directory)
    entries, notes = read_entries(directory, plan)
    keys = tuple(dict.fromkeys(key for entry in entries for key in entry.settings))
    name = pick_metric(entries, metric, searched=plan.search is not None)
    if success is not None and not math.isfinite(success):
        raise InputError(f"--success {success:g}; a finite number needed")
    if success is not None and name in SHARES and not 0 <= success <= 1:
        raise InputError(f"--success {success:g}; {name} is a share: 0 to 1 needed, such as {SUCCESS:g}")
    success_at = SUCCESS if success is None and name in SHARES else success
    chosen = select(entries, keys, where)
    finished = [entry for entry in chosen if entry.state == "finished"]
    if without := sum(name not in entry.metrics for entry in finished):
        notes.append(f"{without:,} finished trials have no {name} and are left out")
    rows = sorted_rows(grouped(chosen), keys, name, success_at, sort or name)
    return Comparison(
        sweep=str(directory.path),
        metric=name,
        lower_is_better=name in LOWER_IS_BETTER,
        success_at=success_at,
        where=tuple(where),
        sort=sort or name,
        vary={key: tuple(distinct(entry.settings.get(key) for entry in chosen)) for key in keys},
        trials_planned=len(chosen),
        trials_finished=len(finished),
        trials_failed=sum(entry.state == "failed" for entry in chosen),
        trials_stopped=sum(entry.state == "stopped" for entry in chosen),
        rows=rows,
        by=tuple(effect_of(_key("--by", key, keys), chosen, name) for key in by),
        notes=tuple(notes),
        descriptive=any(row.descriptive for row in rows),
    )


# Reading


def read_entries(directory: SweepDirectory, plan: SweepRecord) -> tuple[list[Entry], list[str]]:
    """Every planned trial with its outcome, in the plan's order, and notes about ignored results."""
    results = directory.results(strict=True)
    entries = [_entry(trial, results.pop(trial.name, None), directory) for trial in plan.trials]
    notes = [f"{len(results):,} results of trials that are not in the plan are ignored"] if results else []
    return entries, notes


def read_plan(directory: SweepDirectory) -> SweepRecord:
    plan = read(SweepRecord, directory.plan(), str(directory.path / "sweep.json"))
    if not plan.trials:
        raise InputError(f"{directory.path / 'sweep.json'} lists no trials")
    return plan


def _entry(trial: PlannedTrial, ended: Outcome | None, directory: SweepDirectory) -> Entry:
    """A planned trial with the metrics of its outcome."""
    if ended is None:
        return Entry(trial.name, trial.settings, trial.seed)
    metrics = {**ended.metrics, "seconds": ended.seconds}
    for key, value in metrics.items():
        if abs(value) > LARGEST:
            raise InputError(f"{directory.results_path}: the {key} of {trial.name} is beyond {LARGEST:g}")
    error = (ended.error or "unknown") if ended.state == "failed" else None
    return Entry(trial.name, trial.settings, trial.seed, ended.state, metrics, error)


# Choosing


def pick_metric(entries: Sequence[Entry], asked: str | None, *, searched: bool = False) -> str:
    """The requested metric; by default accuracy, else validation accuracy, and validation loss for a search."""
    found = measured(entries)
    if asked is None and searched:
        return "validation_loss"
    if asked is None:
        return "validation_accuracy" if found and "accuracy" not in found else "accuracy"
    known = found or set(METRICS)
    if asked not in known:
        raise InputError(f"--metric {asked!r}: no finished trial has it; {suggestion(asked, known)}")
    return asked


def measured(entries: Iterable[Entry]) -> set[str]:
    """The metrics of all trials that finished or were stopped at a rung."""
    return {key for entry in entries if entry.state in ("finished", "stopped") for key in entry.metrics}


def select(entries: Sequence[Entry], keys: Sequence[str], where: Sequence[str]) -> list[Entry]:
    """The trials that match every `key=value`; `key=a,b` matches either value."""
    chosen = list(entries)
    for text in where:
        asked, equals, values = text.partition("=")
        if not equals or not asked.strip() or not values.strip():
            raise InputError(f"--where {text!r}: write it as key.key=value, for example model.encoding.name=rotary")
        key = _key("--where", asked.strip(), [*keys, "seed"])
        wanted = split_values(values)
        there = list(dict.fromkeys(value_text(_setting(entry, key)) for entry in entries))
        for value in wanted:
            if not any(_same(_setting(entry, key), value) for entry in entries):
                raise InputError(f"--where {key}={value.strip()}: no trial has it; {_listed(value.strip(), there)}")
        chosen = [entry for entry in chosen if any(_same(_setting(entry, key), value) for value in wanted)]
    if not chosen:
        raise InputError(f"--where: no trial has all of {' and '.join(where)}")
    return chosen


def _key(flag: str, asked: str, keys: Sequence[str]) -> str:
    """Resolve a varied key from its full name or from its short name in tables."""
    short = {word: key for key, word in short_names(keys).items()}
    if asked not in keys and asked not in short:
        raise InputError(f"{flag} {asked!r} was not varied in this sweep; {suggestion(asked, keys)}")
    return asked if asked in keys else short[asked]


def _setting(entry: Entry, key: str) -> Any:
    return entry.seed if key == "seed" else entry.settings.get(key)


def _same(value: Any, text: str) -> bool:
    """Whether a value equals a text as a TOML value or as text; true is not 1."""
    wanted = read_value(text)
    alike = isinstance(wanted, bool) == isinstance(value, bool) and wanted == value
    return alike or value_text(value) == text.strip()


def _listed(word: str, known: Sequence[str]) -> str:
    if len(known) <= MOST_LISTED:
        return suggestion(word, known)
    return f"known: {', '.join(known[:MOST_LISTED])} and {len(known) - MOST_LISTED:,} more"


# Rows


def grouped(entries: Iterable[Entry]) -> list[list[Entry]]:
    """The trials of each setting, in the plan's order."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(_identity(entry.settings), []).append(entry)
    return list(groups.values())


def distinct(values: Iterable[Any]) -> list[Any]:
    """Each value once, in order of first occurrence."""
    return list({_identity(value): value for value in values}.values())


def _identity(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def sorted_rows(
    groups: Sequence[Sequence[Entry]], keys: Sequence[str], metric: str, success_at: float | None, sort: str
) -> tuple[Row, ...]:
    """One row per setting in the requested order; ties keep the plan's order."""
    pairs = [(row_of(group, metric, success_at), group) for group in groups]
    known = (measured(entry for group in groups for entry in group) or set(METRICS)) | {metric}
    rank = _ranking(known, keys, success_at, sort)
    return tuple(row for row, _ in sorted(pairs, key=lambda pair: rank(*pair)))


def _ranking(
    metrics: Collection[str], keys: Sequence[str], success_at: float | None, sort: str
) -> Callable[[Row, Sequence[Entry]], tuple[Any, ...]]:
    if sort in metrics:
        lower = sort in LOWER_IS_BETTER
        return lambda row, group: (*best_first(_mean(_values(group, sort)), lower), *_longest_first(group, sort))
    if sort == "success":
        if success_at is None:
            raise InputError("--sort success needs --success, the value from which a seed is a success")
        return lambda row, group: best_first(row.success, False)
    if sort not in keys and sort not in short_names(keys).values():
        known = [*metrics, *keys, "success"]
        raise InputError(f"--sort {sort!r} is neither a metric nor a varied setting; {suggestion(sort, known)}")
    key = _key("--sort", sort, keys)
    return lambda row, group: _in_order(row.settings.get(key))


def _longest_first(group: Sequence[Entry], metric: str) -> tuple[float, bool, float]:
    """Sort key of stopped settings: the longest trained first, then the best."""
    values = _values(_stopped_last(group), metric, "stopped")
    return (-(_stopped_at(group) or 0), *best_first(_mean(values), metric in LOWER_IS_BETTER))


def _stopped_at(group: Iterable[Entry]) -> int | None:
    """The last step at which trials of a setting were stopped; None if none was."""
    return max((int(step) for step in _values(group, "steps", "stopped")), default=None)


def _stopped_last(group: Sequence[Entry]) -> list[Entry]:
    """The trials that were stopped at that step; during a rung, others have not reached it."""
    return [entry for entry in group if entry.metrics.get("steps") == _stopped_at(group)]


def _in_order(value: Any) -> tuple[bool, float, str]:
    """Sort key: numbers by size, then everything else by its text."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return (not number, float(value) if number else 0.0, "" if number else value_text(value))


def row_of(group: Sequence[Entry], metric: str, success_at: float | None) -> Row:
    """The numbers of one setting; a failed seed has no value and is not a success.

    Stopped trials are listed separately, because they were trained for fewer steps.
    """
    ended = [entry for entry in group if entry.state == "failed" or _is_finished(entry, metric)]
    values = tuple(entry.metrics[metric] if entry.state == "finished" else None for entry in ended)
    known = [value for value in values if value is not None]
    successes = None if success_at is None else sum(_succeeds(value, metric, success_at) for value in known)
    return Row(
        settings=dict(group[0].settings),
        planned=len(group),
        n=len(known),
        failed=len(ended) - len(known),
        mean=_mean(known),
        median=median(known) if known else None,
        interval=_interval(known, metric, _examples(ended)),
        min=min(known, default=None),
        max=max(known, default=None),
        successes=successes,
        success=successes / len(ended) if successes is not None and ended else None,
        success_interval=clopper_pearson(successes, len(ended)) if successes is not None and ended else None,
        trials=tuple(entry.name for entry in ended),
        seeds=tuple(entry.seed for entry in ended),
        values=values,
        errors=tuple(entry.error for entry in ended),
        stopped=sum(entry.state == "stopped" for entry in group),
        stopped_at=_stopped_at(group),
        stopped_mean=_mean(_values(_stopped_last(group), metric, "stopped")),
        descriptive=len(known) < ENOUGH_SEEDS,
    )


def _is_finished(entry: Entry, metric: str) -> bool:
    return entry.state == "finished" and metric in entry.metrics


def _values(group: Iterable[Entry], metric: str, state: str = "finished") -> list[float]:
    return [entry.metrics[metric] for entry in group if entry.state == state and metric in entry.metrics]


def _succeeds(value: float, metric: str, limit: float) -> bool:
    return value <= limit if metric in LOWER_IS_BETTER else value >= limit


def _mean(values: Sequence[float]) -> float | None:
    # Subtracting the first value makes the mean of equal values exactly that value.
    return values[0] + math.fsum(value - values[0] for value in values) / len(values) if values else None


def _interval(values: Sequence[float], metric: str, n: int | None) -> Interval | None:
    """A 95 % interval of the median seed, from six seeds on.

    For accuracies it includes the sampling error of the n examples. It is None if n is unknown, because six equal seeds
    would look certain.
    """
    if metric not in SHARES:
        return median_interval(values)
    if metric != "accuracy" or n is None:
        return None
    return median_interval(values, own=[wilson_interval(round(value * n), n) for value in values])


def _examples(entries: Iterable[Entry]) -> int | None:
    """The number of examples of the trials' accuracy; None unless it is the same for all."""
    sizes = {entry.metrics.get("n") for entry in entries if "accuracy" in entry.metrics}
    size = sizes.pop() if len(sizes) == 1 else None
    return int(size) if size else None


# One key, everything else equal


def effect_of(key: str, entries: Sequence[Entry], metric: str) -> Effect:
    """The values of a key, paired by (other settings, seed) and averaged within each seed; intervals are over seeds.

    A pair in which some value has not finished is dropped for all values, so that all are compared on the same pairs.
    """
    values = distinct(entry.settings.get(key) for entry in entries)
    if len(values) < 2:
        raise InputError(f"--by {key}: all these trials have {value_text(values[0])}; at least two values needed")
    blocks = _blocks(key, entries, metric)
    complete = [block for block in blocks if len(block[1]) == len(values)]
    if not complete:
        raise InputError(f"--by {key}: no finished trials differ in nothing but {key}, with every value of it there")
    seeds = list(dict.fromkeys(seed for seed, _ in complete))
    means = {value: _seed_means(value, seeds, complete) for value in map(_identity, values)}
    best = min(means, key=lambda value: best_first(_mean(means[value]), metric in LOWER_IS_BETTER))
    n = _examples(entry for entry in entries if entry.state == "finished")
    levels = [_level(value, means[_identity(value)], means[best], metric, n) for value in values]
    levels.sort(key=lambda level: best_first(level.mean, metric in LOWER_IS_BETTER))
    return Effect(
        key=key,
        n=len(seeds),
        pairs=len(complete),
        left_out=len(blocks) - len(complete),
        levels=tuple(levels),
        descriptive=len(seeds) < ENOUGH_SEEDS,
    )


def _blocks(key: str, entries: Sequence[Entry], metric: str) -> list[tuple[int, dict[str, float]]]:
    """For each (other settings, seed): the seed, and the metric of each value of the key that finished."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for entry in entries:
        others = _identity({name: value for name, value in entry.settings.items() if name != key})
        block = found.setdefault((others, entry.seed), {})
        if entry.state == "finished" and metric in entry.metrics:
            block[_identity(entry.settings.get(key))] = entry.metrics[metric]
    return [(seed, block) for (_, seed), block in found.items()]


def _seed_means(value: str, seeds: Sequence[int], blocks: Sequence[tuple[int, dict[str, float]]]) -> list[float]:
    sums = dict.fromkeys(seeds, 0.0)
    counts = dict.fromkeys(seeds, 0)
    for seed, block in blocks:
        sums[seed] += block[value]
        counts[seed] += 1
    return [sums[seed] / counts[seed] for seed in seeds]


def _level(value: Any, own: Sequence[float], best: Sequence[float], metric: str, n: int | None) -> Level:
    differences = [one - other for one, other in zip(own, best, strict=True)]
    mean, apart = _mean(own), _mean(differences)
    assert mean is not None and apart is not None
    between = (0.0, 0.0) if own is best else _interval_between(own, best, metric, n)
    return Level(
        value=value,
        mean=mean,
        interval=_interval(own, metric, n),
        difference=apart,
        difference_interval=between,
        median=median(own),
        difference_median=median(differences),
    )


def _interval_between(own: Sequence[float], best: Sequence[float], metric: str, n: int | None) -> Interval | None:
    """A 95 % interval of the median difference between two values of a key, seed by seed."""
    differences = [one - other for one, other in zip(own, best, strict=True)]
    if metric not in SHARES:
        return median_interval(differences)
    if metric != "accuracy" or n is None:
        return None
    # For shares on the same examples, which are correlated, Newcombe's interval is conservative.
    counts = [(round(one * n), round(other * n)) for one, other in zip(own, best, strict=True)]
    return median_interval(differences, own=[newcombe_interval(one, n, other, n) for one, other in counts])
