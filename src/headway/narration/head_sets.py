"""Sentences and tables about sets of heads: joint ablation and activation patching."""

from collections.abc import Iterator, Sequence

from headway.narration.method import METHOD
from headway.narration.numbers import counted, interval, number, percent, points, size, with_interval
from headway.narration.tables import Column, Table, words
from headway.narration.text import Text, Words, code, join, listed, quote, text
from headway.results.heads_study import Mover
from headway.results.joint_ablation import JointAblation, Pair, Pairs, Removable, Shapley
from headway.results.patching import Contrast, ControlRow, Rate, Strongest

MOST_NAMED = 3
STILL = "not moved"
"""The reading of a control whose heads move nothing."""


def going(
    limit: float, heads: Sequence[str], drop: float, ends: Sequence[float], *, n: int | None = None, named: bool = False
) -> Text:
    """The cost of the heads that were chosen for removal; that they can be removed only if the interval shows it.

    The cost is measured on `n` other examples. With `named` the sentence starts with the heads.
    """
    within = counted(limit, "point")
    if not heads:
        return text("{} head can be removed for less than {}", "No" if named else "no", within)
    chosen = size(heads)
    subject = text("{} {}", chosen, "head" if chosen.value == 1 else "heads") if named else text("{}", chosen)
    others = text("{} other examples", number(n)) if n is not None else "other examples"
    cost = text("on {} the cost is {} points ({})", others, number(drop, points), interval(ends, points))
    if ends[1] < limit:
        return text("{} can be removed together for less than {}: {}", subject, within, cost)
    return text("{} chosen for removal together: {}, not shown to be under {}", subject, cost, within)


def go_together(row: Removable, *, named: bool = False) -> Text:
    return going(row.limit, row.heads, row.drop, row.drop_interval, named=named)


def gone(row: Removable) -> Text:
    """The cost of the removable set, and of the heads that cost little alone."""
    alone = row.alone_under_limit
    if not alone.heads:
        return go_together(row)
    cost = number(alone.drop, points)
    return text(
        "{}, while the {} that cost less alone cost {} points together", go_together(row), size(alone.heads), cost
    )


def removable(row: Removable) -> Iterator[Text]:
    """How many heads can be removed together within a limit, and how many are under it alone."""
    yield text("{}.", go_together(row, named=True))
    alone = row.alone_under_limit
    if alone.heads:
        yield text(
            "One at a time, {} heads are under that limit; removed together, they cost {} points ({}).",
            size(alone.heads),
            number(alone.drop, points),
            interval(alone.drop_interval, points),
        )


def adding_up(row: Removable) -> Text:
    promised, cost = size(row.adding_up.heads), number(row.adding_up.drop, points)
    return text("The sum of single drops predicts {} removable heads, which cost {} points together.", promised, cost)


def sufficient(joint: JointAblation) -> Text | None:
    enough = joint.sufficient
    if not enough.heads:
        return None
    return text(
        "Sufficient within one point: {} heads, {}; ablating all others costs {} points ({}).",
        size(enough.heads),
        listed([code(name) for name in enough.heads]),
        number(enough.drop, points),
        interval(enough.drop_interval, points),
    )


def redundant_pairs(pairs: Pairs) -> Text | None:
    """The pairs with a significant positive interaction."""
    if not pairs.pairs:
        return None
    found = pairs.redundant()[:MOST_NAMED]
    tested, n = number(pairs.tested), number(pairs.n)
    if not found:
        return text("None of {} pairs of heads is found to be redundant ({} examples).", tested, n)
    return text("Redundant pairs of heads ({} pairs, {} examples): {}.", tested, n, join("; ", map(pair_words, found)))


def pair_words(pair: Pair) -> Text:
    return text(
        "{} and {} cost {} and {} points alone, {} together",
        *(code(head) for head in pair.heads),
        *(number(drop, points) for drop in pair.alone),
        number(pair.together, points),
    )


def shapley(kind: str, found: Shapley) -> Text:
    """The heads with the largest Shapley values."""
    best = sorted(found.values, key=lambda one: -one.value)[:MOST_NAMED]
    how = counted(found.subsets, "subset") if found.exact else counted(found.permutations or 0, "order")
    shown = [text("{} {} ± {}", code(one.head), number(one.value, points), number(one.error, points)) for one in best]
    return text("Shapley values, {} ({}, n = {}): {}.", kind, how, number(found.n), join(", ", shown))


