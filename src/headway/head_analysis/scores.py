"""Attention scores: what each head attends to, as numbers over a split.

Each score is defined once, by the docstring of its function, which `headway heads` prints and stores. Shares of
attention on the parts of an example come from the parts that the task names (`Task.parts`), so a new task needs
no code here. A score of an example is its mean over the queries to which it applies; a head's score is the mean
over examples, with the standard deviation between them.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.batches import Batch, make_batch
from headway.callbacks import OnProgress
from headway.evaluation import Trained, parts_of
from headway.head_analysis.instrument import OneStep, Subject
from headway.head_analysis.variants import query_mask
from headway.model.sites import Head, HeadSite
from headway.tasks import Examples, Task

Weights = Float[Tensor, "batch head query key"]
Seen = Bool[Tensor, "batch query key"]
Score = Callable[[Weights, Seen], tuple[Tensor, Tensor]]
"""weights and which keys each query may see -> (`batch head query` values, `batch query` where it applies)."""


def entropy(weights: Weights, seen: Seen) -> tuple[Tensor, Tensor]:
    """Entropy of the attention in bits: -sum over keys of w log2 w, from 0 (one key) to log2 of the visible keys.

    Weights 1/2, 1/4, 1/4, 0 have 1.5 bits; over 7 keys at most log2 7 = 2.81 bits are possible.
    """
    bits = -(weights * weights.clamp(min=torch.finfo(weights.dtype).tiny).log2()).sum(-1)
    return bits.clamp(min=0), seen.any(-1)


def entropy_share(weights: Weights, seen: Seen) -> tuple[Tensor, Tensor]:
    """Entropy as a share of the largest possible: bits / log2(visible keys), from 0 to 1; needs two visible keys.

    Weights 1/2, 1/4, 1/4, 0 over 4 visible keys: 1.5 / 2 = 0.75.
    """
    bits, _ = entropy(weights, seen)
    keys = seen.sum(-1)
    return bits / keys.clamp(min=2).log2()[:, None], keys > 1


def sparsity(weights: Weights, seen: Seen) -> tuple[Tensor, Tensor]:
    """Hoyer's sparsity: (sqrt(k) - 1 / |w|) / (sqrt(k) - 1) with k visible keys and |w| the root of the sum of squares.

    0 when all visible keys get the same, 1 when one gets everything; weights 1/2, 1/2, 0, 0 of 4 keys:
    (2 - 1.414) / (2 - 1) = 0.586. Needs two visible keys.
    """
    keys = seen.sum(-1)
    root = keys.clamp(min=2).sqrt()[:, None]
    length = weights.square().sum(-1).sqrt().clamp(min=torch.finfo(weights.dtype).tiny)
    return ((root - 1 / length) / (root - 1)).clamp(0, 1), keys > 1


def self_token(weights: Weights, seen: Seen) -> tuple[Tensor, Tensor]:
    """Share of attention on the query's own token: w[q, q]. Self-attention only.

    A token that looks half at itself and half at its left neighbour has 0.5.
    """
    return _share_at(weights, seen, 0)


def previous_token(weights: Weights, seen: Seen) -> tuple[Tensor, Tensor]:
    """Share of attention on the token before the query's: w[q, q - 1], padding left out. Self-attention only.

    A token that looks half at itself and half at its left neighbour has 0.5.
    """
    return _share_at(weights, seen, 1)


def distance(weights: Weights, seen: Seen) -> tuple[Tensor, Tensor]:
    """Mean distance looked over, in tokens: sum over keys of w |q - k|, padding left out. Self-attention only.

    The fourth token looking half at itself and half at the first: 0.5 x 0 + 0.5 x 3 = 1.5.
    """
    return (weights * _steps_back(seen).abs()[:, None]).sum(-1), seen.any(-1)


def _share_at(weights: Weights, seen: Seen, back: int) -> tuple[Tensor, Tensor]:
    return part_share(weights, (_steps_back(seen) == back) & seen)


def _steps_back(seen: Seen) -> Int[Tensor, "batch query key"]:
    """How many tokens before the query each key is, without padding."""
    place = seen.diagonal(dim1=1, dim2=2).cumsum(-1)
    return place[:, :, None] - place[:, None, :]


def part_share(weights: Weights, part: Seen) -> tuple[Tensor, Tensor]:
    """Share of attention on a part: the sum of the weights on its tokens, over the queries that can see at least
    one.
    """
    return (weights * part[:, None]).sum(-1), part.any(-1)


EVERYWHERE: tuple[Score, ...] = (entropy, entropy_share, sparsity)
SELF_ONLY: tuple[Score, ...] = (self_token, previous_token, distance)


def definitions(task: Task) -> dict[str, str]:
    """Every score's meaning, formula and worked example, from its docstring."""
    return definitions_of_parts(task.PARTS)


