"""Sentences about why a model fails at a length: the head that changes first, and the causal test."""

from collections.abc import Iterator, Sequence

from headway.narration.numbers import (
    NONE,
    Form,
    hundredths,
    interval,
    number,
    p_value,
    percent,
    points,
    signed,
    size,
    with_interval,
)
from headway.narration.text import Text, Words, code, listed, text
from headway.results.mechanism import NOT_SHOWN, WHY, Change, Check, Mechanism, Repair
from headway.results.schema import Interval

REPAIRS = {"reach": "seeing no further than at {}", "profile": "attending by offset as on average at {}"}
SHAMS = {"reach": "with as many keys hidden at random", "profile": "with the same weights at other offsets"}
CAUSES = {
    "reach": ("what this head sees further away", "what these heads see further away"),
    "profile": ("where this head looks", "where these heads look"),
}
"""What a repair restores, for one head and for several."""


def tell(found: Mechanism) -> list[Text]:
    """The findings as sentences: whether it fails, which head changes first, and what ablation and repair do."""
    return [failing(found), *crops(found), changed(found), *without(found), *repaired(found)]


def failing(found: Mechanism) -> Text:
    base = found.at(found.reference)
    start = text(
        "Accuracy at {} (set {}) is {}",
        number(base.length),
        repr(str(found.set_name)),
        with_interval(base.accuracy, base.interval),
    )
    if found.fails_at is None:
        longest = number(max(row.length for row in found.lengths))
        return text("{}; no tested length up to {} is significantly worse and below 99 %.", start, longest)
    fails = found.at(found.fails_at)
    return text(
        "{}; the first length that fails is {}: {}. The mean margin of the right answer goes from {} to {}.",
        start,
        number(found.fails_at),
        with_interval(fails.accuracy, fails.interval),
        number(base.margin, points),
        number(fails.margin, points),
    )


def crops(found: Mechanism) -> Iterator[Text]:
    """The cost of length alone: the accuracy on crops of training length from the failing sequences."""
    fails = None if found.fails_at is None else found.at(found.fails_at)
    if fails is None or fails.crops is None:
        return
    cropped = fails.crops
    lost = 100 * (found.at(found.reference).accuracy - fails.accuracy)
    yield text(
        "On crops of {} from the same sequences it is {}: of {} points lost, length alone costs {}{}.",
        number(found.reference),
        with_interval(cropped.accuracy, cropped.interval),
        number(lost, points),
        with_interval(cropped.rise, cropped.rise_interval, points),
        ", and their content the rest" if cropped.rise < lost else "",
    )


def changed(found: Mechanism) -> Text:
    first, large = found.first, found.large
    if first is None:
        return text(
            "No single head is shown to change by more than {} in its attention scores, or by more than {} of the "
            "margin in its effect ({} comparisons, Holm).",
            number(large.attention),
            number(large.effect),
            number(found.family),
        )
    if first.about == "effect":
        return text(
            "The attention of no head changes up to {}, but the effect of {} does: the margin lost without it "
            "({} ablation) is {} of the margin at {}, {} {} {}.",
            number(first.length),
            code(first.head),
            first.what,
            number(first.after, hundredths),
            number(found.reference),
            number(first.before, hundredths),
            found.against(first.length),
            how_sure(first),
        )
    where, sure = look(found, first), how_sure(first)
    return text(
        "{} changes first, at {}: {} {}.{}", code(first.head), number(first.length), where, sure, also(found, first)
    )


def how_sure(first: Change) -> Text:
    relative = "" if first.about == "effect" or first.what == "entropy" else " relative to uniform attention"
    by, p = with_span(first.change, first.interval, hundredths), number(first.p_holm, p_value)
    return text("(change{} {}; Holm p {})", relative, by, p)


def look(found: Mechanism, first: Change) -> Text:
    then = found.against(first.length)
    row = None if first.what == "entropy" else found.head(first.head).scores[first.what][found.place(first.length)]
    if row is None:
        entropies = (number(first.after, hundredths), number(first.before, hundredths))
        return text("the entropy of its attention is {} of the largest possible, {} {}", *entropies, then)
    return text(
        "it puts {} of its attention on the {} (uniform attention: {}), {} {} (uniform: {})",
        number(row.share, hundredths),
        first.what.replace("_", " "),
        shown(row.even),
        shown(row.share_before),
        then,
        shown(row.even_before),
    )


