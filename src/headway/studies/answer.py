"""The plain answer of a study of lengths, from its documents alone: how far each cell holds, and what decides it."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from statistics import fmean, median_low
from typing import Any

from headway.statistics import ENOUGH_SEEDS, two_way_shares
from headway.studies.plan import ENCODING, POOLING
from headway.studies.runner import accuracies

Document = Mapping[str, Any]
WORTH_EXPLAINING = 0.05
"""Cells whose mean accuracies lie closer together than this do not differ in anything that could be explained."""


def measured(cells: Iterable[Document]) -> list[Document]:
    return [cell for cell in cells if cell["runs"]]


def sets_of(cells: Sequence[Document]) -> list[str]:
    """The sets that were measured, in the documents' order."""
    return list(dict.fromkeys(row["negatives"] for cell in cells for run in cell["runs"] for row in run["lengths"]))


def certified(cell: Document, name: str) -> list[int]:
    """The certified length on a set of every seed that was measured on it."""
    return [run["certified"][name] for run in cell["runs"] if name in run["certified"]]


def past_training(run: Document, name: str) -> float | None:
    """The mean of a run's accuracies on a set over the tested lengths that training did not have; None without any."""
    found = accuracies(run, name)
    past = [value for length, value in found.items() if length > run["training"]["longest"]]
    return fmean(past) if past else None


def mean_past_training(cell: Document, name: str) -> float | None:
    """The same, in the mean of a cell's seeds."""
    found = [mean for run in cell["runs"] if (mean := past_training(run, name)) is not None]
    return fmean(found) if found else None


def answer(cells: Sequence[Document]) -> list[str]:
    """What a reader should know, a sentence a line."""
    there = measured(cells)
    if not there:
        return ["nothing was measured"]
    lines = [furthest(there, name) for name in sets_of(there)]
    lines += decided(there)
    lines += constants(there)
    lines += [why for cell in there for run in cell["runs"] for why in explanation(run)]
    fewest = min(len(cell["runs"]) for cell in there)
    if fewest < ENOUGH_SEEDS:
        seeds = f"{fewest} seed{'s' * (fewest > 1)}"
        lines.append(f"with {seeds} of a combination all of this is descriptive")
    return lines


def explanation(run: Document) -> list[str]:
    """What its mechanism says, for a run that was asked why it fails."""
    found = run.get("mechanism")
    if not found:
        return []
    start = f"why {PurePath(run['run']).name} fails" if found["fails_at"] else PurePath(run["run"]).name
    return [f"{start}: {' '.join(found['words'])}"]


# How far


def furthest(cells: Sequence[Document], name: str) -> str:
    """Which cells are certified furthest on a set, by the lower median over seeds, and how many come how far."""
    cells = [cell for cell in cells if certified(cell, name)]
    longest = cells[0]["runs"][0]["training"]["longest"]
    best = max(median_low(certified(cell, name)) for cell in cells)
    if best <= longest:
        return none_past_training(cells, name, longest)
    winners = [cell for cell in cells if median_low(certified(cell, name)) == best]
    tested = max(length for run in winners[0]["runs"] for length in accuracies(run, name))
    names = "; ".join(f"{cell['cell']} ({seeds_text(certified(cell, name))})" for cell in winners)
    limit = ", the longest that was tested" if best == tested else ""
    return (
        f"{name}: certified to {best:,g}{limit}, {best / longest:g} times the training length, in the median: {names}"
    )


def none_past_training(cells: Sequence[Document], name: str, longest: int) -> str:
    """That no cell's median is past training, how many seeds are all the same, and the best mean accuracy there."""
    seeds = [length for cell in cells for length in certified(cell, name)]
    past = sum(length > longest for length in seeds)
    some = f" ({past:,} of {len(seeds):,} seeds are)" if past else ""
    text = f"{name}: in the median no combination is certified past {longest}, the longest training length{some}"
    means = {cell["cell"]: mean for cell in cells if (mean := mean_past_training(cell, name)) is not None}
    if not means:
        return f"{text}; no longer length was tested"
    first = max(means, key=means.__getitem__)
    return f"{text}; best in the mean of the longer lengths is {first} with {means[first]:.3f}"


def seeds_text(values: Sequence[int]) -> str:
    """Every seed's value; once where all are alike."""
    if len(set(values)) == 1:
        return f"{values[0]:,} in each of {len(values)} seeds" if len(values) > 1 else f"{values[0]:,}, one seed"
    return "seeds: " + ", ".join(f"{value:,}" for value in values)


# What decides


def decided(cells: Sequence[Document]) -> list[str]:
    """For each arm that varies both: how much encoding and pooling explain of the accuracy past training."""
    return [decision_text(one) for one in decisions(cells)]


