"""The tables of a study of lengths, as rows of text: a cell a row, and every number from its runs' documents."""

from collections.abc import Sequence
from statistics import fmean

from headway.results.lengths import HeldOverSeeds
from headway.results.mechanism import Repair
from headway.results.study import Cost, MeasuredRun, StudyCell
from headway.studies.answer import measured, sets_of
from headway.studies.gate import mastered_text, steps_text

Table = list[list[str]]
RIPPLE = "ripple"
"""The set of sums with one ripple of carries each, and their twins without."""
HIT = 0.005
"""Accuracy below which it is not worth asking which sums are right."""


def shown_lengths(cells: Sequence[StudyCell], name: str) -> list[int]:
    """The longest training length, and every tested one past it."""
    rows = ((run.training.longest, length) for cell in cells for run in cell.runs for length in run.of_set(name))
    return sorted({length for longest, length in rows if length >= longest})


def held_table(cells: Sequence[StudyCell]) -> Table:
    """For each cell and set: every seed's length held, and the median of several."""
    there = measured(cells)
    names = sets_of(there)
    table = [["combination", *names]]
    for cell in there:
        sets = {} if cell.together is None else cell.together.sets
        table.append([cell.cell, *(held_text(sets[name]) if name in sets else "" for name in names)])
    return table


def held_text(found: HeldOverSeeds) -> str:
    """`16 16 64 (median 16)`."""
    seeds = " ".join(map(str, found.held))
    return f"{seeds} (median {found.median:g})" if len(found.held) > 1 else seeds


def reach_table(cells: Sequence[StudyCell]) -> Table:
    """How many seeds of a cell reach multiples of the training length, and the interval of that share; where any do."""
    table = [["combination", "set", "times", "length", "seeds", "95 % interval of the share"]]
    for cell in cells:
        for name, found in ({} if cell.together is None else cell.together.sets).items():
            for reach in (reach for reach in found.reach if reach.seeds):
                low, high = reach.interval
                seeds = f"{reach.seeds} of {len(cell.runs)}"
                numbers = [f"{reach.times}x", f"{reach.length:,}", seeds, f"{low:.2f} to {high:.2f}"]
                table.append([cell.cell, name, *numbers])
    return table


def ripple_table(cells: Sequence[StudyCell]) -> Table:
    """Mean accuracy over seeds on the ripple set, by how many columns a carry must pass, where any sum is right."""
    values: dict[str, int] = {}
    lines: list[tuple[str, dict[str, list[float]]]] = []
    for cell in measured(cells):
        for length in shown_lengths([cell], RIPPLE):
            rows = [found[length] for run in cell.runs if length in (found := run.of_set(RIPPLE))]
            shares: dict[str, list[float]] = {}
            for part in (part for row in rows for part in row.by.get("longest_ripple", ())):
                words = str(part.high) if part.low == part.high else f"{part.low}-{part.high}"
                values[words] = part.high
                shares.setdefault(words, []).append(part.accuracy)
            if fmean(row.accuracy for row in rows) >= HIT:
                lines.append((f"{cell.cell} at {length:,}", shares))
    columns = sorted(values, key=values.__getitem__)
    body = [
        [name, *(f"{fmean(shares[one]):.3f}" if one in shares else "" for one in columns)] for name, shares in lines
    ]
    return [["columns a carry passes", *columns], *body] if columns else []


def repair_table(cells: Sequence[StudyCell]) -> Table:
    """What limiting the reach of all self-attention heads repairs: for each run that was asked why it fails.

    The share of the failures at the first failing length that are right afterwards, with its interval; the same for the
    sham repair, which is only tried where the repair helps; and what that shows.
    """
    table = [
        ["combination", "seed", "fails at", "failures", "repaired by reach", "95 % interval", "by the sham", "shows"]
    ]
    for cell in cells:
        table += [[cell.cell, *row] for run in cell.runs if (row := repair_row(run))]
    return table


def repair_row(run: MeasuredRun) -> list[str]:
    found = reach_repair(run)
    if found is None or run.mechanism is None or not found.at.failures or found.at.share_repaired_interval is None:
        return []
    low, high = found.at.share_repaired_interval
    shares = [f"{found.at.share_repaired:.3f}", f"{low:.3f} to {high:.3f}"]
    spoiled = "not tried" if found.sham is None else f"{found.sham.share_repaired:.3f}"
    head = [str(run.seed), f"{run.mechanism.fails_at:,}", f"{found.at.failures:,}"]
    return [*head, *shares, spoiled, found.claim]


def reach_repair(run: MeasuredRun) -> Repair | None:
    """The repair of a run that limits the reach of all heads of self-attention; None where none was tried."""
    if run.mechanism is None or run.mechanism.check is None:
        return None
    return next((row for row in run.mechanism.check.repairs if (row.repair, row.who) == ("reach", "all heads")), None)


def mastery_table(cells: Sequence[StudyCell]) -> Table:
    """For each cell: how many seeds mastered the training lengths, every seed's steps, and what the others reached."""
    table = [["combination", "mastered", "steps to mastery, every seed", "accuracy of those that did not"]]
    for cell in cells:
        judged = [run.mastery for run in cell.runs if run.mastery is not None]
        if judged:
            count = sum(one.mastered for one in judged)
            missed = " ".join(f"{one.accuracy:.3f}" for one in judged if not one.mastered)
            table.append([cell.cell, f"{count} of {len(judged)}", " ".join(map(steps_text, judged)), missed])
    return table


def seed_table(cells: Sequence[StudyCell], name: str) -> Table:
    """Every run by itself: whether and when it mastered, accuracy on a set at each length, and its training's cost."""
    lengths = sorted({length for cell in cells for run in cell.runs for length in run.of_set(name)})
    lead = ["run", "mastered", "steps to mastery"]
    table = [[*lead, *(f"{length:,}" for length in lengths), "steps", "seconds", "device"]]
    for cell in cells:
        for run, training in zip(cell.runs, cell.training, strict=True):
            found = run.of_set(name)
            numbers = [f"{found[length].accuracy:.3f}" if length in found else "" for length in lengths]
            numbers = [mastered_text(run.mastery), steps_text(run.mastery), *numbers]
            cost = [f"{training.steps:,}", f"{training.seconds:.0f}", str(training.device)]
            table.append([training.name, *numbers, *cost])
    return table


def costs(cells: Sequence[StudyCell]) -> list[Cost]:
    """What training took in each arm. On a GPU the seeds of a cell are one stack, whose seconds count once."""
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
