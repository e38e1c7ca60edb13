"""heads.json: what each head attends to, the accuracy lost without it, and joint effects of heads.

Drops are in points of whole-answer accuracy (100 = everything). The parts about several heads at once are in
`joint_ablation.py`, those about single examples in `error_analysis.py`, activation patching in `patching.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from headway.errors import InputError, suggestion
from headway.json_values import JsonValue
from headway.results.analyses import Finding, further
from headway.results.attention import Capture
from headway.results.checks import Checks
from headway.results.error_analysis import ErrorAnalysis
from headway.results.joint_ablation import JointAblation
from headway.results.patching import Patching
from headway.results.schema import Document, Interval, OtherForm, count, fact, fraction

F = TypeVar("F", bound=Finding)
R = TypeVar("R")
FORM = 1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of an analysis besides the run; an analysis with the same settings is not made again."""

    split: str = fact("split of the examples")
    examples: int = count("examples requested")
    thorough: bool = fact("whether the joint parts use ten times as many examples")
    maps: int | None = fact("examples whose attention is stored, if not 3", optional=True)
    step: int = count("step of the checkpoint")
    device: str = fact("cpu or cuda")
    rules: int = fact("version of the rules for verdicts and tests", default=1)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The number of examples of each part: determined by the model's size, the device and `thorough`."""

    examples: int = count("examples for scores, single ablations and error analysis")
    permutations: int = count("sampled orders of heads for Shapley values")
    decoded: int = count("examples for the check of the instruments by greedy decoding")
    elimination: int = count("examples for each half of the elimination")
    shapley: int = count("examples for Shapley values by kind of attention")
    all_heads: int = count("examples for Shapley values over all heads", key="all")
    pairs: int = count("examples for pairwise interactions")
    interventions: int = count("pairs of examples of each contrast")


@dataclass(frozen=True, kw_only=True)
class TokenAccuracy:
    """Accuracy of one token of the answer."""

    token: str = fact("name of the answer token")
    accuracy: float = fraction("share of examples with this token right")


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The unchanged model, on the examples of the ablations."""

    n: int = count("examples")
    wrong: int = count("examples whose answer is wrong")
    accuracy: float = fraction("share of answers that are right as a whole", key="exact_match", formerly=("accuracy",))
    interval: Interval = fraction("95 % interval of the accuracy (Wilson)")
    token_accuracy: float = fraction("share of answer tokens that are right")
    by_token: tuple[TokenAccuracy, ...] = fact("accuracy of each answer token")
    loss: float = fact("mean cross-entropy of an answer token", unit="nats")
    margin: float | None = fact(
        "mean over examples of the smallest margin of an answer token: the right token's logit minus the best other's",
        unit="logits",
        optional=True,
    )
    margin_interval: Interval | None = fact("95 % interval of the margin", unit="logits", optional=True)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How the paired differences of a real-valued metric are spread over the examples, as shares of the scale."""

    n: int = count("differences, with two of the largest size possible where there is one")
    deviation: float = fact("standard deviation")
    skewness: float = fact("skewness")


