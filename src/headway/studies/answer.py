"""The plain answer of a study of lengths, from its documents alone: how far each cell holds, and what decides it."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median_low

from headway.results.study import Decision, MeasuredRun, RunCounts, Sentence, Shares, StudyCell
from headway.statistics import ENOUGH_SEEDS, two_way_shares
from headway.studies.plan import ENCODING, POOLING
from headway.studies.runner import accuracies

MASTERED = 0.99
"""Accuracy at the training lengths from which on a run has learned a set, so that it can lose it past them."""
MOST_NAMED = 6
"""Combinations that did not master a set and are named; the document has all."""
WORTH_EXPLAINING = 0.05
"""Cells whose mean accuracies lie closer together than this do not differ in anything that could be explained."""


def measured(cells: Iterable[StudyCell]) -> list[StudyCell]:
    return [cell for cell in cells if cell.runs]


def sets_of(cells: Sequence[StudyCell]) -> list[str]:
    """The sets that were measured, in the documents' order."""
    return list(dict.fromkeys(name for cell in cells for run in cell.runs for name in run.sets))


def lengths_held(cell: StudyCell, name: str) -> list[int]:
    """The length held on a set by every seed that passed the gate and was measured on it."""
    return [run.held[name] for run in cell.runs if name in run.held and run.passed]


def past_training(run: MeasuredRun, name: str) -> float | None:
    """The mean of a run's accuracies on a set over the tested lengths that training did not have; None without any."""
    past = [value for length, value in accuracies(run, name).items() if length > run.training.longest]
    return fmean(past) if past else None


def at_training(run: MeasuredRun, name: str) -> float | None:
    """The mean of a run's accuracies on a set over the tested training lengths; None without any."""
    own = [row.accuracy for row in run.of_set(name).values() if row.trained]
    return fmean(own) if own else None


def mastered(run: MeasuredRun, name: str) -> bool:
    """Whether a run has learned a set at its training lengths; else its accuracy past them says nothing of length.

    It must have passed the gate, which is about the examples it was trained on; and have learned this set, whose
    examples may be others: a model that is right on random sums of 13 digits need not be on 9999999999999 + 1.
    """
    reached = at_training(run, name)
    return run.passed and reached is not None and reached >= MASTERED


def mean_past_training(cell: StudyCell, name: str) -> float | None:
    """The same, in the mean of a cell's seeds that passed the gate."""
    found = [mean for run in cell.runs if run.passed and (mean := past_training(run, name)) is not None]
    return fmean(found) if found else None


def answer(cells: Sequence[StudyCell]) -> list[Sentence]:
    """What a reader should know, a sentence a line."""
    there = measured(cells)
    if not there:
        return [Sentence(kind="other", text="nothing was measured")]
    found = [Sentence(kind="gate", text=text) for text in gated(there)]
    found += [Sentence(kind="furthest", set_name=name, text=furthest(there, name)) for name in sets_of(there)]
    found += [decision_sentence(one) for one in decisions(there)]
    found += [Sentence(kind="constant", text=text) for text in constants(there)]
    found += [why for cell in there for run in cell.runs for why in explanation(run)]
    fewest = min(len(cell.runs) for cell in there)
    if fewest < ENOUGH_SEEDS:
        text = f"with {fewest} seed{'s' * (fewest > 1)} of a combination all of this is descriptive"
        found.append(Sentence(kind="descriptive", text=text))
    return found


def explanation(run: MeasuredRun) -> list[Sentence]:
    """What its mechanism says, for a run that was asked why it fails."""
    found = run.mechanism
    if found is None:
        return []
    start = f"why {run.name} fails" if found.fails_at else run.name
    return [Sentence(kind="mechanism", set_name=found.set_name, text=f"{start}: {' '.join(found.words)}")]


# Who counts


def gated(cells: Sequence[StudyCell]) -> list[str]:
    """How many runs passed the gate, and which combinations did not, with what they reached; nothing without a gate."""
    judged = {cell.cell: [run.mastery for run in cell.runs if run.mastery is not None] for cell in cells}
    every = [one for found in judged.values() for one in found]
    if not every:
        return []
    count = sum(one.mastered for one in every)
    gate = every[0].gate
    words = f"{count:,} of {len(every):,} runs mastered their training lengths (at least {gate:.1%} of validation)"
    out = {name: [one.accuracy for one in found if not one.mastered] for name, found in judged.items()}
    names = [
        f"{name} ({reached_text(values)}, {len(values)} of {len(judged[name])})"
        for name, values in out.items()
        if values
    ]
    if not names:
        return [words]
    return [f"{words}; nothing is said of the length of those that did not (accuracy, seeds): {', '.join(names)}"]


