"""Runs many variants of a model on many examples; records right tokens and losses.

A variant replaces the outputs of some heads by a replacement:

- `zero`: zeros;
- `mean`: the head's mean output over examples and positions;
- `position_mean`: its mean at each position;
- `patch_source`: its output on another example, row by row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from headway.batches import Batch, make_batch, send
from headway.callbacks import OnProgress
from headway.evaluation import TOKENS_A_BATCH, Trained, parts_of
from headway.head_analysis.partial_forward import HeadMasks, PartialForward, Replacement, head_outputs, run_tree
from headway.model.sites import Head, HeadSite
from headway.tasks import Examples

ReplacementOf = Callable[[PartialForward, slice], Replacement]
"""The replacement for some rows of the examples."""


def heads_of(trained: Trained) -> list[Head]:
    """Every head of the model in the order of computation; these are the columns of the head masks."""
    return [head for site in trained.model.sites for head in site.heads]


@dataclass(frozen=True)
class Outcomes:
    """The outcome of every example under every variant; `counted` is false where an answer is padding."""

    right: Bool[np.ndarray, "variant example"]
    token_right: Bool[np.ndarray, "variant example answer"]
    loss: Float[np.ndarray, "variant example"]
    counted: Bool[np.ndarray, "example answer"]
    predicted: Int[np.ndarray, "variant example answer"] | None = None
    margin: Float[np.ndarray, "variant example"] | None = None
    """The margin: the right token's logit minus the best other one's, the smallest over an answer; positive if it is
    right.
    """
    value: Float[np.ndarray, "variant example"] | None = None
    """A real-valued metric, higher is better, as a share of its scale; None where whole-answer accuracy is measured."""

    def __len__(self) -> int:
        return len(self.right)

    @property
    def values(self) -> Shaped[np.ndarray, "variant example"]:
        """The measured values: the metric, or whether the answer is right."""
        return self.right if self.value is None else self.value

    @property
    def accuracy(self) -> Float[np.ndarray, " variant"]:
        return self.right.mean(1)

    @property
    def token_accuracy(self) -> Float[np.ndarray, " variant"]:
        return (self.token_right & self.counted).sum((1, 2)) / self.counted.sum()

    @property
    def accuracy_by_token(self) -> Float[np.ndarray, "variant answer"]:
        """Accuracy of each answer token; 1 at positions where no answer has a token."""
        right = (self.token_right & self.counted).sum(1)
        return np.where(self.counted.any(0), right, 1) / self.counted.sum(0).clip(1)

    @property
    def mean_loss(self) -> Float[np.ndarray, " variant"]:
        """Loss per token."""
        return self.loss.sum(1) / self.counted.sum()


def run_variants(
    trained: Trained,
    examples: Examples,
    plan: HeadMasks,
    replacements: Sequence[ReplacementOf],
    progress: OnProgress = lambda done, total: None,
    *,
    keep_predicted: bool = False,
    keep_margin: bool = False,
) -> Outcomes:
    """One teacher-forced pass per variant, which shares all layers before the first change; scored as `evaluate`
    scores.
    """
    pad = trained.task.vocabulary.pad
    n, variants = len(examples), len(plan)
    target = examples.target.reshape(n, -1)
    counted = target != pad if trained.task.kind == "sequence" else np.ones_like(target, dtype=bool)
    token_right = np.ones((variants, *target.shape), dtype=bool)
    loss = np.zeros((variants, n), dtype=np.float32)
    predicted = np.full((variants, *target.shape), pad, dtype=np.int32) if keep_predicted else None
    margin = np.zeros((variants, n), dtype=np.float32) if keep_margin else None
    done = 0
    for part in parts_of(examples, trained):
        rows = slice(done, done + len(part))
        batch = make_batch(trained.task, trained.model, part, trained.device)
        forward = PartialForward(trained.model, batch.inputs)
        together = branches_at_once(batch)
        board = Scoreboard(variants, batch.target, pad, together, keep_margin=keep_margin)
        run_tree(forward, plan, [replacement(forward, rows) for replacement in replacements], board.note, together)
        board.score()
        width = board.tokens.shape[1]
        token_right[:, rows, :width] = board.token_right().cpu().numpy()
        loss[:, rows] = board.loss.cpu().numpy()
        if predicted is not None:
            predicted[:, rows, :width] = board.predicted.cpu().numpy()
        if margin is not None and board.margin is not None:
            margin[:, rows] = board.margin.cpu().numpy()
        done += len(part)
        progress(done, n)
    return Outcomes(np.asarray(token_right.all(2)), token_right, loss, counted, predicted, margin)


def branches_at_once(batch: Batch) -> int:
    """How many branches fill a GPU; a CPU runs them one by one, which suits its cache."""
    device = batch.target.device.type
    if device == "cpu":
        return 1
    tokens = batch.inputs.source.numel() + (0 if batch.inputs.prefix is None else batch.inputs.prefix.numel())
    return max(1, TOKENS_A_BATCH[device] // tokens)


ValueOf = Callable[[Tensor, Tensor], Tensor]
"""Logits and targets of some rows -> a real-valued metric of each."""


class Scoreboard:
    """The outcomes of one batch under every variant; leaves are collected and scored several at a time."""

    def __init__(
        self,
        variants: int,
        target: Tensor,
        pad: int,
        together: int,
        *,
        keep_margin: bool,
        value_of: ValueOf | None = None,
    ):
        self.tokens = target.reshape(len(target), -1)
        self.pad, self.together, self.value_of = pad, together, value_of
        device, shape = self.tokens.device, self.tokens.shape
        self.predicted = torch.empty(variants, *shape, dtype=torch.int32, device=device)
        self.loss = torch.empty(variants, len(self.tokens), device=device)
        self.margin = torch.empty_like(self.loss) if keep_margin else None
        self.value = None if value_of is None else torch.empty_like(self.loss)
        self.waiting: list[tuple[np.ndarray, Tensor]] = []

    def note(self, alike: Int[np.ndarray, " some"], logits: Tensor) -> None:
        self.waiting.append((alike, logits))
        if len(self.waiting) >= self.together:
            self.score()

    @torch.inference_mode()
    def score(self) -> None:
        """Score the collected leaves; variants with the same mask share a leaf."""
        if not self.waiting:
            return
        leaves, device = len(self.waiting), self.tokens.device
        variant = np.concatenate([alike for alike, _ in self.waiting])
        leaf = np.repeat(np.arange(leaves), [len(alike) for alike, _ in self.waiting])
        index, of = send(np.stack([variant, leaf]), device)
        logits, target = torch.cat([one for _, one in self.waiting]), self.tokens.repeat(leaves, 1)
        self.waiting.clear()
        best, lost = _score(logits, target, self.pad)
        found = [(self.predicted, best), (self.loss, lost)]
        if self.margin is not None:
            found.append((self.margin, answer_margin(logits, target, self.pad)))
        if self.value is not None and self.value_of is not None:
            found.append((self.value, self.value_of(logits.reshape(*target.shape, -1).float(), target)))
        for place, values in found:
            place[index] = values.unflatten(0, (leaves, len(self.tokens)))[of]

    def token_right(self) -> Bool[Tensor, "variant batch answer"]:
        """Which tokens are right; padding counts as right."""
        return (self.predicted == self.tokens) | (self.tokens == self.pad)


def _score(logits: Tensor, target: Int[Tensor, "batch answer"], pad: int) -> tuple[Tensor, Tensor]:
    """The most likely tokens, and the summed loss of each example; padding costs nothing."""
    logits = logits.reshape(*target.shape, -1).float()
    lost = F.cross_entropy(logits.transpose(1, 2), target, ignore_index=pad, reduction="none")
    return logits.argmax(-1).int(), lost.sum(1)


def answer_margin(logits: Tensor, target: Int[Tensor, "batch answer"], pad: int) -> Float[Tensor, " batch"]:
    """The smallest margin over the tokens of each answer, padding left out.

    Logits 3, 1, 2 of which the first is right have the margin 1; -1 if the third is.
    """
    logits = logits.reshape(*target.shape, -1).float()
    inside = target != pad
    chosen = target.masked_fill(~inside, 0)[..., None]
    best_other = logits.scatter(-1, chosen, -torch.inf).amax(-1)
    lead = logits.gather(-1, chosen)[..., 0] - best_other
    return lead.masked_fill(~inside, torch.inf).amin(1)


def zero(forward: PartialForward, rows: slice) -> Replacement:
    nothing = torch.zeros((), device=forward.inputs.source.device)
    return {site.name: nothing for site in forward.sites}


def patch_source(trained: Trained, patch_sources: Examples) -> ReplacementOf:
    """The outputs on other examples: row i of `patch_sources` replaces row i."""

    def replacement(forward: PartialForward, rows: slice) -> Replacement:
        batch = make_batch(trained.task, trained.model, patch_sources.take(rows), trained.device)
        return head_outputs(PartialForward(trained.model, batch.inputs))

    return replacement


def means(trained: Trained, examples: Examples) -> tuple[ReplacementOf, ReplacementOf]:
    """The replacements `mean` and `position-mean`, from the examples without padding."""
    sums, counts = _sums_by_place(trained, examples)
    keys = {site.name: [key for key in sums if key[0] == site.name] for site in trained.model.sites}
    everywhere = {name: (_total(sums, at) / _total(counts, at)).float() for name, at in keys.items()}
    by_place = {key: (sums[key] / counts[key].clamp(min=1)).float() for key in sums}

    def position_mean(forward: PartialForward, rows: slice) -> Replacement:
        return {
            site.name: torch.cat(
                [by_place[site.name, part][: span.stop - span.start] for part, span in spans(forward, site)]
            )
            for site in forward.sites
        }

    return lambda forward, rows: everywhere, position_mean


def _total(sums: "Sums", keys: list[tuple[str, str]]) -> Float[Tensor, "head d_head"]:
    return torch.stack([sums[key].sum(0) for key in keys]).sum(0)


Sums = dict[tuple[str, str], Float[Tensor, "_ _ _"]]
"""(site, source or answer) -> a sum at each position, `position head d_head`; `position 1 1` for a count."""


@torch.inference_mode()
def _sums_by_place(trained: Trained, examples: Examples) -> tuple[Sums, Sums]:
    """Sums of every site's outputs over the examples, and how many were added."""
    sums: Sums = {}
    counts: Sums = {}
    for piece in parts_of(examples, trained):
        batch = make_batch(trained.task, trained.model, piece, trained.device)
        forward = PartialForward(trained.model, batch.inputs)
        outputs = head_outputs(forward)
        for site in forward.sites:
            real = query_mask(trained, batch, site)[:, :, None, None]
            for part, span in spans(forward, site):
                _add(sums, (site.name, part), (outputs[site.name].double() * real)[:, span].sum(0))
                _add(counts, (site.name, part), real[:, span].double().sum(0))
    return sums, counts