@dataclass(frozen=True, kw_only=True)
class Drop:
    """The cost of one change: the paired drop with its interval and tests, the loss and the margin.

    If the document has a real-valued `metric`, the drop, its intervals, p-values and verdict are about that metric,
    in points of which 100 are its scale, and `spread` is set. All other facts are about answers.

    `p` and `p_holm` test "the drop differs from 0", which no verdict uses. A verdict uses the p-value of its own claim,
    corrected over the sweep: above 10 points, above 1, below -1, or within 1 either way (`p_equivalence_holm`).
    """

    n: int = count("examples")
    lost: int = count("examples right before and wrong after")
    gained: int = count("examples wrong before and right after")
    drop: float = fact("accuracy lost, or what is lost of the metric", unit="points")
    interval: Interval = fact("95 % interval of the drop", unit="points")
    interval_90: Interval = fact("90 % interval of the drop", unit="points")
    p: float = fraction("p-value of no difference (McNemar; of a real-valued metric, Student and Hall)")
    p_holm: float = fraction("the same, corrected over the sweep (Holm)")
    p_equivalence: float = fraction("p-value of a drop of more than 1 point either way")
    p_equivalence_holm: float = fraction("the same, corrected over the sweep")
    p_critical_holm: float | None = fraction("corrected p-value of a drop of at most 10 points", optional=True)
    p_important_holm: float | None = fraction("corrected p-value of a drop of at most 1 point", optional=True)
    p_harmful_holm: float | None = fraction("corrected p-value of a drop of at least -1 point", optional=True)
    verdict: str = fact("critical, important, redundant, harmful or undecided, by this ablation alone")
    n_to_decide: int | None = fact("examples that would decide at the same rates; null if no number would")
    accuracy: float = fraction("accuracy after the change", key="exact_match", formerly=("accuracy",))
    token_accuracy: float = fraction("share of answer tokens that are right after the change")
    by_token: tuple[TokenAccuracy, ...] = fact("accuracy of each answer token after the change")
    loss: float = fact("mean cross-entropy of an answer token after the change", unit="nats")
    loss_change: float | None = fact("change of the mean loss; null if it was 0", unit="%")
    loss_change_interval: Interval | None = fact(
        "95 % interval of the change; too narrow for a model without errors", unit="%", default=None
    )
    margin: float | None = fact("mean margin after the change", unit="logits", optional=True)
    margin_change: float | None = fact("change of the mean margin", unit="logits", optional=True)
    margin_change_interval: Interval | None = fact(
        "95 % interval of the change (paired, Student's)", unit="logits", optional=True
    )
    spread: Spread | None = fact("spread of the differences of a real-valued metric", optional=True)


