"""The heads over training: ablation and activation patching at every kept step.

Early checkpoints answer few examples correctly, and a drop in accuracy cannot exceed the accuracy. So patching is
measured in two ways: how often the answer token becomes the source's, among the pairs whose token is right on both
sides; and the share of the difference of logits between source and base that the patch moves, which needs no right
answer.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.batches import Batch, make_batch
from headway.callbacks import OnProgress
from headway.errors import InputError
from headway.evaluation import Trained, load, parts_of
from headway.head_analysis.ablation import ablate, as_row
from headway.head_analysis.analysis import choose_examples
from headway.head_analysis.head_runs import TrainedRuns
from headway.head_analysis.interventions import Groups, groups_of
from headway.head_analysis.partial_forward import HeadMasks, PartialForward, Replacement, run_tree
from headway.head_analysis.variants import ReplacementOf, branches_at_once, heads_of, patch_source
from headway.model.transformer import Transformer
from headway.randomness import generator
from headway.results.over_training import ContrastAtStep, HeadsAtStep, OverTraining
from headway.runs import DamagedCheckpoint, RunDirectory
from headway.tasks.examples import Contrast, Examples

EXAMPLES = 500
"""Default number of examples of the ablations."""
PAIRS = 200
"""Default number of pairs of each contrast."""
Values = Float[np.ndarray, "group pair"]


def heads_over_training(
    run: str | Path | Trained,
    *,
    split: str = "test",
    examples: int = EXAMPLES,
    pairs: int = PAIRS,
    device: str = "auto",
    progress: OnProgress = lambda done, total: None,
) -> OverTraining:
    """Importance and patching of every head at each step that `train --keep-every` kept; writes nothing.

    >>> hw.heads_over_training("addition-seed0").jump   # doctest: +SKIP
    1200
    """
    started = time.perf_counter()
    last = run if isinstance(run, Trained) else load(run, checkpoint="last", device=device)
    steps = steps_of(last)
    chosen = choose_examples(last, split, examples)
    contrasts = last.task.contrasts(generator(last.config.data.seed, "contrasts"), pairs)
    found: list[_AtStep] = []
    for index, trained in enumerate(kept_models(last, steps)):
        found.append(_measure(trained, chosen, contrasts))
        progress(index + 1, len(steps))
    groups, subject = groups_of(last.model.sites), contrasts[0].about if contrasts else None
    return OverTraining(
        run=str(last.directory.path),
        task=last.task.name,
        seed=last.config.seed,
        split=split,
        n=len(chosen),
        pairs=pairs,
        seconds=round(time.perf_counter() - started, 2),
        heads=tuple(map(str, heads_of(last))),
        groups=tuple(groups),
        subject=subject,
        followed=_followed(found[-1], groups, subject),
        steps=tuple(one.heads for one in found),
    )


def keep_over_training(trained: Trained, found: OverTraining) -> OverTraining:
    """Write the result to over_training.json of the run, which names the chosen checkpoint as every analysis does."""
    trained.directory.replace_analysis("over_training", found)
    return found


def steps_of(last: Trained) -> list[int]:
    """The kept steps and the last checkpoint; raises if nothing was kept."""
    kept = [step for step in last.directory.kept_steps() if step <= last.step]
    if not kept:
        where = last.directory.path
        raise InputError(f"{where} kept no weights of its training; headway train RECIPE --keep-every N keeps them")
    return sorted({*kept, last.step})


def kept_models(last: Trained, steps: Sequence[int]) -> Iterator[Trained]:
    """The run at each step; one model object is filled again and again."""
    final = {name: tensor.clone() for name, tensor in last.model.state_dict().items()}
    try:
        for step in steps:
            weights = final if step == last.step else _read(last.directory, step, last.model)
            last.model.load_state_dict(weights)
            yield Trained(last.directory, last.config, last.task, last.model, step)
    finally:
        last.model.load_state_dict(final)


def _read(directory: RunDirectory, step: int, model: Transformer) -> dict[str, Tensor]:
    try:
        found = directory.read_kept(step)
    except DamagedCheckpoint as damage:
        raise InputError(f"{directory.path}: kept {damage}") from None
    if {name: x.shape for name, x in found.items()} != {name: x.shape for name, x in model.state_dict().items()}:
        raise InputError(f"{directory.path}: the kept weights of step {step} do not fit its config.json")
    return found


@dataclass(frozen=True)
class _AtStep:
    """A step with the patching of all pairs, of which one half chooses and the other measures."""

    heads: HeadsAtStep
    patched: "list[_Patched]"


def _measure(trained: Trained, examples: Examples, contrasts: Sequence[Contrast]) -> _AtStep:
    ablation = ablate(TrainedRuns(trained, examples), kinds=("zero",))
    drops = [ablation.drops["zero"][head] for head in ablation.heads]
    patched = [_patch(trained, contrast) for contrast in contrasts]
    return _AtStep(
        HeadsAtStep(
            step=trained.step,
            accuracy=ablation.baseline.accuracy,
            interval=ablation.baseline.interval,
            loss=ablation.baseline.loss,
            drops=tuple(round(drop.drop, 4) for drop in drops),
            intervals=tuple((round(drop.interval[0], 3), round(drop.interval[1], 3)) for drop in drops),
            contrasts=tuple(one.at_step() for one in patched),
        ),
        patched,
    )


@dataclass(frozen=True)
class _Patched:
    """One contrast at one step, pair by pair."""

    contrast: Contrast
    usable: Bool[np.ndarray, " pair"]
    flipped: Bool[np.ndarray, "group pair"]
    moved: Values
    """The change of the logit difference by each patch."""
    whole: Float[np.ndarray, " pair"]
    """The logit difference of the source less that of the base."""

    def choosing_rates(self) -> Float[np.ndarray, " group"] | None:
        """The flip rate of each group on the choosing half of the pairs; None without a usable pair."""
        rows = self._half(0) & self.usable
        return (self.flipped & rows).sum(1) / rows.sum() if rows.any() else None

    def at_step(self) -> ContrastAtStep:
        rows = self._half(1)
        usable = rows & self.usable
        return ContrastAtStep(
            name=self.contrast.name,
            about=self.contrast.about,
            n=int(rows.sum()),
            usable=int(usable.sum()),
            difference=round(float(self.whole[rows].mean()), 4),
            flips=tuple(int((flips & usable).sum()) for flips in self.flipped),
            moved=tuple(round(float(moved[rows].mean()), 4) for moved in self.moved),
        )

    def _half(self, half: int) -> Bool[np.ndarray, " pair"]:
        """The choosing half (0) or the measured one (1); both have both directions of the contrast."""
        return np.arange(len(self.usable)) // 2 % 2 == half


def _patch(trained: Trained, contrast: Contrast) -> _Patched:
    """Patch every group of heads from the contrast's source."""
    heads, groups = heads_of(trained), groups_of(trained.model.sites)
    untouched = np.zeros((1, len(heads)), dtype=np.int64)
    plan = np.concatenate([untouched, *(as_row(heads, chosen)[None] for chosen in groups.values())])
    here, wanted = (_tokens(one, contrast.token) for one in (contrast.base, contrast.patch_source))
    replaced = [patch_source(trained, contrast.patch_source)]
    margin, said = _token_logits(trained, contrast.base, contrast.token, (here, wanted), plan, replaced)
    own, source_said = _token_logits(trained, contrast.patch_source, contrast.token, (here, wanted), untouched, [])
    return _Patched(
        contrast=contrast,
        usable=(said[0] == here) & (source_said[0] == wanted) & (here != wanted),
        flipped=np.asarray(said[1:] == wanted),
        moved=margin[1:] - margin[:1],
        whole=own[0] - margin[0],
    )


