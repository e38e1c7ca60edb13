"""Sentences and tables about an attack: the failing inputs, the inputs tried, and the fall of the smallest margin."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from headway.narration.numbers import NONE, computed, counted, duration, hundredths, lowest, number
from headway.narration.tables import Column, Table, words
from headway.narration.text import Strong, Text, Words, code, join, listed, text
from headway.results.attack import Attack, FailingInput, FamilyRow, MarginFall

PROVES_NOTHING = "An attack that finds nothing proves nothing: other inputs may fail."
IN_A_BATCH = " in a batch with others"
LONGEST_SHOWN = 160
"""Characters of an input or an answer that are shown."""
POINTS = 8
"""Points of the trace that are shown."""
ENDS = {
    "time": "the time budget was used up",
    "tries": "the tries were used up",
    "failures": "every length had enough failures",
    "inputs": "no new input was left to try",
    "interrupted": "it was interrupted",
}


def attacked(found: Attack, name: str) -> Text:
    """The number of inputs tried, their lengths, and the number of failures."""
    return text(
        "{} (step {}): {} tried{} in {}; {}; smallest margin {}.",
        code(name),
        number(found.step),
        counted(found.tried, "different input"),
        where(found),
        number(found.took, duration),
        failures(found),
        NONE if found.smallest_margin is None else number(found.smallest_margin, hundredths),
    )


def failures(found: Attack) -> Text:
    """How many of the inputs fail. What fails only in a batch is a tie of logits."""
    if not found.found:
        return text("none of them fails")
    return text("{} of them {}{}", number(found.found), _fail(found.found), "" if found.broken else IN_A_BATCH)


def _fail(count: int) -> str:
    return "fails" if count == 1 else "fail"


def where(found: Attack) -> Text:
    if not found.lengths:
        return text("")
    shown = [number(length) for length in found.lengths]
    several: Words = listed(shown) if len(shown) < 4 else text("{} lengths from {} to {}", *_range_of(found))
    return text(" at {} {}", several, found.unit or "")


def _range_of(found: Attack) -> tuple[Words, Words, Words]:
    return computed(len(found.lengths), "size", [found.lengths]), number(found.lengths[0]), number(found.lengths[-1])


def outcome(found: Attack) -> Text:
    """Whether a failing input was found, and how many seemed to fail."""
    if found.broken:
        n = computed(len(found.counterexamples), "size", [found.counterexamples])
        fail = _fail(len(found.counterexamples))
        shown = text("{} shown below, {}, {} when asked alone", n, simplified(found), fail)
        return text("{} The {}.", Strong("It gives wrong answers."), shown)
    left = found.found - found.unconfirmed
    rest = text("; {} more {} not asked alone", number(left), "was" if left == 1 else "were") if left > 0 else text("")
    lost = text(" {} failed only in a batch with other inputs, by ties of logits{}.", number(found.unconfirmed), rest)
    return text("{} {}{}", Strong("No failing input was found."), PROVES_NOTHING, lost if found.unconfirmed else "")


def simplified(found: Attack) -> str:
    """How far the failing inputs were simplified: not at all after Ctrl-C, and only until the time was used up."""
    if found.ended == "interrupted":
        return "not simplified"
    return f"simplified as far as {'the time allowed' if found.took >= found.seconds else 'possible'}"


def failing(one: FailingInput) -> Text:
    """A failing input, the right answer, the model's answer, and how it was found."""
    how = "by hill climbing, from family" if one.climbed else "in family"
    return text(
        "{} -> {}, answered {} (margin {}; found {} {} after {}{})",
        code(cut(one.input)),
        code(cut(one.expected)),
        code(cut(one.answered)),
        number(one.margin, hundredths),
        how,
        code(one.family),
        counted(one.tried, "input"),
        text(" at length {}", number(one.length)) if one.length is not None else "",
    )


def cut(words: str) -> str:
    return words if len(words) <= LONGEST_SHOWN else f"{words[:LONGEST_SHOWN]} ..."


def family_table(found: Attack) -> Table:
    """Every family, over all lengths."""
    rows = [[code(name), own[0].about, *_counts(own)] for name, own in _grouped(found.families, lambda row: row.family)]
    return Table("Inputs tried, by family", [*words("family", "inputs"), *COUNTED], rows)


def length_table(found: Attack) -> Table | None:
    """Every length, over all families; None if the task has one length."""
    if not found.lengths:
        return None
    rows = [[number(own[0].length or 0), *_counts(own)] for _, own in _grouped(found.families, lambda row: row.length)]
    return Table("Inputs tried, by length", [Column(found.unit or "length"), *COUNTED], rows)


COUNTED = [Column(title) for title in ("drawn", "climbed", "fail", "smallest margin")]


def _grouped(rows: Iterable[FamilyRow], key: Callable[[FamilyRow], Hashable]) -> list[tuple[str, list[FamilyRow]]]:
    groups: dict[Hashable, list[FamilyRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return [(str(name), own) for name, own in groups.items()]


def _counts(rows: Sequence[FamilyRow]) -> list[Words]:
    sums = [[getattr(row, name) for row in rows] for name in ("drawn", "climbed", "found")]
    margins = [row.smallest_margin for row in rows if row.smallest_margin is not None]
    shown: list[Words] = [computed(sum(one), "sum", one) for one in sums]
    if all(row.whole for row in rows):
        shown[0] = text("all {}", shown[0])
    return [*shown, lowest(margins, hundredths) if margins else NONE]


def trace(found: Attack) -> Text | None:
    """The fall of the smallest margin, by at most `POINTS` points including the first and the last."""
    if not found.trace:
        return None
    last = len(found.trace) - 1
    chosen = sorted({round(last * place / (POINTS - 1)) for place in range(POINTS)}) if last else [0]
    points = [_point(found.trace[place]) for place in chosen]
    return text("The smallest margin fell: {}.", join(", ", points))


def _point(fall: MarginFall) -> Text:
    return text("{} after {}", number(fall.margin, hundredths), number(fall.tried))


def ended(found: Attack) -> Text:
    return text("It ended because {}; seed {}.", ENDS[found.ended], number(found.attack_seed))


def story(found: Attack, name: str) -> Iterator[Text]:
    """The sentences before the tables and the failing inputs."""
    yield attacked(found, name)
    yield outcome(found)


def afterwards(found: Attack) -> Iterator[Text]:
    fell = trace(found)
    if fell is not None:
        yield fell
    yield ended(found)