def definitions_of_parts(parts: Mapping[str, str]) -> dict[str, str]:
    """The same for named parts of an example."""
    own = {score.__name__: inspect.cleandoc(score.__doc__ or "") for score in (*EVERYWHERE, *SELF_ONLY)}
    first = inspect.cleandoc(part_share.__doc__ or "")
    return {**{name: f"{first} The part: {meaning}" for name, meaning in parts.items()}, **own}


@dataclass(frozen=True)
class HeadScores:
    """Mean and standard deviation over examples of every score of every head; None where a score does not apply."""

    n: int
    means: dict[str, dict[str, float | None]]
    deviations: dict[str, dict[str, float | None]]
    uniform: dict[str, dict[str, float | None]]
    """The score of each part under uniform attention over the visible keys."""


class Scoring(OneStep[HeadScores]):
    """What each head attends to."""

    name, result = "scores", HeadScores

    def make(self, subject: Subject, progress: OnProgress) -> HeadScores:
        return score_heads(subject.trained, subject.examples)


LEAST_LIFT = 0.1


def role_of(kind: str, means: Mapping[str, float | None], even: Mapping[str, float | None]) -> str:
    """The kind of attention, and the part on which a head's attention exceeds uniform attention most.

    `cross: carry` for a cross-attention head that puts 0.7 on the carry's columns where even attention would put
    0.3; `spread` where no part gets at least 0.1 more than its even share.
    """
    lifts = {part: mean - even[part] for part, mean in means.items() if mean is not None and even.get(part) is not None}  # type: ignore[operator]
    best = max(lifts, key=lambda part: lifts[part], default=None)
    return f"{kind}: {best}" if best is not None and lifts[best] >= LEAST_LIFT else f"{kind}: spread"


def score_heads(trained: Trained, examples: Examples) -> HeadScores:
    """The scores of every head over the examples, from one teacher-forced pass."""
    sums = ScoreSums()
    for piece in parts_of(examples, trained):
        batch = make_batch(trained.task, trained.model, piece, trained.device)
        record: dict[str, Tensor] = {}
        with torch.inference_mode():
            trained.model(batch.inputs, record)
        parts = task_parts(trained, batch)
        for site in trained.model.sites:
            for name, (values, uniform) in site_scores(trained, batch, site, record[site.name], parts).items():
                sums.add(site, name, values, uniform)
    return sums.result(len(examples))


def site_scores(
    trained: Trained, batch: Batch, site: HeadSite, weights: Tensor, parts: dict[str, Tensor]
) -> dict[str, tuple[Tensor, Tensor]]:
    """Every score of one site for each example, `batch head`, and its value under uniform attention."""
    cut = {name: cut_part(part, batch, site, trained) for name, part in parts.items()}
    return scores_of_weights(weights, visible_keys(trained, batch, site), cut, across=site.across)


