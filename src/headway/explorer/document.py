"""The document of one run, as the page reads it: page/engine-*.js and page/app-*.js use these names."""

from collections.abc import Mapping
from dataclasses import dataclass

from headway.explorer.packing import PackedWeights
from headway.json_values import JsonObject, JsonValue
from headway.model.poolings.base import PoolingPage
from headway.results.schema import Document, Interval, fact
from headway.tasks import Vocabulary
from headway.tasks.descriptions import PageDescription, PositionRule


@dataclass(frozen=True, kw_only=True)
class TaskOfPage:
    """The task: its names, and the lengths that the page can show."""

    name: str
    kind: str
    page: PageDescription
    options: JsonObject
    classes: int
    parts: list[str]
    class_names: list[str]
    answer_names: list[str]
    token_names: list[str]
    shortest: int
    longest: int
    trained: tuple[int, int]
    longest_answer: int
    longest_answers: list[int]


@dataclass(frozen=True, kw_only=True)
class BiasTable:
    """How a bias is stored: by offset, from the `least` one on, or by pairs of rows."""

    by: str
    least: int | None = fact("smallest offset", optional=True)


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The tables of the positional encoding that are among the weights."""

    positions: PositionRule
    moved: bool
    shift: bool
    bias: Mapping[str, BiasTable]


@dataclass(frozen=True, kw_only=True)
class ModelOfPage:
    """The sizes and choices that the page's forward pass needs."""

    shape: str
    d_model: int
    n_heads: int
    d_head: int
    d_ff: int
    encoder_layers: int
    decoder_layers: int
    norm: str
    activation: str
    log_length_scale: bool
    epsilon: float
    position_kind: str
    pooling: PoolingPage | None
    tables: Tables


@dataclass(frozen=True, kw_only=True)
class SiteOfPage:
    """An attention module and its heads."""

    name: str
    side: str
    layer: int
    kind: str
    causal: bool
    window: int | None
    kept: list[int]
    heads: list[str]


@dataclass(frozen=True, kw_only=True)
class ExampleOfPage:
    """The tokens of an example, without padding, and its right answer or class."""

    source: list[int]
    target: list[int] | int


@dataclass(frozen=True, kw_only=True)
class Counted:
    """How many of the page's examples the whole model gets right."""

    n: int
    right: int


@dataclass(frozen=True, kw_only=True)
class PairOfPage:
    """Two sources that differ in one thing."""

    name: str
    about: str
    token: int
    base: list[int]
    patch_source: list[int]


@dataclass(frozen=True, kw_only=True)
class BaselineOfPage:
    """The whole model on the examples of the analysis."""

    n: int
    wrong: int
    exact_match: float
    interval: Interval


@dataclass(frozen=True, kw_only=True)
class DropOfPage:
    """What is lost without a head, by one kind of ablation."""

    drop: float
    interval: Interval
    n: int
    verdict: str
    exact_match: float


@dataclass(frozen=True, kw_only=True)
class HeadOfPage:
    """What was found about one head."""

    verdict: str
    role: str
    scores: Mapping[str, float | None]
    drops: Mapping[str, DropOfPage]


@dataclass(frozen=True, kw_only=True)
class HeadFindings:
    """heads.json, cut down to what the page shows beside its heads; `views` are of its other findings."""

    n: int
    split: str
    baseline: BaselineOfPage
    definitions: Mapping[str, str]
    heads: Mapping[str, HeadOfPage]
    views: Mapping[str, JsonValue] = fact("views of the findings, beside the other fields", further=dict)


@dataclass(frozen=True, kw_only=True)
class LengthPoint:
    """Accuracy on one set at one length."""

    set_name: str = fact("set of examples", key="set")
    length: int
    n: int
    accuracy: float
    interval: Interval


@dataclass(frozen=True, kw_only=True)
class LengthFindings:
    """lengths.json, cut down to the accuracy against length."""

    unit: str
    trained: tuple[int, int]
    threshold: float
    held: int
    rows: list[LengthPoint]


@dataclass(frozen=True, kw_only=True)
class StepOfPage:
    """The heads at one kept step of training; lists have the order of `TrainingFindings.heads`."""

    step: int
    accuracy: float
    interval: Interval
    drops: list[float]
    drop_intervals: list[Interval]
    usable: int
    flips: list[int]


@dataclass(frozen=True, kw_only=True)
class TrainingFindings:
    """over_training.json, cut down to importance and flip rates."""

    n: int
    heads: list[str]
    subject: str | None
    followed: str | None
    jump: int | None
    formed: int | None
    steps: list[StepOfPage]


@dataclass(frozen=True, kw_only=True)
class FailingOfPage:
    """An input that an attack found the model to get wrong, as a person types it."""

    input: str
    family: str
    tried: int


@dataclass(frozen=True, kw_only=True)
class RunDocument(Document):
    """Everything that the page needs to compute with one run."""

    name: str
    seed: int
    step: int
    task: TaskOfPage
    vocabulary: Vocabulary
    settings: list[tuple[str, str | int]]
    model: ModelOfPage
    sites: list[SiteOfPage]
    examples: list[ExampleOfPage]
    accuracy: Counted
    contrasts: list[PairOfPage]
    analysis: HeadFindings | None
    lengths: LengthFindings | None
    over_training: TrainingFindings | None
    failing: list[FailingOfPage]
    weights: PackedWeights
