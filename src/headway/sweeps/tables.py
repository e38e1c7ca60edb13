"""Tables that compare the settings of a sweep."""

from collections.abc import Sequence
from html import escape

from headway.narration.numbers import decimal, percent, points, signed
from headway.narration.sweep import trials
from headway.results.comparison import Comparison, Effect, Row
from headway.results.schema import Interval
from headway.sweeps.plan import short_names, value_text

SHARES = ("accuracy", "validation_accuracy")
"""Metrics in 0..1, printed in percent."""
LOWER_IS_BETTER = ("wrong", "loss", "validation_loss", "steps", "best_step", "seconds")
METRICS = (*SHARES, *LOWER_IS_BETTER)
SUCCESS = 0.99
"""Accuracy from which a seed is a success, by default."""

OF_MEDIAN = "95 % interval of it"
"""Heading of the column after a median."""


def heading(found: Comparison) -> str:
    """One line: the sweep, the metric, and how many trials have ended."""
    where = f" ({', '.join(found.where)})" if found.where else ""
    state = trials(found.trials_finished, found.trials_planned, found.trials_stopped, found.trials_failed)
    return f"{found.sweep}{where}: {found.metric}, {state}"


def table_of(found: Comparison) -> list[list[str]]:
    """The rows as texts, below a header row."""
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
    """The limit of a success: "≥ 99 %"."""
    limit = found.success_at or 0.0
    number = percent(limit) if found.metric in SHARES else f"{limit:g}"
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
    """The values of one key as texts, below a header row."""
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
    return signed(points)(100 * value) if metric in SHARES else signed(decimal)(value)


def _signed_interval(interval: Interval | None, metric: str) -> str:
    return "-" if interval is None else f"{_signed(interval[0], metric)} to {_signed(interval[1], metric)}"


def shown(value: float | None, metric: str) -> str:
    """A value of a metric as text.

    >>> shown(0.5, "accuracy"), shown(0.99999, "accuracy"), shown(1.0, "accuracy"), shown(0.01234, "loss")
    ('50 %', '99.9990 %', '100 %', '0.01234')
    """
    if value is None:
        return "-"
    if metric in SHARES:
        return percent(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def shown_interval(interval: Interval | None, metric: str) -> str:
    if interval is None:
        return "-"
    return f"{shown(interval[0], metric)} to {shown(interval[1], metric)}"


def as_html(found: Comparison) -> str:
    """The heading and the table as HTML, for notebooks."""
    header, *rows = table_of(found)
    lines = [_html_line("th", header), *(_html_line("td", row) for row in rows)]
    return f"<p>{escape(heading(found))}</p><table>{''.join(lines)}</table>"


def _html_line(cell: str, texts: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{cell}>{escape(text)}</{cell}>' for text in texts)}</tr>"
