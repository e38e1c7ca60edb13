"""The list of head analyses, and the interface of their results.

An analysis is one class (`headway.head_analysis.instrument.Analysis`) in one file of `head_analysis/`, and one line of
`ANALYSES`. Its result is a dataclass of facts that derives from `Finding`: a part of heads.json with its own sentences,
figure, doubts and view. The classes of further analyses are imported wherever heads.json is read, so their files import
torch inside the functions that compute.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from headway.registry import Registry
from headway.results.schema import Document, Interval


@dataclass(frozen=True)
class Bar:
    """A value and its interval."""

    name: str
    value: float
    interval: Interval


@dataclass(frozen=True)
class Bars:
    """A bar chart as data: one bar per value, with its interval."""

    title: str
    subtitle: str
    unit: str
    bars: tuple[Bar, ...]


@runtime_checkable
class Told(Protocol):
    """A sentence: `str` for a terminal, `__html__` for a page (`narration.text.Text` is one)."""

    def __html__(self) -> str: ...


class View(Document):
    """What the explorer shows of a finding: a dataclass, whose fields the page finds under their names in JSON."""


class Finding:
    """The result of an analysis. Every method has an empty default."""

    title: ClassVar[str] = ""
    """Title of its section in the report."""

    def sentences(self) -> Sequence[Told]:
        """The sentences for the terminal and the report."""
        return ()

    def figure(self) -> Bars | None:
        """The figure for the report."""
        return None

    def doubts(self) -> list[str]:
        """Reasons not to trust the analysis, in words; the doctor reports them."""
        return []

    def view(self) -> View | None:
        """The data for the explorer, as JSON."""
        return None


@runtime_checkable
class Makes(Protocol):
    """A class of `ANALYSES`, with the attribute that readers of documents need."""

    result: ClassVar[type]


ANALYSES: Registry[Makes] = Registry(
    "analysis",
    "headway.head_analysis.instrument:Analysis",
    {
        "capture": "headway.head_analysis.capture:Capturing",
        "scores": "headway.head_analysis.scores:Scoring",
        "ablation": "headway.head_analysis.ablation:SingleAblation",
        "joint": "headway.head_analysis.joint:JointSets",
        "interventions": "headway.head_analysis.interventions:ActivationPatching",
        "anatomy": "headway.head_analysis.error_analysis:Errors",
        "attribution": "headway.head_analysis.attribution:DirectLogitAttribution",
        "checks": "headway.head_analysis.checks:SelfChecks",
    },
)
"""All analyses, in the order in which they run."""
MAIN = ("capture", "scores", "ablation", "joint", "interventions", "anatomy", "checks")
"""Those that every heads.json has; `HeadAnalysis` has a field for each."""


def further() -> Mapping[str, type]:
    """The other analyses: the name in heads.json, and the type of the result."""
    return {name: ANALYSES.get(name).result for name in ANALYSES.names() if name not in MAIN}
