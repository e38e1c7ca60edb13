"""Accuracy on examples: one teacher-forced pass over all of them, checked by greedy decoding of a sample.

Greedy decoding gets a whole answer right exactly when the teacher-forced pass does: up to the first wrong token both
have read the same, right prefix. So accuracy is counted in the teacher-forced pass, and the decoded sample must agree
with it token by token, up to and including the first wrong one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.batches import Batch, make_batch, make_model, pick_device
from headway.callbacks import OnProgress
from headway.config import RunConfig, differences
from headway.errors import InputError, suggestion
from headway.model.transformer import Transformer, decode_greedily
from headway.randomness import generator
from headway.results.evaluation import (
    ClassEvaluation,
    Disagreement,
    Evaluation,
    SequenceEvaluation,
    SplitEvaluation,
    WrongExample,
)
from headway.runs import DamagedCheckpoint, RunDirectory
from headway.statistics import wilson_interval
from headway.tasks import Examples, Task, make_task
from headway.tasks.files import make_splits, read_splits
from headway.tasks.splits import SPLITS, Split

EVALUATED = (*SPLITS, "all")
Observer = Callable[[Examples, np.ndarray], None]
"""Called with examples and, for each, whether the answer was right."""

DECODED = 20_000
"""Largest number of greedily decoded examples."""
SHOWN = 20
"""Largest number of wrong answers and disagreements that are stored in full."""
NEAR_TIE = 1e-3
"""Logits this close may be ordered differently by two fp32 computations of the same numbers."""
TOKENS_A_BATCH = {"cpu": 4_096, "cuda": 1 << 19}
"""Source and answer tokens of one evaluation batch: small enough for a CPU's cache, large enough for a GPU."""
DIVISIBLE = 840
"""Large batches have a multiple of this many rows, so that attention can pack any number up to 8 of them."""


@dataclass(frozen=True, repr=False)
class Trained:
    """A run opened for reading: its task, and its model at one checkpoint."""

    directory: RunDirectory
    config: RunConfig
    task: Task
    model: Transformer
    step: int
    warnings: tuple[str, ...] = ()

    @property
    def device(self) -> torch.device:
        return self.model.readout.weight.device

    def examples(self, split: Split) -> Examples:
        """The examples of a split, as in training."""
        return split_examples(self.task, self.config, self.directory)[split]

    def __repr__(self) -> str:
        heads = sum(len(site.heads) for site in self.model.sites)
        return f"Trained({str(self.directory.path)!r}, {self.config.task.name}, step {self.step:,}, {heads} heads)"

    def explore(self, **options: Any) -> Any:
        """The explorer of this run, which displays itself in a notebook; `options` are those of `hw.explore`."""
        # Imported by name, because the explorer may import this module but not the reverse.
        return import_module("headway.explorer.writing").explore(self, **options)


def split_examples(task: Task, config: RunConfig, directory: RunDirectory) -> dict[Split, Examples]:
    """All splits of a run: read from its copy of the data files, or drawn again."""
    if config.data.files:
        directory.check_data()
        return read_splits(task, directory.data, allow_overlap=config.data.allow_overlap)[0]
    return make_splits(task, config.data)


def load(run: str | Path | RunDirectory, *, checkpoint: str | int = "best", device: str = "auto") -> Trained:
    """Open a run at its best checkpoint (lowest validation loss), its last one, or a step's."""
    directory = run if isinstance(run, RunDirectory) else RunDirectory.find(str(run))
    config = directory.config()
    task = make_task(config.task)
    model = make_model(task, config.model)
    found, warnings = _choose_checkpoint(directory, str(checkpoint))
    try:
        model.load_state_dict(found.model)
    except RuntimeError:
        raise InputError(f"{directory.path}: the weights of step {found.step} do not fit its config.json") from None
    return Trained(directory, config, task, model.to(pick_device(device)).eval(), found.step, tuple(warnings))


