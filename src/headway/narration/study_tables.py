"""Tables of a length study, with one row per combination or run."""

from collections.abc import Sequence
from statistics import fmean

from headway.narration.numbers import NONE, hundredths, interval, number, size, thousandths
from headway.narration.tables import Table, table
from headway.narration.text import Text, Words, code, join, quote, text
from headway.results.lengths import HeldOverSeeds
from headway.results.mechanism import Repair
from headway.results.study import Mastery, MeasuredRun, StudyCell, Training

RIPPLE = "ripple"
"""The set of sums with one ripple of carries each, and their twins without."""
HIT = 0.005
"""Accuracy below which it is not broken down."""


def shown_lengths(cells: Sequence[StudyCell], name: str) -> list[int]:
    """The longest training length, and every longer tested length."""
    rows = ((run.training.longest, length) for cell in cells for run in cell.runs for length in run.of_set(name))
    return sorted({length for longest, length in rows if length >= longest})


def held_table(cells: Sequence[StudyCell], sets: Sequence[str]) -> Table:
    """For each cell and set: every seed's length held, and the median if there are several."""
    lines: list[list[Words]] = [["combination", *sets]]
    for cell in cells:
        found = {} if cell.together is None else cell.together.sets
        lines.append([quote(cell.cell), *(held_words(found[name]) if name in found else "" for name in sets)])
    return table(lines, caption="length held of each seed")


def held_words(found: HeldOverSeeds) -> Text:
    """`16 16 64 (median 16)`."""
    every = join(" ", map(number, found.held))
    return text("{} (median {})", every, number(found.median)) if len(found.held) > 1 else every


def reach_table(cells: Sequence[StudyCell]) -> Table:
    """How many seeds of a cell reach multiples of the training length, with the interval of that share."""
    lines: list[list[Words]] = [["combination", "set", "times", "length", "seeds", "95 % interval of the share"]]
    for cell in cells:
        for name, found in ({} if cell.together is None else cell.together.sets).items():
            for reach in (reach for reach in found.reach if reach.seeds):
                numbers: list[Words] = [text("{}x", number(reach.times)), number(reach.length)]
                reaching = text("{} of {}", number(reach.seeds), size(cell.runs))
                lines.append([quote(cell.cell), name, *numbers, reaching, interval(reach.interval, hundredths)])
    return table(lines, 2, "seeds that reach a multiple of the training length")


def ripple_table(cells: Sequence[StudyCell]) -> Table:
    """Mean accuracy over seeds on the ripple set, by the number of columns that a carry passes."""
    values: dict[str, int] = {}
    found: list[tuple[Text, dict[str, list[float]]]] = []
    for cell in cells:
        for length in shown_lengths([cell], RIPPLE):
            rows = [own[length] for run in cell.runs if length in (own := run.of_set(RIPPLE))]
            shares: dict[str, list[float]] = {}
            for part in (part for row in rows for part in row.by.get("longest_ripple", ())):
                passed = str(part.high) if part.low == part.high else f"{part.low}-{part.high}"
                values[passed] = part.high
                shares.setdefault(passed, []).append(part.accuracy)
            if fmean(row.accuracy for row in rows) >= HIT:
                found.append((text("{} at {}", quote(cell.cell), number(length)), shares))
    columns = sorted(values, key=values.__getitem__)
    lines: list[list[Words]] = [["columns a carry passes", *columns]]
    for name, means in found if columns else ():
        lines.append([name, *(number(fmean(means[one]), thousandths) if one in means else "" for one in columns)])
    return table(lines, caption="by ripple (set ripple), mean over seeds")


def repair_table(cells: Sequence[StudyCell]) -> Table:
    """Failures that limiting the reach of all self-attention heads repairs, for each run with a mechanism analysis.

    The share of the failures at the first failing length that become right, with its interval; the same for the sham
    repair, which is only tried if the repair helps; and the claim that it supports.
    """
    heads = [
        "combination",
        "seed",
        "fails at",
        "failures",
        "repaired by reach",
        "95 % interval",
        "by the sham",
        "shows",
    ]
    rows = [[quote(cell.cell), *row] for cell in cells for run in cell.runs if (row := repair_row(run))]
    return table([heads, *rows], 2, "failures that limiting the reach of attention repairs")


def repair_row(run: MeasuredRun) -> list[Words]:
    found, fails_at = reach_repair(run), None if run.mechanism is None else run.mechanism.fails_at
    if found is None or fails_at is None or not found.at.failures or found.at.share_repaired_interval is None:
        return []
    share = None if found.sham is None else found.sham.share_repaired
    return [
        number(run.seed),
        number(fails_at),
        number(found.at.failures),
        accuracy(found.at.share_repaired),
        interval(found.at.share_repaired_interval, thousandths),
        "not tried" if share is None else accuracy(share),
        found.claim,
    ]


def reach_repair(run: MeasuredRun) -> Repair | None:
    """The repair that limits the reach of all self-attention heads; None if it was not tried."""
    if run.mechanism is None or run.mechanism.check is None:
        return None
    return next((row for row in run.mechanism.check.repairs if (row.repair, row.who) == ("reach", "all heads")), None)


def mastery_table(cells: Sequence[StudyCell]) -> Table:
    """For each cell: how many seeds mastered the training lengths, every seed's steps, and the accuracy of
    the others.
    """
    lines: list[list[Words]] = [
        ["combination", "mastered", "steps to mastery, every seed", "accuracy of those that did not"]
    ]
    for cell in (cell for cell in cells if cell.judged):
        count = text("{} of {}", number(sum(one.mastered for one in cell.judged)), size(cell.judged))
        missed = [accuracy(one.accuracy) for one in cell.judged if not one.mastered]
        lines.append([quote(cell.cell), count, join(" ", map(steps, cell.judged)), join(" ", missed)])
    return table(lines, caption="who mastered the training lengths")


def seed_table(cells: Sequence[StudyCell], name: str) -> Table:
    """Every run: whether and when it mastered, its accuracy on a set at each length, and the cost of its training."""
    lengths = sorted({length for cell in cells for run in cell.runs for length in run.of_set(name)})
    heads: list[Words] = ["run", "mastered", "steps to mastery", *map(number, lengths), "steps", "seconds", "device"]
    rows = [
        seed_row(run, training, name, lengths)
        for cell in cells
        for run, training in zip(cell.runs, cell.training, strict=True)
    ]
    return table([heads, *rows], caption=f"every run, on {name}")


def seed_row(run: MeasuredRun, training: Training, name: str, lengths: Sequence[int]) -> list[Words]:
    found = run.of_set(name)
    shares = [accuracy(found[length].accuracy) if length in found else "" for length in lengths]
    cost: list[Words] = [number(training.steps), number(round(training.seconds)), str(training.device)]
    return [code(training.name), mastered(run.mastery), steps(run.mastery), *shares, *cost]


def mastered(found: Mastery | None) -> Words:
    """`yes`, or `no (0.312)` with its accuracy."""
    if found is None:
        return NONE
    return "yes" if found.mastered else text("no ({})", accuracy(found.accuracy))


def steps(found: Mastery | None) -> Words:
    return NONE if found is None or found.step is None else number(found.step)


def accuracy(share: float | None) -> Words:
    return NONE if share is None else number(share, thousandths)