def reached_text(values: Sequence[float]) -> str:
    low, high = f"{min(values):.3f}", f"{max(values):.3f}"
    return low if low == high else f"{low} to {high}"


# How far


def furthest(cells: Sequence[StudyCell], name: str) -> str:
    """Which cells hold furthest on a set, by the lower median over seeds, and how many come how far."""
    cells = [cell for cell in cells if lengths_held(cell, name)]
    if not cells:
        return f"{name}: no run mastered its training lengths, so nothing is said of length"
    longest = cells[0].runs[0].training.longest
    best = max(median_low(lengths_held(cell, name)) for cell in cells)
    if best <= longest:
        return none_past_training(cells, name, longest)
    winners = [cell for cell in cells if median_low(lengths_held(cell, name)) == best]
    tested = max(length for run in winners[0].runs for length in run.of_set(name))
    names = "; ".join(f"{cell.cell} ({seeds_text(lengths_held(cell, name))})" for cell in winners)
    limit = ", the longest that was tested" if best == tested else ""
    return f"{name}: held to {best:,g}{limit}, {best / longest:g} times the training length, in the median: {names}"


def none_past_training(cells: Sequence[StudyCell], name: str, longest: int) -> str:
    """That no cell's median is past training, how many seeds are all the same, and the best mean accuracy there."""
    seeds = [length for cell in cells for length in lengths_held(cell, name)]
    past = sum(length > longest for length in seeds)
    some = f" ({past:,} of {len(seeds):,} seeds do)" if past else ""
    text = f"{name}: in the median no combination holds past {longest}, the longest training length{some}"
    means = {cell.cell: mean for cell in cells if (mean := mean_past_training(cell, name)) is not None}
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


def decisions(cells: Sequence[StudyCell]) -> list[Decision]:
    """Encoding against pooling in every arm and on every set, of the runs that mastered the training lengths.

    Shares are of the sum of squares between the cells of one seed, with each seed as a unit of its own; the rest is
    what the two do only in combination. They are given from the seeds whose every combination mastered.
    """
    found = []
    for arm in dict.fromkeys(cell.arm for cell in cells):
        grid = [cell for cell in cells if cell.arm == arm and {ENCODING, POOLING} <= cell.settings.keys()]
        if all(len({cell.settings[key] for cell in grid}) > 1 for key in (ENCODING, POOLING)):
            found += [comparison(arm, grid, name) for name in sets_of(grid)]
    return found


Table = dict[tuple[str, str], float]
"""(encoding, pooling) -> mean accuracy past training, of one seed."""


def complete_tables(grid: Sequence[StudyCell], name: str) -> dict[int, Table]:
    """For each seed whose every combination mastered the set: its table."""
    tables: dict[int, Table] = {}
    places = set()
    for cell in grid:
        place = (cell.settings[ENCODING], cell.settings[POOLING])
        places.add(place)
        for run in cell.runs:
            mean = past_training(run, name)
            if mean is not None and mastered(run, name):
                tables.setdefault(run.seed, {})[place] = mean
    return {seed: table for seed, table in tables.items() if len(table) == len(places)}


def comparison(arm: str, grid: Sequence[StudyCell], name: str) -> Decision:
    """What the runs that mastered a set have past training, by encoding and by pooling, and who did not master it."""
    tested = [
        (cell.settings, run, mean)
        for cell in grid
        for run in cell.runs
        if (mean := past_training(run, name)) is not None
    ]
    learned = [(settings, mean) for settings, run, mean in tested if mastered(run, name)]
    reached = [value for _, run, _ in tested if (value := at_training(run, name)) is not None]
    tables = complete_tables(grid, name)
    means = [mean for _, mean in learned]
    return Decision(
        arm=arm,
        set_name=name,
        gate=MASTERED,
        runs=len(tested),
        mastered=len(learned),
        best_at_training=max(reached, default=None),
        not_mastered=not_mastered(grid, name),
        lowest=min(means, default=None),
        highest=max(means, default=None),
        encoding=by_value(learned, ENCODING),
        pooling=by_value(learned, POOLING),
        runs_by=RunCounts(encoding=counts_by(learned, ENCODING), pooling=counts_by(learned, POOLING)),
        seeds=tuple(tables),
        shares=shares_of(tables.values()),
    )


def shares_of(tables: Iterable[Table]) -> Shares | None:
    shares = [two_way_shares(as_table(table)) for table in tables]
    if not shares:
        return None
    encoding, pooling, together = (tuple(own) for own in zip(*shares, strict=True))
    return Shares(encoding=encoding, pooling=pooling, together=together)


def as_table(table: Table) -> list[list[float]]:
    encodings, poolings = (list(dict.fromkeys(place[axis] for place in table)) for axis in (0, 1))
    return [[table[one, other] for other in poolings] for one in encodings]