def _choose_checkpoint(directory: RunDirectory, wanted: str) -> tuple[Any, list[str]]:
    steps = directory.checkpoint_steps()
    if wanted not in ("best", "last"):
        digits = wanted.removeprefix("step-")
        if not digits.isdecimal() or len(digits) > 20 or int(digits) not in steps:
            raise InputError(f"no checkpoint {wanted!r} in {directory.path}; there are: best, last, {steps}")
        try:
            return directory.read_checkpoint(int(digits)), []
        except DamagedCheckpoint as damage:
            raise InputError(f"{directory.path}: {damage}") from None
    last, damages = directory.newest_checkpoint()
    if last is None:
        why = "; ".join(damages) or "it has none"
        raise InputError(f"{directory.path} has no checkpoint to read: {why}")
    best = last.state["best"]["step"]
    if wanted == "last" or best == last.step:
        return last, damages
    chosen, more = directory.newest_checkpoint([step for step in steps if step <= best])
    if chosen is None or chosen.step != best:
        more.append(f"the best checkpoint cannot be read; using {last.step} instead")
        chosen = last
    return chosen, damages + more


def evaluate(
    run: Trained | str | Path, split: str = "test", *, decoded: int = DECODED, progress: OnProgress | None = None
) -> SplitEvaluation:
    """Accuracy of a run on a split; `all` is the whole domain of a task that can list it."""
    trained = run if isinstance(run, Trained) else load(run)
    task = trained.task
    if split not in EVALUATED:
        raise InputError(f"split {split!r}; {suggestion(split, EVALUATED)}")
    if split == "all":
        size = task.domain_size()
        if size is None:
            raise InputError(f"--split all: the domain of {task.name} is too large to list; use {', '.join(SPLITS)}")
        chunks = task.domain(rows_at_once(trained, next(task.domain(1))))
        return evaluate_examples(trained, "all", chunks, size, decoded=decoded, progress=progress)
    if split == "train" and trained.config.data.fresh:
        raise InputError("--split train: this run drew fresh examples at every step and has no training set")
    examples = split_examples(task, trained.config, trained.directory)[cast(Split, split)]
    return evaluate_examples(trained, split, iter([examples]), len(examples), decoded=decoded, progress=progress)


def evaluate_examples(
    trained: Trained,
    name: str,
    chunks: Iterator[Examples],
    size: int,
    *,
    decoded: int = DECODED,
    shown: int = SHOWN,
    progress: OnProgress | None = None,
    observe: Observer = lambda examples, right: None,
) -> SplitEvaluation:
    """Accuracy on any examples of the run's task; `shown` wrong answers are stored, `observe` is called for all."""
    is_class = trained.task.kind == "class"
    count = ClassCount(trained, shown) if is_class else SequenceCount(trained, shown, size, decoded)
    done = 0
    for examples in (part for chunk in chunks for part in parts_of(chunk, trained)):
        batch = make_batch(trained.task, trained.model, examples, trained.device)
        right = count.add(examples, batch, teacher_forced_pass(trained.model, batch, trained.task.vocabulary.pad))
        observe(examples, right)
        done += len(examples)
        if progress is not None:
            progress(done, size)
    return count.result(name)


def parts_of(examples: Examples, trained: Trained) -> Iterator[Examples]:
    """Parts whose size suits the device."""
    size = rows_at_once(trained, examples)
    for start in range(0, len(examples), size):
        yield examples.take(slice(start, start + size))