def _tokens(examples: Examples, token: int) -> Int[np.ndarray, " pair"]:
    return examples.target.reshape(len(examples), -1)[:, token]


@torch.inference_mode()
def _token_logits(
    trained: Trained,
    examples: Examples,
    token: int,
    pair: tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]],
    plan: HeadMasks,
    replacements: Sequence[ReplacementOf],
) -> tuple[Float[np.ndarray, "variant pair"], Int[np.ndarray, "variant pair"]]:
    """For each variant at one answer token: the logit of the source's token less the base's, and the most likely."""
    margin = np.zeros((len(plan), len(examples)), dtype=np.float64)
    said = np.zeros((len(plan), len(examples)), dtype=np.int64)
    done = 0
    for part in parts_of(examples, trained):
        rows = slice(done, done + len(part))
        batch = make_batch(trained.task, trained.model, part, trained.device)
        forward = PartialForward(trained.model, batch.inputs)
        here, wanted = (torch.from_numpy(one[rows].astype(np.int64)).to(trained.device)[:, None] for one in pair)
        for alike, logits in _leaves(forward, plan, [one(forward, rows) for one in replacements], batch):
            at = logits.reshape(len(here), -1, logits.shape[-1])[:, token].float()
            margin[alike, rows] = (at.gather(1, wanted) - at.gather(1, here))[:, 0].cpu().numpy()
            said[alike, rows] = at.argmax(1).cpu().numpy()
        done += len(part)
    return margin, said


def _leaves(
    forward: PartialForward, plan: HeadMasks, replacements: Sequence[Replacement], batch: Batch
) -> list[tuple[np.ndarray, Tensor]]:
    """The logits of every variant, with the rows of the plan that share them."""
    leaves: list[tuple[np.ndarray, Tensor]] = []
    run_tree(forward, plan, replacements, lambda alike, logits: leaves.append((alike, logits)), branches_at_once(batch))
    return leaves


def _followed(last: _AtStep, groups: Groups, subject: str | None) -> str | None:
    """The single head with the largest mean flip rate over the contrasts of the subject, on the choosing half."""
    about = [one for one in last.patched if one.contrast.about == subject]
    rates = [rates for one in about if (rates := one.choosing_rates()) is not None]
    if not rates:
        return None
    means = np.mean(rates, axis=0)
    single = [index for index, (who, heads) in enumerate(groups.items()) if [who] == list(map(str, heads))]
    return list(groups)[max(single, key=lambda index: float(means[index]))]
