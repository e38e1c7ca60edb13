"""The behaviour of every head at one length: attention scores, and the effect of ablating it.

Values are normalised so that length alone does not change them:

- attention on a part is its excess over even attention, (share - even) / (1 - even): 0 when attention is spread
  evenly, however many keys there are, and 1 when all of it is on the part;
- the entropy of attention is a share of the largest possible entropy, log2 of the visible keys;
- an effect is the loss of the right answer's margin when the head is ablated. On a set with equally many examples of
  each class, a shift towards one class cancels out, so only discrimination between classes counts.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.batches import Batch, make_batch
from headway.callbacks import OnProgress
from headway.evaluation import Trained, parts_of
from headway.head_analysis.head_runs import make_replacements
from headway.head_analysis.scores import site_scores, task_parts
from headway.head_analysis.variants import heads_of, run_variants
from headway.model.sites import Head, HeadSite
from headway.tasks import Examples, Task

KINDS = ("zero", "mean")
"""Kinds of ablation."""
LONGEST_CAPTURED = 1_024
"""Sources longer than this have no attention scores, because attention weights grow with the square of the length."""
CAPTURED, FEWEST_CAPTURED, CAPTURED_LENGTH = 64, 16, 256
"""Examples with attention scores: `CAPTURED` up to length `CAPTURED_LENGTH`, fewer beyond, at least
`FEWEST_CAPTURED`.
"""
CELLS = 1 << 22
"""Largest number of attention weights in memory at once, unless a single example has more."""


@dataclass(frozen=True)
class Sample:
    """The mean of a value over examples, its standard error, and the number of examples."""

    mean: float
    error: float
    n: int


@dataclass(frozen=True)
class AttentionScore:
    """One attention score of a head: the normalised value, and for parts also the plain share and the even share."""

    value: Sample
    share: float
    even: float | None


@dataclass(frozen=True)
class Behaviour:
    """All heads at one length; variants are the unchanged model, then each head ablated, kind by kind."""

    length: int
    heads: list[str]
    attention: dict[str, dict[str, AttentionScore]]
    """Head -> score name -> score; empty beyond `LONGEST_CAPTURED`; scores that apply to no example are missing."""
    right: Bool[np.ndarray, "variant example"]
    margin: Float[np.ndarray, "variant example"]
    groups: Int[np.ndarray, " example"]
    """The task's groups of examples, such as classes."""

    def variant(self, head: str, kind: str) -> int:
        """The row of `right` and `margin` with this head ablated."""
        return 1 + KINDS.index(kind) * len(self.heads) + self.heads.index(head)


def definitions(task: Task) -> dict[str, str]:
    """The definition of each compared score, as a sentence."""
    parts = {
        name: f"Attention on the part in excess of even attention, (share - even) / (1 - even). The part: {meaning}"
        for name, meaning in task.PARTS.items()
    }
    return {**parts, "entropy": "Entropy of the attention as a share of the largest possible, log2(visible keys)."}


def observe(
    trained: Trained, examples: Examples, length: int, progress: OnProgress = lambda done, total: None
) -> Behaviour:
    """Attention scores of all heads on a subset of the examples, and their ablations on all examples."""
    short = examples.source.shape[1] <= LONGEST_CAPTURED
    attention = attention_scores(trained, examples.take(slice(0, captured_at(length)))) if short else {}
    names = [str(head) for head in heads_of(trained)]
    replacements, _ = make_replacements(trained, examples, KINDS)
    alone = np.eye(len(names), dtype=np.int64)
    plan = np.concatenate([0 * alone[:1], *(alone * (code + 1) for code in range(len(KINDS)))])
    outcomes = run_variants(trained, examples, plan, replacements, progress, keep_margin=True)
    assert outcomes.margin is not None
    return Behaviour(length, names, attention, outcomes.right, outcomes.margin, trained.task.strata(examples.source))


def captured_at(length: int) -> int:
    """The number of examples with attention scores: 64 up to length 256, 32 at 512, 16 from 1,024 on."""
    return max(FEWEST_CAPTURED, CAPTURED * CAPTURED_LENGTH // max(length, CAPTURED_LENGTH))


@torch.inference_mode()
def attention_scores(trained: Trained, examples: Examples) -> dict[str, dict[str, AttentionScore]]:
    """Every attention score of every head, from forward passes over small batches."""
    found: dict[tuple[HeadSite, str], list[np.ndarray]] = defaultdict(list)
    for batch, record in recorded(trained, examples):
        parts = task_parts(trained, batch)
        for site in trained.model.sites:
            for name, values in _length_free(trained, batch, site, record[site.name], parts).items():
                found[site, name].append(values)
    attention: dict[str, dict[str, AttentionScore]] = {str(head): {} for head in heads_of(trained)}
    for (site, name), pieces in found.items():
        _add_scores(attention, site, name, np.concatenate(pieces, axis=1))
    return attention


def recorded(trained: Trained, examples: Examples) -> Iterator[tuple[Batch, dict[str, Tensor]]]:
    """Batches with the attention weights of every site, by site name."""
    for piece in _small_parts(trained, examples):
        batch = make_batch(trained.task, trained.model, piece, trained.device)
        record: dict[str, Tensor] = {}
        trained.model(batch.inputs, record)
        yield batch, record


def _small_parts(trained: Trained, examples: Examples) -> Sequence[Examples]:
    """Parts of the examples whose attention weights fit into `CELLS`."""
    tokens = examples.source.shape[1] + (examples.target.shape[1] if examples.target.ndim == 2 else 0)
    size = max(1, CELLS // (tokens * tokens * max(1, len(heads_of(trained)))))
    return [
        part.take(slice(start, start + size))
        for part in parts_of(examples, trained)
        for start in range(0, len(part), size)
    ]


def _length_free(
    trained: Trained, batch: Batch, site: HeadSite, weights: Tensor, parts: Mapping[str, Tensor]
) -> dict[str, Float[np.ndarray, "3 batch head"]]:
    """For every score and example: the normalised value, the plain share and the even share."""
    found = {}
    for name, (share, even) in site_scores(trained, batch, site, weights, dict(parts)).items():
        if name in parts:
            rest = (1 - even).masked_fill(even >= 1, torch.nan)  # undefined where all keys are in the part
            found[name] = torch.stack([(share - even) / rest, share, even.expand_as(share)])
        elif name == "entropy_share":
            found["entropy"] = torch.stack([share, share, torch.full_like(share, torch.nan)])
    return {name: values.double().cpu().numpy() for name, values in found.items()}


def _add_scores(attention: dict[str, dict[str, AttentionScore]], site: HeadSite, name: str, values: np.ndarray) -> None:
    for column, index in enumerate(site.kept):
        own = values[:, ~np.isnan(values[0, :, column]), column]
        if own.shape[1] >= 2:
            even = float(own[2].mean())
            attention[str(Head(site.name, index))][name] = AttentionScore(
                sample_of(own[0]), float(own[1].mean()), None if np.isnan(even) else even
            )


def sample_of(values: Float[np.ndarray, " example"], groups: Int[np.ndarray, " example"] | None = None) -> Sample:
    """Mean and standard error of independent values; with groups (at least two values each), the mean of group means.

    Differences between groups, such as a bias towards one class, then do not count as sampling error.
    """
    parts = [values] if groups is None else [values[groups == group] for group in np.unique(groups)]
    # Subtracting the first value gives equal values an error of exactly 0.
    errors = [(part - part[0]).std(ddof=1) / len(part) ** 0.5 for part in parts]
    mean = np.mean([part.mean() for part in parts])
    return Sample(float(mean), float(np.linalg.norm(errors)) / len(parts), len(values))
