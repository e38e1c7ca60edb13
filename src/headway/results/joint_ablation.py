"""Heads ablated together: elimination, removable sets, Shapley values and pairs; part of heads.json."""

from collections.abc import Mapping
from dataclasses import dataclass

from headway.results.analyses import Finding, View
from headway.results.schema import Interval, count, fact, fraction

SHOWN_PAIRS = 3
"""Pairs in the explorer."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A model without some heads compared with the full model, on the same examples."""

    accuracy: float = fraction("accuracy without the heads", key="exact_match", formerly=("accuracy",))
    interval: Interval = fraction("95 % interval of the accuracy (Wilson)")
    drop: float = fact("accuracy lost", unit="points")
    drop_interval: Interval = fact("95 % interval of the drop (paired)", unit="points")


@dataclass(frozen=True, kw_only=True)
class HeadSet(Comparison):
    """Heads that were chosen on other examples, and the cost of ablating them, or all others."""

    heads: tuple[str, ...] = fact("names of the heads")


@dataclass(frozen=True, kw_only=True)
class Step(Comparison):
    """One step of backward elimination, measured on the half that was not used for the order."""

    left: int = count("heads left")
    removed: str | None = fact("head removed last; null before the first step")
    accuracy_when_chosen: float = fraction("accuracy on the half used for the order", key="chosen_on")
    sum_of_single_drops: float = fact("sum of the single drops of the removed heads", unit="points", key="promised")


@dataclass(frozen=True, kw_only=True)
class Elimination:
    """Greedy backward elimination: the head that costs least is removed, until none is left."""

    kind: str = fact("kind of ablation")
    n_chosen_on: int = count("examples used for the order")
    n_reported_on: int = count("other examples, used for accuracies and drops")
    steps: tuple[Step, ...] = fact("from all heads to none")


@dataclass(frozen=True, kw_only=True)
class Removable(HeadSet):
    """The largest set of the elimination order with a drop under the limit on the examples of the choice."""

    limit: float = fact("limit of the drop", unit="points")
    sum_of_single_drops: float = fact("sum of the single drops of the set", unit="points")
    alone_under_limit: HeadSet = fact("all heads whose own drop is under the limit, ablated together")
    adding_up: HeadSet = fact("the most heads whose single drops sum to less than the limit, ablated together")


@dataclass(frozen=True, kw_only=True)
class Credit:
    """The Shapley value of one head."""

    head: str = fact("name of the head")
    value: float = fact("its share of the accuracy", unit="points")
    error: float = fact("standard error", unit="points")


@dataclass(frozen=True, kw_only=True)
class Shapley:
    """Shapley values of some heads with the others kept: exact over all subsets, or over sampled orders."""

    exact: bool = fact("whether every subset was run")
    permutations: int | None = count("sampled orders, if not exact", optional=True)
    subsets: int = count("subsets that were run")
    n: int = count("examples")
    values: tuple[Credit, ...] = fact("one value per head")
    smallest_sufficient: HeadSet | None = fact(
        "the smallest set of these heads that loses less than a point, if every subset was run; chosen on every other "
        "example, measured on the rest",
        optional=True,
    )


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two heads: the drop of each alone and of both together."""

    heads: tuple[str, str] = fact("names of the heads")
    alone: tuple[float, float] = fact("drop without each head", unit="points")
    together: float = fact("drop without both", unit="points")
    together_interval: Interval = fact("95 % interval of the drop without both", unit="points")
    verdict_together: str = fact("verdict on the drop without both")
    interaction: float = fact("drop without both minus the sum of the single drops", unit="points")
    interval: Interval = fact("95 % interval of the interaction", unit="points")
    p_holm: float = fraction("p-value of no interaction, corrected over the pairs (Holm)")


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Interactions of pairs of heads, strongest first."""

    n: int = count("examples")
    tested: int = count("measured pairs")
    pairs: tuple[Pair, ...] = fact("the strongest 40")

    def redundant(self, alpha: float = 0.05) -> list[Pair]:
        """Pairs with a significant positive interaction: each costs more without the other."""
        return [pair for pair in self.pairs if pair.interaction > 0 and pair.p_holm < alpha]


@dataclass(frozen=True, kw_only=True)
class JointAblation(Finding):
    """Several heads ablated at once."""

    elimination: Elimination = fact("backward elimination")
    removable: tuple[Removable, ...] = fact("the largest removable set for each limit")
    sufficient: HeadSet = fact("the heads left at the smallest limit, and the cost of ablating all others")
    shapley: Mapping[str, Shapley] = fact("Shapley values by kind of attention, and over `all` heads")
    pairs: Pairs = fact("interactions of pairs")

    def view(self) -> "SetsAndPairs":
        """The sufficient heads, the order of elimination, and the pairs with the largest significant redundancy."""
        redundant = sorted(self.pairs.redundant(), key=lambda pair: -pair.interaction)[:SHOWN_PAIRS]
        pairs = [RedundantPair(one.heads, one.alone, one.together, one.interaction, one.p_holm) for one in redundant]
        enough = EnoughHeads(self.sufficient.heads, self.sufficient.accuracy)
        steps = [Removed(one.removed, one.drop, one.accuracy) for one in self.elimination.steps if one.removed]
        return SetsAndPairs(enough, tuple(steps), tuple(pairs))


@dataclass(frozen=True)
class EnoughHeads:
    """Heads that are enough, and the accuracy with them alone."""

    heads: tuple[str, ...]
    exact_match: float


@dataclass(frozen=True)
class Removed:
    """A head of the elimination order: what is lost once it and all before it are gone."""

    removed: str
    drop: float
    exact_match: float


@dataclass(frozen=True)
class RedundantPair:
    """A pair of heads of which each costs more once the other is gone."""

    heads: tuple[str, str]
    alone: tuple[float, float]
    together: float
    interaction: float
    p_holm: float


@dataclass(frozen=True)
class SetsAndPairs(View):
    """The heads that are enough, the order of elimination, and the most redundant pairs, as the explorer shows them."""

    sufficient: EnoughHeads
    elimination: tuple[Removed, ...]
    pairs: tuple[RedundantPair, ...]