# Activation patching


def moves(contrast: Contrast) -> Text | None:
    """The heads that surely flip one contrast, or that none does, on pairs not used for the choice."""
    if not contrast.usable:
        nothing = "{}: none of {} pairs is right on both sides, so nothing is measured."
        return text(nothing, quote(contrast.name), number(contrast.n))
    if ranked := contrast.ranked():
        pairs = text("{} pairs not used for the choice", number(ranked[0].n))
        return of_movers(contrast.name, [(one.head, one) for one in ranked], pairs)
    # few pairs, or written by an earlier version: chosen and measured on the same pairs
    single = [(row.who, row) for row in contrast.best_single(1)]
    return of_movers(contrast.name, single, text("{} pairs", number(contrast.usable)))


def flips_in_short(contrasts: Sequence[Contrast]) -> Iterator[Text]:
    """For each contrast the heads that surely flip it, with their rates; in one sentence those that no head flips."""
    still: list[Words] = []
    for contrast in contrasts:
        found: list[tuple[str, Rate]] = [(one.head, one) for one in contrast.ranked()]
        found = found or [(row.who, row) for row in contrast.best_single(1)]
        surely = [(head, one) for head, one in found if one.interval[0] > METHOD.moves_above]
        rates = [text("{} in {}", code(head), number(one.rate, percent)) for head, one in surely]
        if rates:
            yield text("Flips the {}: {}.", quote(contrast.name), listed(rates))
        else:
            still.append(quote(contrast.name))
    if still:
        limit = number(METHOD.moves_above, percent)
        yield text("No single head is shown to flip the {} in more than {} of the pairs.", listed(still), limit)


def of_movers(name: str, movers: Sequence[tuple[str, Rate | Mover]], pairs: Text) -> Text | None:
    surely = [(head, one) for head, one in movers if one.interval[0] > METHOD.moves_above]
    if not movers:
        return None
    if not surely:
        limit = number(METHOD.moves_above, percent)
        return text("No single head is shown to flip the {} in more than {} of {}.", quote(name), limit, pairs)
    (head, best), *others = surely
    more = [text("; {} in {}", code(one), with_interval(row.rate, row.interval)) for one, row in others]
    return text(
        "Among single heads, {} flips the {} most often: in {} of {} ({}){}{}.",
        code(head),
        quote(name),
        number(best.rate, percent),
        pairs,
        interval(best.interval),
        control_of(best),
        join("", more),
    )


def control_of(row: Rate | Mover) -> Text:
    """How often the same answer digit changes when the source has the same carry."""
    control = row.control if isinstance(row, (Strongest, Mover)) else None
    if control is None:
        return Text()
    return text(
        "; patched from a sum with another digit and the same carry, that digit changes in {}",
        with_interval(control.rate, control.interval),
    )


def control_table(contrasts: Sequence[Contrast]) -> Table | None:
    """All heads of a kind patched together: flips of the carry, changes of the digit, and flips of the digits."""
    rows = [
        row
        for contrast in contrasts
        if contrast.control and contrast.control.usable
        for control in contrast.control.rows
        for row in control_row(contrast, control)
    ]
    columns = [
        *words("contrast", "patched"),
        *map(Column, ("carry flipped", "digit changed, same carry", "digits of the column flipped")),
        *words("reading"),
    ]
    title = "Heads of one kind patched together, against controls with the same carry"
    still = [row for row in rows if str(row[-1]) == STILL]
    first = [row for row in rows if row not in still]
    others = "The other kinds flip nothing." if still else ""
    return Table(title, columns, [*first, *still], len(first), others) if rows else None


def control_row(contrast: Contrast, control: ControlRow) -> list[list[Words]]:
    patched = next((row for row in contrast.rows if row.who == control.who), None)
    if patched is None or not control.who.startswith("all "):
        return []
    rates = [with_interval(one.rate, one.interval) for one in (patched, control, control.digits)]
    return [[quote(contrast.name), quote(control.who), *rates, quote(control.reading)]]
