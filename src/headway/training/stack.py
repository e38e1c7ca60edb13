"""Training several seeds and learning rates of one recipe in one step, each into its own run directory.

A seed in a stack and the same seed alone start from the same weights, see the same examples in the same order and the
same dropout; their weights differ by rounding alone. A seed may stop early, or fail, without the others.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.batches import collate, make_model, pick_device
from headway.callbacks import MetricsRow, OnEvent
from headway.config import RunConfig, differences, stackable
from headway.errors import InputError, Interrupted, RunStopped
from headway.evaluation import TOKENS_A_BATCH
from headway.model.stack import Stack, stack_models
from headway.randomness import derive
from headway.runs import Checkpoint, DamagedCheckpoint, RunDirectory
from headway.tasks import Examples, Task, make_task
from headway.tasks.splits import Split
from headway.training.data import TrainingData
from headway.training.loop import deterministic, learning_rate, not_finite, noticing_interrupts, optimiser_groups
from headway.training.prefetch import make_prefetcher
from headway.training.preparation import open_run, plan_run
from headway.training.seed_run import SeedRun, TrainResult
from headway.training.step import Load, StackStep, positions_of_each

LOADED = {"cpu": 10, "cuda": 100}
"""The most steps loaded onto the device at once; Ctrl-C and failures are noticed between two loads."""
STARTED = 5
"""Steps queued on the device before the host begins to write metrics."""
WRITERS = 8
"""Threads that write checkpoints."""
COMPILED_FROM = 100_000_000
"""From this many tokens, over all seeds and steps, compiling for a GPU (about a minute) saves more time than it takes.
"""


def train_stack(
    configs: Sequence[RunConfig],
    outs: Sequence[Path | str],
    *,
    device: str = "auto",
    resume: bool = False,
    data: Path | None = None,
    command: list[str] | None = None,
    on_events: Sequence[OnEvent] | None = None,
    until: int | None = None,
) -> list[TrainResult | RunStopped]:
    """Train seeds of one recipe as a stack; returns the result of each, or why it stopped."""
    check_alike(configs)
    where, task = pick_device(device), make_task(configs[0].task)
    directories = [RunDirectory(out) for out in outs]
    for config, directory in zip(configs, directories, strict=True):
        plan_run(directory, config, task, resume=resume, data=data)  # refuses before anything is written
    tell = on_events or [lambda event: None] * len(configs)
    with ExitStack() as opened:
        seed_runs, splits = [], []
        for config, directory, on_event in zip(configs, directories, tell, strict=True):
            run = open_run(directory, config, task, where, resume=resume, data=data, command=command or [])
            resolved, examples = opened.enter_context(run)
            seed_runs.append(SeedRun(resolved, directory, where, on_event))
            splits.append(examples)
        check_same_examples(seed_runs, splits)
        interrupted = opened.enter_context(noticing_interrupts())
        opened.enter_context(deterministic(where))
        if where.type == "cuda":  # TF32; docs/speed.md has the accuracies measured with it
            opened.enter_context(matmul_precision("high"))
        failures: dict[SeedRun, RunStopped] = {}
        for group in start_groups(seed_runs):
            failures |= StackLoop(group, task, splits[0]).run(interrupted, until)
    if interrupted():
        state = "finished" if all(seed_run.state.finished for seed_run in seed_runs) else "saved"
        raise Interrupted(f"stopped; the runs are {state}")
    return [failures.get(seed_run) or seed_run.result() for seed_run in seed_runs]


def check_alike(configs: Sequence[RunConfig]) -> None:
    """Raise unless the configs differ only in seed and learning rate, and none occurs twice."""
    if len({(config.seed, config.train.lr) for config in configs}) < len(configs):
        raise InputError("a stack needs different seeds or rates; one is repeated")
    if configs[0].train.guided:
        raise InputError(
            f"train.guided = {configs[0].train.guided}: guided training takes one seed at a time, no stack"
        )
    for config in configs[1:]:
        apart = differences(stackable(configs[0]), stackable(config))
        if apart:
            raise InputError(f"a stack needs one recipe; two differ in {apart[0]}")


def check_same_examples(seed_runs: Sequence[SeedRun], splits: Sequence[dict[Split, Examples]]) -> None:
    """Raise unless all runs with their own data files hold the same ones."""
    for seed_run, own in zip(seed_runs, splits, strict=True):
        for name, first in splits[0].items():
            pairs = ((first.source, own[name].source), (first.target, own[name].target))
            if not all(np.array_equal(*pair) for pair in pairs):
                raise InputError(f"a stack needs one set of data; {seed_run.directory.path} was begun with another one")


Start = tuple[SeedRun, Checkpoint | None]
"""A seed and its checkpoint."""


def start_groups(seed_runs: Sequence[SeedRun]) -> list[list[Start]]:
    """Unfinished seeds grouped by the step of their checkpoint; the most advanced group comes first.

    After a kill, seeds differ by at most one validation. A seed further behind, which has failed or is new, forms a
    separate group, so that the others do not repeat steps.
    """
    waiting: list[Start] = []
    for seed_run in seed_runs:
        found = seed_run.find_checkpoint()
        if found is not None and found.state["finished"]:
            seed_run.continue_from(found)
        else:
            waiting.append((seed_run, found))
    groups = []
    while waiting:
        reached = [-1 if found is None else found.step for _, found in waiting]
        step = min(one for one in reached if one >= max(reached) - seed_runs[0].config.train.validate_every)
        group = [start for seed_run, found in waiting for start in _start_at(seed_run, found, step)]
        groups.append(group)
        together = {seed_run for seed_run, _ in group}
        waiting = [start for start in waiting if start[0] not in together]
    return groups


def _start_at(seed_run: SeedRun, newest: Checkpoint | None, step: int) -> list[Start]:
    """The seed with its checkpoint of a step (-1: the initial weights); None if it has no valid one."""
    if newest is not None and newest.step == step:
        return [(seed_run, newest)]
    if step < 0:
        return [(seed_run, None)]
    try:
        return [(seed_run, seed_run.directory.read_checkpoint(step))]
    except DamagedCheckpoint:
        return []


@contextmanager
def matmul_precision(wanted: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(wanted)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class StackLoop:
    """The loop for several seeds: row i of the stack is `seed_runs[i]`; the `active` ones are still training."""

    def __init__(self, starts: Sequence[Start], task: Task, splits: dict[Split, Examples]):
        self.task, self.splits = task, splits
        first = starts[0][0]
        self.settings, self.device, self.total = first.config.train, first.device, first.total
        self.failures: dict[SeedRun, RunStopped] = {}
        self.taken: tuple[int, Callable[[], tuple[Tensor, Tensor]]] | None = None
        self.ahead = ThreadPoolExecutor(1)
        self.coming: tuple[tuple[int, int], Future[Load]] | None = None
        seed_runs = [seed_run for seed_run, _ in starts]
        for seed_run in seed_runs:
            seed_run.started = time.perf_counter()  # other groups may have trained since it was opened
        self._build(seed_runs, [(one.model, one.trainer) for _, one in starts if one is not None] or None)
        for seed_run, checkpoint in starts:
            seed_run.forget_after(None if checkpoint is None else checkpoint.step)
            seed_run.continue_from(checkpoint)

    def run(self, interrupted: Callable[[], bool], until: int | None = None) -> dict[SeedRun, RunStopped]:
        """Train to the end, or until a step; returns the failures."""
        last = self.total if until is None else min(until, self.total)
        step = self.seed_runs[0].state.step
        try:
            while self.active:
                self._keep(step)
                due = step % self.settings.validate_every == 0 or step in (last, self.total)
                if due and self.seed_runs[self.active[0]].state.validated != step:
                    self._catch_up()
                    self._validate()
                    self._save()
                    self._let_go()
                if not self.active or step >= last:
                    break
                if interrupted():
                    self._catch_up()
                    self._save()
                    stopped = f"stopped at step {step:,} of {self.total:,}"
                    raise Interrupted(f"{stopped}; --resume continues {self._names()}")
                step = self._advance(step, last)
        finally:
            self.ahead.shutdown()
            self.prefetcher.close()
        return self.failures

    def _names(self) -> str:
        paths = [str(self.seed_runs[row].directory.path) for row in self.active]
        return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")

    def _build(
        self, seed_runs: Sequence[SeedRun], saved: Sequence[tuple[Mapping[str, Tensor], Mapping[str, Tensor]]] | None
    ) -> None:
        """Stack the models of the seeds, with initial weights or with the weights and optimiser tensors of a
        checkpoint.
        """
        self.seed_runs, self.active = list(seed_runs), list(range(len(seed_runs)))
        models = []
        for seed_run in seed_runs:
            torch.manual_seed(derive(seed_run.config.seed, "initialisation"))
            models.append(make_model(self.task, seed_run.config.model))
        matrices, others = optimiser_groups(models[0])
        self.order = [*matrices, *others]
        self.stack = stack_models(models, self.device)
        data = [TrainingData(seed_run.config, self.task, self.splits) for seed_run in seed_runs]
        self.longest = min(LOADED[self.device.type], self.settings.validate_every)
        self.prefetcher = make_prefetcher(data, self.longest, self.device)
        try:
            self.step = StackStep(
                self.stack,
                self.task,
                self.settings,
                self.prefetcher,
                padded=data[0].padded(),
                longest=self.longest,
                compiled=self.total * self._tokens_a_step() >= COMPILED_FROM,
                mixed=self.device.type == "cuda" and self.settings.stack_precision == "bf16",
            )
        except BaseException:
            self.prefetcher.close()  # its processes would wait for ever
            raise
        if saved is not None:
            self.stack.layout.write(self.stack.weights, [model for model, _ in saved])
            self.step.take_up_weights()
        if saved is not None and saved[0][1]:
            for name, vector in (("exp_avg", self.step.first), ("exp_avg_sq", self.step.second)):
                each = [{key: tensors[f"{i}.{name}"] for i, key in enumerate(self.order)} for _, tensors in saved]
                self.stack.layout.write(vector, each)

    def _tokens_a_step(self) -> int:
        return len(self.seed_runs) * self.settings.batch_size * sum(self.task.widths())

    def _advance(self, step: int, last: int) -> int:
        """Take the loaded steps, up to the next validation; returns the step reached.

        While a GPU works on them, the host notes the steps before, and a thread prepares those to come. The notes of a
        few seeds at a time are written between two steps, so that the GPU's queue, which is short, is never empty.
        """
        count = self._load_size(step, last)
        self.step.load(self._found(step, count))
        if self.device.type == "cuda" and step + count < last:
            after = self._load_size(step + count, last)
            self.coming = (step + count, after), self.ahead.submit(self._find, step + count, after)
        notes, at_once = self._notes(), -(-len(self.active) // max(1, count - STARTED))
        for done in range(count):
            self.step.replay()
            if done >= STARTED:
                list(islice(notes, at_once))
        list(notes)
        self.taken = step, self.step.readings(count)
        return step + count

    def _find(self, step: int, count: int) -> Load:
        return self.step.find(step, self.total, count, [seed_run.config for seed_run in self.seed_runs])

    def _found(self, step: int, count: int) -> Load:
        """The prepared data of these steps; prepared now if that was not done before."""
        coming, self.coming = self.coming, None
        if coming is not None and coming[0] == (step, count):
            return coming[1].result()
        return self._find(step, count)

    def _load_size(self, step: int, last: int) -> int:
        stops = [self.settings.validate_every, self.settings.keep_every or self.total]
        return min(self.longest, last - step, *(every - step % every for every in stops))

    def _catch_up(self) -> None:
        """Write the metrics of steps that were taken but not recorded yet."""
        list(self._notes())

    def _notes(self) -> Iterator[int]:
        """Record each seed's steps up to a non-finite loss or gradient; returns the rows that are done."""
        taken, self.taken = self.taken, None
        if taken is None:
            return
        step, (losses, norms) = taken[0], taken[1]()
        for row in list(self.active):
            settings = self.seed_runs[row].config.train
            records: list[MetricsRow] = []
            rates = [learning_rate(settings, step + i, self.total) for i in range(len(losses))]
            for i, (loss, norm) in enumerate(zip(losses[:, row].tolist(), norms[:, row].tolist(), strict=True)):
                what = "loss" if not math.isfinite(loss) else "gradient" if not math.isfinite(norm) else None
                if what is not None:
                    self._fail(row, not_finite(what, step + i + 1))
                    break
                records.append({"step": step + i + 1, "loss": loss, "lr": rates[i], "gradient": norm})
            self.seed_runs[row].note_steps(records)
            yield row

    def _fail(self, row: int, why: str) -> None:
        seed_run = self.seed_runs[row]
        self.failures[seed_run] = seed_run.stopped(why)
        self._retire(row)

    def _retire(self, row: int) -> None:
        self.active.remove(row)
        self.step.alive[row] = False

    def _validate(self) -> None:
        losses, accuracies = validate_stack(self.stack, self.task, self.splits["validation"])
        for row in list(self.active):
            try:
                self.seed_runs[row].note_validation(losses[row], accuracies[row])
            except RunStopped as problem:
                self.failures[self.seed_runs[row]] = problem
                self._retire(row)

    def _keep(self, step: int) -> None:
        """Keep the weights of the seeds for analyses, if this step is one to keep."""
        rows = [row for row in self.active if self.seed_runs[row].keeps(step)]
        if rows:
            models = self.stack.layout.read(self.stack.weights)
            with ThreadPoolExecutor(WRITERS) as writers:
                list(writers.map(lambda row: self.seed_runs[row].keep(step, models[row]), rows))

    def _save(self) -> None:
        """Write a checkpoint for every seed that has none of this step, several in parallel."""
        rows = [row for row in self.active if self.seed_runs[row].saved != self.seed_runs[row].state.step]
        if not rows:
            return
        models, first, second = (
            self.stack.layout.read(vector) for vector in (self.stack.weights, self.step.first, self.step.second)
        )

        def save(row: int) -> None:
            self.seed_runs[row].save(models[row], self._trainer(first[row], second[row], row))

        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(save, rows))

    def _trainer(self, first: Mapping[str, Tensor], second: Mapping[str, Tensor], row: int) -> dict[str, Tensor]:
        """The optimiser's tensors in the form of a single model's checkpoint, so that a run can leave the stack."""
        step = self.seed_runs[row].state.step
        if step == 0:
            return {}
        tensors: dict[str, Tensor] = {}
        for i, name in enumerate(self.order):
            tensors[f"{i}.step"] = torch.tensor(step, dtype=torch.float32)
            tensors[f"{i}.exp_avg"], tensors[f"{i}.exp_avg_sq"] = first[name], second[name]
        return tensors

    def _let_go(self) -> None:
        """Remove finished seeds; once half of the rows are idle, continue with a smaller stack.

        Not on a GPU, where compiling a smaller stack takes longer than the idle rows.
        """
        for row in list(self.active):
            if self.seed_runs[row].state.finished:
                self._retire(row)
        if not self.active or 2 * len(self.active) > len(self.seed_runs) or self.device.type == "cuda":
            return
        models, first, second = (
            self.stack.layout.read(vector) for vector in (self.stack.weights, self.step.first, self.step.second)
        )
        saved = [(models[row], self._trainer(first[row], second[row], row)) for row in self.active]
        remaining = [self.seed_runs[row] for row in self.active]
        self.prefetcher.close()
        self._build(remaining, saved)


