"""The analyses of heads: the list of them, and what is asked of everything that one of them found.

An analysis is one class (`headway.head_analysis.instrument.Analysis`) in one file of `head_analysis/`, and one line of
`ANALYSES`. What it found is a dataclass of facts that is a `Finding`: a part of heads.json which says itself what a
terminal, a report, the doctor and the explorer tell of it. The classes of `FURTHER` are imported wherever heads.json is
read, so their files import torch inside the functions that compute.
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
    """A figure as data: a bar for each value, with its interval."""

    title: str
    subtitle: str
    unit: str
    bars: tuple[Bar, ...]


@runtime_checkable
class Told(Protocol):
    """A sentence: `str` of it for a terminal, its HTML for a page (`narration.text.Text` is one)."""

    def __html__(self) -> str: ...


class View(Document):
    """What the explorer shows of a finding: a dataclass, whose fields the page finds under their names in JSON."""


class Finding:
    """What an analysis found. Each method may be left as it is, where there is nothing to say."""

    title: ClassVar[str] = ""
    """Title of its section in the report."""

    def sentences(self) -> Sequence[Told]:
        """What the terminal and the report say."""
        return ()

    def figure(self) -> Bars | None:
        """What the report draws."""
        return None

    def doubts(self) -> list[str]:
        """What the doctor asks: reasons not to believe the analysis, each in words."""
        return []

    def view(self) -> View | None:
        """What the explorer shows."""
        return None


@runtime_checkable
class Makes(Protocol):
    """A class of `ANALYSES`, as far as a reader of documents knows it."""

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
"""Every analysis, in the order in which they are made."""
MAIN = ("capture", "scores", "ablation", "joint", "interventions", "anatomy", "checks")
"""Those that every heads.json has; `HeadAnalysis` has fields for what they found."""


def further() -> Mapping[str, type]:
    """The other analyses: the name in heads.json, and the type of what was found."""
    return {name: ANALYSES.get(name).result for name in ANALYSES.names() if name not in MAIN}