def spans(forward: PartialForward, site: HeadSite) -> list[tuple[str, slice]]:
    """Which queries of a site are source tokens and which are answer tokens."""
    source = forward.inputs.source.shape[1]
    answer = 0 if forward.inputs.prefix is None else forward.inputs.prefix.shape[1]
    if site.side == "encoder":
        return [("source", slice(0, source))]
    if forward.model.config.shape == "decoder":
        return [("source", slice(0, source)), ("answer", slice(source, source + answer))]
    return [("answer", slice(0, answer))]


def _add(sums: Sums, key: tuple[str, str], value: Tensor) -> None:
    """Add to a sum over positions, which grows when a longer batch comes."""
    before = sums.get(key)
    if before is not None:
        longest = max(len(before), len(value))
        before, value = (F.pad(x, (0, 0, 0, 0, 0, longest - len(x))) for x in (before, value))
        value = before + value
    sums[key] = value


def query_mask(trained: Trained, batch: Batch, site: HeadSite) -> Bool[Tensor, "batch query"]:
    """The queries of a site that are real tokens, not padding."""
    source = batch.inputs.source != trained.task.vocabulary.pad
    if site.side == "encoder":
        return source
    answer = batch.target != trained.task.vocabulary.pad
    return torch.cat([source, answer], dim=1) if trained.model.config.shape == "decoder" else answer


