"""model.json: a model of another program that was analysed, and its answers without each head on stored examples."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headway.results.schema import Document, count, fact


@dataclass(frozen=True, kw_only=True)
class StoredExample:
    """An example whose attention is in heads.json, in the same order."""

    answer: tuple[str, ...] = fact("the model's answer: its class, or its token at every position")
    without: Mapping[str, tuple[str, ...]] = fact("its answer with one head's output set to zero, by head")


@dataclass(frozen=True, kw_only=True)
class AnalysedModel(Document):
    """What was analysed; the results are beside it in analysis/."""

    form: Literal[1] = fact("version of this document", default=1)
    model: str = fact("the model, as on the command line")
    weights: str | None = fact("SHA-256 of its weights file; null for hf:PATH", default=None)
    data: str = fact("path of the data")
    split: str = fact("split of the data; `given` for one file")
    metric: str = fact("metric of the head analysis")
    parameters: int = count("parameters")
    sites: tuple[str, ...] = fact("attention modules, by headway's names")
    command: tuple[str, ...] = fact("command line")
    time: str = fact("when it was analysed, UTC")
    versions: Mapping[str, str] = fact("versions of headway, torch and Python")
    examples: tuple[StoredExample, ...] = fact("stored examples", default=())