def rows_at_once(trained: Trained, examples: Examples) -> int:
    """The batch size for examples of this width on the device; large sizes have many divisors."""
    answer = examples.target.shape[1] if examples.target.ndim == 2 else 0
    size = max(1, TOKENS_A_BATCH[trained.device.type] // (examples.source.shape[1] + answer))
    return size - size % DIVISIBLE if size >= 8 * DIVISIBLE else size


@dataclass(frozen=True)
class Pass:
    """The model's predictions after each right prefix, and the loss."""

    predicted: Int[Tensor, "batch *answer"]
    loss: Float[Tensor, ""]
    counted: int


@torch.inference_mode()
def teacher_forced_pass(model: Transformer, batch: Batch, pad: int) -> Pass:
    """The most likely token (or class) at every position, and the summed loss without padding."""
    logits = model(batch.inputs)
    loss = F.cross_entropy(logits.flatten(0, -2), batch.target.flatten(), ignore_index=pad, reduction="sum")
    return Pass(logits.argmax(-1), loss, int((batch.target != pad).sum()))


class Count:
    """Sums over batches that all evaluations need."""

    def __init__(self, trained: Trained, shown: int):
        self.trained, self.task, self.shown = trained, trained.task, shown
        self.n = self.wrong = self.counted = 0
        self.loss = 0.0
        self.kept_wrong: list[Examples] = []

    def add(self, examples: Examples, batch: Batch, answer: Pass) -> Bool[np.ndarray, " batch"]:
        """Count some examples; returns which of them are right."""
        right = self.task.correct(answer.predicted, batch.target)
        self.n += len(examples)
        self.wrong += int((~right).sum())
        self.loss += float(answer.loss)
        self.counted += answer.counted
        for row in (~right).nonzero().flatten().tolist()[: self.shown - len(self.kept_wrong)]:
            self.kept_wrong.append(examples.take([row]))
        return right.cpu().numpy()

    def answers(self, batch: Batch) -> Tensor:
        """The model's final answers."""
        return teacher_forced_pass(self.trained.model, batch, self.task.vocabulary.pad).predicted

    def wrong_examples(self) -> tuple[WrongExample, ...]:
        if not self.kept_wrong:
            return ()
        kept = Examples.join(self.kept_wrong, self.task.vocabulary.pad)
        answers = self.answers(make_batch(self.task, self.trained.model, kept, self.trained.device)).cpu().numpy()
        rows = zip(kept.source, kept.target, answers, strict=True)
        shown = [(self.task.show(source, target), self.task.show(source, answer)) for source, target, answer in rows]
        return tuple(WrongExample(example=right, answered=said.rpartition("-> ")[2]) for right, said in shown)

    def common(self, name: str) -> Evaluation:
        right = self.n - self.wrong
        return Evaluation(
            split=name,
            step=self.trained.step,
            n=self.n,
            wrong=self.wrong,
            accuracy=right / self.n,
            interval=wilson_interval(right, self.n),
            loss=self.loss / self.counted,
            wrong_examples=self.wrong_examples(),
        )


class ClassCount(Count):
    """Answers of a classifier."""

    def __init__(self, trained: Trained, shown: int):
        super().__init__(trained, shown)
        self.table = np.zeros((self.task.n_classes, self.task.n_classes), dtype=np.int64)

    def add(self, examples: Examples, batch: Batch, answer: Pass) -> Bool[np.ndarray, " batch"]:
        np.add.at(self.table, (examples.target, answer.predicted.cpu().numpy()), 1)
        return super().add(examples, batch, answer)

    def result(self, name: str) -> ClassEvaluation:
        present = self.table.sum(1) > 0
        recall = self.table.diagonal()[present] / self.table.sum(1)[present]
        shares = {str(label): float(share) for label, share in enumerate(self.table.sum(0) / self.n)}
        return ClassEvaluation(**vars(self.common(name)), balanced_accuracy=float(recall.mean()), answer_shares=shares)


class SequenceCount(Count):
    """Whole answers, and the sample of them that is decoded greedily."""

    def __init__(self, trained: Trained, shown: int, size: int, decoded: int):
        super().__init__(trained, shown)
        sample = generator(trained.config.data.seed, "decoded").permutation(size)[:decoded]
        self.chosen = np.zeros(size, dtype=bool)
        self.chosen[sample] = True
        self.decoded_n = self.decoded_wrong = self.disagreements = self.real_disagreements = 0
        self.disagreement_examples: list[Disagreement] = []
        self.waiting: list[tuple[Examples, Tensor]] = []

    def add(self, examples: Examples, batch: Batch, answer: Pass) -> Bool[np.ndarray, " batch"]:
        picked = np.flatnonzero(self.chosen[self.n : self.n + len(examples)])
        right = super().add(examples, batch, answer)
        if len(picked):
            self.waiting.append((examples.take(picked), answer.predicted[torch.from_numpy(picked)]))
        return right

    def answers(self, batch: Batch) -> Tensor:
        # After the first wrong token the teacher-forced prefix is not the model's own, so the answer is decoded.
        return decode(self.trained.model, self.task, batch)

    def result(self, name: str) -> SequenceEvaluation:
        if self.waiting:
            pad = self.task.vocabulary.pad
            sample = Examples.join([examples for examples, _ in self.waiting], pad)
            width = max(predicted.shape[1] for _, predicted in self.waiting)
            predicted = torch.cat([_widen(predicted, width, pad) for _, predicted in self.waiting])
            for part in parts_of(sample, self.trained):
                self._decode(part, predicted[self.decoded_n : self.decoded_n + len(part)])
        return SequenceEvaluation(
            **vars(self.common(name)),
            decoded_n=self.decoded_n,
            decoded_wrong=self.decoded_wrong,
            disagreements=self.disagreements,
            real_disagreements=self.real_disagreements,
            disagreement_examples=tuple(self.disagreement_examples),
        )

    def _decode(self, examples: Examples, predicted: Int[Tensor, "batch answer"]) -> None:
        """Decode some examples and compare them with the predictions of the teacher-forced pass."""
        pad = self.task.vocabulary.pad
        batch = make_batch(self.task, self.trained.model, examples, self.trained.device)
        written = decode(self.trained.model, self.task, batch)
        width = max(written.shape[1], predicted.shape[1], batch.target.shape[1])
        written, predicted, target = (_widen(tokens, width, pad) for tokens in (written, predicted, batch.target))
        self.decoded_n += len(examples)
        self.decoded_wrong += int((~self.task.correct(written, target)).sum())
        apart = disagreeing(written, predicted, target, pad)
        rows = apart.any(1).nonzero().flatten()
        if len(rows):
            self._note_disagreements(examples, batch, rows, apart.int().argmax(1)[rows])

    def _note_disagreements(self, examples: Examples, batch: Batch, rows: Tensor, places: Tensor) -> None:
        """Count disagreements, and measure the gap of the two best logits there: near 0, rounding decided."""
        with torch.inference_mode():
            best = self.trained.model(batch.inputs)[rows, places].topk(2).values
        gaps = (best[:, 0] - best[:, 1]).tolist()
        self.disagreements += len(gaps)
        self.real_disagreements += sum(gap > NEAR_TIE for gap in gaps)
        for row, place, gap in zip(rows.tolist(), places.tolist(), gaps, strict=True):
            if len(self.disagreement_examples) < SHOWN:
                shown = self.task.show(examples.source[row], examples.target[row])
                self.disagreement_examples.append(Disagreement(example=shown, token=place, gap=gap))


def _widen(tokens: Int[Tensor, "batch answer"], width: int, pad: int) -> Int[Tensor, "batch width"]:
    return F.pad(tokens, (0, width - tokens.shape[1]), value=pad)


def disagreeing(
    written: Int[Tensor, "batch answer"],
    predicted: Int[Tensor, "batch answer"],
    target: Int[Tensor, "batch answer"],
    pad: int,
) -> Bool[Tensor, "batch answer"]:
    """Where decoding differs from the teacher-forced pass although both have read the same right prefix."""
    counts = target != pad
    wrong = (predicted != target) & counts
    wrong_before = wrong.cumsum(1) - wrong.long()
    return (written != predicted) & counts & (wrong_before == 0)


def decode(model: Transformer, task: Task, batch: Batch, *, cache: bool = True) -> Int[Tensor, "batch answer"]:
    """Answers decoded greedily from the source alone."""
    assert task.vocabulary.bos is not None and task.vocabulary.eos is not None
    return decode_greedily(
        model,
        batch.inputs,
        lambda source, prefix: task.positions(model.encoding.position_kind, source, prefix),
        bos=task.vocabulary.bos,
        eos=task.vocabulary.eos,
        longest=task.longest_answer(batch.inputs.source.shape[1]),
        cache=cache,
    )


def are_seeds_of_one_recipe(opened: Sequence[Trained]) -> bool:
    """Whether the runs differ only in their seeds; raises if a run is named twice."""
    return why_not_seeds(opened) is None


def why_not_seeds(opened: Sequence[Trained]) -> str | None:
    """Why runs are not several seeds of one recipe; None if they are. Raises if a run is named twice."""
    paths = [trained.directory.path for trained in opened]
    if len({path.resolve() for path in paths}) < len(paths):
        raise InputError("a run is named twice; every seed counts once")
    first, seen = opened[0].config, {opened[0].config.seed: paths[0]}
    for path, config in zip(paths[1:], (other.config for other in opened[1:]), strict=True):
        if apart := differences(first, replace(config, seed=first.seed)):
            return f"{paths[0]} and {path} are not two seeds of one recipe: {'; '.join(apart)}"
        if config.seed in seen:
            return f"{seen[config.seed]} and {path} both have seed {config.seed}; each counts once"
        seen[config.seed] = path
    return None
