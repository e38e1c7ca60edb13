"""The subject of an examination: the parts of an experiment as plain values and functions, any of which can be wrong.

    subject = subject_of(load("addition-seed0"))
    replace(subject, decode=wrong)        # a specimen: the same run with one fault

A run is a subject. So is a file of predictions, which has no model. A check that needs a missing part is skipped.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.batches import Batch, make_batch, make_model
from headway.callbacks import MetricsRow
from headway.diagnosis.run_documents import head_findings, of_another, read_finding, read_lengths
from headway.errors import InputError, InstrumentError
from headway.evaluation import Trained, decode, parts_of, split_examples
from headway.head_analysis.ablation import as_row
from headway.head_analysis.checks import hooked, mapped, swept
from headway.head_analysis.handles import intervene
from headway.head_analysis.independent import silenced, values_and_outputs
from headway.head_analysis.partial_forward import PartialForward, run_tree
from headway.head_analysis.pruning import cut_model
from headway.head_analysis.variants import heads_of, zero
from headway.model.sites import Head, HeadSite
from headway.randomness import derive
from headway.results.attack import Attack
from headway.results.heads import HeadAnalysis
from headway.results.lengths import Lengths
from headway.runs import DamagedCheckpoint, RunDirectory
from headway.runs.records import Provenance
from headway.tasks import Examples, Task
from headway.tasks.examples import Vocabulary
from headway.tasks.splits import Split
from headway.training.data import TrainingData
from headway.training.loop import noise_keys

Answers = np.ndarray
"""Answers row by row, as in `Examples.target`: tokens, padded on the right, or classes."""
Logits = Callable[[Examples], Tensor]
"""Examples -> logits of each token after each right prefix (column t predicts target token t), or of each class."""

ByHead = Callable[[Examples], Mapping[str, Tensor]]
"""Examples -> a tensor for each head, by its name."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One experiment under examination; parts that are None or empty are missing.

    Answers and scoring: `decode(examples, cache)` generates answers from the sources. `score(predicted, target)` marks
    the right ones. `loss_positions(target)` marks the target tokens in the loss. `predictions` are given answers, by
    split.

    Instruments: `attention` gives the weights of each head (batch query key), `fired` the number of calls of each
    site's hook in a forward pass, `partial_forward` the logits of the partial forward pass with every head kept.
    `hooked`, `masked` and `pruned` are the logits without each head: ablated by a hook, by the sweep, and pruned.
    `silenced` are the same logits by an independent computation, and `mixing` are each head's values and output by that
    computation. `positions` are the position ids of all tokens.

    Training: `training` is the model's training mode. `initial` are the weights of step 0, `initialised(seed)` those
    that a seed gives. `best` is the step with the best validation loss, `recorded_step` the one recorded in the
    checkpoint. `training_loss(step)` is the loss of the weights in training mode on the batch of that step,
    `first_loss()` that of the initial weights on the first batch.
    """

    name: str
    task: Task
    vocabulary: Vocabulary
    splits: Mapping[str, Examples]
    score: Callable[[Answers, Answers], np.ndarray]
    oracle: Callable[[np.ndarray], Answers] | None = None
    predictions: Mapping[str, Answers] = field(default_factory=dict)
    forward: Logits | None = None
    decode: Callable[[Examples, bool], Answers] | None = None
    loss_positions: Callable[[Answers], np.ndarray] | None = None
    training: bool | None = None
    attention: Callable[[Examples], Mapping[str, Tensor]] | None = None
    fired: Callable[[Examples], Mapping[str, int]] | None = None
    partial_forward: Logits | None = None
    hooked: ByHead | None = None
    masked: ByHead | None = None
    pruned: ByHead | None = None
    silenced: ByHead | None = None
    mixing: Callable[[Examples], Mapping[str, tuple[Tensor, Tensor]]] | None = None
    positions: Callable[[Examples], np.ndarray] | None = None
    weights: Mapping[str, Tensor] | None = None
    initial: Mapping[str, Tensor] | None = None
    step: int | None = None
    best: int | None = None
    recorded_step: int | None = None
    seed: int | None = None
    provenance_seed: int | None = None
    initialised: Callable[[int], Mapping[str, Tensor]] | None = None
    training_loss: Callable[[int], float] | None = None
    first_loss: Callable[[], float] | None = None
    sites: Sequence[HeadSite] = ()
    metrics: Sequence[MetricsRow] = ()
    heads: HeadAnalysis | None = None
    lengths: Lengths | None = None
    attack: Attack | None = None
    of_others: Sequence[str] = ()


def subject_of(trained: Trained) -> Subject:
    """A run as a subject, with all its parts."""
    directory, model = trained.directory, trained.model
    weights = {name: tensor.detach().cpu() for name, tensor in model.named_parameters()}
    instruments = Instruments(trained) if heads_of(trained) else None
    splits = split_examples(trained.task, trained.config, directory)
    provenance = read_provenance(directory)
    return Subject(
        name=str(directory.path),
        task=trained.task,
        vocabulary=trained.task.vocabulary,
        splits={str(name): some for name, some in splits.items()},
        score=score_of(trained.task),
        oracle=trained.task.answer,
        forward=forward_of(trained),
        decode=None if trained.task.kind == "class" else decode_of(trained),
        loss_positions=lambda target: target != trained.task.vocabulary.pad,
        training=model.training,
        attention=None if instruments is None else instruments.attention,
        fired=None if instruments is None else instruments.fired,
        partial_forward=None if instruments is None else instruments.partial_forward,
        hooked=None if instruments is None else instruments.hooked,
        masked=None if instruments is None else instruments.masked,
        pruned=None if instruments is None else instruments.pruned,
        silenced=None if instruments is None else instruments.silenced,
        mixing=None if instruments is None else instruments.mixing,
        positions=positions_of(trained),
        weights=weights,
        initial=initial_weights(directory),
        step=trained.step,
        best=best_step(directory),
        recorded_step=recorded_step(directory, trained.step),
        seed=trained.config.seed,
        provenance_seed=provenance.get("seed"),
        # A run that was made from another one starts with weights that no seed gives.
        initialised=None if "made_from" in provenance else initialised_of(trained),
        training_loss=training_loss_of(trained, splits),
        first_loss=first_loss_of(trained, splits),
        sites=model.sites,
        metrics=directory.metrics(),
        heads=head_findings(directory, trained.step)[0],
        lengths=read_lengths(directory, trained.step)[0],
        attack=read_finding(directory, Attack, "attack", trained.step)[0],
        of_others=[
            words for name in ("heads", "lengths", "attack") if (words := of_another(directory, name, trained.step))
        ],
    )


def score_of(task: Task) -> Callable[[Answers, Answers], np.ndarray]:
    """The task's own scoring of answers, for arrays."""

    def score(predicted: Answers, target: Answers) -> np.ndarray:
        return np.asarray(task.correct(torch.from_numpy(predicted), torch.from_numpy(target)))

    return score


