"""Activation patching between pairs of examples that differ in one thing. Part of heads.json."""

from collections.abc import Mapping
from dataclasses import dataclass

from headway.results.analyses import Finding, View
from headway.results.schema import Interval, count, fact, fraction

SHOWN_CARRIERS = 24
"""Heads and contrasts that the explorer shows."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How often something happens."""

    flips: int = count("pairs with the event")
    rate: float = fraction("share of the usable pairs")
    interval: Interval = fraction("95 % interval of the share (Wilson)")


@dataclass(frozen=True, kw_only=True)
class Patched(Rate):
    """Heads whose outputs are the source's: how often the answer token becomes the source's.

    The rate is the interchange intervention accuracy.
    """

    who: str = fact("a head, a site, or all heads of a kind of attention")
    heads: tuple[str, ...] = fact("names of the heads")
    rate_each_way: tuple[float, float] = fraction(
        "rate when the source has the contrasted property, and when the base has it", default=(0.0, 0.0)
    )

    @property
    def is_single(self) -> bool:
        return self.heads == (self.who,)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The patch against its control, on the same bases."""

    n: int = count("pairs that are usable in both")
    value: float = fact("rate of the patch minus that of the control")
    interval: Interval = fact("95 % interval (paired)")


@dataclass(frozen=True, kw_only=True)
class Control:
    """The same heads, patched from a source that differs in the same place with the same carry."""

    changed: int = count("pairs in which the answer token changes although it should not")
    rate: float = fraction("share of the usable pairs")
    interval: Interval = fraction("95 % interval of the share (Wilson)")
    digits: Rate = fact("share in which the token that differs between base and control source becomes the source's")
    difference: Difference = fact("the patch against its control")
    reading: str = fact("carry alone, carry and digits, unspecific, not moved, or undecided")


@dataclass(frozen=True, kw_only=True)
class ControlRow(Control):
    """The control of one group of heads."""

    who: str = fact("a head, a site, or all heads of a kind of attention")


@dataclass(frozen=True, kw_only=True)
class Controls:
    """The control of a contrast, for every group of heads."""

    n: int = count("pairs that have a control")
    usable: int = count("controls that the model gets right on both sides")
    digits_token: str = fact("answer token in which base and control source differ")
    rows: tuple[ControlRow, ...] = fact("every group of heads")


@dataclass(frozen=True, kw_only=True)
class Strongest(Rate):
    """The head with the most flips on one half of the pairs, measured on the other half."""

    head: str = fact("name of the head")
    n: int = count("pairs on which it is measured")
    chosen_on_n: int = count("other pairs, on which it was chosen")
    chosen_on_rate: float = fraction("its rate on those")
    control: Control | None = fact("its control, where the contrast has one", optional=True)


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Pairs of examples that differ in one thing, such as whether a carry arrives in a column."""

    name: str = fact("what differs")
    about: str = fact("carry or digits")
    token: str = fact("answer token that should become the source's")
    n: int = count("pairs drawn")
    usable: int = count("pairs that the model gets right on both sides, and whose token differs")
    rows: tuple[Patched, ...] = fact("every group of heads")
    control: Controls | None = fact("controls, where the contrast has them", optional=True)
    strongest: Mapping[str, Strongest] | None = fact(
        "the strongest head of each kind of attention; empty with too few pairs for two halves", optional=True
    )

    def row(self, who: str) -> Patched | None:
        """One head or group; None where it was not tried or no pair was usable."""
        return next((row for row in self.rows if row.who == who and self.usable), None)

    def best_single(self, count: int) -> list[Patched]:
        """The single heads with the largest rates, on the pairs that they are chosen on."""
        return sorted((row for row in self.rows if row.is_single), key=lambda row: -row.rate)[:count]

    def ranked(self) -> list[Strongest]:
        """The strongest heads, ranked on the pairs that they were chosen on."""
        return sorted((self.strongest or {}).values(), key=lambda one: -one.chosen_on_rate)


@dataclass(frozen=True, kw_only=True)
class Patching(Finding):
    """Every contrast of the task."""

    n: int = count("pairs drawn for each contrast")
    contrasts: tuple[Contrast, ...] = fact("one entry a contrast")

    @property
    def subjects(self) -> list[str]:
        """What contrasts are about, each once."""
        return list(dict.fromkeys(contrast.about for contrast in self.contrasts))

    def view(self) -> "Carriers":
        """Single heads by how often their output alone moves a difference from one example to another, best first."""
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
