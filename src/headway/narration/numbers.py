"""Formats of numbers, and numbers as nodes of a sentence."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence

from headway.narration.places import place_of
from headway.narration.text import Aside, Number, Text, Words, text

Form = Callable[[float], str]
"""A function that formats a number."""
NONE = "–"
"""Text for a missing number."""


def whole(value: float) -> str:
    """An integer, or a number with a fraction.

    >>> whole(810000), whole(64.0), whole(2.5)
    ('810,000', '64', '2.5')
    """
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,g}"


def percent(share: float) -> str:
    """Per cent with as many decimals (at most six) as distinguish it from 0 and 100; also outside of 0 to 100.

    >>> percent(1), percent(0.998083), percent(0.9999952), percent(0.95), percent(0.0004), percent(-0.02)
    ('100 %', '99.81 %', '99.99952 %', '95 %', '0.040 %', '−2 %')
    >>> percent(0.999)  # exactly
    '99.9 %'
    """
    per_cent = round(100.0 * share, 9)
    if per_cent.is_integer():
        return minus(f"{per_cent + 0.0:,.0f} %")
    if not 0 < share < 1 or (per_cent > 1 and round(per_cent, 1) == per_cent):
        return minus(f"{per_cent:,.1f} %")
    decimals = max(1, min(6, math.ceil(-math.log10(max(min(share, 1 - share), 1e-9)) - 1e-6) - 1))
    return f"{per_cent:.{decimals}f} %"


def short_percent(share: float, decimals: int = 1) -> str:
    """Per cent without its sign, for a cell; 100 and 0 only if they are exact.

    >>> [short_percent(share) for share in (1.0, 0.9997, 0.5, 0.0)], short_percent(0.001, decimals=0)
    (['100', '>99.9', '50.0', '0.0'], '<1')
    """
    unit, rounded = 10**-decimals, round(100 * share, decimals)
    if share == 1 or 0 < rounded < 100 or share == 0:
        return "100" if share == 1 else f"{rounded:.{decimals}f}"
    return f">{100 - unit:g}" if share > 0.5 else f"<{unit:g}"


def percent_change(change: float) -> str:
    """A change in per cent: two significant digits, with a sign.

    >>> [percent_change(change) for change in (0.0312, -4.26, 12.3, 376.8, 6_628_740)]
    ['+0.03', '−4.3', '+12', '+380', '+6,600,000']
    """
    size = abs(change)
    decimals = 2 if size < 0.995 else 1 if size < 9.95 else -max(0, math.floor(math.log10(size)) - 1)
    rounded = round(change, decimals) + 0.0  # adding 0 makes -0 a plain 0
    return minus(f"{rounded:+,.{max(decimals, 0)}f}")


def points(value: float) -> str:
    """Percentage points: two decimals below 1, one from 1 on.

    >>> points(12.34), points(0.021), points(-0.5), points(-0.001)
    ('12.3', '0.02', '−0.50', '0.00')
    """
    return fixed(value, 1 if abs(value) >= 1 else 2)


def decimal(value: float) -> str:
    """Three significant digits.

    >>> decimal(0.96914), decimal(5.388e-09), decimal(3478.2)
    ('0.969', '5.39e−09', '3.48e03')
    """
    return minus(f"{value:.3g}").replace("e+", "e")


def thousandths(value: float) -> str:
    """Three decimals.

    >>> thousandths(0.96914), thousandths(-0.0001)
    ('0.969', '0.000')
    """
    return fixed(value, 3)


def hundredths(value: float) -> str:
    """Two decimals.

    >>> hundredths(0.96914), hundredths(-0.5)
    ('0.97', '−0.50')
    """
    return fixed(value, 2)


def p_value(value: float) -> str:
    """Three decimals, or `< 0.001`.

    >>> p_value(0.0213), p_value(1e-9)
    ('0.021', '< 0.001')
    """
    return "< 0.001" if value < 0.001 else fixed(value, 3)


def fixed(value: float, decimals: int) -> str:
    """A fixed number of decimals, without a minus before 0."""
    return minus(f"{round(value, decimals) + 0.0:.{decimals}f}")  # adding 0 makes -0 a plain 0


def signed(form: Form) -> Form:
    """The same format with a plus for positive numbers.

    >>> signed(points)(0.5), signed(points)(-12.34)
    ('+0.50', '−12.3')
    """
    return lambda value: "+" * (value > 0) + form(value)


def minus(written: str) -> str:
    """Replace hyphens by minus signs."""
    return written.replace("-", "−")


def duration(seconds: float) -> str:
    """A duration in words.

    >>> duration(0.42), duration(42), duration(348.7), duration(600), duration(10_000)
    ('0.4 s', '42 s', '5.8 min', '10 min', '2 h 47 min')
    """
    if seconds < 120:
        return f"{seconds:.{int(seconds < 10)}f} s"
    minutes = seconds / 60
    if minutes < 120:
        return f"{minutes:.{int(minutes < 9.95)}f} min"
    return f"{round(minutes) // 60:,} h {round(minutes) % 60} min"


def setting(value: object) -> str:
    """A setting as in a recipe.

    >>> setting(True), setting("pre"), setting(1e-07), setting(10000)
    ('true', 'pre', '1e-07', '10,000')
    """
    if isinstance(value, bool):
        return str(value).lower()
    return whole(value) if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


# Nodes


def number(value: float, form: Form = whole) -> Number:
    """A number with its place in its document, if it has one."""
    return Number(value, form(value), place_of(value))


def interval(ends: Sequence[float], form: Form = percent) -> Text:
    """Both ends: `14.5 to 17.7`."""
    return text("{} to {}", *(number(end, form) for end in ends))


def with_interval(value: float, ends: Sequence[float] | None, form: Form = percent) -> Text:
    """A number, and its interval in parentheses if there is one."""
    shown = number(value, form)
    return text("{} {}", shown, Aside(interval(ends, form))) if ends is not None else text("{}", shown)


def size(values: Collection[object]) -> Number:
    """The number of values."""
    return computed(len(values), "size", [values])


def count(rows: Iterable[object], attribute: str, value: str) -> Number:
    """The number of rows whose attribute has a value."""
    found = sum(getattr(row, attribute) == value for row in rows)
    place = place_of(rows)
    return Number(found, whole(found), f"count({place}, {attribute}={value})" if place else "")


def lowest(values: Iterable[float], form: Form = whole) -> Number:
    found = list(values)
    return computed(min(found), "lowest", found, form)


def highest(values: Iterable[float], form: Form = whole) -> Number:
    found = list(values)
    return computed(max(found), "highest", found, form)


def ratio(above: float, below: float) -> Number:
    return computed(above / below, "ratio", [above, below])


def spread(values: Sequence[float], form: Form) -> Text:
    """From the lowest to the highest, or the one value that all have."""
    low, high = lowest(values, form), highest(values, form)
    return text("{}", low) if low.written == high.written else text("{} to {}", low, high)


def computed(value: float, how: str, of: Sequence[object], form: Form = whole) -> Number:
    """A number computed from others; its place names the computation and their places."""
    places = [place_of(one) for one in of]
    return Number(value, form(value), f"{how}({', '.join(places)})" if all(places) else "")


def counted(value: float, word: str, plural: str = "") -> Text:
    """A number and its noun, in the plural if needed.

    >>> str(counted(1, "error")), str(counted(0, "error"))
    ('1 error', '0 errors')
    """
    return text("{} {}", number(value), word if value == 1 else plural or f"{word}s")


def or_none(shown: Words | None) -> Words:
    """A cell, or a dash for None."""
    return NONE if shown is None else shown