def not_mastered(grid: Sequence[StudyCell], name: str) -> dict[str, tuple[float, ...]]:
    """For every combination: the accuracy at training lengths of its runs that did not master the set."""
    found = {}
    for cell in grid:
        values = [at_training(run, name) for run in cell.runs if not mastered(run, name)]
        if known := tuple(value for value in values if value is not None):
            found[cell.label or cell.cell] = known
    return found


Learned = Sequence[tuple[Mapping[str, str], float]]


def by_value(learned: Learned, path: str) -> dict[str, float]:
    """Mean accuracy past training of the runs with each value of a setting."""
    values = dict.fromkeys(settings[path] for settings, _ in learned)
    return {one: fmean(mean for settings, mean in learned if settings[path] == one) for one in values}


def counts_by(learned: Learned, path: str) -> dict[str, int]:
    return {one: sum(settings[path] == one for settings, _ in learned) for one in by_value(learned, path)}


def decision_sentence(found: Decision) -> Sentence:
    """How much each explains where every combination mastered the set; otherwise the means of those that did."""
    where = f"{found.arm}, on {found.set_name}"
    if found.lowest is None or found.highest is None:
        text = (
            f"none of {found.runs:,} runs mastered the training lengths "
            f"(at least {found.gate:.0%} there; the best has {found.best_at_training or 0:.3f}), "
            "so nothing is said of what decides the length"
        )
        return Sentence(kind="decision", set_name=found.set_name, text=f"{where}: {text}")
    gate = f"{found.mastered:,} of {found.runs:,} runs mastered the training lengths"
    if found.highest - found.lowest < WORTH_EXPLAINING:
        text = f"nothing decides; {gate}, and those have {found.lowest:.3f} to {found.highest:.3f} past training"
        return Sentence(kind="nothing decides", set_name=found.set_name, text=f"{where}: {text}{without(found)}")
    levels = f"{level_text(found.pooling, found.runs_by.pooling)}; {level_text(found.encoding, found.runs_by.encoding)}"
    text = f"{gate}; mean accuracy of those past training (runs): {levels}"
    if found.shares is not None:
        text = f"{more_text(found.shares)}; of the differences past training {shares_text(found.shares)}; {text}"
    return Sentence(kind="decision", set_name=found.set_name, text=f"{where}: {text}{without(found)}")


def level_text(means: Mapping[str, float], runs: Mapping[str, int]) -> str:
    """`max 0.900 (4), mean 0.500 (4)`: the largest mean first."""
    ranked = sorted(means.items(), key=lambda one: -one[1])
    return ", ".join(f"{one} {mean:.3f} ({runs[one]})" for one, mean in ranked)


def shares_text(shares: Shares) -> str:
    parts = {
        "the encoding": fmean(shares.encoding),
        "the pooling": fmean(shares.pooling),
        "only the two in combination": fmean(shares.together),
    }
    return ", ".join(f"{words} {100 * parts[words]:.0f} %" for words in sorted(parts, key=lambda one: -parts[one]))


def without(found: Decision) -> str:
    """Which combinations have runs that did not master the set, with their accuracy at training lengths."""
    names = [
        f"{name} ({min(values):.3f})" if len(values) == 1 else f"{name} ({min(values):.3f} to {max(values):.3f})"
        for name, values in found.not_mastered.items()
    ]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"; did not master them: {', '.join(names[:MOST_NAMED])}{more}" if names else ""


def more_text(shares: Shares) -> str:
    """Which of the two explains more, if it does so in every seed."""
    pairs = list(zip(shares.pooling, shares.encoding, strict=True))
    seeds = f"each of {len(pairs)} seeds" if len(pairs) > 1 else "the one seed"
    if all(pooling > encoding for pooling, encoding in pairs):
        return f"the pooling explains more than the encoding in {seeds}"
    if all(encoding > pooling for pooling, encoding in pairs):
        return f"the encoding explains more than the pooling in {seeds}"
    return "neither pooling nor encoding explains more in every seed"


# Who answers one class


def constants(cells: Sequence[StudyCell]) -> list[str]:
    """The cells in which a seed gives one answer whatever it sees: their accuracy there says nothing of the task."""
    parts = []
    for cell in cells:
        found = [run.constant for run in cell.runs if run.constant is not None]
        if found:
            starts = sorted({one.start for one in found})
            start = f"{starts[0]:,}" if len(starts) == 1 else f"{starts[0]:,} to {starts[-1]:,}"
            answers = " or ".join(sorted({one.answer for one in found}))
            parts.append(f"{cell.cell} ({answers}, from {start} on, {len(found)} of {len(cell.runs)} seeds)")
    if not parts:
        return []
    return [f"one answer whatever is asked, so that accuracy is the share of that class: {'; '.join(parts)}"]
