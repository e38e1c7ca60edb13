"""attack.json of a run: inputs that were searched for failure, and the failures that were found."""

from dataclasses import dataclass
from html import escape
from typing import Literal

from headway.json_values import JsonObject
from headway.results.schema import Document, count, fact

LENGTH = "length that was attacked; null where the task has one length"
Ended = Literal["time", "tries", "failures", "inputs", "interrupted"]


@dataclass(frozen=True, kw_only=True)
class FailingInput:
    """An input that the model gets wrong when it is asked alone (a sequence decoded greedily)."""

    input: str = fact("the input, made as short and simple as the search could")
    expected: str = fact("the right answer")
    answered: str = fact("what the model answers")
    size: int = count("tokens of the input")
    margin: float = fact(
        "logit of the right token minus that of the best other one, where it is smallest", unit="logits"
    )
    length: int | None = fact(LENGTH, unit="the document's unit", default=None)
    family: str = fact("family in which it was found")
    climbed: bool = fact("whether hill climbing found it")
    tried: int = count("inputs tried when it was found")
    found_as: str | None = fact("the input as it was found, where it was longer or less simple", default=None)
    record: JsonObject = fact("the input with its right answer, as it stands in a data file", default={})
    link: str | None = fact("fragment to append to the address of the explorer page", default=None)


@dataclass(frozen=True, kw_only=True)
class FamilyRow:
    """What was tried of one family at one length."""

    length: int | None = fact(LENGTH, unit="the document's unit", default=None)
    family: str = fact("name of the family")
    about: str = fact("description of its inputs")
    drawn: int = count("inputs of the family that were tried")
    whole: bool = fact("whether every member of the family was tried", default=False)
    climbed: int = count("changes of its worst inputs that were tried")
    found: int = count("failing inputs of both kinds")
    smallest_margin: float | None = fact("smallest margin; null where nothing was tried", unit="logits", default=None)


@dataclass(frozen=True, kw_only=True)
class MarginFall:
    """A margin smaller than all before."""

    tried: int = count("inputs tried by then")
    margin: float = fact("the margin", unit="logits")
    length: int | None = fact(LENGTH, unit="the document's unit", default=None)
    family: str = fact("family of the input")
    climbed: bool = fact("whether hill climbing found it")


@dataclass(frozen=True, kw_only=True)
class Attack(Document):
    """What an attack on one run found; `hw.attack(run)` returns it. One that found nothing proves nothing."""

    form: Literal[1] = fact("version of this document", default=1)
    task: str = fact("task of the run")
    run: str = fact("directory of the run")
    seed: int = fact("seed of the run")
    step: int = count("training step of the checkpoint", unit="steps")
    unit: str | None = fact("what a length counts; null where the task has one length", default=None)
    lengths: tuple[int, ...] = fact("lengths that were attacked; none where the task has one length", default=())
    attack_seed: int = fact("seed of the search")
    seconds: float = count("time limit", unit="seconds")
    most_tries: int | None = fact("limit of inputs tried; null for no limit", default=None)
    took: float = count("time used", unit="seconds")
    ended: Ended = fact("why it ended: time or tries spent, enough failures, no new inputs, or interrupted")
    tried: int = count("different inputs that were tried")
    found: int = count("those that the model gets wrong, by the teacher-forced pass")
    unconfirmed: int = count("failing inputs that are right when run alone: a tie of logits", default=0)
    smallest_margin: float | None = fact("smallest margin; null where nothing was tried", unit="logits")
    counterexamples: tuple[FailingInput, ...] = fact("failing inputs, confirmed one by one, the shortest first")
    families: tuple[FamilyRow, ...] = fact("inputs tried of each family at each length")
    trace: tuple[MarginFall, ...] = fact("history of the smallest margin")

    @property
    def broken(self) -> bool:
        """Whether an input was found that the model gets wrong, confirmed by asking it alone."""
        return bool(self.counterexamples)

    def breaks_at(self, length: int) -> list[FailingInput]:
        """The failing inputs that were found when this length, or a shorter one, was attacked."""
        return [one for one in self.counterexamples if one.length is not None and one.length <= length]

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(one.input)}</td><td>{escape(one.expected)}</td><td>{escape(one.answered)}</td></tr>"
            for one in self.counterexamples
        )
        said = f"{self.tried:,} inputs tried, {self.found:,} fail"
        return f"<p>{said}</p><table><tr><th>input</th><th>right</th><th>answered</th></tr>{rows}</table>"
