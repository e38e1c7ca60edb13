"""The tables of a study of lengths, as rows of text: a cell a row, and every number from its runs' documents."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from headway.studies.answer import measured, sets_of

Document = Mapping[str, Any]
Table = list[list[str]]
HIT = 0.005
"""Accuracy below which it is not worth asking which sums are right."""


def accuracy_table(cells: Sequence[Document], name: str) -> Table:
    """Mean accuracy over seeds on a set, at the longest training length and past it; `c` where all give one answer."""
    there = measured(cells)
    lengths = shown_lengths(there, name)
    table = [["combination", "seeds", *(f"{length:,}" for length in lengths)]]
    for cell in there:
        rows = [[row for row in run["lengths"] if row["negatives"] == name] for run in cell["runs"]]
        numbers = [accuracy_text([row for run in rows for row in run if row["length"] == length]) for length in lengths]
        table.append([cell["cell"], str(len(cell["runs"])), *numbers])
    return table


def shown_lengths(cells: Sequence[Document], name: str) -> list[int]:
    """The longest training length, and every tested one past it."""
    rows = [(run["training"]["longest"], row) for cell in cells for run in cell["runs"] for row in run["lengths"]]
    return sorted({row["length"] for longest, row in rows if row["negatives"] == name and row["length"] >= longest})


def accuracy_text(rows: Sequence[Document]) -> str:
    if not rows:
        return ""
    constant = "c" if all(row["constant"] is not None for row in rows) else ""
    return f"{fmean(row['accuracy'] for row in rows):.3f}{constant}"


def certified_table(cells: Sequence[Document]) -> Table:
    """For each cell and set: every seed's certified length, the median, and how many seeds reach 4, 16 and 64 times."""
    there = measured(cells)
    times = sorted({reach["times"] for cell in there for one in sets_together(cell).values() for reach in one["reach"]})
    table = [["combination", "set", "certified length of each seed", "median", *(f"{one}x" for one in times)]]
    for cell in there:
        for name, found in sets_together(cell).items():
            reach = {one["times"]: f"{one['seeds']} of {cell['together']['n_seeds']}" for one in found["reach"]}
            seeds = " ".join(map(str, found["certified"]))
            table.append([cell["cell"], name, seeds, f"{found['median']:g}", *(reach.get(one, "") for one in times)])
    return table


def sets_together(cell: Document) -> Mapping[str, Any]:
    """What the seeds of a cell say together of each set."""
    found: Mapping[str, Any] = cell["together"]["sets"]
    return found


def chain_table(cells: Sequence[Document]) -> Table:
    """Mean accuracy over seeds by the longest chain of carries, where any sum of that length is right."""
    values: dict[str, int] = {}
    lines: list[tuple[str, dict[str, list[float]]]] = []
    for cell in measured(cells):
        for length in shown_lengths([cell], sets_of([cell])[0]):
            rows = [row for run in cell["runs"] for row in run["lengths"] if row["length"] == length]
            found: dict[str, list[float]] = {}
            for part in (part for row in rows for part in row["by"].get("longest_chain", [])):
                values[str(part["value"])] = part["low"]
                found.setdefault(str(part["value"]), []).append(part["accuracy"])
            if fmean(row["accuracy"] for row in rows) >= HIT:
                lines.append((f"{cell['cell']} at {length:,}", found))
    columns = sorted(values, key=values.__getitem__)
    body = [[name, *(f"{fmean(found[one]):.3f}" if one in found else "" for one in columns)] for name, found in lines]
    return [["longest chain of carries", *columns], *body] if columns else []


def seed_table(cells: Sequence[Document]) -> Table:
    """Every run by itself: accuracy at each length, steps, seconds and device of its training."""
    there = measured(cells)
    name = sets_of(there)[0] if there else ""
    lengths = shown_lengths(there, name)
    table = [["run", *(f"{length:,}" for length in lengths), "steps", "seconds", "device"]]
    for cell in there:
        for run, training in zip(cell["runs"], cell["training"], strict=True):
            rows = {row["length"]: row for row in run["lengths"] if row["negatives"] == name}
            numbers = [accuracy_text([rows[length]] if length in rows else []) for length in lengths]
            cost = [f"{training['steps']:,}", f"{training['seconds']:.0f}", str(training["device"])]
            table.append([training["run"].rpartition("/")[2], *numbers, *cost])
    return table


def costs(cells: Sequence[Document]) -> list[dict[str, Any]]:
    """What training took in each arm. On a GPU the seeds of a cell are one stack, whose seconds count once."""
    found = []
    for arm in dict.fromkeys(cell["arm"] for cell in measured(cells)):
        own = [cell["training"] for cell in measured(cells) if cell["arm"] == arm]
        devices = sorted({str(one["device"]) for runs in own for one in runs})
        stacked = devices != ["cpu"]
        seconds = sum((max if stacked else sum)(one["seconds"] for one in runs) for runs in own)
        runs, steps = sum(map(len, own)), sum(one["steps"] for runs in own for one in runs)
        found.append({"arm": arm, "runs": runs, "steps": steps, "seconds": seconds, "devices": devices})
    return found
