"""Activation patching between pairs of examples that differ in one property; part of heads.json."""

from collections.abc import Mapping
from dataclasses import dataclass

from headway.results.analyses import Finding, View
from headway.results.schema import Interval, count, fact, fraction

SHOWN_CARRIERS = 24
"""Heads and contrasts in the explorer."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """The rate of an event over pairs."""

    flips: int = count("pairs with the event")
    rate: float = fraction("share of the usable pairs")
    interval: Interval = fraction("95 % interval of the share (Wilson)")


@dataclass(frozen=True, kw_only=True)
class Patched(Rate):
    """Patched heads, and how often the answer token becomes the source's.

    The rate is the interchange intervention accuracy.
    """

    who: str = fact("a head, a site, or all heads of a kind of attention")
    heads: tuple[str, ...] = fact("names of the heads")
    rate_each_way: tuple[float, float] = fraction(
        "rate if the source has the property of the contrast, and if the base has it", default=(0.0, 0.0)
    )

    effect: float | None = fact(
        "mean change of a real-valued metric as a share of the difference between source and base", optional=True
    )
    effect_interval: Interval | None = fact("95 % interval of the effect (Student and Hall)", optional=True)

    @property
    def is_single(self) -> bool:
        return self.heads == (self.who,)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The difference between the patch and its control, on the same bases."""

    n: int = count("pairs usable in both")
    value: float = fact("rate of the patch less that of the control")
    interval: Interval = fact("95 % interval (paired)")


@dataclass(frozen=True, kw_only=True)
class Control:
    """The same heads, patched from a source that differs at the same position with the same carry."""

    changed: int = count("pairs in which the answer token changes, which should not happen")
    rate: float = fraction("share of the usable pairs")
    interval: Interval = fraction("95 % interval of the share (Wilson)")
    digits: Rate = fact("rate at which the token that differs between base and control source becomes the source's")
    difference: Difference = fact("difference between the patch and its control")
    reading: str = fact("carry alone, carry and digits, unspecific, not moved, or undecided")


@dataclass(frozen=True, kw_only=True)
class ControlRow(Control):
    """The control of one group of heads."""

    who: str = fact("a head, a site, or all heads of a kind of attention")


@dataclass(frozen=True, kw_only=True)
class Controls:
    """The control of a contrast, for every group of heads."""

    n: int = count("pairs that have a control")
    usable: int = count("controls that the model answers correctly on both sides")
    digits_token: str = fact("answer token that differs between base and control source")
    rows: tuple[ControlRow, ...] = fact("every group of heads")


@dataclass(frozen=True, kw_only=True)
class Strongest(Rate):
    """The head with the most flips on one half of the pairs, measured on the other half."""

    head: str = fact("name of the head")
    n: int = count("pairs used for the rate")
    chosen_on_n: int = count("other pairs, used for the choice")
    chosen_on_rate: float = fraction("its rate on those pairs")
    control: Control | None = fact("its control, if the contrast has one", optional=True)


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Pairs of examples that differ in one property, such as a carry into a column."""

    name: str = fact("the property that differs")
    about: str = fact("carry or digits")
    token: str = fact("answer token that should change")
    n: int = count("pairs drawn")
    usable: int = count("pairs that the model answers correctly on both sides, with different tokens")
    rows: tuple[Patched, ...] = fact("every group of heads")
    control: Controls | None = fact("controls, if the contrast has them", optional=True)
    strongest: Mapping[str, Strongest] | None = fact(
        "the strongest head of each kind of attention; empty with too few pairs for two halves", optional=True
    )

    def row(self, who: str) -> Patched | None:
        """The row of a head or group; None if it was not tried or no pair was usable."""
        return next((row for row in self.rows if row.who == who and self.usable), None)

    def best_single(self, count: int) -> list[Patched]:
        """The single heads with the largest rates, on the pairs used for the choice."""
        return sorted((row for row in self.rows if row.is_single), key=lambda row: -row.rate)[:count]

    def ranked(self) -> list[Strongest]:
        """The strongest heads, ranked on the pairs used for the choice."""
        return sorted((self.strongest or {}).values(), key=lambda one: -one.chosen_on_rate)


@dataclass(frozen=True, kw_only=True)
class Patching(Finding):
    """Every contrast of the task."""

    n: int = count("pairs drawn for each contrast")
    contrasts: tuple[Contrast, ...] = fact("one entry per contrast")

    @property
    def subjects(self) -> list[str]:
        """The properties that contrasts are about, each once."""
        return list(dict.fromkeys(contrast.about for contrast in self.contrasts))

    def view(self) -> "Carriers":
        """Single heads by flip rate, largest first."""
        found = [(contrast, row) for contrast in self.contrasts for row in contrast.rows if row.is_single]
        carriers = [
            Carrier(row.who, contrast.name, contrast.about, row.rate, row.interval, contrast.usable)
            for contrast, row in sorted(found, key=lambda one: -one[1].rate)[:SHOWN_CARRIERS]
        ]
        return Carriers(tuple(carriers))


@dataclass(frozen=True)
class Carrier:
    """A head whose output alone moves the difference of a contrast, as the explorer shows it."""

    head: str
    contrast: str
    about: str
    rate: float
    interval: Interval
    usable: int


@dataclass(frozen=True)
class Carriers(View):
    """The heads that move a difference most often."""

    carries: tuple[Carrier, ...]
