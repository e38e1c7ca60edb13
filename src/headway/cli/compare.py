"""headway compare"""

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.options import Json, Quiet, say, show
from headway.errors import InputError, suggestion
from headway.narration.tables import table

if TYPE_CHECKING:
    from pathlib import Path

    from headway.results.comparison import Comparison, Effect
    from headway.results.schema import Interval

FORMATS = ("table", "markdown", "csv")


def compare(
    sweep: Annotated[str, typer.Argument(metavar="SWEEP", help="A sweep directory, or the name of one in ./sweeps.")],
    metric: Annotated[str | None, typer.Option(help="Metric to compare; default: accuracy.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Only matching trials, e.g. model.encoding.name=rotary."),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(metavar="METRIC|KEY", help="Sort by a metric (best mean first), by a setting, or by success."),
    ] = None,
    success: Annotated[
        float | None, typer.Option(help="Value from which a seed is a success; default for accuracy: 0.99.")
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Also compare the values of one setting, all others equal.")
    ] = None,
    format: Annotated[str, typer.Option(metavar="FORMAT", help="table, markdown or csv.")] = "table",
    figure: Annotated[bool, typer.Option("--figure", help="Draw the grid and the curves into the sweep.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare the settings of a sweep: mean, median and its interval over seeds, and how many seeds succeed.

    Example: headway compare encodings --where model.encoding.name=rotary --by model.pooling.name
    """
    from headway.sweeps.compare import compare as run_comparison

    if format not in FORMATS:
        raise InputError(f"--format {format!r}; {suggestion(format, FORMATS)}")
    if format == "csv" and by and not json:
        raise InputError("--by with --format csv: a CSV file holds one table; omit one of them, or use --json")
    found = run_comparison(sweep, metric=metric, where=where or [], sort=sort, success=success, by=by or [])
    figures = draw(found) if figure else []
    if json:
        show({**found.to_json(), "figures": [str(path) for path in figures]}, [], as_json=True)
    elif format == "csv":
        print(as_csv(found), end="")
        if not quiet:
            say("\n".join(remarks(found)))
    else:
        print_tables(found, markdown=format == "markdown")
    if figures and not json and not quiet:
        say(f"figures are in {figures[0].parent}: {', '.join(path.name for path in figures)}")


def draw(found: "Comparison") -> "list[Path]":
    from headway.reports.sweep import draw_sweep
    from headway.runs import SweepDirectory

    return draw_sweep(found, SweepDirectory(found.sweep))


def print_tables(found: "Comparison", *, markdown: bool) -> None:
    """Print the table, its remarks, and a table for each key of --by."""
    from headway.sweeps.tables import effect_table, heading, table_of

    blank = "\n" if markdown else ""
    print(heading(found) + blank)
    print_table(table_of(found), len(found.keys), markdown=markdown)
    for effect in found.by:
        print(f"\n{by_heading(effect)}{blank}")
        print_table(effect_table(effect, found.metric), 1, markdown=markdown)
    if lines := remarks(found):
        print("\n" + "\n".join(f"- {line}" if markdown else line for line in lines))


def by_heading(effect: "Effect") -> str:
    label = "; descriptive" if effect.descriptive else ""
    gone = f", {effect.left_out:,} left out where not all values finished" if effect.left_out else ""
    pairs = f"{effect.pairs:,} combinations of everything else with a seed{gone}"
    return f"by {effect.key}, everything else equal: {effect.n} seeds, {pairs}{label}"


def remarks(found: "Comparison") -> list[str]:
    """Remarks on the numbers."""
    from headway.statistics import ENOUGH_SEEDS

    lines = list(found.notes)
    if found.descriptive:
        lines.append(f"settings with fewer than {ENOUGH_SEEDS} finished seeds are descriptive, and have no interval")
    if found.trials_failed:
        counted = "" if found.success_at is None else "; a failed trial is not a success"
        lines.append(f"means are over finished trials{counted}")
    if found.trials_stopped:
        lines.append("a trial that stopped at a rung had fewer steps; its mean is not comparable with means at the end")
    failures = [(name, why) for row in found.rows for name, why in zip(row.trials, row.errors, strict=True) if why]
    lines += [f"failed: {name}: {why}" for name, why in failures[:5]]
    if len(failures) > 5:
        lines.append(f"and {len(failures) - 5:,} more failed; --json lists them all")
    return lines


def print_table(lines: Sequence[Sequence[str]], words: int, *, markdown: bool) -> None:
    """Print Markdown, or a table for the terminal."""
    shown = table(lines, words)
    if markdown:
        print("\n".join(shown.markdown()))
    else:
        shown.print()


def as_csv(found: "Comparison") -> str:
    """One line per setting, numbers in full precision; missing values are empty."""
    from headway.sweeps.plan import value_text

    numbers = [
        "planned",
        "n",
        "failed",
        "mean",
        "median",
        "interval",
        "min",
        "max",
        "successes",
        "success",
        "success_interval",
    ]
    numbers += ["stopped", "stopped_at", "stopped_mean"] if found.trials_stopped else []
    names = [name for number in numbers for name in _ends(number)]
    handle = io.StringIO()
    writer = csv.writer(handle, lineterminator="\n")
    writer.writerow([*found.keys, *names, "descriptive"])
    for row in found.rows:
        settings = [value_text(row.settings.get(key)) for key in found.keys]
        cells = [cell for name in numbers for cell in _cells(getattr(row, name), name)]
        writer.writerow([*settings, *cells, str(row.descriptive).lower()])
    return handle.getvalue()


def _ends(name: str) -> list[str]:
    return [f"{name}_low", f"{name}_high"] if name.endswith("interval") else [name]


def _cells(value: "float | Interval | None", name: str) -> list[object]:
    if isinstance(value, tuple):
        return list(value)
    return ["" if value is None else value] * len(_ends(name))
