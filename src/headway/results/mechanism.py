"""`mechanism` of lengths.json: every head across lengths, the first change, and repairs at the failing length."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Literal

from headway.results.schema import Document, Interval, count, fact, fraction

RepairKind = Literal["reach", "profile"]
Claim = Literal["why", "a part of why", "not shown"]
WHY: Claim = "why"
PART: Claim = "a part of why"
NOT_SHOWN: Claim = "not shown"


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Right and wrong answers on some examples."""

    n: int = count("examples")
    wrong: int = count("wrong answers")
    accuracy: float = fraction("share of right answers")
    interval: Interval = fraction("95 % Wilson interval of the accuracy")


@dataclass(frozen=True, kw_only=True)
class Rise(Counted):
    """Accuracy after a change, compared with the accuracy before on the same examples."""

    rise: float = fact("accuracy gained", unit="points")
    rise_interval: Interval = fact("interval of the gain at the check's confidence", unit="points")
    failures: int | None = count("examples that were wrong before; null in documents of earlier versions", default=None)
    failures_repaired: int | None = count("those that are right after", default=None)
    share_repaired: float | None = fraction("their share; null if nothing failed", default=None)
    share_repaired_interval: Interval | None = fraction("Wilson interval of that share", default=None)


@dataclass(frozen=True, kw_only=True)
class Crops(Rise):
    """Crops of training length from the same sequences."""

    margin: float = fact("mean margin of the right answer", unit="logits")
    margin_interval: Interval = fact("95 % interval of the margin", unit="logits")


@dataclass(frozen=True, kw_only=True)
class ModelAtLength(Counted):
    """The whole model at one length."""

    length: int = fact("length of the examples", unit="the document's unit")
    trained: bool = fact("whether the length is at most the reference")
    margin: float = fact("mean margin of the right answer", unit="logits")
    margin_interval: Interval = fact("95 % interval of the margin", unit="logits")
    n_attention: int = count("examples whose attention was recorded")
    crops: Crops | None = fact(
        "crops of the reference length; null if a crop is not an example", key="pieces", default=None
    )


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One number of one head at one length, and its change against the reference."""

    value: float = fact("mean over examples, normalised for length")
    interval: Interval = fact("95 % interval of the mean")
    n: int = count("examples with this number")
    before: float | None = fact("the number at the reference; null at the reference itself")
    change: float | None = fact("distance from the value expected by length alone")
    change_interval: Interval | None = fact("95 % interval of the change")
    p_holm: float | None = fraction("Holm-adjusted p of a change larger than the limit")
    changed: bool = fact("whether it has changed significantly by more than the limit")


@dataclass(frozen=True, kw_only=True)
class Score(Compared):
    """What a head attends to."""

    share: float = fact("attention on the part; for entropy its share of the largest possible")
    even: float | None = fact("the same share for uniform attention; null for entropy")
    share_before: float | None = fact("the share at the reference")
    even_before: float | None = fact("the uniform share at the reference")


@dataclass(frozen=True, kw_only=True)
class Effect(Compared):
    """The effect of ablating a head; values are shares of the margin at the reference."""

    accuracy: float = fraction("accuracy without the head")
    drop: float = fact("accuracy lost", unit="points")
    drop_interval: Interval = fact("95 % interval of the drop", unit="points")


@dataclass(frozen=True, kw_only=True)
class HeadAcrossLengths:
    """One head at every length, in the order of the document's lengths."""

    head: str = fact("name of the head")
    scores: Mapping[str, tuple[Score | None, ...]] = fact("attention scores; null if none was recorded")
    effects: Mapping[str, tuple[Effect, ...]] = fact("ablation effects by kind of ablation")


