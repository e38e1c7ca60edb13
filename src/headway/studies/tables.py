"""The tables of a study of lengths, as rows of text: a cell a row, and every number from its runs' documents."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from headway.studies.answer import measured, sets_of
from headway.studies.gate import mastered_text, steps_text

Document = Mapping[str, Any]
Table = list[list[str]]
RIPPLE = "ripple"
"""The set of sums with one ripple of carries each, and their twins without."""
HIT = 0.005
"""Accuracy below which it is not worth asking which sums are right."""


def shown_lengths(cells: Sequence[Document], name: str) -> list[int]:
    """The longest training length, and every tested one past it."""
    rows = [(run["training"]["longest"], row) for cell in cells for run in cell["runs"] for row in run["lengths"]]
    return sorted({row["length"] for longest, row in rows if row["negatives"] == name and row["length"] >= longest})


def held_table(cells: Sequence[Document]) -> Table:
    """For each cell and set: every seed's length held, and the median of several."""
    there = measured(cells)
    names = sets_of(there)
    table = [["combination", *names]]
    for cell in there:
        found = [cell["together"]["sets"].get(name) for name in names]
        table.append([cell["cell"], *("" if one is None else held_text(one) for one in found)])
    return table


def held_text(found: Document) -> str:
    """`16 16 64 (median 16)`."""
    seeds = " ".join(map(str, found["held"]))
    return f"{seeds} (median {found['median']:g})" if len(found["held"]) > 1 else seeds


def reach_table(cells: Sequence[Document]) -> Table:
    """How many seeds of a cell reach multiples of the training length, and the interval of that share; where any do."""
    table = [["combination", "set", "times", "length", "seeds", "95 % interval of the share"]]
    for cell in measured(cells):
        for name, found in cell["together"]["sets"].items():
            for reach in (reach for reach in found["reach"] if reach["seeds"]):
                low, high = reach["interval"]
                seeds = f"{reach['seeds']} of {cell['together']['n_seeds']}"
                numbers = [f"{reach['times']}x", f"{reach['length']:,}", seeds, f"{low:.2f} to {high:.2f}"]
                table.append([cell["cell"], name, *numbers])
    return table


def ripple_table(cells: Sequence[Document]) -> Table:
    """Mean accuracy over seeds on the ripple set, by how many columns a carry must pass, where any sum is right."""
    values: dict[str, int] = {}
    lines: list[tuple[str, dict[str, list[float]]]] = []
    for cell in measured(cells):
        for length in shown_lengths([cell], RIPPLE):
            rows = [
                row
                for run in cell["runs"]
                for row in run["lengths"]
                if (row["negatives"], row["length"]) == (RIPPLE, length)
            ]
            found: dict[str, list[float]] = {}
            for part in (part for row in rows for part in row["by"].get("longest_ripple", [])):
                words = str(part["value"]) if part["from"] == part["value"] else f"{part['from']}-{part['value']}"
                values[words] = part["value"]
                found.setdefault(words, []).append(part["accuracy"])
            if fmean(row["accuracy"] for row in rows) >= HIT:
                lines.append((f"{cell['cell']} at {length:,}", found))
    columns = sorted(values, key=values.__getitem__)
    body = [[name, *(f"{fmean(found[one]):.3f}" if one in found else "" for one in columns)] for name, found in lines]
    return [["columns a carry passes", *columns], *body] if columns else []


def repair_table(cells: Sequence[Document]) -> Table:
    """What limiting the reach of all self-attention heads repairs: for each run that was asked why it fails.

    The share of the failures at the first failing length that are right afterwards, with its interval; the same for the
    sham repair, which is only tried where the repair helps; and what that shows.
    """
    table = [
        ["combination", "seed", "fails at", "failures", "repaired by reach", "95 % interval", "by the sham", "shows"]
    ]
    for cell in measured(cells):
        for run in cell["runs"]:
            found = reach_repair(run)
            if found is not None:
                at, sham = found["at"], found["sham"]
                low, high = at["share_repaired_interval"]
                shares = [f"{at['share_repaired']:.3f}", f"{low:.3f} to {high:.3f}"]
                spoiled = "not tried" if sham is None else f"{sham['share_repaired']:.3f}"
                place = f"{run['mechanism']['fails_at']:,}"
                head = [cell["cell"], str(run["seed"]), place, f"{at['failures']:,}"]
                table.append([*head, *shares, spoiled, found["claim"]])
    return table


def reach_repair(run: Document) -> Document | None:
    """The repair of a run that limits the reach of all heads of self-attention; None where none was tried."""
    check = (run.get("mechanism") or {}).get("check") or {}
    rows = [row for row in check.get("repairs", []) if (row["repair"], row["who"]) == ("reach", "all heads")]
    return rows[0] if rows and rows[0]["at"].get("failures") else None


def mastery_table(cells: Sequence[Document]) -> Table:
    """For each cell: how many seeds mastered the training lengths, every seed's steps, and what the others reached."""
    table = [["combination", "mastered", "steps to mastery, every seed", "accuracy of those that did not"]]
    for cell in measured(cells):
        judged = [run["mastery"] for run in cell["runs"] if run.get("mastery")]
        if judged:
            count = sum(one["mastered"] for one in judged)
            missed = " ".join(f"{one['accuracy']:.3f}" for one in judged if not one["mastered"])
            table.append([cell["cell"], f"{count} of {len(judged)}", " ".join(map(steps_text, judged)), missed])
    return table


def seed_table(cells: Sequence[Document], name: str) -> Table:
    """Every run by itself: whether and when it mastered, accuracy on a set at each length, and its training's cost."""
    there = measured(cells)
    rows = (row for cell in there for run in cell["runs"] for row in run["lengths"])
    lengths = sorted({row["length"] for row in rows if row["negatives"] == name})
    lead = ["run", "mastered", "steps to mastery"]
    table = [[*lead, *(f"{length:,}" for length in lengths), "steps", "seconds", "device"]]
    for cell in there:
        for run, training in zip(cell["runs"], cell["training"], strict=True):
            found = {row["length"]: row for row in run["lengths"] if row["negatives"] == name}
            numbers = [f"{found[length]['accuracy']:.3f}" if length in found else "" for length in lengths]
            numbers = [mastered_text(run.get("mastery")), steps_text(run.get("mastery")), *numbers]
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
