"""The comparison of a sweep's settings (`headway compare --json`), and results.jsonl, from which it is made."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from headway.json_values import JsonObject, JsonValue
from headway.results.schema import Document, Interval, fact


@dataclass(frozen=True, kw_only=True)
class PlannedTrial:
    """A trial of sweep.json."""

    name: str = fact("name of the trial, and of its directory")
    settings: JsonObject = fact("varied settings and their values")
    seed: int = fact("seed of the run")


@dataclass(frozen=True, kw_only=True)
class SweepRecord:
    """The part of sweep.json that a comparison needs."""

    form: Literal[1] = fact("version of this document")
    trials: tuple[PlannedTrial, ...] = fact("every trial, grouped by setting")
    search: JsonObject | None = fact("how settings were drawn; missing in a grid", optional=True)


State = Literal["finished", "stopped", "failed"]


@dataclass(frozen=True)
class Outcome(Document):
    """A line of results.jsonl: the outcome of a trial. Only `seconds` depends on the machine's speed."""

    name: str = fact("name of the trial, and of its directory")
    settings: JsonObject = fact("varied settings and their values")
    seed: int = fact("seed of the run")
    state: State = fact("finished, stopped at a rung of a search, or failed")
    metrics: Mapping[str, int | float] = fact("results of the trial: accuracy, loss, steps, ...", default={})
    error: str | None = fact("why it failed", default=None)
    seconds: float = fact("time of training and evaluation", unit="seconds", default=0.0)
    rungs: tuple[float, ...] | None = fact("validation loss at the end of each rung of a search", optional=True)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One setting. `trials`, `seeds` and `values` are of the trials that ended; a failed one has no value."""

    settings: JsonObject = fact("the setting")
    planned: int = fact("trials planned")
    n: int = fact("trials that finished")
    failed: int = fact("trials that failed")
    mean: float | None = fact("mean over the seeds that finished")
    interval: Interval | None = fact("95 % interval of the median seed, from six seeds on")
    min: float | None = fact("lowest seed")
    max: float | None = fact("highest seed")
    successes: int | None = fact("seeds that reached `success_at`")
    success: float | None = fact("share of seeds that reached it; failed trials count as not reaching it")
    success_interval: Interval | None = fact("95 % interval of the share (Clopper-Pearson)")
    trials: tuple[str, ...] = fact("names of the trials that ended")
    seeds: tuple[int, ...] = fact("their seeds")
    values: tuple[float | None, ...] = fact("their values; null where one failed")
    errors: tuple[str | None, ...] = fact("why they failed; null where they did not")
    stopped: int = fact("trials that a search stopped at a rung; not counted in the other numbers", default=0)
    stopped_at: int | None = fact("the last step at which one was stopped", unit="steps", default=None)
    stopped_mean: float | None = fact("mean of the trials stopped at that step", default=None)
    median: float | None = fact("median over the seeds that finished", default=None)
    descriptive: bool = fact("whether fewer than six seeds finished", default=False)


@dataclass(frozen=True, kw_only=True)
class Level:
    """One value of a key: its mean over the pairs, and the difference to the best value."""

    value: JsonValue = fact("the value")
    mean: float = fact("mean over seeds")
    interval: Interval | None = fact("95 % interval of the median seed")
    difference: float = fact("mean difference to the best value")
    difference_interval: Interval | None = fact("95 % interval of the median difference")
    median: float | None = fact("median over seeds", default=None)
    difference_median: float | None = fact("median difference to the best value", default=None)


@dataclass(frozen=True, kw_only=True)
class Effect:
    """The values of one key, compared with all other settings equal; the best value first."""

    key: str = fact("varied setting")
    n: int = fact("seeds")
    pairs: int = fact("combinations of the other settings and a seed for which every value finished")
    left_out: int = fact("combinations for which a value did not finish")
    levels: tuple[Level, ...] = fact("its values")
    descriptive: bool = fact("whether there are fewer than six seeds", default=False)


@dataclass(frozen=True, kw_only=True)
class Comparison(Document):
    """The settings of a sweep side by side; `hw.compare(sweep)` returns it and writes nothing."""

    sweep: str = fact("directory of the sweep")
    metric: str = fact("compared metric")
    lower_is_better: bool = fact("whether a lower value of the metric is better")
    success_at: float | None = fact("value from which a seed is a success")
    where: tuple[str, ...] = fact("filters of the trials, as `key=value`")
    sort: str = fact("key by which rows are sorted")
    vary: Mapping[str, tuple[JsonValue, ...]] = fact("varied settings and their values")
    trials_planned: int = fact("trials planned")
    trials_finished: int = fact("trials that finished")
    trials_failed: int = fact("trials that failed")
    rows: tuple[Row, ...] = fact("one row per setting")
    by: tuple[Effect, ...] = fact("effects of single settings, all others equal", default=())
    notes: tuple[str, ...] = fact("notes on the numbers", default=())
    trials_stopped: int = fact("trials that a search stopped at a rung", default=0)
    descriptive: bool = fact("whether a row has fewer than six finished seeds", default=False)

    @property
    def keys(self) -> tuple[str, ...]:
        """The varied settings."""
        return tuple(self.vary)

    def top(self, k: int) -> tuple[Row, ...]:
        """The k settings with the best mean, independent of the table's order."""
        return tuple(sorted(self.rows, key=lambda row: best_first(row.mean, self.lower_is_better))[:k])

    def _repr_html_(self) -> str:
        # Imported by name, because sweeps may import this module but not the reverse.
        text: str = import_module("headway.sweeps.tables").as_html(self)
        return text


def best_first(value: float | None, lower: bool) -> tuple[bool, float]:
    """Sort key: the best first, missing values last."""
    return (True, 0.0) if value is None else (False, value if lower else -value)
