"""Sentences about a length study: which runs count, the length that each combination holds, and what decides it."""

from collections.abc import Mapping, Sequence
from statistics import fmean, median_low

from headway.narration.numbers import Form, counted, duration, number, percent, ratio, size, thousandths, whole
from headway.narration.text import Text, Words, join, text
from headway.results.mechanism import Mechanism
from headway.results.study import Cost, Decision, Mastery, Shares, StudyCell

MOST_NAMED = 6
"""Combinations that are named for not mastering a set; the document has all."""
WORTH_EXPLAINING = 0.05
"""Smallest difference of mean accuracies between cells that is worth explaining."""


def explanation(run: str, found: Mechanism) -> Text:
    """The sentences of a run's mechanism."""
    start = text("why {} fails", run) if found.fails_at else run
    return text("{}: {}", start, " ".join(found.words))


def descriptive(fewest: int) -> Text:
    return text("with {} per combination, all of this is descriptive", seeds(fewest))


def cost_of(cost: Cost) -> Text:
    """The cost of training in an arm."""
    steps, where = number(cost.steps), " and ".join(cost.devices)
    time = duration(cost.seconds)
    return text("{}: {}, {} steps of training in {} ({})", cost.arm, counted(cost.runs, "run"), steps, time, where)


def seeds(count: int) -> Text:
    return text("{} seed{}", number(count), "" if count == 1 else "s")


def span(values: Sequence[float], form: Form = whole) -> Text:
    """`0.312 to 0.980`; one number if both ends have the same text."""
    low, high = number(min(values), form), number(max(values), form)
    return text("{}", low) if low.written == high.written else text("{} to {}", low, high)


# Which runs count


def gated(cells: Sequence[StudyCell]) -> Text | None:
    """How many runs passed the gate, and which combinations did not, with their accuracy; None without a gate."""
    judged = {cell.cell: cell.judged for cell in cells}
    every = [one for found in judged.values() for one in found]
    if not every:
        return None
    said = text(
        "{} of {} runs mastered their training lengths (at least {} of validation)",
        number(sum(one.mastered for one in every)),
        size(every),
        number(every[0].gate, percent),
    )
    out = {name: [one.accuracy for one in found if not one.mastered] for name, found in judged.items()}
    names = [
        text("{} ({}, {} of {})", name, span(values, thousandths), size(values), size(judged[name]))
        for name, values in out.items()
        if values
    ]
    if not names:
        return said
    rest = "; the others are left out of all results on length (accuracy, seeds): {}"
    return said + text(rest, join(", ", names))


def mastery(found: Mastery | None) -> Text:
    """The step at which a run mastered its training lengths, or its accuracy."""
    if found is None:
        return text("mastery is not known")
    gate = number(found.gate, percent)
    if found.mastered:
        step = "?" if found.step is None else number(found.step)
        return text("mastered at step {} ({} of validation)", step, gate)
    return text("did not master {} of validation ({})", gate, number(found.accuracy, percent))


# Lengths held


def furthest(cells: Sequence[StudyCell], name: str) -> Text:
    """The cells with the largest length held on a set, by the lower median over seeds, and every seed's length."""
    held = {cell.cell: lengths for cell in cells if (lengths := cell.held(name))}
    if not held:
        return text("{}: no run mastered its training lengths, so there is no result on length", name)
    there = [cell for cell in cells if cell.cell in held]
    longest = there[0].runs[0].training.longest
    best = max(map(median_low, held.values()))
    if best <= longest:
        return none_past_training(there, name, longest)
    winners = [cell for cell in there if median_low(held[cell.cell]) == best]
    tested = max(length for run in winners[0].runs for length in run.of_set(name))
    return text(
        "{}: held to {}{}, {} times the training length, in the median: {}",
        name,
        number(best),
        ", the longest that was tested" if best == tested else "",
        ratio(best, longest),
        join("; ", [text("{} ({})", cell.cell, every_seed(held[cell.cell])) for cell in winners]),
    )


def none_past_training(cells: Sequence[StudyCell], name: str, longest: int) -> Text:
    """That no cell's median is beyond training, how many seeds are, and the best mean accuracy there."""
    every = [length for cell in cells for length in cell.held(name)]
    past = sum(length > longest for length in every)
    some = text(" ({} of {} seeds do)", number(past), size(every)) if past else ""
    none = "{}: in the median no combination holds beyond {}, the longest training length{}; {}"
    means = {cell.cell: mean for cell in cells if (mean := cell.mean_past_training(name)) is not None}
    if not means:
        return text(none, name, number(longest), some, "no longer length was tested")
    first = max(means, key=means.__getitem__)
    best = text("best in the mean of the longer lengths is {} with {}", first, number(means[first], thousandths))
    return text(none, name, number(longest), some, best)


