"""Why a model fails at a length, in sentences: the head that changed first, its numbers, and what the check says."""

from collections.abc import Iterator, Sequence

from headway.length_analysis.repair import NOT_SHOWN, WHY
from headway.results.mechanism import Change, Check, Counted, Mechanism, Repair
from headway.results.schema import Interval

REPAIRS = {"reach": "seeing no further than at {}", "profile": "looking by offset as on average at {}"}
SHAMS = {"reach": "with as many keys hidden at random", "profile": "with the same weights at other offsets"}
CAUSES = {
    "reach": ("what this head sees further away", "what these heads see further away"),
    "profile": ("where this head looks", "where these heads look"),
}
"""What a repair puts right, of one head and of several."""


def tell(found: Mechanism) -> list[str]:
    """The findings as sentences: does it fail, which head changed first, what if it is taken away or put right."""
    return [_failing(found), *_crops(found), _changed(found), *_without(found), *_repaired(found)]


def _failing(found: Mechanism) -> str:
    base = found.at(found.reference)
    start = f"Accuracy at {base.length} (set {found.set_name!r}) is {_accuracy(base)}"
    if found.fails_at is None:
        longest = max(row.length for row in found.lengths)
        return f"{start}; no tested length up to {longest} is significantly worse and below 99 %."
    failing = found.at(found.fails_at)
    return (
        f"{start}; the first length that fails is {found.fails_at}: {_accuracy(failing)}. "
        f"The mean margin of the right answer goes from {base.margin:.1f} to {failing.margin:.1f}."
    )


def _crops(found: Mechanism) -> Iterator[str]:
    """What length alone costs: how much better crops of the failing sequences do, as long as in training."""
    failing = None if found.fails_at is None else found.at(found.fails_at)
    if failing is None or failing.crops is None:
        return
    crops, (low, high) = failing.crops, failing.crops.rise_interval
    lost = 100 * (found.at(found.reference).accuracy - failing.accuracy)
    rest = ", and what stands in them the rest" if crops.rise < lost else ""
    yield (
        f"On pieces of {found.reference} out of the same sequences it is {_accuracy(crops)}: of {lost:.1f} points "
        f"lost, length alone costs {crops.rise:.1f} ({low:.1f} to {high:.1f}){rest}."
    )


def _changed(found: Mechanism) -> str:
    first, large = found.first, found.large
    if first is None:
        return (
            f"No head by itself surely changes by more than {large.attention:g} in where it looks, as these scores "
            f"see it, or by more than {large.effect:g} of the margin in what it brings ({found.family:,} "
            "comparisons, Holm)."
        )
    low, high = first.interval
    relative = "" if first.about == "effect" or first.what == "entropy" else " against even attention"
    sure = f"(change{relative} {first.change:+.2f}, {low:+.2f} to {high:+.2f}; Holm p {_p(first.p_holm)})"
    if first.about == "effect":
        return (
            f"No head looks elsewhere up to {first.length}, but {first.head} brings something else: what the "
            f"margin loses without it ({first.what} ablation) is {first.after:.2f} of the margin at "
            f"{found.reference}, {first.before:.2f} {found.against(first.length)} {sure}."
        )
    return f"{first.head} changes first, at {first.length}: {_look(found, first)} {sure}.{_also(found, first)}"


def _look(found: Mechanism, first: Change) -> str:
    then = found.against(first.length)
    row = None if first.what == "entropy" else found.head(first.head).scores[first.what][found.place(first.length)]
    if row is None:
        return f"the entropy of its attention is {first.after:.2f} of the largest possible, {first.before:.2f} {then}"
    return (
        f"it puts {row.share:.2f} of its attention on the {first.what.replace('_', ' ')} "
        f"(even attention: {row.even:.2f}), {row.share_before:.2f} {then} (even: {row.even_before:.2f})"
    )


def _also(found: Mechanism, first: Change) -> str:
    """How many other heads look elsewhere at the same length."""
    others = {change.head for change in found.changes if (change.length, change.about) == (first.length, "attention")}
    more = len(others - {first.head})
    if not more:
        return ""
    return f" So {'does' if more == 1 else 'do'} {more} more of {len(found.heads)} heads at that length."


def _without(found: Mechanism) -> Iterator[str]:
    """What the failing length is like without the head that changed first."""
    first, fails_at = found.first, found.fails_at
    if first is None or fails_at is None:
        return
    if first.length > fails_at:
        yield f"That is past {fails_at}, so it is not why the model fails there."
        return
    place = found.place(fails_at)
    kinds = found.head(first.head).effects
    shown = " and ".join(f"{100 * along[place].accuracy:.1f} % ({kind})" for kind, along in kinds.items())
    yield f"Without {first.head} accuracy at {fails_at} is {shown}."


def _repaired(found: Mechanism) -> Iterator[str]:
    """The repair of the fewest heads that is as good as the best, its sham, and what follows."""
    check = found.check
    if check is None:
        return
    base, length, tried = found.reference, check.length, len(check.repairs)
    helping = [row for row in check.repairs if row.at.rise_interval[0] > check.helps]
    if not helping:
        yield (
            f"Making heads look as they did at {base} (within its reach, or by its mean profile; {tried} repairs "
            f"tried) does not surely raise accuracy at {length}: where they look is not shown to be why it fails."
        )
        return
    chosen = _told([row for row in helping if row.claim != NOT_SHOWN] or helping)
    at, (low, high) = chosen.at, chosen.at.rise_interval
    yield (
        f"With {chosen.who} {REPAIRS[chosen.repair].format(base)}, accuracy at {length} is {_accuracy(at)}: "
        f"{at.rise:+.1f} points ({low:+.1f} to {high:+.1f}; {tried} repairs tried); a sham repair of the same "
        f"heads ({SHAMS[chosen.repair]}) brings {_sham(chosen)}. {_concluded(base, check, chosen)}"
    )


def _sham(row: Repair) -> str:
    if row.sham is None:
        return "nothing that was measured"
    low, high = row.sham.rise_interval
    return f"{row.sham.rise:+.1f} ({low:+.1f} to {high:+.1f})"


def _told(rows: Sequence[Repair]) -> Repair:
    """Of the repairs that are as good as the best, one that shows most, then that of the fewest heads."""
    best = max(row.at.rise_interval[0] for row in rows)
    as_good = [row for row in rows if row.at.rise >= best]
    return min(as_good, key=lambda row: (row.claim != WHY, len(row.heads), -row.at.rise))


def _concluded(base: int, check: Check, row: Repair) -> str:
    cause = CAUSES[row.repair][len(row.heads) != 1]
    same, sham = row.equivalence, row.sham
    if row.claim == NOT_SHOWN or same is None or sham is None:
        above = "" if sham is None else f" ({_with_span(sham.repair_above, sham.repair_above_interval)})"
        more = f"by more than {check.helps:g} point{above}"
        return f"The repair is not surely better {more}, so {cause} is not shown to be why it fails."
    shown = "" if same.equivalent else "not shown to be "
    difference = _with_span(same.difference, same.interval)
    also = "" if row.claim == WHY or not same.equivalent else ", but the sham surely helps too"
    return (
        f"Accuracy is {shown}within {check.equivalent_within:g} points of that at {base} (difference {difference})"
        f"{also}. So {cause} is {row.claim} it fails at {check.length}."
    )


def _with_span(value: float, interval: Interval) -> str:
    return f"{value:+.1f}, {interval[0]:+.1f} to {interval[1]:+.1f}"


def _accuracy(row: Counted) -> str:
    low, high = row.interval
    return f"{100 * row.accuracy:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