@dataclass(frozen=True, kw_only=True)
class Head:
    """One head: its position in the model, its scores, and the accuracy lost without it."""

    name: str = fact("`dec1.cross.h2`: layer, kind of attention, index", key="head")
    site: str = fact("attention module of the model: `decoder.1.cross`")
    kind: str = fact("kind of attention: encoder, decoder or cross")
    layer: int = fact("layer, from 0")
    causal: bool = fact("whether a query sees only itself and earlier tokens")
    index: int = fact("index within the site, from 0")
    verdict: str = fact("verdict over all kinds of ablation")
    role: str = fact("kind of attention, and the part that the head favours most over uniform attention")
    scores: Mapping[str, float | None] = fact("mean over examples of each score; null if it does not apply")
    deviations: Mapping[str, float | None] = fact("standard deviation over examples of each score")
    uniform: Mapping[str, float | None] = fact("score of uniform attention on each part", key="even")
    ablation: Mapping[str, Drop] = fact("cost of ablating the head, by kind of ablation: zero, mean, ...")


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A real-valued metric of an example, and what the whole model has of it."""

    name: str = fact("name of the metric")
    definition: str = fact("what it measures, in words")
    unit: str = fact("its unit")
    higher_is_better: bool = fact("whether more of it is better; a drop is a change for the worse in any case")
    mean: float = fact("mean over the examples of the whole model, in the unit")
    interval: Interval = fact("95 % interval of the mean (Student and Hall)")
    scale: float = fact("100 points of a drop, in the unit")
    scale_of: str = fact("what the scale is")


@dataclass(frozen=True, kw_only=True)
class Prunable:
    """Shares of heads that can be removed one at a time, by three measures."""

    under_1_point: float = fraction("share of heads with a drop under 1 point")
    under_1_point_interval: Interval | None = fraction("95 % interval of the share", optional=True)
    under_5_points: float = fraction("share of heads with a drop under 5 points")
    under_5_points_interval: Interval | None = fraction("95 % interval of the share", optional=True)
    under_1_percent_of_loss: float = fraction("share of heads whose ablation raises the loss by less than 1 %")


@dataclass(frozen=True, kw_only=True, repr=False)
class HeadAnalysis(Document):
    """All results about the heads of a run; `hw.heads(run)` returns it."""

    settings: Settings | None = fact("settings of the analysis", optional=True)
    form: int = fact("version of this document", default=FORM)
    run: str = fact("run directory")
    step: int = count("step of the checkpoint")
    task: str = fact("name of the task")
    seed: int = fact("seed of the run")
    split: str = fact("split of the examples")
    device: str = fact("cpu or cuda")
    n: int = count("examples analysed")
    sizes: Sizes = fact("examples of each part")
    seconds: Mapping[str, float] = fact("time of each part", unit="s")
    warnings: tuple[str, ...] = fact("warnings about the verdicts")
    unit_of_drops: str = fact("unit of drops", default="points of whole-answer accuracy (100 = everything)")
    metric: Metric | None = fact("real-valued metric that drops are of; none for whole answers", optional=True)
    baseline: Baseline = fact("the model without ablation")
    definitions: Mapping[str, str] = fact("meaning, formula and worked example of each score")
    family: int = count("number of claims in the correction of single-ablation verdicts")
    without_source: int = count(
        "examples without another of the same lengths, which resample ablation leaves unchanged", key="without_donor"
    )
    heads: tuple[Head, ...] = fact("every head")
    prunable: Mapping[str, Prunable] = fact("heads that can be removed one at a time, by kind of ablation")
    joint: JointAblation = fact("heads ablated together")
    interventions: Patching = fact("activation patching between examples that differ in one property")
    error_analysis: ErrorAnalysis = fact("which examples fail", key="anatomy")
    parts: Mapping[str, Finding] = fact("results of the other analyses", default={}, further=further)
    capture: Capture = fact("attention weights on a few examples and on average")
    checks: Checks = fact("self-checks of the instruments")

    def __repr__(self) -> str:
        return f"HeadAnalysis({self.run!r}, {len(self.heads)} heads, n={self.n})"

    @property
    def verdicts(self) -> dict[str, str]:
        return {head.name: head.verdict for head in self.heads}

    @property
    def kinds(self) -> list[str]:
        """The kinds of attention in the model."""
        return list(dict.fromkeys(head.kind for head in self.heads))

    def head(self, name: str) -> Head:
        """Scores, ablations and verdict of one head."""
        found = {head.name: head for head in self.heads}
        if name not in found:
            raise InputError(f"no head {name!r} here; {suggestion(name, found)}")
        return found[name]

    def part(self, kind: type[F]) -> F | None:
        """The result of one of the other analyses; None if it was not made or does not apply."""
        return next((part for part in self.parts.values() if isinstance(part, kind)), None)

    @property
    def findings(self) -> list[Finding]:
        """The results of all analyses of several heads, in the order of the document."""
        return [self.joint, self.interventions, self.error_analysis, *self.parts.values(), self.checks]

    def doubts(self) -> list[str]:
        """The reasons not to trust the analysis, in words; empty if there are none."""
        return [reason for finding in self.findings for reason in finding.doubts()]

    def top(self, count: int = 5, kind: str = "zero") -> list[tuple[str, float]]:
        """The heads with the largest drops, in points."""
        drops = [(head.name, head.ablation[kind].drop) for head in self.heads]
        return sorted(drops, key=lambda pair: -pair[1])[:count]

    @classmethod
    def upgrade(cls, document: JsonValue) -> JsonValue:
        """Refuse a document of another form."""
        form = document.get("form") if isinstance(document, Mapping) else FORM
        if form != FORM:
            raise OtherForm(f"form is {form!r}; this version reads {FORM}")
        return document


@runtime_checkable
class Analysed(Protocol):
    """The part of a run directory that a reader needs."""

    @property
    def path(self) -> Path: ...

    def read_result(self, kind: type[R], name: str, step: int | None = None) -> R | None: ...


def read_heads(run: Analysed, step: int | None = None) -> HeadAnalysis | None:
    """The head analysis of a run, or None; raises with the path inside the file if it does not fit."""
    return run.read_result(HeadAnalysis, "heads", step)
