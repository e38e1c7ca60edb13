"""proof.json: is a model right on every input of every length, and why it can be said."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headway.results.schema import Document, count, fact

Answer = Literal["proved", "counterexample", "undecided"]


@dataclass(frozen=True, kw_only=True)
class Counterexample:
    """An input that the model itself answers wrongly."""

    example: str = fact("the input with its right answer")
    answered: str = fact("what the model answered")
    tokens: tuple[int, ...] = fact("the input's tokens")
    length: int = fact("length of the input", unit="elements, or digits of the longer number")
    margin: float = fact(
        "logit of the right answer minus that of the best wrong one, at the wrong token", unit="logits"
    )
    link: str | None = fact("fragment to append to the address of the explorer page", default=None)


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """How far the model's own fp32 arithmetic can be from the proof's."""

    allowance: float = fact("subtracted from the smallest margin", unit="logits")
    measured: float = fact("largest observed difference on inputs computed both ways", unit="logits")
    inputs: int = count("inputs that were computed both ways")


@dataclass(frozen=True, kw_only=True)
class Proof(Document):
    """Whether a model is right on every input of every length.

    A certificate: `headway prove --check` finds its claims again with other code.
    """

    form: Literal[1] = fact("version of this document", default=1)
    task: str = fact("name of the task")
    run: str = fact("the run directory")
    seed: int = fact("seed of the run")
    answer: Answer = fact("proved, counterexample or undecided")
    scope: str = fact("scope of the answer: the inputs it covers, in words")
    method: str = fact("how contexts were enumerated and bounded, in words")
    contexts: int = count("local contexts that were examined, one by one or by a bound")
    contexts_by_kind: Mapping[str, int] = fact("the same by kind of context", default={})
    smallest_margin: float | None = fact(
        "smallest margin, or lower bound of it, in the proof's arithmetic", unit="logits"
    )
    worst_context: str | None = fact("where that margin is, in words", default=None)
    rounding: Rounding | None = fact(
        "allowance for the model's own arithmetic; null where nothing is proved", default=None
    )
    arithmetic: str = fact("the proof's arithmetic", default="float64")
    open_contexts: int = count("contexts that no bound decided", default=0)
    missing: str | None = fact("why there is no answer, in words", default=None)
    searched: int = count("inputs built from open contexts and run through the model", default=0)
    counterexamples: tuple[Counterexample, ...] = fact("inputs that the model answers wrongly", default=())
    seconds: float = fact("time taken", unit="seconds")


@dataclass(frozen=True, kw_only=True)
class Check(Document):
    """What `headway prove --check` found about a certificate."""

    certificate: str = fact("the file that was checked")
    holds: bool = fact("whether every claim of the certificate was confirmed")
    reasons: tuple[str, ...] = fact("why not", default=())
    contexts: int = count("contexts that the check covered")
    smallest_margin: float | None = fact("smallest margin that the check saw", unit="logits", default=None)
    method: str = fact("how, in words")
    seconds: float = fact("time taken", unit="seconds")
