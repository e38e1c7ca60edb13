"""What several seeds say together about heads, and analysis/heads.json of a study. The seed is the unit everywhere."""

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
    errors: tuple[str, ...] | None = fact("sources of error that the interval covers: seeds, examples", default=None)


@dataclass(frozen=True, kw_only=True)
class RatesOverSeeds:
    """A rate of every seed. They lie near 0 or near 1, so that their mean would be no seed's rate."""

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

    heads: OverSeeds = fact("number of heads with this role in a seed")
    drop: OverSeeds = fact("mean drop of these heads, in the seeds that have any", unit="points")


@dataclass(frozen=True, kw_only=True)
class SetOverSeeds:
    """Heads that were chosen one at a time, and what they cost together."""

    heads: OverSeeds = fact("how many there are")
    drop_together: OverSeeds = fact("joint drop of all of them", unit="points")


@dataclass(frozen=True, kw_only=True)
class RemovableOverSeeds:
    """The largest removable sets of every seed."""

    limit: float = fact("limit of the drop", unit="points")
    heads: OverSeeds = fact("heads in the set")
    drop: OverSeeds = fact("their joint drop on examples not used for choosing", unit="points")
    sum_of_single_drops: OverSeeds = fact("sum of the single drops of the set", unit="points")
    alone_under_limit: SetOverSeeds = fact("all heads whose own drop is under the limit")
    adding_up: SetOverSeeds = fact("the largest set whose single drops sum to less than the limit")


@dataclass(frozen=True, kw_only=True)
class ControlOverSeeds:
    """The control of one group of heads."""

    changed: RatesOverSeeds = fact("share in which the answer token changes although it should not")
    digits: RatesOverSeeds = fact("how often the digits move")
    readings: Mapping[str, int] = count("seeds with each reading")


@dataclass(frozen=True, kw_only=True)
class ControlsOverSeeds:
    """The controls of a contrast."""

    seeds: int = count("seeds that have controls")
    together: Mapping[str, ControlOverSeeds] = fact("of the heads of each site and kind of attention")


@dataclass(frozen=True, kw_only=True)
class ContrastOverSeeds:
    """Activation patching between pairs that differ in one thing."""

    name: str = fact("what differs")
    about: str = fact("carry or digits")
    seeds: int = count("seeds whose model gets some pair right")
    strongest: Mapping[str, RatesOverSeeds] = fact("rate of the strongest head of each kind of attention")
    together: Mapping[str, RatesOverSeeds] = fact("rate of all heads of each site and kind of attention at once")
    control: ControlsOverSeeds | None = fact("controls, where the contrast has them", optional=True)


Correlations = Mapping[str, OverSeeds | Mapping[str, Mapping[str, OverSeeds]]]
"""By score; under `within`, by kind of attention and score."""


@dataclass(frozen=True, kw_only=True)
class HeadsTogether:
    """What several seeds of one recipe say together; heads are matched by rank or by role, never by index."""

    seeds: int = count("number of seeds")
    runs: tuple[str, ...] = fact("their run directories")
    descriptive: bool = fact("whether there are too few seeds for an interval")
    accuracy: OverSeeds = fact("accuracy of the whole model", key="exact_match", formerly=("accuracy",))
    verdicts: Mapping[str, Mapping[str, OverSeeds]] = fact(
        "heads of each verdict: `overall`, and by each kind of ablation"
    )
    prunable: Mapping[str, PrunableOverSeeds] = fact("heads that can be removed one at a time, by kind of ablation")
    by_rank: Mapping[str, tuple[OverSeeds, ...]] = fact(
        "drop of the head that costs most, the next, ... of each kind of attention (zero ablation)", unit="points"
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
    """The largest set that was chosen to go together for the smallest limit."""

    limit: float = fact("limit of the drop", unit="points")
    n: int = count("examples on which the drop is measured")
    heads: tuple[str, ...] = fact("names of the heads")
    drop: float = fact("accuracy lost", unit="points")
    drop_interval: Interval = fact("95 % interval of the drop", unit="points")
    alone: int = count("heads whose own drop is under the limit")
    alone_drop: float = fact("their joint drop", unit="points")


@dataclass(frozen=True, kw_only=True)
class Mover:
    """A head that moves a carry when it is patched."""

    head: str = fact("name of the head")
    rate: float = fraction("rate")
    interval: Interval = fraction("95 % interval of the rate")
    control: Control | None = fact("its control, where there is one", optional=True)


@dataclass(frozen=True, kw_only=True)
class MovedCarry:
    """A carry, and the single heads that move it most often."""

    name: str = fact("which carry")
    n: int = count("pairs on which the rates are measured")
    chosen_on_n: int | None = count("other pairs, on which the heads were chosen", optional=True)
    heads: tuple[Mover, ...] = fact("the heads")


@dataclass(frozen=True, kw_only=True)
class RunHeads:
    """A run's heads in short."""

    run: str = fact("name of the run")
    n: int = count("examples analysed")
    accuracy: float = fraction("accuracy of the whole model", key="exact_match", formerly=("accuracy",))
    heads: int = count("heads of the model")
    verdicts: Mapping[str, int] = count("number of heads of each verdict")
    removable: Removed = fact("sets chosen for joint removal")
    sufficient: tuple[str, ...] = fact("heads that are sufficient at the smallest limit")
    carry: tuple[MovedCarry, ...] = fact("heads that move each carry")
    real_disagreements: int = count("failed instrument checks that rounding cannot explain")
    failed_checks: tuple[str, ...] = fact("failed instrument checks, in words", default=())


@dataclass(frozen=True, kw_only=True)
class HeadsStudy(Document):
    """analysis/heads.json of a study."""

    form: Literal[1] = fact("version of this document", default=1)
    runs: tuple[RunHeads, ...] = fact("every run whose heads were analysed")
    together: HeadsTogether | None = fact("the seeds of a study of one combination, together", optional=True)
