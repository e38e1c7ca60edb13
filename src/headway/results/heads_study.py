"""Heads over several seeds, and analysis/heads.json of a study. The seed is the unit everywhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headway.results.heads import HeadAnalysis
from headway.results.patching import Control
from headway.results.schema import Document, Interval, count, fact, fraction


@dataclass(frozen=True, kw_only=True)
class OverSeeds:
    """One number of every seed."""

    values: tuple[float, ...] = fact("every seed's value")
    mean: float = fact("mean over seeds")
    median: float | None = fact("median over seeds; null in documents of earlier versions", default=None)
    interval: Interval | None = fact("95 % interval of the median; null under six seeds")
    errors: tuple[str, ...] | None = fact("errors in the interval: of seeds, and of examples", default=None)


@dataclass(frozen=True, kw_only=True)
class RatesOverSeeds:
    """A rate of every seed. Rates are near 0 or near 1, so a mean would describe no seed."""

    values: tuple[float, ...] = fraction("every seed's rate")
    above: int = count("seeds above the upper limit")
    between: int = count("seeds between the limits")
    below: int = count("seeds below the lower limit")
    limits: tuple[float, float] = fraction("the limits")


@dataclass(frozen=True, kw_only=True)
class PrunableOverSeeds:
    """Shares of heads that can be removed one at a time, by three measures."""

    under_1_point: OverSeeds = fact("share of heads with a drop under 1 point")
    under_5_points: OverSeeds = fact("share of heads with a drop under 5 points")
    under_1_percent_of_loss: OverSeeds = fact("share of heads whose ablation raises the loss by less than 1 %")


@dataclass(frozen=True, kw_only=True)
class RoleOverSeeds:
    """Heads with one role."""

    heads: OverSeeds = fact("number of heads of a seed with this role")
    drop: OverSeeds = fact("mean drop of these heads, over the seeds that have any", unit="points")


@dataclass(frozen=True, kw_only=True)
class SetOverSeeds:
    """Heads that were chosen one at a time, and their joint cost."""

    heads: OverSeeds = fact("number of heads")
    drop_together: OverSeeds = fact("accuracy lost without all of them", unit="points")


@dataclass(frozen=True, kw_only=True)
class RemovableOverSeeds:
    """The largest removable sets of every seed."""

    limit: float = fact("limit of the drop", unit="points")
    heads: OverSeeds = fact("heads in the set")
    drop: OverSeeds = fact("accuracy lost without them, on examples not used for the choice", unit="points")
    sum_of_single_drops: OverSeeds = fact("sum of the single drops", unit="points")
    alone_under_limit: SetOverSeeds = fact("all heads whose own drop is under the limit")
    adding_up: SetOverSeeds = fact("the most heads whose single drops sum to less than the limit")


@dataclass(frozen=True, kw_only=True)
class ControlOverSeeds:
    """The control of one group of heads."""

    changed: RatesOverSeeds = fact("rate at which the answer token changes, which should be 0")
    digits: RatesOverSeeds = fact("rate at which the digits change")
    readings: Mapping[str, int] = count("seeds with each reading")


@dataclass(frozen=True, kw_only=True)
class ControlsOverSeeds:
    """The controls of a contrast."""

    seeds: int = count("seeds that have controls")
    together: Mapping[str, ControlOverSeeds] = fact("of the heads of each site and kind of attention")


@dataclass(frozen=True, kw_only=True)
class ContrastOverSeeds:
    """Activation patching between pairs that differ in one property."""

    name: str = fact("the property that differs")
    about: str = fact("carry or digits")
    seeds: int = count("seeds whose model answers some pair correctly")
    strongest: Mapping[str, RatesOverSeeds] = fact("rate of the strongest head of each kind of attention")
    together: Mapping[str, RatesOverSeeds] = fact("rate of all heads of each site and kind of attention at once")
    control: ControlsOverSeeds | None = fact("controls, where the contrast has them", optional=True)


Correlations = Mapping[str, OverSeeds | Mapping[str, Mapping[str, OverSeeds]]]
"""By score; under `within`, by kind of attention and score."""


@dataclass(frozen=True, kw_only=True)
class HeadsTogether:
    """Several seeds of one recipe; heads are matched by rank or by role, never by index."""

    seeds: int = count("number of seeds")
    runs: tuple[str, ...] = fact("their run directories")
    descriptive: bool = fact("whether there are too few seeds for an interval")
    accuracy: OverSeeds = fact("accuracy of the whole model", key="exact_match", formerly=("accuracy",))
    verdicts: Mapping[str, Mapping[str, OverSeeds]] = fact(
        "heads of each verdict: `overall`, and by each kind of ablation"
    )
    prunable: Mapping[str, PrunableOverSeeds] = fact("heads that can be removed one at a time, by kind of ablation")
    by_rank: Mapping[str, tuple[OverSeeds, ...]] = fact(
        "drops of the heads in decreasing order, by kind of attention (zero ablation)", unit="points"
    )
    by_role: Mapping[str, RoleOverSeeds] = fact("heads of each role")
    by_layer: Mapping[str, OverSeeds] = fact("largest drop at each site (zero ablation)", unit="points")
    removable: tuple[RemovableOverSeeds, ...] = fact("the largest removable sets for each limit")
    sufficient: OverSeeds = fact("heads left at the smallest limit")
    interventions: tuple[ContrastOverSeeds, ...] = fact("activation patching")
    correlations: Correlations = fact(
        "Spearman's correlation of each score with the zero-ablation drop; under `within`, by kind of attention"
    )


@dataclass(frozen=True, kw_only=True)
class SeveralHeads(Document):
    """heads.json of several runs that were analysed by one command."""

    runs: tuple[HeadAnalysis, ...] = fact("each run's document")
    together: HeadsTogether = fact("what they say together")


@dataclass(frozen=True, kw_only=True)
class Removed:
    """The largest removable set for the smallest limit."""

    limit: float = fact("limit of the drop", unit="points")
    n: int = count("examples for the drop")
    heads: tuple[str, ...] = fact("names of the heads")
    drop: float = fact("accuracy lost", unit="points")
    drop_interval: Interval = fact("95 % interval of the drop", unit="points")
    alone: int = count("heads whose own drop is under the limit")
    alone_drop: float = fact("their joint drop", unit="points")


@dataclass(frozen=True, kw_only=True)
class Mover:
    """A head that flips a carry when it is patched."""

    head: str = fact("name of the head")
    rate: float = fraction("flip rate")
    interval: Interval = fraction("95 % interval of the rate")
    control: Control | None = fact("its control, if there is one", optional=True)


@dataclass(frozen=True, kw_only=True)
class MovedCarry:
    """A carry, and the single heads that flip it most often."""

    name: str = fact("which carry")
    n: int = count("pairs for the rates")
    chosen_on_n: int | None = count("other pairs, used to choose the heads", optional=True)
    heads: tuple[Mover, ...] = fact("the heads")


@dataclass(frozen=True, kw_only=True)
class RunHeads:
    """The heads of a run in short."""

    run: str = fact("name of the run")
    n: int = count("examples analysed")
    accuracy: float = fraction("accuracy of the whole model", key="exact_match", formerly=("accuracy",))
    heads: int = count("heads of the model")
    verdicts: Mapping[str, int] = count("heads of each verdict")
    removable: Removed = fact("largest removable set")
    sufficient: tuple[str, ...] = fact("heads that suffice for an accuracy within the smallest limit")
    carry: tuple[MovedCarry, ...] = fact("heads that flip each carry")
    real_disagreements: int = count("disagreements of the instruments that rounding cannot explain")
    failed_checks: tuple[str, ...] = fact("failed self-checks of the instruments, in words", default=())


@dataclass(frozen=True, kw_only=True)
class HeadsStudy(Document):
    """analysis/heads.json of a study."""

    form: Literal[1] = fact("version of this document", default=1)
    runs: tuple[RunHeads, ...] = fact("every run whose heads were analysed")
    together: HeadsTogether | None = fact("summary over seeds, for a study of one combination", optional=True)
