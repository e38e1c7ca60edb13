"""The settings of a sweep side by side, as a value: its numbers, and the texts that a person reads."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from headway.statistics import ENOUGH_SEEDS
from headway.sweeps.plan import short_names, value_text

SHARES = ("accuracy", "validation_accuracy")
"""Metrics that lie in 0..1, printed in percent."""
LOWER_IS_BETTER = ("wrong", "loss", "validation_loss", "steps", "best_step", "seconds")
METRICS = (*SHARES, *LOWER_IS_BETTER)
SUCCESS = 0.99
"""A seed of at least this accuracy is a success, unless another limit is given."""

Interval = tuple[float, float]
OF_MEDIAN = "95 % interval of it"
"""Heads the column after a median."""


@dataclass(frozen=True)
class Row:
    """One setting. `trials`, `seeds` and `values` are of those that ended; a failed one has no value.

    Trials that a search `stopped` at a rung count in no other number; `stopped_mean` is their mean at that step.
    """

    settings: Mapping[str, Any]
    planned: int
    n: int
    failed: int
    mean: float | None
    interval: Interval | None
    min: float | None
    max: float | None
    successes: int | None
    success: float | None
    success_interval: Interval | None
    trials: tuple[str, ...]
    seeds: tuple[int, ...]
    values: tuple[float | None, ...]
    errors: tuple[str | None, ...]
    stopped: int = 0
    stopped_at: int | None = None
    stopped_mean: float | None = None
    median: float | None = None

    @property
    def descriptive(self) -> bool:
        return self.n < ENOUGH_SEEDS


@dataclass(frozen=True)
class Level:
    """One value of a key: its mean over the pairs, how far it is from the best value's; intervals are of medians."""

    value: Any
    mean: float
    interval: Interval | None
    difference: float
    difference_interval: Interval | None
    median: float | None = None
    difference_median: float | None = None


@dataclass(frozen=True)
class Effect:
    """The values of one key, compared where everything else is equal; `n` seeds, the best value first."""

    key: str
    n: int
    pairs: int
    left_out: int
    levels: tuple[Level, ...]

    @property
    def descriptive(self) -> bool:
        return self.n < ENOUGH_SEEDS


@dataclass(frozen=True)
class Comparison:
    """The settings of a sweep side by side. `interval` is a 95 % interval of the median seed, from six on."""

    sweep: str
    metric: str
    lower_is_better: bool
    success_at: float | None
    where: tuple[str, ...]
    sort: str
    vary: Mapping[str, list[Any]]
    trials_planned: int
    trials_finished: int
    trials_failed: int
    rows: tuple[Row, ...]
    by: tuple[Effect, ...] = ()
    notes: tuple[str, ...] = ()
    trials_stopped: int = 0

    @property
    def keys(self) -> tuple[str, ...]:
        """The settings that were varied."""
        return tuple(self.vary)

    @property
    def descriptive(self) -> bool:
        """Whether any row rests on fewer than six seeds."""
        return any(row.descriptive for row in self.rows)

    def top(self, k: int) -> tuple[Row, ...]:
        """The k settings of best mean, whatever the table is sorted by."""
        return tuple(sorted(self.rows, key=lambda row: best_first(row.mean, self.lower_is_better))[:k])

    def to_json(self) -> dict[str, Any]:
        rows = [{**asdict(row), "descriptive": row.descriptive} for row in self.rows]
        by = [{**asdict(effect), "descriptive": effect.descriptive} for effect in self.by]
        return {**asdict(self), "rows": rows, "by": by, "descriptive": self.descriptive}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Comparison":
        rows = tuple(_restored(Row, row) for row in document["rows"])
        effects = [{**one, "levels": [_restored(Level, level) for level in one["levels"]]} for one in document["by"]]
        by = tuple(_restored(Effect, one) for one in effects)
        return _restored(cls, {**document, "rows": rows, "by": by})

    def _repr_html_(self) -> str:
        header, *rows = table_of(self)
        lines = [_html_line("th", header), *(_html_line("td", row) for row in rows)]
        return f"<p>{escape(heading(self))}</p><table>{''.join(lines)}</table>"


def best_first(value: float | None, lower: bool) -> tuple[bool, float]:
    """A key for sorting: the best first, what has no value last."""
    return (True, 0.0) if value is None else (False, value if lower else -value)


# For a person


