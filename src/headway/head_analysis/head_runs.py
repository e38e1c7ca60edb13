"""What instruments ask of a model and its examples: run these head masks with these replacements.

`TrainedRuns` answers for headway's own model, by the tree of partial forward passes. A model that headway did not make
answers through hooks (`headway.attached_analysis.attached_runs`). Ablation, elimination, Shapley values and pairs know
nothing else of a model.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from headway.callbacks import OnProgress
from headway.errors import InputError, suggestion
from headway.evaluation import Trained
from headway.head_analysis.partial_forward import HeadMasks
from headway.head_analysis.variants import (
    Outcomes,
    ReplacementOf,
    means,
    patch_source,
    pick_patch_sources,
    run_variants,
    zero,
)
from headway.model.sites import Head, HeadSite
from headway.randomness import generator
from headway.tasks import Examples

KINDS = ("zero", "mean", "position-mean", "resample")
RANDOM_PURPOSE = "donors"
"""Names the random numbers that choose the other example; another name would change the results of every seed."""
Rows = slice | np.ndarray


@runtime_checkable
class HeadRuns(Protocol):
    """A model and examples on which head masks can be run."""

    @property
    def sites(self) -> Sequence[HeadSite]:
        """The sites in the order of computation."""

    @property
    def seed(self) -> int:
        """From which all random choices are drawn."""

    @property
    def largest_change(self) -> float | None:
        """The most that the metric of an example can change, as a share of its scale; None if there is no bound."""

    def __len__(self) -> int:
        """The number of examples."""

    def take(self, rows: Rows) -> "HeadRuns":
        """The same model on some of the examples."""

    def run(
        self,
        masks: HeadMasks,
        kinds: Sequence[str] = ("zero",),
        progress: OnProgress = lambda done, total: None,
        *,
        keep_margin: bool = False,
    ) -> Outcomes:
        """The outcomes of each row of the masks: 0 keeps a head, k ablates it by the k-th of the kinds."""

    def without_source(self) -> int:
        """How many examples resample ablation leaves as they are, because no other example has their length."""

    def answer_names(self, width: int) -> list[str]:
        """The names of answer tokens."""


def heads_in(sites: Sequence[HeadSite]) -> list[Head]:
    """Every head in the order of computation; these are the columns of head masks."""
    return [head for site in sites for head in site.heads]


def check_kinds(kinds: Sequence[str]) -> None:
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(f"unknown kind of ablation {kind!r}; {suggestion(kind, KINDS)}")


class TrainedRuns:
    """headway's own model on examples of its task; scored by whole-answer accuracy."""

    largest_change = None

    def __init__(self, trained: Trained, examples: Examples):
        self.trained, self.examples = trained, examples
        self.replacements: dict[tuple[str, ...], tuple[list[ReplacementOf], int]] = {}

    @property
    def sites(self) -> list[HeadSite]:
        return self.trained.model.sites

    @property
    def seed(self) -> int:
        return self.trained.config.data.seed

    def __len__(self) -> int:
        return len(self.examples)

    def take(self, rows: Rows) -> "TrainedRuns":
        return TrainedRuns(self.trained, self.examples.take(rows))

    def run(
        self,
        masks: HeadMasks,
        kinds: Sequence[str] = ("zero",),
        progress: OnProgress = lambda done, total: None,
        *,
        keep_margin: bool = False,
    ) -> Outcomes:
        replacements, _ = self._replacements(kinds)
        return run_variants(self.trained, self.examples, masks, replacements, progress, keep_margin=keep_margin)

    def without_source(self) -> int:
        return self._replacements(("resample",))[1]

    def answer_names(self, width: int) -> list[str]:
        return self.trained.task.answer_names(width)

    def _replacements(self, kinds: Sequence[str]) -> tuple[list[ReplacementOf], int]:
        if tuple(kinds) not in self.replacements:
            self.replacements[tuple(kinds)] = make_replacements(self.trained, self.examples, kinds)
        return self.replacements[tuple(kinds)]


def make_replacements(
    trained: Trained, examples: Examples, kinds: Sequence[str] = KINDS
) -> tuple[list[ReplacementOf], int]:
    """The replacement of a head's output for each kind, and how many examples had no other example to take it from."""
    check_kinds(kinds)
    replacements: dict[str, ReplacementOf] = {"zero": zero}
    without = 0
    if "mean" in kinds or "position-mean" in kinds:
        replacements["mean"], replacements["position-mean"] = means(trained, examples)
    if "resample" in kinds:
        patch_sources = pick_patch_sources(trained, examples, generator(trained.config.data.seed, RANDOM_PURPOSE))
        without = int((patch_sources == np.arange(len(examples))).sum())
        replacements["resample"] = patch_source(trained, examples.take(patch_sources))
    return [replacements[kind] for kind in kinds], without
