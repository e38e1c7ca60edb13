"""What every head of a model does at one length: where it looks, and what is lost without it.

Numbers are kept in a form that length alone does not move:

- attention on a part is its excess over even attention, (share - even) / (1 - even): 0 when attention is spread
  evenly, however many keys there are, and 1 when all of it is on the part;
- the entropy of attention is in shares of the most there could be, log2 of the visible keys;
- an effect is what the right answer's margin loses without the head. On a set with as many of each class, what
  favours one class alone cancels out: only what tells the classes apart counts.
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
from headway.head_analysis.ablation import make_replacements
from headway.head_analysis.scores import site_scores, task_parts
from headway.head_analysis.variants import heads_of, run_variants
from headway.model.sites import Head, HeadSite
from headway.tasks import Examples, Task

KINDS = ("zero", "mean")
"""The ways in which a head is taken away."""
LONGEST_CAPTURED = 1_024
"""Tokens of a source past which attention weights, which grow with their square, are not looked at."""
CAPTURED, FEWEST_CAPTURED, CAPTURED_LENGTH = 64, 16, 256
"""Examples whose weights are looked at: the first up to that length, fewer past it, and never fewer than the second."""
CELLS = 1 << 22
"""Weights of all heads that are held at once, unless one example has more."""


@dataclass(frozen=True)
class Sample:
    """The mean of one number over examples, its standard error, and how many examples had it."""

    mean: float
    error: float
    n: int


@dataclass(frozen=True)
class Look:
    """One score of a head: the length-free value that is compared, and for parts the plain share and the even one."""

    value: Sample
    share: float
    even: float | None


@dataclass(frozen=True)
class Behaviour:
    """All heads at one length; variants are the model as it is, then each head taken away, kind after kind."""

    length: int
    heads: list[str]
    looks: dict[str, dict[str, Look]]
    """Head -> score -> look; empty past `LONGEST_CAPTURED`, and without the scores that apply nowhere."""
    right: Bool[np.ndarray, "variant example"]
    margin: Float[np.ndarray, "variant example"]
    groups: Int[np.ndarray, " example"]
    """The task's groups, such as the classes."""

    def variant(self, head: str, kind: str) -> int:
        """The row of `right` and `margin` in which a head is taken away."""
        return 1 + KINDS.index(kind) * len(self.heads) + self.heads.index(head)


def definitions(task: Task) -> dict[str, str]:
    """What each compared score means, as a whole sentence."""
    parts = {
        name: f"Attention on the part in excess of even attention, (share - even) / (1 - even). The part: {meaning}"
        for name, meaning in task.PARTS.items()
    }
    return {**parts, "entropy": "Entropy of the attention as a share of the largest possible, log2(visible keys)."}


def observe(
    trained: Trained, examples: Examples, length: int, progress: OnProgress = lambda done, total: None
) -> Behaviour:
    """Scores of all heads on some of the examples, and their ablation on all."""
    short = examples.source.shape[1] <= LONGEST_CAPTURED
    looks = look_at(trained, examples.take(slice(0, captured_at(length)))) if short else {}
    names = [str(head) for head in heads_of(trained)]
    replacements, _ = make_replacements(trained, examples, KINDS)
    alone = np.eye(len(names), dtype=np.int64)
    plan = np.concatenate([0 * alone[:1], *(alone * (code + 1) for code in range(len(KINDS)))])
    outcomes = run_variants(trained, examples, plan, replacements, progress, keep_margin=True)
    assert outcomes.margin is not None
    return Behaviour(length, names, looks, outcomes.right, outcomes.margin, trained.task.strata(examples.source))


def captured_at(length: int) -> int:
    """How many examples have their weights looked at: 64 up to length 256, 32 at 512, 16 from 1,024 on."""
    return max(FEWEST_CAPTURED, CAPTURED * CAPTURED_LENGTH // max(length, CAPTURED_LENGTH))


@torch.inference_mode()
def look_at(trained: Trained, examples: Examples) -> dict[str, dict[str, Look]]:
    """Every score of every head, from recorded passes over few examples at a time."""
    found: dict[tuple[HeadSite, str], list[np.ndarray]] = defaultdict(list)
    for batch, record in recorded(trained, examples):
        parts = task_parts(trained, batch)
        for site in trained.model.sites:
            for name, values in _length_free(trained, batch, site, record[site.name], parts).items():
                found[site, name].append(values)
    looks: dict[str, dict[str, Look]] = {str(head): {} for head in heads_of(trained)}
    for (site, name), pieces in found.items():
        _add_looks(looks, site, name, np.concatenate(pieces, axis=1))
    return looks


def recorded(trained: Trained, examples: Examples) -> Iterator[tuple[Batch, dict[str, Tensor]]]:
    """Batches and the attention weights of every site in them, by the site's name."""
    for piece in _small_parts(trained, examples):
        batch = make_batch(trained.task, trained.model, piece, trained.device)
        record: dict[str, Tensor] = {}
        trained.model(batch.inputs, record)
        yield batch, record


def _small_parts(trained: Trained, examples: Examples) -> Sequence[Examples]:
    """Pieces whose weights fit into `CELLS`."""
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
    """The value that is compared, the plain share and the even one, of every score and every example."""
    found = {}
    for name, (share, even) in site_scores(trained, batch, site, weights, dict(parts)).items():
        if name in parts:
            rest = (1 - even).masked_fill(even >= 1, torch.nan)  # where all keys are the part, nothing can be seen
            found[name] = torch.stack([(share - even) / rest, share, even.expand_as(share)])
        elif name == "entropy_share":
            found["entropy"] = torch.stack([share, share, torch.full_like(share, torch.nan)])
    return {name: values.double().cpu().numpy() for name, values in found.items()}


def _add_looks(looks: dict[str, dict[str, Look]], site: HeadSite, name: str, values: np.ndarray) -> None:
    for column, index in enumerate(site.kept):
        own = values[:, ~np.isnan(values[0, :, column]), column]
        if own.shape[1] >= 2:
            even = float(own[2].mean())
            looks[str(Head(site.name, index))][name] = Look(
                sample_of(own[0]), float(own[1].mean()), None if np.isnan(even) else even
            )


def sample_of(values: Float[np.ndarray, " example"], groups: Int[np.ndarray, " example"] | None = None) -> Sample:
    """Mean and standard error of independent values; the mean over groups of at least two, where there are some.

    What sets whole groups apart, such as a model's leaning to one class, then does not count as chance.
    """
    parts = [values] if groups is None else [values[groups == group] for group in np.unique(groups)]
    # Measured from the first value, equal values have an error of exactly 0.
    errors = [(part - part[0]).std(ddof=1) / len(part) ** 0.5 for part in parts]
    mean = np.mean([part.mean() for part in parts])
    return Sample(float(mean), float(np.linalg.norm(errors)) / len(parts), len(values))