def every_seed(values: Sequence[int]) -> Text:
    """Every seed's value; only once if all are equal."""
    if len(set(values)) > 1:
        return text("seeds: {}", join(", ", map(number, values)))
    first = number(values[0])
    return text("{} in each of {} seeds", first, size(values)) if len(values) > 1 else text("{}, one seed", first)


# What decides


def decided(found: Decision) -> Text:
    """The shares explained by each setting if every combination mastered the set; otherwise the means of those that
    did.
    """
    return text("{}, on {}: {}", found.arm, found.set_name, decision(found))


def decides_nothing(found: Decision) -> bool:
    """Whether the runs that mastered a set differ too little beyond training to be explained."""
    return found.lowest is not None and found.highest is not None and found.highest - found.lowest < WORTH_EXPLAINING


def decision(found: Decision) -> Text:
    if found.lowest is None or found.highest is None:
        return text(
            "none of {} runs mastered the training lengths (at least {} there; the best has {}), so what decides "
            "the length is unknown",
            number(found.runs),
            number(found.gate, percent),
            number(found.best_at_training or 0.0, thousandths),
        )
    gate = text("{} of {} runs mastered the training lengths", number(found.mastered), number(found.runs))
    if decides_nothing(found):
        ends = number(found.lowest, thousandths), number(found.highest, thousandths)
        return text("nothing decides; {}, and those have {} to {} beyond training{}", gate, *ends, left_out(found))
    return text(
        "{}{}; mean accuracy of those beyond training (runs): {}; {}{}",
        "" if found.shares is None else explained(found.shares),
        gate,
        levels(found.pooling, found.runs_by.pooling),
        levels(found.encoding, found.runs_by.encoding),
        left_out(found),
    )


def levels(means: Mapping[str, float], runs: Mapping[str, int]) -> Text:
    """`max 0.900 (4), mean 0.500 (4)`: the largest mean first."""
    ranked = sorted(means.items(), key=lambda one: -one[1])
    return join(", ", [text("{} {} ({})", one, number(mean, thousandths), number(runs[one])) for one, mean in ranked])


def explained(shares: Shares) -> Text:
    """Which of encoding and pooling explains more, and the mean share of each over seeds."""
    parts = {
        "the encoding": fmean(shares.encoding),
        "the pooling": fmean(shares.pooling),
        "their interaction": fmean(shares.together),
    }
    ranked = sorted(parts, key=lambda one: -parts[one])
    shown = [text("{} {}", who, number(parts[who], lambda share: percent(round(share, 2)))) for who in ranked]
    return text("{}; of the differences beyond training {}; ", explains_more(shares), join(", ", shown))


def explains_more(shares: Shares) -> Text:
    """Which of the two explains more, if it does so in every seed."""
    pairs = list(zip(shares.pooling, shares.encoding, strict=True))
    where = text("each of {} seeds", size(pairs)) if len(pairs) > 1 else "the one seed"
    if all(pooling > encoding for pooling, encoding in pairs):
        return text("the pooling explains more than the encoding in {}", where)
    if all(encoding > pooling for pooling, encoding in pairs):
        return text("the encoding explains more than the pooling in {}", where)
    return text("neither pooling nor encoding explains more in every seed")


def left_out(found: Decision) -> Words:
    """The combinations with runs that did not master the set, with their accuracy at training lengths."""
    names = [text("{} ({})", name, span(values, thousandths)) for name, values in found.not_mastered.items()]
    if not names:
        return ""
    more = text(" and {} more", number(len(names) - MOST_NAMED)) if len(names) > MOST_NAMED else ""
    return text("; did not master them: {}{}", join(", ", names[:MOST_NAMED]), more)


# Constant answers


def constants(cells: Sequence[StudyCell]) -> Text | None:
    """The cells in which a seed gives a constant answer, so that its accuracy is not about the task."""
    parts = []
    for cell in cells:
        found = [run.constant for run in cell.runs if run.constant is not None]
        if found:
            answers = " or ".join(sorted({one.answer for one in found}))
            start = span([one.start for one in found])
            one = "{} ({}, from {} on, {} of {} seeds)"
            parts.append(text(one, cell.cell, answers, start, size(found), size(cell.runs)))
    if not parts:
        return None
    said = "a constant answer, so that accuracy is the share of that class: {}"
    return text(said, join("; ", parts))