def decisions(cells: Sequence[Document]) -> list[dict[str, Any]]:
    """Encoding against pooling in every arm and on every set, with each seed as a unit of its own.

    Shares are of the sum of squares between the cells of one seed; the rest is what the two do only in combination.
    Seeds that lack a cell are left out.
    """
    found = []
    for arm in dict.fromkeys(cell["arm"] for cell in cells):
        grid = [cell for cell in cells if cell["arm"] == arm and {ENCODING, POOLING} <= cell["settings"].keys()]
        for name in sets_of(grid):
            tables = complete_tables(grid, name)
            if tables:
                found.append({"arm": arm, "set": name, **comparison(grid, tables)})
    return found


Table = dict[tuple[str, str], float]
"""(encoding, pooling) -> mean accuracy past training, of one seed."""


def complete_tables(grid: Sequence[Document], name: str) -> dict[int, Table]:
    """For each seed that has every combination: its table; none unless both settings have two values."""
    encodings = {cell["settings"][ENCODING] for cell in grid}
    poolings = {cell["settings"][POOLING] for cell in grid}
    tables: dict[int, Table] = {}
    for cell in grid:
        place = (cell["settings"][ENCODING], cell["settings"][POOLING])
        for run in cell["runs"]:
            mean = past_training(run, name)
            if mean is not None:
                tables.setdefault(run["seed"], {})[place] = mean
    size = len(encodings) * len(poolings)
    return {
        seed: table for seed, table in tables.items() if min(len(encodings), len(poolings)) > 1 and len(table) == size
    }


def comparison(grid: Sequence[Document], tables: Mapping[int, Table]) -> dict[str, Any]:
    encodings = list(dict.fromkeys(cell["settings"][ENCODING] for cell in grid))
    poolings = list(dict.fromkeys(cell["settings"][POOLING] for cell in grid))
    values = [[[table[one, other] for other in poolings] for one in encodings] for table in tables.values()]
    means = {place: fmean(table[place] for table in tables.values()) for place in next(iter(tables.values()))}
    shares = [two_way_shares(table) for table in values]
    return {
        "seeds": list(tables),
        "lowest": min(means.values()),
        "highest": max(means.values()),
        "encoding": {one: fmean(means[one, other] for other in poolings) for one in encodings},
        "pooling": {other: fmean(means[one, other] for one in encodings) for other in poolings},
        "shares": {
            key: [share[place] for share in shares] for place, key in enumerate(("encoding", "pooling", "together"))
        },
    }


def decision_text(found: Document) -> str:
    """How much each explains, which of the two explains more, and the means behind it."""
    where = f"{found['arm']}, on {found['set']}"
    low, high = found["lowest"], found["highest"]
    if high - low < WORTH_EXPLAINING:
        return f"{where}: nothing decides; every combination has {low:.3f} to {high:.3f} past training"
    words = {"encoding": "the encoding", "pooling": "the pooling", "together": "only the two in combination"}
    parts = {key: fmean(values) for key, values in found["shares"].items()}
    shares = ", ".join(f"{words[key]} {100 * parts[key]:.0f} %" for key in sorted(parts, key=lambda key: -parts[key]))
    levels = "; ".join(
        ", ".join(f"{one} {mean:.3f}" for one, mean in by_size(found[key])) for key in ("pooling", "encoding")
    )
    return f"{where}: {more_text(found)}; of the differences past training {shares}; mean accuracy there: {levels}"


def more_text(found: Document) -> str:
    """Which of the two explains more, if it does so in every seed."""
    pairs = list(zip(found["shares"]["pooling"], found["shares"]["encoding"], strict=True))
    seeds = f"each of {len(pairs)} seeds" if len(pairs) > 1 else "the one seed"
    if all(pooling > encoding for pooling, encoding in pairs):
        return f"the pooling explains more than the encoding in {seeds}"
    if all(encoding > pooling for pooling, encoding in pairs):
        return f"the encoding explains more than the pooling in {seeds}"
    return "neither pooling nor encoding explains more in every seed"


def by_size(means: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(means.items(), key=lambda one: -one[1])


# Who answers one class


def constants(cells: Sequence[Document]) -> list[str]:
    """The cells in which a seed gives one answer whatever it sees: their accuracy there says nothing of the task."""
    parts = []
    for cell in cells:
        found = [run["constant"] for run in cell["runs"] if run["constant"]]
        if found:
            starts = sorted({one["from"] for one in found})
            start = f"{starts[0]:,}" if len(starts) == 1 else f"{starts[0]:,} to {starts[-1]:,}"
            answers = " or ".join(sorted({str(one["answer"]) for one in found}))
            parts.append(f"{cell['cell']} ({answers}, from {start} on, {len(found)} of {len(cell['runs'])} seeds)")
    if not parts:
        return []
    return [f"one answer whatever is asked, so that accuracy is the share of that class: {'; '.join(parts)}"]