def heading(found: Comparison) -> str:
    """What was compared and how much of it is there, in a line."""
    state = f"{found.trials_finished:,} of {found.trials_planned:,} trials finished"
    failed = f", {found.trials_failed:,} failed" if found.trials_failed else ""
    where = f" ({', '.join(found.where)})" if found.where else ""
    stopped = f", {found.trials_stopped:,} stopped at a rung" if found.trials_stopped else ""
    return f"{found.sweep}{where}: {found.metric}, {state}{stopped}{failed}"


def table_of(found: Comparison) -> list[list[str]]:
    """The rows as texts, under a line of headings."""
    short = short_names(found.keys)
    success = [] if found.success_at is None else [success_text(found), "95 % interval"]
    header = [
        *(short[key] for key in found.keys),
        "seeds",
        "failed",
        "mean",
        "median",
        OF_MEDIAN,
        "min",
        "max",
        *success,
    ]
    rows = [_cells(row, found) for row in found.rows]
    if not found.trials_stopped:
        return [header, *rows]
    stopped = [_stopped_cells(row, found) for row in found.rows]
    return [
        [*header, "stopped at", "mean there"],
        *([*cells, *more] for cells, more in zip(rows, stopped, strict=True)),
    ]


def _stopped_cells(row: Row, found: Comparison) -> list[str]:
    if row.stopped_at is None:
        return ["", ""]
    return [f"step {row.stopped_at:,}", shown(row.stopped_mean, found.metric)]


def success_text(found: Comparison) -> str:
    """What a seed must reach to be a success: "≥ 99 %"."""
    limit = found.success_at or 0.0
    number = f"{100 * limit:g} %" if found.metric in SHARES else f"{limit:g}"
    return f"{'≤' if found.lower_is_better else '≥'} {number}"


def _cells(row: Row, found: Comparison) -> list[str]:
    ended = row.n + row.failed
    seeds = f"{row.n}" if row.n == row.planned else f"{row.n} of {row.planned}"
    cells = [
        *(value_text(row.settings.get(key)) for key in found.keys),
        seeds,
        str(row.failed),
        shown(row.mean, found.metric),
        shown(row.median, found.metric),
        shown_interval(row.interval, found.metric),
        shown(row.min, found.metric),
        shown(row.max, found.metric),
    ]
    if found.success_at is not None:
        cells += [f"{row.successes} of {ended}", shown_interval(row.success_interval, "accuracy")]
    return cells


def effect_table(effect: Effect, metric: str) -> list[list[str]]:
    """One key's values as texts, under a line of headings."""
    unit = " (points)" if metric in SHARES else ""
    header = [effect.key, "mean", "median", OF_MEDIAN, f"median difference to the best{unit}", OF_MEDIAN]
    lines = [
        [
            value_text(level.value),
            shown(level.mean, metric),
            shown(level.median, metric),
            shown_interval(level.interval, metric),
            _signed(level.difference if level.difference_median is None else level.difference_median, metric)
            if place
            else "best",
            _signed_interval(level.difference_interval, metric) if place else "",
        ]
        for place, level in enumerate(effect.levels)
    ]
    return [header, *lines]


def _signed(value: float, metric: str) -> str:
    return f"{100 * value:+.2f}" if metric in SHARES else f"{value:+.3g}"


def _signed_interval(interval: Interval | None, metric: str) -> str:
    return "-" if interval is None else f"{_signed(interval[0], metric)} to {_signed(interval[1], metric)}"


def shown(value: float | None, metric: str) -> str:
    """A value of a metric as a person reads it; a share in percent, with the digits that tell it from 100 %.

    >>> shown(0.5, "accuracy"), shown(0.99999, "accuracy"), shown(1.0, "accuracy"), shown(0.01234, "loss")
    ('50.00 %', '99.9990 %', '100 %', '0.01234')
    """
    if value is None:
        return "-"
    if metric in SHARES:
        if value == 1:
            return "100 %"
        return f"{100 * value:.4f} %" if 0.9999 <= value < 1 else f"{100 * value:.2f} %"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def shown_interval(interval: Interval | None, metric: str) -> str:
    if interval is None:
        return "-"
    return f"{shown(interval[0], metric)} to {shown(interval[1], metric)}"


def _html_line(cell: str, texts: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{cell}>{escape(text)}</{cell}>' for text in texts)}</tr>"


def _restored(cls: Any, document: Mapping[str, Any]) -> Any:
    """The value that `to_json` was made of; JSON knows no tuples, and properties are worked out again."""
    known = {key: document[key] for key in cls.__dataclass_fields__ if key in document}
    # A setting's own value may be a list, and stays one.
    return cls(**{key: tuple(it) if isinstance(it, list) and key != "value" else it for key, it in known.items()})
