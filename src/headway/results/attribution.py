"""Direct logit attribution: part of heads.json."""

from dataclasses import dataclass

from headway.results.schema import Interval, fact


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one part of the model writes into the margin."""

    part: str = fact("a head such as dec1.cross.h2, an MLP such as dec1.mlp, the embedding, or the constant")
    value: float = fact("mean contribution to the margin", unit="logits")
    interval: Interval = fact("95 % interval of the mean over examples", unit="logits")


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """The margin of the right answer, at the token where it is smallest, split into the parts that write it."""

    n: int = fact("examples")
    margin: float = fact("mean margin of the right token over the best other one", unit="logits")
    parts: tuple[Part, ...] = fact("the parts, in the order of computation; they sum to the margin")
    largest_error: float = fact(
        "largest difference between an example's margin and the sum of its parts", unit="logits"
    )
    not_defined: tuple[str, ...] = fact("heads for which it is not defined: those of the encoder")

    def largest(self, count: int) -> list[Part]:
        """The heads and MLPs that write most, for or against the right answer."""
        parts = [part for part in self.parts if part.part.startswith("dec")]
        return sorted(parts, key=lambda part: -abs(part.value))[:count]
