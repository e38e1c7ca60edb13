"""proof.json: whether a model is right on every input of every length, and the evidence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headway.json_values import JsonValue
from headway.results.schema import Document, count, fact

Answer = Literal["proved", "counterexample", "undecided"]
Strength = Literal["rigorous", "first-order"]


@dataclass(frozen=True, kw_only=True)
class Counterexample:
    """An input that the model itself answers wrongly."""

    input: str = fact("the input")
    expected: str = fact("the right answer")
    answered: str = fact("the model's answer (sums: by greedy decoding)")
    tokens: tuple[int, ...] = fact("the input's tokens")
    length: int = fact("length of the input", unit="elements, or digits of the longer number")
    margin: float = fact(
        "logit of the right answer less that of the best wrong one, at the first wrong token", unit="logits"
    )
    link: str | None = fact("URL fragment that opens it in the explorer", default=None)

    @classmethod
    def upgrade(cls, document: JsonValue) -> JsonValue:
        """Earlier versions wrote the input and its right answer as one text, `example`."""
        if not isinstance(document, Mapping) or not isinstance(document.get("example"), str):
            return document
        shown, _, right = str(document["example"]).rpartition("-> ")
        return {**document, "input": shown.strip(), "expected": right}


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """Bounds of the difference between the model's fp32 arithmetic and the proof's."""

    allowance: float = fact("subtracted from the smallest margin", unit="logits")
    measured: float = fact("largest difference measured on inputs computed both ways", unit="logits")
    inputs: int = count("inputs computed both ways")
    strength: Strength = fact(
        "rigorous: rounding moves no margin further than the allowance; first-order: the allowance is twice the linear "
        "effect of rounding, and the rest has no bound",
        default="first-order",
    )


@dataclass(frozen=True, kw_only=True)
class Proof(Document):
    """Whether a model is right on every input of every length.

    This is a certificate: `headway prove --check` verifies its claims with independent code.
    """

    form: Literal[1] = fact("version of this document", default=1)
    task: str = fact("name of the task")
    run: str = fact("the run directory")
    seed: int = fact("seed of the run")
    answer: Answer = fact("proved, counterexample or undecided")
    lengths: Literal["every"] = fact("lengths that the answer covers", default="every")
    scope: str = fact("the inputs that the answer covers, in words")
    method: str = fact("how contexts were enumerated and bounded, in words")
    contexts: int = count("local contexts examined, one by one or by a bound")
    contexts_by_kind: Mapping[str, int] = fact("the same by kind of context", default={})
    margin: float | None = fact(
        "smallest margin, or lower bound of it, in the proof's arithmetic",
        unit="logits",
        formerly=("smallest_margin",),
    )
    worst_context: str | None = fact("context of that margin, in words", default=None)
    rounding: Rounding | None = fact("allowance for the model's rounding; null if nothing is proved", default=None)
    arithmetic: str = fact("the proof's arithmetic", default="float64")
    open_contexts: int = count("contexts without a sufficient bound", default=0)
    missing: str | None = fact("what prevented an answer, in words", default=None)
    searched: int = count("inputs built from open contexts and run through the model", default=0)
    counterexample: Counterexample | None = fact("the shortest input that the model answers wrongly", default=None)
    further_counterexamples: tuple[Counterexample, ...] = fact("more of them, the shortest first", default=())
    seconds: float = fact("time taken", unit="seconds")

    @classmethod
    def upgrade(cls, document: JsonValue) -> JsonValue:
        """Earlier versions wrote all counterexamples in one list."""
        if not isinstance(document, Mapping) or not isinstance(found := document.get("counterexamples"), list):
            return document
        own, further = document.get("counterexample"), document.get("further_counterexamples") or []
        found = [*([] if own is None else [own]), *found, *(further if isinstance(further, list) else [])]
        return {**document, "counterexample": found[0] if found else None, "further_counterexamples": found[1:]}

    @property
    def counterexamples(self) -> tuple[Counterexample, ...]:
        """All inputs that were found to be answered wrongly, the shortest first."""
        first = () if self.counterexample is None else (self.counterexample,)
        return (*first, *self.further_counterexamples)


@dataclass(frozen=True, kw_only=True)
class Check(Document):
    """The result of `headway prove --check` for a certificate."""

    certificate: str = fact("the checked file")
    holds: bool = fact(
        "whether the proof was verified: its task, seed, scope, weights, contexts, margin and rounding allowance"
    )
    reasons: tuple[str, ...] = fact("reasons if it does not hold", default=())
    contexts: int = count("contexts that the check covered")
    margin: float | None = fact(
        "smallest margin found by the check, or the claimed one if the check confirms it",
        unit="logits",
        default=None,
        formerly=("smallest_margin",),
    )
    method: str = fact("method of the check, in words")
    seconds: float = fact("time taken", unit="seconds")
