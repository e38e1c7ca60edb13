"""Sentences about a proof."""

from collections.abc import Iterator

from headway.narration.numbers import decimal, duration, number
from headway.narration.text import Text, code, quote, text
from headway.results.proof import Check, Counterexample, Proof

SHOWN = 5
"""Counterexamples that are shown."""


def proved(found: Proof) -> Iterator[Text]:
    """The answer, its evidence and its limits."""
    if found.answer == "proved":
        yield from _proof(found)
    elif found.answer == "counterexample":
        yield text("counterexample: the model is not right on {}.", found.scope)
    else:
        yield text("undecided: {} of {} contexts are open.", number(found.open_contexts), number(found.contexts))
        yield text(
            "{} {} inputs built from open contexts were run: none is wrong.",
            found.missing or "",
            number(found.searched),
        )
    yield from map(_counterexample, found.counterexamples[:SHOWN])


def _proof(found: Proof) -> Iterator[Text]:
    assert found.margin is not None and found.rounding is not None
    yield text("proved: right on {}.", found.scope)
    yield text(
        "{} contexts, smallest margin {} logits, of which {} are allowed for rounding ({} measured).",
        number(found.contexts),
        number(found.margin, decimal),
        number(found.rounding.allowance, _small),
        number(found.rounding.measured, _small),
    )
    if first_order(found):
        yield text("That is twice the linear effect of rounding errors, not a rigorous bound.")
    if found.worst_context is not None:
        yield text("The smallest margin is at {}.", found.worst_context)
    yield text("Method: {}; {}, {}.", found.method, found.arithmetic, number(found.seconds, duration))


def first_order(found: Proof) -> bool:
    """Whether something is proved with an allowance that is no rigorous bound of rounding."""
    return found.rounding is not None and found.rounding.strength == "first-order"


def _counterexample(found: Counterexample) -> Text:
    return text(
        "  {} -> {}, answered {} (margin {})",
        code(found.input),
        quote(found.expected),
        quote(found.answered),
        number(found.margin, decimal),
    )


def checked(found: Check) -> Iterator[Text]:
    """Whether a certificate holds, and the reasons if not."""
    if not found.holds:
        yield text("{} does not hold.", found.certificate)
        yield from (text("  {}", reason) for reason in found.reasons)
        return
    yield text(
        "{} holds: {} contexts, smallest margin {} logits.",
        found.certificate,
        number(found.contexts),
        number(found.margin or 0.0, decimal),
    )
    yield text("Checked by {}, {}.", found.method, number(found.seconds, duration))


def _small(value: float) -> str:
    return f"{value:.2g}"