def lengths_of(trained: Trained, examples: Examples) -> Int[np.ndarray, "example length"]:
    """The lengths of each source, and of each answer if there is one."""
    pad = trained.task.vocabulary.pad
    sides = [examples.source, examples.target] if examples.target.ndim == 2 else [examples.source]
    return np.stack([(side != pad).sum(1) for side in sides], axis=1)


def pick_patch_sources(
    trained: Trained, examples: Examples, random: np.random.Generator
) -> Int[np.ndarray, " example"]:
    """For each example a random other one of the same lengths; an example with unique lengths is its own source."""
    return others_of_equal_lengths(lengths_of(trained, examples), random)


def others_of_equal_lengths(
    lengths: Int[np.ndarray, "example length"], random: np.random.Generator
) -> Int[np.ndarray, " example"]:
    """For each example a random other one of the same lengths; its own index where there is none."""
    _, group = np.unique(lengths, axis=0, return_inverse=True)
    group = group.reshape(-1)
    patch_sources = np.arange(len(lengths))
    for one in range(int(group.max(initial=-1)) + 1):
        rows = random.permutation(np.flatnonzero(group == one))
        # Each row takes from one that is a random number of places further on, never from itself.
        shift = random.integers(1, len(rows), size=len(rows)) if len(rows) > 1 else np.zeros(1, dtype=np.int64)
        patch_sources[rows] = rows[(np.arange(len(rows)) + shift) % len(rows)]
    return patch_sources