def shown(share: float | None) -> Words:
    return NONE if share is None else number(share, hundredths)


def also(found: Mechanism, first: Change) -> Words:
    """How many other heads change their attention at the same length."""
    others = {change.head for change in found.changes if (change.length, change.about) == (first.length, "attention")}
    more = len(others - {first.head})
    if not more:
        return ""
    does = "does" if more == 1 else "do"
    return text(" So {} {} more of {} heads at that length.", does, number(more), size(found.heads))


def without(found: Mechanism) -> Iterator[Text]:
    """Accuracy at the failing length without the head that changed first."""
    first, fails_at = found.first, found.fails_at
    if first is None or fails_at is None:
        return
    if first.length > fails_at:
        yield text("That is beyond {}, so it is not why the model fails there.", number(fails_at))
        return
    place = found.place(fails_at)
    kinds = found.head(first.head).effects
    shown = [text("{} ({})", number(along[place].accuracy, percent), kind) for kind, along in kinds.items()]
    yield text("Without {} accuracy at {} is {}.", code(first.head), number(fails_at), listed(shown))


def repaired(found: Mechanism) -> Iterator[Text]:
    """The best repair of the fewest heads, its sham, and the conclusion."""
    check = found.check
    if check is None:
        return
    base, length, tried = number(found.reference), number(check.length), size(check.repairs)
    helping = [row for row in check.repairs if row.at.rise_interval[0] > check.helps]
    if not helping:
        yield text(
            "Making heads attend as at {} (within its reach, or by its mean profile; {} repairs tried) does not "
            "significantly raise accuracy at {}: their attention is not shown to be why it fails.",
            base,
            tried,
            length,
        )
        return
    chosen = best_shown([row for row in helping if row.claim != NOT_SHOWN] or helping)
    at, low_high = chosen.at, interval(chosen.at.rise_interval, signed(points))
    yield text(
        "With {} {}, accuracy at {} is {}: {} points ({}; {} repairs tried); a sham repair of the same heads ({}) "
        "gains {}. {}",
        chosen.who,
        text(REPAIRS[chosen.repair], base),
        length,
        with_interval(at.accuracy, at.interval),
        number(at.rise, signed(points)),
        low_high,
        tried,
        SHAMS[chosen.repair],
        of_sham(chosen),
        concluded(found, check, chosen),
    )


def of_sham(row: Repair) -> Words:
    if row.sham is None:
        return "nothing measured"
    return with_interval(row.sham.rise, row.sham.rise_interval, signed(points))


def best_shown(rows: Sequence[Repair]) -> Repair:
    """Among the repairs as good as the best, the one with the strongest claim, then with the fewest heads."""
    best = max(row.at.rise_interval[0] for row in rows)
    as_good = [row for row in rows if row.at.rise >= best]
    return min(as_good, key=lambda row: (row.claim != WHY, len(row.heads), -row.at.rise))


def concluded(found: Mechanism, check: Check, row: Repair) -> Text:
    cause = CAUSES[row.repair][len(row.heads) != 1]
    same, sham = row.equivalence, row.sham
    if row.claim == NOT_SHOWN or same is None or sham is None:
        above = "" if sham is None else text(" ({})", with_span(sham.repair_above, sham.repair_above_interval))
        return text(
            "The repair is not significantly better by more than {} point{}, so {} is not shown to be why it fails.",
            number(check.helps),
            above,
            cause,
        )
    return text(
        "Accuracy is {}within {} points of that at {} (difference {}){}. So {} is {} it fails at {}.",
        "" if same.equivalent else "not shown to be ",
        number(check.equivalent_within),
        number(found.reference),
        with_span(same.difference, same.interval),
        "" if row.claim == WHY or not same.equivalent else ", but the sham helps significantly too",
        cause,
        row.claim,
        number(check.length),
    )


def with_span(value: float, ends: Interval, form: Form = points) -> Text:
    """`+1.5, +0.21 to +3.0`: a difference and its interval, both with signs."""
    return text("{}, {}", number(value, signed(form)), interval(ends, signed(form)))
