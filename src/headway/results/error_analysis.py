"""Which examples fail: accuracy by feature, token and symbol, confusions and the worst examples; part of heads.json."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.results.analyses import Finding
from headway.results.schema import Interval, count, fact, fraction


@dataclass(frozen=True, kw_only=True)
class Share:
    """Accuracy on some examples."""

    n: int = count("examples")
    wrong: int = count("examples that are wrong")
    accuracy: float | None = fraction("share that is right; null without examples")
    interval: Interval = fraction("95 % interval of the accuracy (Wilson)")


@dataclass(frozen=True, kw_only=True)
class ByValue(Share):
    """Accuracy of the examples with one value of a feature."""

    value: int | str = fact("the value, or a range such as `3 to 5`")

    @property
    def label(self) -> str:
        return str(self.value)


@dataclass(frozen=True, kw_only=True)
class ByToken(Share):
    """Accuracy of one token of the answer."""

    token: str = fact("name of the answer token")

    @property
    def label(self) -> str:
        return self.token


@dataclass(frozen=True, kw_only=True)
class BySymbol(Share):
    """Accuracy of the examples with a symbol at a source position."""

    symbol: str = fact("the symbol")


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """The answered tokens for each right token, at one position of the answer."""

    labels: tuple[str, ...] = fact("tokens that were right or answered")
    counts: tuple[tuple[int, ...], ...] = fact("right token (rows) against answered token (columns)", unit="examples")


@dataclass(frozen=True, kw_only=True)
class Answered:
    """One example and the model's answer to it."""

    example: str = fact("source and right answer")
    answered: str = fact("answer by greedy decoding")
    right: bool = fact("whether the teacher-forced answer is right")
    loss: float = fact("cross-entropy of the right answer", unit="nats")


@dataclass(frozen=True, kw_only=True)
class ErrorAnalysis(Finding):
    """Errors of a model, or of a model without some heads."""

    n: int = count("examples")
    wrong: int = count("examples that are wrong")
    ablated: tuple[str, ...] = fact("heads that are ablated", key="without", default=())
    by_feature: Mapping[str, tuple[ByValue, ...]] = fact("accuracy by feature of difficulty", key="by")
    by_token: tuple[ByToken, ...] = fact("accuracy of each answer token")
    by_symbol: Mapping[str, tuple[BySymbol, ...]] = fact("accuracy by the symbol at each source position")
    confusion: Mapping[str, Confusion] = fact("confusions at each answer position")
    worst: tuple[Answered, ...] = fact("examples with the largest loss, wrong ones first")

    @property
    def groups(self) -> dict[str, Sequence[ByValue | ByToken]]:
        """Accuracy by every feature, and by token of the answer."""
        return {**self.by_feature, "token": self.by_token}
