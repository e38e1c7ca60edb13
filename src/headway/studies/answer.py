"""The answer of a length study from its documents alone: the length that each cell holds, and what decides it."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from headway.json_values import JsonObject
from headway.narration import study as narrated
from headway.narration.text import Words
from headway.results.study import Cost, Decision, MeasuredRun, RunCounts, Sentence, Shares, StudyCell, Topic
from headway.statistics import ENOUGH_SEEDS, two_way_shares
from headway.studies.plan import ENCODING, POOLING

MASTERED = 0.99
"""Accuracy at the training lengths from which a run has learned a set."""


def measured(cells: Iterable[StudyCell]) -> list[StudyCell]:
    return [cell for cell in cells if cell.runs]


def sets_of(cells: Sequence[StudyCell]) -> list[str]:
    """The measured sets, in the documents' order."""
    return list(dict.fromkeys(name for cell in cells for run in cell.runs for name in run.sets))


def mastered(run: MeasuredRun, name: str) -> bool:
    """Whether a run has learned a set at its training lengths; otherwise its accuracy beyond them is not about length.

    It must have passed the gate, which uses the training distribution, and have learned this set, whose examples may
    differ: a model that is right on random sums of 13 digits may fail on 9999999999999 + 1.
    """
    reached = run.at_training(name)
    return run.passed and reached is not None and reached >= MASTERED


def answer(cells: Sequence[StudyCell]) -> list[Sentence]:
    """The findings, one sentence per line."""
    there = measured(cells)
    if not there:
        return [Sentence(kind="other", text="nothing was measured")]
    said: list[tuple[Topic, str | None, Words | None]] = [("gate", None, narrated.gated(there))]
    said += [("furthest", name, narrated.furthest(there, name)) for name in sets_of(there)]
    for one in decisions(there):
        kind: Topic = "nothing decides" if narrated.decides_nothing(one) else "decision"
        said.append((kind, one.set_name, narrated.decided(one)))
    said.append(("constant", None, narrated.constants(there)))
    for run in (run for cell in there for run in cell.runs):
        if run.mechanism is not None:
            said.append(("mechanism", run.mechanism.set_name, narrated.explanation(run.name, run.mechanism)))
    fewest = min(len(cell.runs) for cell in there)
    said.append(("descriptive", None, narrated.descriptive(fewest) if fewest < ENOUGH_SEEDS else None))
    return [Sentence(kind=kind, set_name=name, text=str(words)) for kind, name, words in said if words]


# What decides


def decisions(cells: Sequence[StudyCell]) -> list[Decision]:
    """Encoding against pooling in every arm and on every set, for the runs that mastered the training lengths.

    Shares are of the sum of squares between the cells of one seed, with the seed as the unit; the rest is the
    interaction. They use the seeds for which every combination mastered.
    """
    found = []
    for arm in dict.fromkeys(cell.arm for cell in cells):
        grid = [cell for cell in cells if cell.arm == arm and {ENCODING, POOLING} <= cell.settings.keys()]
        if all(len({cell.settings[key] for cell in grid}) > 1 for key in (ENCODING, POOLING)):
            found += [comparison(arm, grid, name) for name in sets_of(grid)]
    return found


AccuracyGrid = dict[tuple[str, str], float]
"""(encoding, pooling) -> mean accuracy beyond training, of one seed."""


def complete_grids(grid: Sequence[StudyCell], name: str) -> dict[int, AccuracyGrid]:
    """The accuracy grid of each seed for which every combination mastered the set."""
    tables: dict[int, AccuracyGrid] = {}
    places = set()
    for cell in grid:
        place = (str(cell.settings[ENCODING]), str(cell.settings[POOLING]))
        places.add(place)
        for run in cell.runs:
            mean = run.past_training(name)
            if mean is not None and mastered(run, name):
                tables.setdefault(run.seed, {})[place] = mean
    return {seed: table for seed, table in tables.items() if len(table) == len(places)}


def comparison(arm: str, grid: Sequence[StudyCell], name: str) -> Decision:
    """The accuracy beyond training by encoding and by pooling of the runs that mastered a set, and the other runs."""
    tested = [
        (cell.settings, run, mean)
        for cell in grid
        for run in cell.runs
        if (mean := run.past_training(name)) is not None
    ]
    learned = [(settings, mean) for settings, run, mean in tested if mastered(run, name)]
    reached = [value for _, run, _ in tested if (value := run.at_training(name)) is not None]
    tables = complete_grids(grid, name)
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


def shares_of(tables: Iterable[AccuracyGrid]) -> Shares | None:
    shares = [two_way_shares(as_rows(table)) for table in tables]
    if not shares:
        return None
    encoding, pooling, together = (tuple(own) for own in zip(*shares, strict=True))
    return Shares(encoding=encoding, pooling=pooling, together=together)


def as_rows(table: AccuracyGrid) -> list[list[float]]:
    encodings, poolings = (list(dict.fromkeys(place[axis] for place in table)) for axis in (0, 1))
    return [[table[one, other] for other in poolings] for one in encodings]


def not_mastered(grid: Sequence[StudyCell], name: str) -> dict[str, tuple[float, ...]]:
    """For every combination: the accuracy at training lengths of the runs that did not master the set."""
    found = {}
    for cell in grid:
        values = [run.at_training(name) for run in cell.runs if not mastered(run, name)]
        if known := tuple(value for value in values if value is not None):
            found[cell.label or cell.cell] = known
    return found


Learned = Sequence[tuple[JsonObject, float]]


def by_value(learned: Learned, path: str) -> dict[str, float]:
    """Mean accuracy beyond training of the runs with each value of a setting."""
    values = dict.fromkeys(str(settings[path]) for settings, _ in learned)
    return {one: fmean(mean for settings, mean in learned if str(settings[path]) == one) for one in values}


def counts_by(learned: Learned, path: str) -> dict[str, int]:
    return {one: sum(str(settings[path]) == one for settings, _ in learned) for one in by_value(learned, path)}


# What it cost


def costs(cells: Sequence[StudyCell]) -> list[Cost]:
    """The cost of training in each arm. On a GPU the seeds of a cell are one stack, whose seconds count once."""
    found = []
    for arm in dict.fromkeys(cell.arm for cell in measured(cells)):
        own = [cell.training for cell in measured(cells) if cell.arm == arm]
        every = [one for runs in own for one in runs]
        devices = tuple(sorted({str(one.device) for one in every}))
        stacked = devices != ("cpu",)
        seconds = sum((max if stacked else sum)(one.seconds for one in runs) for runs in own)
        steps = sum(one.steps for one in every)
        found.append(Cost(arm=arm, runs=len(every), steps=steps, seconds=seconds, devices=devices))
    return found