def scores_of_weights(
    weights: Weights, seen: Seen, parts: Mapping[str, Seen], *, across: bool
) -> dict[str, tuple[Tensor, Tensor]]:
    """Every score of the weights of one site, and its value under uniform attention; `parts` are keys by query."""
    found = {}
    for name, part in parts.items():
        inside = part & seen
        even = (seen / seen.sum(-1, keepdim=True).clamp(min=1))[:, None].to(weights.dtype)
        found[name] = (_over_queries(*part_share(weights, inside)), _over_queries(*part_share(even, inside)))
    nothing = weights.new_full(weights.shape[:2], torch.nan)
    for score in (*EVERYWHERE, *SELF_ONLY):
        applies = not (across and score in SELF_ONLY)
        found[score.__name__] = (_over_queries(*score(weights, seen)) if applies else nothing, nothing)
    return found


def _over_queries(values: Float[Tensor, "batch head query"], applies: Bool[Tensor, "batch query"]) -> Tensor:
    """The mean over the queries to which a score applies; NaN for an example with none."""
    weight = applies[:, None].to(values.dtype)
    return (values * weight).sum(-1) / weight.sum(-1).masked_fill(weight.sum(-1) == 0, torch.nan)


def visible_keys(trained: Trained, batch: Batch, site: HeadSite) -> Seen:
    """Which keys each query of a site may see; padding is not a query."""
    queries = query_mask(trained, batch, site)
    source = batch.inputs.source != trained.task.vocabulary.pad
    keys = source if site.across else queries
    seen = queries[:, :, None] & keys[:, None, :]
    causal = not site.across and trained.model.kinds[site.kind]
    return seen & torch.ones_like(seen[0]).tril() if causal else seen


def task_parts(trained: Trained, batch: Batch) -> dict[str, Bool[Tensor, "batch token token"]]:
    """The parts that the task names, as tensors over source and prefix tokens in one row."""
    prefix = batch.inputs.prefix
    found = trained.task.parts(batch.inputs.source.cpu().numpy(), None if prefix is None else prefix.cpu().numpy())
    return {name: torch.from_numpy(np.ascontiguousarray(part)).to(trained.device) for name, part in found.items()}


def cut_part(part: Bool[Tensor, "batch token token"], batch: Batch, site: HeadSite, trained: Trained) -> Seen:
    """The queries and keys of one site out of all source and prefix tokens."""
    source = batch.inputs.source.shape[1]
    if trained.model.config.shape == "decoder":
        return part
    queries = slice(0, source) if site.side == "encoder" else slice(source, None)
    keys = slice(source, None) if site.kind == "decoder" else slice(0, source)
    return part[:, queries, keys]


class ScoreSums:
    """Running sums of scores, so that only one batch is in memory."""

    def __init__(self) -> None:
        self.moments: dict[tuple[str, str], np.ndarray] = {}
        self.sites: dict[str, HeadSite] = {}

    def add(self, site: HeadSite, name: str, values: Tensor, uniform: Tensor) -> None:
        self.sites[site.name] = site
        numbers = values.double().cpu().numpy()
        even = np.broadcast_to(uniform.double().cpu().numpy(), numbers.shape)
        there = ~np.isnan(numbers)
        zeroed = np.where(there, numbers, 0.0)
        rows = [there.sum(0), zeroed.sum(0), (zeroed**2).sum(0), np.where(there, even, 0.0).sum(0)]
        self.moments[site.name, name] = self.moments.get((site.name, name), 0.0) + np.stack(rows)

    def result(self, n: int) -> HeadScores:
        means: dict[str, dict[str, float | None]] = {}
        deviations: dict[str, dict[str, float | None]] = {}
        uniform: dict[str, dict[str, float | None]] = {}
        for (site, name), moments in self.moments.items():
            for column, index in enumerate(self.sites[site].kept):
                head = str(Head(site, index))
                count, total, squares, even = (float(x) for x in moments[:, column])
                mean = total / count if count else None
                spread = max(0.0, squares / count - (total / count) ** 2) ** 0.5 if count else None
                means.setdefault(head, {})[name] = mean
                deviations.setdefault(head, {})[name] = spread
                uniform.setdefault(head, {})[name] = even / count if count and not np.isnan(even) else None
        return HeadScores(n, means, deviations, uniform)