@torch.inference_mode()
def validate_stack(stack: Stack, task: Task, examples: Examples) -> tuple[list[float], list[float]]:
    """Loss and accuracy of each seed on the same examples, by a teacher-forced pass in full precision."""
    n, pad, device = len(stack), task.vocabulary.pad, stack.weights.device
    model = stack.model.eval()
    loss, right = torch.zeros(2, n, dtype=torch.float64, device=device)
    counted = int((examples.target != pad).sum())
    width = examples.source.shape[1] + (examples.target.shape[1] if examples.target.ndim == 2 else 0)
    size = max(1, TOKENS_A_BATCH[device.type] // (n * width))
    with matmul_precision("highest"):
        for start in range(0, len(examples), size):
            part = examples.take(slice(start, start + size))
            source = torch.from_numpy(part.source).to(device).repeat(n, 1)
            target = torch.from_numpy(part.target).to(device).repeat(n, *[1] * (part.target.ndim - 1))
            batch = collate(task, model, source, target, padded=bool((part.source == pad).any()))
            logits = model(positions_of_each(batch.inputs, n))
            each = F.cross_entropy(logits.flatten(0, -2), target.flatten(), ignore_index=pad, reduction="none")
            loss += each.view(n, -1).sum(1)
            right += task.correct(logits.argmax(-1), target).view(n, -1).sum(1)
    return (loss / counted).tolist(), (right / len(examples)).tolist()
