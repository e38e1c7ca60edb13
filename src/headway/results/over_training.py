"""over_training.json of a run: importance and patching of every head at each kept step of training."""

from dataclasses import dataclass
from typing import Literal

from headway.results.schema import Document, Interval, count, fact, fraction

JUMP = 0.5
"""The jump in accuracy is the first kept step from which the accuracy is above this share."""
FORMED = 0.5
"""A head has formed at the first kept step from which its value is above this share of its final value."""
CLEAR = 0.5
"""Smallest mean difference between source and base, in logits, of which a share is taken."""


@dataclass(frozen=True, kw_only=True)
class ContrastAtStep:
    """Activation patching of one contrast at one step, measured on one half of the pairs."""

    name: str = fact("the property that differs between base and source")
    about: str = fact("carry or digits")
    n: int = count("pairs measured")
    usable: int = count("pairs whose answer token the model gets right on both sides, with different tokens")
    difference: float = fact("logit of the source's token less that of the base's, source less base", unit="logits")
    flips: tuple[int, ...] = count("for each group, the usable pairs whose token becomes the source's when patched")
    moved: tuple[float, ...] = fact("for each group, how much of the difference its patch moves", unit="logits")


@dataclass(frozen=True, kw_only=True)
class HeadsAtStep:
    """The heads at one kept step."""

    step: int = count("training step", unit="steps")
    accuracy: float = fraction("accuracy of whole answers")
    interval: Interval = fraction("95 % interval of the accuracy (Wilson)")
    loss: float = fact("loss per token")
    drops: tuple[float, ...] = fact("accuracy lost by zero ablation of each head alone", unit="points")
    intervals: tuple[Interval, ...] = fact("95 % interval of each drop", unit="points")
    contrasts: tuple[ContrastAtStep, ...] = fact("activation patching, one entry per contrast")


@dataclass(frozen=True, kw_only=True)
class OverTraining(Document):
    """The heads of one run over training; `hw.heads_over_training(run)` returns it."""

    form: Literal[1] = fact("version of this document", default=1)
    run: str = fact("directory of the run")
    task: str = fact("task of the run")
    seed: int = fact("seed of the run")
    split: str = fact("split of the examples")
    n: int = count("examples of the ablations")
    pairs: int = count("pairs drawn for each contrast; one half chooses the followed head, the other measures")
    seconds: float = count("time taken", unit="seconds")
    heads: tuple[str, ...] = fact("names of the heads, the order of drops")
    groups: tuple[str, ...] = fact("patched heads and groups of heads, the order of flips and moved")
    subject: str | None = fact("what the first contrasts are about, such as carry; null without contrasts")
    followed: str | None = fact(
        "the head with the largest mean flip rate over the contrasts of the subject at the last step, chosen on the "
        "other half of the pairs; null where no pair is usable"
    )
    steps: tuple[HeadsAtStep, ...] = fact("every kept step, and the last checkpoint", some=True)

    def accuracies(self) -> list[float]:
        return [one.accuracy for one in self.steps]

    def drops_of(self, head: str) -> list[float]:
        """A head's drop at each step, in points."""
        place = self.heads.index(head)
        return [one.drops[place] for one in self.steps]

    def rates_of(self, who: str, contrast: str | None = None) -> list[float | None]:
        """The flip rate of a head or group at each step, over all usable pairs of the subject or of one contrast."""
        place, found = self.groups.index(who), list[float | None]()
        for chosen in self._contrasts(contrast):
            usable = sum(one.usable for one in chosen)
            found.append(sum(one.flips[place] for one in chosen) / usable if usable else None)
        return found

    def effects_of(self, who: str, contrast: str | None = None) -> list[float | None]:
        """The share of the logit difference that a patch moves, at each step; None where there is hardly any."""
        place, found = self.groups.index(who), list[float | None]()
        for chosen in self._contrasts(contrast):
            whole = sum(one.difference for one in chosen)
            found.append(sum(one.moved[place] for one in chosen) / whole if whole >= CLEAR * len(chosen) > 0 else None)
        return found

    def _contrasts(self, name: str | None) -> list[list[ContrastAtStep]]:
        """At each step one contrast, or all of the subject."""
        return [
            [c for c in one.contrasts if (c.about == self.subject if name is None else c.name == name)]
            for one in self.steps
        ]

    @property
    def jump(self) -> int | None:
        """The first step from which the accuracy stays above one half; None if it does not end there."""
        return self.first_above(self.accuracies(), JUMP)

    def formed(self, values: list[float] | list[float | None]) -> int | None:
        """The first step from which a value stays above half of its final value; None if that is not positive."""
        final = values[-1]
        return None if final is None or final <= 0 else self.first_above(values, FORMED * final)

    def first_above(self, values: list[float] | list[float | None], limit: float) -> int | None:
        """The first step from which all values are above a limit; a missing value is not above."""
        found = None
        for one, value in zip(self.steps, values, strict=True):
            if value is None or value <= limit:
                found = None
            elif found is None:
                found = one.step
        return found