def initial_weights(directory: RunDirectory) -> dict[str, Tensor] | None:
    """The weights of step 0; None if they were not kept."""
    try:
        return directory.read_checkpoint(0).model
    except DamagedCheckpoint:
        return None


def read_provenance(directory: RunDirectory) -> Provenance:
    """provenance.json; empty if it cannot be read."""
    try:
        found = directory.provenance()
    except InputError:
        return {}
    return found if isinstance(found, dict) else {}


def best_step(directory: RunDirectory) -> int | None:
    """The step with the best validation loss, from the newest checkpoint."""
    best = directory.newest_state().get("best")
    return best.get("step") if isinstance(best, dict) else None


def recorded_step(directory: RunDirectory, step: int) -> int | None:
    """The step recorded in a checkpoint."""
    try:
        found = directory.read_checkpoint(step).state.get("step")
    except DamagedCheckpoint:
        return None
    return found if isinstance(found, int) else None


def initialised_of(trained: Trained) -> Callable[[int], dict[str, Tensor]]:
    """A function from a seed to the initial weights of training."""

    def initialised(seed: int) -> dict[str, Tensor]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(seed, "initialisation"))
            return dict(make_model(trained.task, trained.config.model).state_dict())

    return initialised


def training_loss_of(trained: Trained, splits: Mapping[Split, Examples]) -> Callable[[int], float]:
    """A function from a step to the loss of the weights on that step's batch, with its noise, as in training."""
    model, config = trained.model, trained.config
    data = TrainingData(config, trained.task, dict(splits))

    @torch.no_grad()
    def loss(step: int) -> float:
        batch = make_batch(trained.task, model, data.batch(step), trained.device, cut=False)
        was_training = model.training
        model.train()
        model.noise.begin(noise_keys([config.seed], step).to(trained.device))
        try:
            logits = model(batch.inputs)
        finally:
            model.train(was_training)
        found = F.cross_entropy(
            logits.flatten(0, -2),
            batch.target.flatten(),
            ignore_index=trained.task.vocabulary.pad,
            label_smoothing=config.train.label_smoothing,
        )
        return float(found)

    return loss


def first_loss_of(trained: Trained, splits: Mapping[Split, Examples]) -> Callable[[], float] | None:
    """The loss of the weights of step 0 on the first batch, as in training.

    None if they were not kept, or belong to another model.
    """
    weights = initial_weights(trained.directory)
    own = {name: tensor.shape for name, tensor in trained.model.state_dict().items()}
    if weights is None or {name: tensor.shape for name, tensor in weights.items()} != own:
        return None

    def loss() -> float:
        model = deepcopy(trained.model)
        model.load_state_dict(weights)
        return training_loss_of(replace(trained, model=model), splits)(0)

    return loss


