"""Why a model fails at a length, in sentences: the head that changed first, its numbers, and what the check says."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headway.length_analysis.repair import NOT_SHOWN, WHY

Found = Mapping[str, Any]

REPAIRS = {"reach": "seeing no further than at {}", "profile": "looking by offset as on average at {}"}
SHAMS = {"reach": "with as many keys hidden at random", "profile": "with the same weights at other offsets"}
CAUSES = {
    "reach": ("what this head sees further away", "what these heads see further away"),
    "profile": ("where this head looks", "where these heads look"),
}
"""What a repair puts right, of one head and of several."""


def tell(found: Found) -> list[str]:
    """The findings as sentences: does it fail, which head changed first, what if it is taken away or put right."""
    return [_failing(found), *_pieces(found), _changed(found), *_without(found), *_repaired(found)]


def _failing(found: Found) -> str:
    rows = {row["length"]: row for row in found["lengths"]}
    base, longest = found["reference"], max(rows)
    start = f"Accuracy at {base} (set {found['set']!r}) is {_accuracy(rows[base])}"
    if found["fails_at"] is None:
        return f"{start}; no tested length up to {longest} is significantly worse and below 99 %."
    failing = rows[found["fails_at"]]
    return (
        f"{start}; the first length that fails is {found['fails_at']}: {_accuracy(failing)}. "
        f"The mean margin of the right answer goes from {rows[base]['margin']:.1f} to {failing['margin']:.1f}."
    )


def _pieces(found: Found) -> Iterator[str]:
    """What length alone costs: how much better pieces of the failing sequences do, as long as in training."""
    rows = {row["length"]: row for row in found["lengths"]}
    base, failing = rows[found["reference"]], rows.get(found["fails_at"])
    if failing is None or failing["pieces"] is None:
        return
    pieces, (low, high) = failing["pieces"], failing["pieces"]["rise_interval"]
    lost = 100 * (base["accuracy"] - failing["accuracy"])
    rest = ", and what stands in them the rest" if pieces["rise"] < lost else ""
    yield (
        f"On pieces of {found['reference']} out of the same sequences it is {_accuracy(pieces)}: of {lost:.1f} points "
        f"lost, length alone costs {pieces['rise']:.1f} ({low:.1f} to {high:.1f}){rest}."
    )


def _changed(found: Found) -> str:
    first, large = found["first"], found["large"]
    if first is None:
        return (
            f"No head by itself surely changes by more than {large['attention']:g} in where it looks, as these scores "
            f"see it, or by more than {large['effect']:g} of the margin in what it brings ({found['family']:,} "
            "comparisons, Holm)."
        )
    low, high = first["interval"]
    relative = "" if first["about"] == "effect" or first["what"] == "entropy" else " against even attention"
    sure = f"(change{relative} {first['change']:+.2f}, {low:+.2f} to {high:+.2f}; Holm p {_p(first['p_holm'])})"
    if first["about"] == "effect":
        return (
            f"No head looks elsewhere up to {first['length']}, but {first['head']} brings something else: what the "
            f"margin loses without it ({first['what']} ablation) is {first['after']:.2f} of the margin at "
            f"{found['reference']}, {first['before']:.2f} {_held_against(found, first)} {sure}."
        )
    return f"{first['head']} changes first, at {first['length']}: {_look(found, first)} {sure}.{_also(found)}"


def _look(found: Found, first: Found) -> str:
    then = _held_against(found, first)
    if first["what"] == "entropy":
        return (
            f"the entropy of its attention is {first['after']:.2f} of the largest possible, "
            f"{first['before']:.2f} {then}"
        )
    place = [row["length"] for row in found["lengths"]].index(first["length"])
    row = next(row for row in found["heads"] if row["head"] == first["head"])["scores"][first["what"]][place]
    return (
        f"it puts {row['share']:.2f} of its attention on the {first['what'].replace('_', ' ')} "
        f"(even attention: {row['even']:.2f}), {row['share_before']:.2f} {then} (even: {row['even_before']:.2f})"
    )


def _held_against(found: Found, first: Found) -> str:
    row = next(row for row in found["lengths"] if row["length"] == first["length"])
    return f"at {found['reference']}" if row["pieces"] is None else f"on pieces of {found['reference']}"


def _also(found: Found) -> str:
    """How many other heads look elsewhere at the same length."""
    first = found["first"]
    others = {
        change["head"]
        for change in found["changes"]
        if change["length"] == first["length"] and change["about"] == "attention" and change["head"] != first["head"]
    }
    if not others:
        return ""
    return (
        f" So {'does' if len(others) == 1 else 'do'} {len(others)} more of {len(found['heads'])} heads at that length."
    )


def _without(found: Found) -> Iterator[str]:
    """What the failing length is like without the head that changed first."""
    first, fails_at = found["first"], found["fails_at"]
    if first is None or fails_at is None:
        return
    if first["length"] > fails_at:
        yield f"That is past {fails_at}, so it is not why the model fails there."
        return
    place = [row["length"] for row in found["lengths"]].index(fails_at)
    kinds = next(row for row in found["heads"] if row["head"] == first["head"])["effects"]
    shown = " and ".join(f"{100 * along[place]['accuracy']:.1f} % ({kind})" for kind, along in kinds.items())
    yield f"Without {first['head']} accuracy at {fails_at} is {shown}."


def _repaired(found: Found) -> Iterator[str]:
    """The repair of the fewest heads that is as good as the best, its sham, and what follows."""
    if found["check"] is None:
        return
    base, length, rows = found["reference"], found["check"]["length"], found["check"]["repairs"]
    helping = [row for row in rows if row["at"]["rise_interval"][0] > found["check"]["helps"]]
    if not helping:
        yield (
            f"Making heads look as they did at {base} (within its reach, or by its mean profile; {len(rows)} repairs "
            f"tried) does not surely raise accuracy at {length}: where they look is not shown to be why it fails."
        )
        return
    chosen = _told([row for row in helping if row["claim"] != NOT_SHOWN] or helping)
    at, sham, (low, high) = chosen["at"], chosen["sham"], chosen["at"]["rise_interval"]
    sham_low, sham_high = sham["rise_interval"]
    yield (
        f"With {chosen['who']} {REPAIRS[chosen['repair']].format(base)}, accuracy at {length} is {_accuracy(at)}: "
        f"{at['rise']:+.1f} points ({low:+.1f} to {high:+.1f}; {len(rows)} repairs tried); a sham repair of the same "
        f"heads ({SHAMS[chosen['repair']]}) brings {sham['rise']:+.1f} ({sham_low:+.1f} to {sham_high:+.1f}). "
        f"{_concluded(found, chosen)}"
    )


def _told(rows: Sequence[Found]) -> Found:
    """Of the repairs that are as good as the best, one that shows most, then that of the fewest heads."""
    best = max((row["at"] for row in rows), key=lambda at: float(at["rise_interval"][0]))
    as_good = [row for row in rows if row["at"]["rise"] >= best["rise_interval"][0]]
    return min(as_good, key=lambda row: (row["claim"] != WHY, len(row["heads"]), -row["at"]["rise"]))


def _concluded(found: Found, row: Found) -> str:
    base, length, within = found["reference"], found["check"]["length"], found["check"]["equivalent_within"]
    cause = CAUSES[row["repair"]][len(row["heads"]) != 1]
    if row["claim"] == NOT_SHOWN:
        above = _with_span(row["sham"]["repair_above"], row["sham"]["repair_above_interval"])
        more = f"by more than {found['check']['helps']:g} point"
        return f"The repair is not surely better {more} ({above}), so {cause} is not shown to be why it fails."
    same = row["equivalence"]
    shown = "" if same["equivalent"] else "not shown to be "
    difference = _with_span(same["difference"], same["interval"])
    also = "" if row["claim"] == WHY or not same["equivalent"] else ", but the sham surely helps too"
    return (
        f"Accuracy is {shown}within {within:g} points of that at {base} (difference {difference}){also}. "
        f"So {cause} is {row['claim']} it fails at {length}."
    )


def _with_span(value: float, interval: Sequence[float]) -> str:
    return f"{value:+.1f}, {interval[0]:+.1f} to {interval[1]:+.1f}"


def _accuracy(row: Found) -> str:
    low, high = row["interval"]
    return f"{100 * row['accuracy']:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
