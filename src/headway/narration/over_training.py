"""Sentences about heads over training."""

from collections.abc import Iterator

from headway.narration.numbers import number, percent, points
from headway.narration.text import Text, code, text
from headway.results.over_training import OverTraining


def over_training(found: OverTraining) -> Iterator[Text]:
    """When the accuracy jumped, and when the followed head formed."""
    yield text("{} steps of {}, from {} to {}.", number(len(found.steps)), code(found.run), *_ends(found))
    jump = found.jump
    if jump is None:
        yield text("The accuracy does not end above 50 %: it is {}.", number(found.steps[-1].accuracy, percent))
    else:
        yield text("The accuracy stays above 50 % from step {}.", number(jump))
    head = found.followed
    if head is None:
        yield text("No pair of a contrast is answered right at the last step, so no head is followed.")
        return
    yield text("{} flips the {} most often at the last step.", code(head), found.subject or "answer")
    formed = {
        "drop in accuracy": found.formed(found.drops_of(head)),
        "flip rate": found.formed(found.rates_of(head)),
        "share of the logit difference": found.formed(found.effects_of(head)),
    }
    for what, step in formed.items():
        if step is not None:
            yield text("Its {} stays above half of its final value from step {}.", what, number(step))


def _ends(found: OverTraining) -> tuple[Text, Text]:
    first, last = found.steps[0], found.steps[-1]
    return (
        text("step {} ({} right)", number(first.step), number(first.accuracy, percent)),
        text("step {} ({} right)", number(last.step), number(last.accuracy, percent)),
    )


def rows(found: OverTraining) -> Iterator[str]:
    """One line for each step: accuracy, the largest drop, and the followed head."""
    head = found.followed
    rates = found.rates_of(head) if head else [None] * len(found.steps)
    yield f"{'step':>8} {'accuracy':>9}  {'largest drop':<24} {'flip rate':>9}"
    for one, rate in zip(found.steps, rates, strict=True):
        largest = max(range(len(found.heads)), key=lambda index: one.drops[index])
        shown = f"{found.heads[largest]} {points(one.drops[largest])}"
        yield f"{one.step:>8,} {percent(one.accuracy):>9}  {shown:<24} {'-' if rate is None else percent(rate):>9}"
