"""Runs rows of the fault campaign and writes docs/faults.md.

    python -m faults                              every row, its long version
    python -m faults kills --count 20 --seed 3    one row, shorter, with another seed
    python -m faults kills --only 17              one case again; nothing is written

A run with the row's own count replaces its entry in docs/results/faults.json and writes the page; a shorter one prints
what it found. Exit code 1 if a bar did not hold.
"""

import argparse
import importlib
import pkgutil
import sys
from dataclasses import replace
from pathlib import Path

import torch
from benchmarks.machine import circumstances

from faults import rows as row_modules
from faults.campaign import Row, RowResult, run
from faults.page import PAGE, RESULTS, page, read_results, write_results


def known_rows() -> dict[str, Row]:
    """Every row, in the order of the page."""
    names = [module.name for module in pkgutil.iter_modules(row_modules.__path__)]
    found = [importlib.import_module(f"faults.rows.{name}").ROW for name in names]
    return {row.name: row for row in sorted(found, key=lambda row: row.position)}


def main(words: list[str] | None = None) -> int:
    known = known_rows()
    options = read_options(sys.argv[1:] if words is None else words, known)
    torch.set_num_threads(1)
    chosen = [known[name] for name in options.rows or known]
    broken = False
    for row in chosen:
        count = row.count if options.count is None else options.count
        found = run(row, count, options.seed, only=options.only, told=lambda text: print(text, flush=True))
        print(shown(found), flush=True)
        broken = broken or bool(found.failures)
        if options.only is None and count >= row.count:
            keep(found, options.results, options.page, list(known.values()))
    return int(broken)


def keep(found: RowResult, results: Path, place: Path, rows: list[Row]) -> None:
    """Replace the row's stored result, and write the page anew."""
    command = ["python", "-m", "faults", found.row, "--count", str(found.tried), "--seed", str(found.seed)]
    where = circumstances(torch.device("cpu"), command, None)
    stored = {**read_results(results), found.row: replace(found, circumstances=where)}
    write_results(stored, results)
    place.write_text(page(rows, stored), encoding="utf-8")


def read_options(words: list[str], known: dict[str, Row]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"some of {', '.join(known)} (default: all)")
    parser.add_argument("--count", type=int, help="cases (default: the row's long version)")
    parser.add_argument("--seed", type=int, default=0, help="decides every case (default: 0)")
    parser.add_argument("--only", type=int, help="one case alone, by its number")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of results")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page that is written from it")
    options = parser.parse_args(words)
    for name in options.rows:
        if name not in known:
            parser.error(f"no row {name!r}; known: {', '.join(known)}")
    if options.only is not None and len(options.rows) != 1:
        parser.error("--only needs one row")
    return options


def shown(found: RowResult) -> str:
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in found.outcomes.items())
    return f"{found.row}: {found.tried:,} tried, {len(found.failures):,} failed in {found.seconds:,.0f} s ({outcomes})"


if __name__ == "__main__":
    sys.exit(main())
