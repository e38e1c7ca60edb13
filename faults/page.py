"""docs/faults.md from docs/results/faults.json: what was tried, how often, what happened, the bar, and the limits."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from faults.campaign import Failure, Row, RowResult
from faults.found_first import FOUND_FIRST

DOCS = Path(__file__).parents[1] / "docs"
PAGE, RESULTS = DOCS / "faults.md", DOCS / "results" / "faults.json"
LEAD = """# Faults

What was done to headway to break it, how often, and what happened. `make faults` runs every row and writes this page;
`python -m faults ROW --seed S` runs one of them, in at most 20 minutes on two cores, and replaces its line. The numbers
are those of `docs/results/faults.json`. A case is drawn from the seed and its number, so
`--only NUMBER` repeats it. The tests run a short version of each row, and plant a violation that the row must count.
"""

BEFORE = (
    "About 290 wrong inputs, tried by hand before there was a campaign, found these. Each has a test. What is refused "
    "now was timed once, on one core beside other work; the tests hold the limits."
)


def read_results(path: Path = RESULTS) -> dict[str, RowResult]:
    """The stored result of each row, by its name."""
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {
        name: RowResult(**{**one, "failures": tuple(Failure(**failure) for failure in one["failures"])})
        for name, one in stored.items()
    }


def write_results(results: Mapping[str, RowResult], path: Path = RESULTS) -> None:
    ordered = {name: asdict(result) for name, result in sorted(results.items())}
    path.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


def page(rows: Sequence[Row], results: Mapping[str, RowResult]) -> str:
    """The page; a row without a result is named as not run."""
    parts = [LEAD, _table(rows, results)]
    parts += [_section(row, results[row.name]) for row in rows if row.name in results]
    parts += [_found_first()]
    return "\n".join(parts)


def _table(rows: Sequence[Row], results: Mapping[str, RowResult]) -> str:
    lines = ["| row | attack | bar | tried | failed |", "|---|---|---|---:|---:|"]
    for row in rows:
        found = results.get(row.name)
        counts = ("not run", "") if found is None else (f"{found.tried:,}", f"{len(found.failures):,}")
        name = row.name if found is None else f"[{row.name}](#{row.name})"
        lines.append(f"| {name} | {row.attack} | {row.bar} | {counts[0]} | {counts[1]} |")
    return "\n".join(lines) + "\n"


def _found_first() -> str:
    rows = [f"| {what} | `{test}` |" for what, test in FOUND_FIRST]
    return "\n".join(
        ["## Found before", "", *textwrap.wrap(BEFORE, 120), "", "| found | test |", "|---|---|", *rows, ""]
    )


def _section(row: Row, found: RowResult) -> str:
    where = found.circumstances
    lines = [f"## {row.name}", "", f"{row.attack}. The bar: {row.bar}.", ""]
    lines += ["| what happened | cases |", "|---|---:|"]
    lines += [f"| {outcome} | {count:,} |" for outcome, count in found.outcomes.items()]
    at = ", ".join(str(where[key]) for key in ("processor", "commit", "time") if where.get(key))
    lines += [
        "",
        f"`python -m faults {row.name} --count {found.tried} --seed {found.seed}`: {found.seconds:,.0f} s; {at}.",
        "",
    ]
    lines += [f"- Failed: case {one.case}: {one.seen} (`{one.reproduce}`)" for one in found.failures]
    lines += [f"- {limit}" for limit in row.limits]
    return "\n".join(lines) + ("\n" if lines[-1] else "")