def widened(rows: np.ndarray, width: int, pad: int) -> np.ndarray:
    """Rows of tokens padded to at least `width` columns."""
    return np.pad(rows, ((0, 0), (0, max(0, width - rows.shape[1]))), constant_values=pad)


def bare_rows(task: Task, source: np.ndarray) -> list[bytes]:
    """Sources as bytes without padding, for lookups."""
    return [row[row != task.vocabulary.pad].tobytes() for row in source.astype(np.int32)]


def forward_of(trained: Trained) -> Logits:
    """The teacher-forced pass over all examples; columns cut as padding are zeros."""

    @torch.inference_mode()
    def forward(examples: Examples) -> Tensor:
        parts = parts_of(examples, trained)
        return torch.cat([as_wide_as(part, trained.model(_batch(trained, part).inputs)) for part in parts])

    return forward


def as_wide_as(examples: Examples, logits: Tensor) -> Tensor:
    """Logits with a column for each target column; zeros where a batch cut padding."""
    if examples.target.ndim == 1:
        return logits.float().cpu()
    return torch.nn.functional.pad(logits, (0, 0, 0, examples.target.shape[1] - logits.shape[1])).float().cpu()


def _batch(trained: Trained, examples: Examples) -> Batch:
    return make_batch(trained.task, trained.model, examples, trained.device)


def positions_of(trained: Trained) -> Callable[[Examples], np.ndarray]:
    """The sorted distinct position ids of the tokens of examples."""

    @torch.inference_mode()
    def positions(examples: Examples) -> np.ndarray:
        inputs = trained.model.placed(_batch(trained, examples).inputs)
        both = [some.flatten() for some in (inputs.source_positions, inputs.prefix_positions) if some is not None]
        return torch.cat(both).unique().cpu().numpy()

    return positions


def decode_of(trained: Trained) -> Callable[[Examples, bool], Answers]:
    """Greedy decoding, with or without the KV cache."""

    def written(examples: Examples, cache: bool) -> Answers:
        pad = trained.task.vocabulary.pad
        rows = [
            decode(trained.model, trained.task, _batch(trained, part), cache=cache).cpu().numpy()
            for part in parts_of(examples, trained)
        ]
        width = max(examples.target.shape[1], *(part.shape[1] for part in rows))
        return np.concatenate([widened(part, width, pad) for part in rows])

    return written


class Instruments:
    """The results of the head instruments on some examples of a run."""

    def __init__(self, trained: Trained):
        self.trained, self.model = trained, trained.model

    def attention(self, examples: Examples) -> dict[str, Tensor]:
        return on_cpu(mapped(self.trained, _batch(self.trained, examples)))

    def fired(self, examples: Examples) -> dict[str, int]:
        calls = {site.name: 0 for site in self.model.sites if site.kept}

        def edit_at(name: str) -> Callable[[Tensor], Tensor]:
            def edit(heads: Tensor) -> Tensor:
                calls[name] += 1
                return heads

            return edit

        try:
            with intervene(self.model, {name: edit_at(name) for name in calls}), torch.inference_mode():
                self.model(_batch(self.trained, examples).inputs)
        except InstrumentError:
            pass  # the counts show which was not called
        return calls

    def partial_forward(self, examples: Examples) -> Tensor:
        return as_wide_as(examples, self._partial_forward(examples, []))

    def hooked(self, examples: Examples) -> dict[str, Tensor]:
        return on_cpu(hooked(self.trained, _batch(self.trained, examples)))

    def masked(self, examples: Examples) -> dict[str, Tensor]:
        return on_cpu(swept(self.trained, _batch(self.trained, examples)))

    @torch.inference_mode()
    def pruned(self, examples: Examples) -> dict[str, Tensor]:
        heads, inputs = heads_of(self.trained), _batch(self.trained, examples).inputs
        return on_cpu(
            {str(gone): cut_model(self.trained, [head for head in heads if head != gone])(inputs) for gone in heads}
        )

    def silenced(self, examples: Examples) -> dict[str, Tensor]:
        return on_cpu(silenced(self.model, _batch(self.trained, examples).inputs))

    def mixing(self, examples: Examples) -> dict[str, tuple[Tensor, Tensor]]:
        found = values_and_outputs(self.model, _batch(self.trained, examples).inputs)
        return {head: (values.cpu(), outputs.cpu()) for head, (values, outputs) in found.items()}

    def _partial_forward(self, examples: Examples, gone: list[Head]) -> Tensor:
        forward = PartialForward(self.model, _batch(self.trained, examples).inputs)
        found: list[Tensor] = []
        plan = as_row(heads_of(self.trained), gone)[None]
        run_tree(forward, plan, [zero(forward, slice(None))], lambda alike, logits: found.append(logits))
        return found[0].float().cpu()


def on_cpu(tables: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: table.float().cpu() for name, table in tables.items()}