@dataclass(frozen=True, kw_only=True)
class Change:
    """A number of a head at a length, compared with the longest training length."""

    head: str = fact("name of the head")
    about: Literal["attention", "effect"] = fact("kind of number")
    what: str = fact("the score, or the kind of ablation")
    length: int = fact("length", unit="the document's unit")
    before: float = fact("value at the reference")
    after: float = fact("value at the length")
    change: float = fact("distance from the value expected by length alone")
    interval: Interval = fact("95 % interval of the change")
    p: float = fraction("p of a change larger than the limit")
    p_holm: float = fraction("the same, Holm-adjusted over all comparisons", default=1.0)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The smallest relevant changes."""

    attention: float = fact("of an attention score")
    effect: float = fact("of an effect, as a share of the margin at the reference")


@dataclass(frozen=True, kw_only=True)
class Sham(Rise):
    """A sham repair: it disturbs the same heads as much, without restoring their attention."""

    repair_above: float = fact("accuracy of the repair minus that of the sham", unit="points")
    repair_above_interval: Interval = fact("its interval", unit="points")


@dataclass(frozen=True, kw_only=True)
class Equivalence:
    """Whether the repaired accuracy equals that of the training length: two one-sided tests."""

    difference: float = fact("repaired accuracy minus that of the reference", unit="points")
    interval: Interval = fact("interval of the difference", unit="points")
    n: tuple[int, int] = fact("examples of the failing length and of the reference")
    equivalent: bool = fact("whether the interval lies within the margin")


@dataclass(frozen=True, kw_only=True)
class Repair:
    """Heads that are made to attend as at the training length."""

    repair: RepairKind = fact("how attention is repaired")
    who: str = fact("which heads, in words")
    heads: tuple[str, ...] = fact("names of the heads")
    at: Rise = fact("at the failing length")
    control: Rise = fact("at the reference")
    sham: Sham | None = fact("the sham repair; null if the repair does not help", default=None)
    equivalence: Equivalence | None = fact("against the reference; null in earlier versions", default=None)
    claim: Claim = fact("claim that the repair supports", default="not shown")


@dataclass(frozen=True, kw_only=True)
class Check:
    """Repairs at the first failing length."""

    length: int = fact("the failing length", unit="the document's unit")
    looking_elsewhere: tuple[str, ...] = fact("heads whose attention changed up to that length", default=())
    confidence: float = fact("confidence of the intervals, over all repairs", default=0.95)
    helps: float = fact("smallest gain of a repair that helps", unit="points", default=1.0)
    equivalent_within: float = fact("margin of the equivalence test", unit="points", default=2.0)
    repairs: tuple[Repair, ...] = fact("the repairs tried")


@dataclass(frozen=True, kw_only=True)
class Mechanism(Document):
    """The heads of a run compared across lengths."""

    form: Literal[1] = fact("version of this document", default=1)
    set_name: str = fact("set of examples", key="set")
    unit: str = fact("unit of lengths")
    reference: int = fact("longest training length", unit="the document's unit")
    large: Limits = fact("smallest relevant changes")
    alpha: float = fact("level of the tests", default=0.05)
    family: int = count("comparisons in Holm's correction")
    definitions: Mapping[str, str] = fact("definition of each score")
    lengths: tuple[ModelAtLength, ...] = fact("the whole model at each length")
    heads: tuple[HeadAcrossLengths, ...] = fact("every head at each length")
    changes: tuple[Change, ...] = fact("significant changes, the first to change first")
    first: Change | None = fact("the first of them; attention before effects at one length, then the largest")
    fails_at: int | None = fact("first length significantly worse than the reference and below 99 %")
    check: Check | None = fact("repairs at that length")
    words: tuple[str, ...] = fact("why the model fails, in sentences", default=())

    def at(self, length: int) -> ModelAtLength:
        """The whole model at a length."""
        return next(row for row in self.lengths if row.length == length)

    def place(self, length: int) -> int:
        """The index of a length in the lists of a head."""
        return [row.length for row in self.lengths].index(length)

    def head(self, name: str) -> HeadAcrossLengths:
        return next(row for row in self.heads if row.head == name)

    def against(self, length: int) -> str:
        """What a length is compared with, in words: the reference, or crops of that length."""
        return f"at {self.reference}" if self.at(length).crops is None else f"on crops of {self.reference}"

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(sentence)}</p>" for sentence in self.words)
