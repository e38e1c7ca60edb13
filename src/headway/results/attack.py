"""attack.json of a run: the inputs tried by an attack, and the failures that it found."""

from dataclasses import dataclass
from typing import Literal

from headway.json_values import JsonObject
from headway.results.schema import Document, count, fact

LENGTH = "length that was attacked; null where the task has one length"
Ended = Literal["time", "tries", "failures", "inputs", "interrupted"]


@dataclass(frozen=True, kw_only=True)
class FailingInput:
    """An input that the model gets wrong when it is asked alone (sequences: by greedy decoding)."""

    input: str = fact("the input, simplified as far as possible in the time")
    expected: str = fact("the right answer")
    answered: str = fact("the model's answer")
    size: int = count("tokens of the input")
    margin: float = fact("smallest logit of a right token less that of the best other token", unit="logits")
    length: int | None = fact(LENGTH, unit="the document's unit", default=None)
    family: str = fact("family in which it was found")
    climbed: bool = fact("whether hill climbing found it")
    tried: int = count("inputs tried when it was found")
    found_as: str | None = fact("the input before it was simplified", default=None)
    record: JsonObject = fact("the input with its right answer, in the form of a data file", default={})
    link: str | None = fact("URL fragment that opens it in the explorer", default=None)


@dataclass(frozen=True, kw_only=True)
class FamilyRow:
    """The inputs tried of one family at one length."""

    length: int | None = fact(LENGTH, unit="the document's unit", default=None)
    family: str = fact("name of the family")
    about: str = fact("description of its inputs")
    drawn: int = count("inputs of the family that were tried")
    whole: bool = fact("whether every input of the family was tried", default=False)
    climbed: int = count("inputs tried by hill climbing")
    found: int = count("failing inputs of both kinds")
    smallest_margin: float | None = fact("smallest margin; null where nothing was tried", unit="logits", default=None)


@dataclass(frozen=True, kw_only=True)
class MarginFall:
    """A new smallest margin."""

    tried: int = count("inputs tried until then")
    margin: float = fact("the margin", unit="logits")
    length: int | None = fact(LENGTH, unit="the document's unit", default=None)
    family: str = fact("family of the input")
    climbed: bool = fact("whether hill climbing found it")


@dataclass(frozen=True, kw_only=True)
class Attack(Document):
    """The result of an attack on one run; `hw.attack(run)` returns it. An attack that found nothing proves nothing."""

    form: Literal[1] = fact("version of this document", default=1)
    task: str = fact("task of the run")
    run: str = fact("directory of the run")
    seed: int = fact("seed of the run")
    step: int = count("training step of the checkpoint", unit="steps")
    unit: str | None = fact("what a length counts; null where the task has one length", default=None)
    lengths: tuple[int, ...] = fact("lengths that were attacked; none where the task has one length", default=())
    attack_seed: int = fact("seed of the search")
    seconds: float = count("time budget", unit="seconds")
    most_tries: int | None = fact("largest number of inputs; null for no limit", default=None)
    took: float = count("time taken", unit="seconds")
    ended: Ended = fact("why it ended: time or tries spent, enough failures, no new inputs, or interrupted")
    tried: int = count("different inputs that were tried")
    found: int = count("inputs that the teacher-forced pass gets wrong")
    unconfirmed: int = count("failing inputs that were asked alone and are right then, by a tie of logits", default=0)
    smallest_margin: float | None = fact("smallest margin; null where nothing was tried", unit="logits")
    counterexamples: tuple[FailingInput, ...] = fact("failing inputs, confirmed one by one, the shortest first")
    families: tuple[FamilyRow, ...] = fact("inputs tried of each family at each length")
    trace: tuple[MarginFall, ...] = fact("successive smallest margins")

    @property
    def broken(self) -> bool:
        """Whether a confirmed failing input was found."""
        return bool(self.counterexamples)

    def breaks_at(self, length: int) -> list[FailingInput]:
        """The failing inputs that were found at this length or a shorter one."""
        return [one for one in self.counterexamples if one.length is not None and one.length <= length]
