"""The training loop, top to bottom, for one model."""

import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.batches import make_batch, make_model, pick_device
from headway.config import RunConfig, TrainConfig
from headway.errors import Interrupted, RunStopped
from headway.evaluation import Trained, evaluate_examples
from headway.model.transformer import Transformer
from headway.randomness import derive
from headway.runs import Checkpoint, RunDirectory
from headway.tasks import Examples, Task, make_task
from headway.tasks.splits import Split
from headway.training.data import TrainingData
from headway.training.preparation import open_run

Report = Callable[[Mapping[str, Any]], None]
"""Told of everything that happens: {"event": "step" | "validation" | "resumed" | "warning" | ..., ...}."""


@dataclass(frozen=True)
class TrainResult:
    """Where a run stands when training ends; `metrics` are those of its best checkpoint on validation."""

    run: str
    steps: int
    seconds: float
    metrics: dict[str, float]
    stopped_early: bool
    warnings: list[str] = field(default_factory=list)


@dataclass
class Progress:
    """The loop's own numbers: all that a checkpoint must hold besides weights and optimiser."""

    step: int = 0
    seconds: float = 0.0
    best: dict[str, float] = field(default_factory=lambda: {"step": 0, "loss": math.inf})
    below: int = 0
    validated: int = -1
    finished: bool = False
    stopped_early: bool = False
    threads: int = field(default_factory=torch.get_num_threads)

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def train(
    config: RunConfig,
    out: Path | str,
    *,
    device: str = "auto",
    resume: bool = False,
    data: Path | None = None,
    command: list[str] | None = None,
    report: Report = lambda event: None,
    until: int | None = None,
) -> TrainResult:
    """Train one model into a run directory; `resume` continues one that was stopped, to the same weights.

    With `until`, stop after that many steps, validated and saved, as a run that can be continued.
    """
    directory = RunDirectory(out)
    where = pick_device(device)
    task = make_task(config.task)
    with open_run(directory, config, task, where, resume=resume, data=data, command=command or []) as (config, splits):
        with deterministic(where), noticing_interrupts() as interrupted:
            return _Loop(config, directory, task, splits, where, report).run(interrupted, until)


class _Loop:
    def __init__(
        self,
        config: RunConfig,
        directory: RunDirectory,
        task: Task,
        splits: dict[Split, Examples],
        device: torch.device,
        report: Report,
    ):
        self.config, self.directory, self.task, self.device, self.report = config, directory, task, device, report
        torch.manual_seed(derive(config.seed, "initialisation"))
        self.model = make_model(task, config.model).to(device)
        self.optimiser = make_optimiser(self.model, config.train)
        self.data = TrainingData(config, task, splits)
        self.progress = Progress()
        self.warnings: list[str] = []
        self.saved = -1
        self.started = time.perf_counter()

    def run(self, interrupted: Callable[[], bool], until: int | None = None) -> TrainResult:
        self._pick_up()
        total = self.config.train.total_steps(self.config.data)
        last = total if until is None else min(until, total)
        while not self.progress.finished:
            step = self.progress.step
            due = step % self.config.train.validate_every == 0 or step in (last, total)
            if due and self.progress.validated != step:
                self._validate_and_save(total)
            if self.progress.finished or step >= last:
                break
            if interrupted():
                self._save()
                raise Interrupted(f"stopped at step {step:,} of {total:,}; --resume continues {self.directory.path}")
            self._update(total)
        if interrupted():
            state = "finished" if self.progress.finished else f"saved at step {self.progress.step:,}"
            raise Interrupted(f"stopped; {self.directory.path} is {state}")
        return self._result()

    def _update(self, total: int) -> None:
        """One step: a batch, its loss, the gradient, the optimiser."""
        settings, step = self.config.train, self.progress.step
        # Dropout and random positions of a step depend on the seed and the step alone.
        torch.manual_seed(derive(self.config.seed, "noise", step))
        batch = make_batch(self.task, self.model, self.data.batch(step), self.device)
        self.model.train()
        logits = self.model(batch.inputs)
        loss = F.cross_entropy(
            logits.flatten(0, -2),
            batch.target.flatten(),
            ignore_index=self.task.vocabulary.pad,
            label_smoothing=settings.label_smoothing,
        )
        self.optimiser.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip)
        self._stop_unless_finite(loss, norm)
        rate = learning_rate(settings, step, total)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.progress.step += 1
        record = {"step": step + 1, "loss": float(loss.detach()), "lr": rate, "gradient": float(norm)}
        self.directory.append_metrics(record)
        self.report({"event": "step", "total": total, **record})

    def _stop_unless_finite(self, loss: Tensor, norm: Tensor) -> None:
        what = "loss" if not loss.isfinite() else "gradient" if not norm.isfinite() else None
        if what is not None:
            self._stop(f"the {what} is not finite at step {self.progress.step + 1:,}; nothing was updated")

    def _stop(self, why: str) -> None:
        steps = self.directory.checkpoint_steps()
        last = f"the last good checkpoint is step {steps[-1]:,} of" if steps else "there is no checkpoint yet in"
        raise RunStopped(f"{why}, {last} {self.directory.path}")

    def _validate_and_save(self, total: int) -> None:
        progress, settings = self.progress, self.config.train
        now = Trained(self.directory, self.config, self.task, self.model.eval(), progress.step)
        examples = self.data.splits["validation"]
        found = evaluate_examples(now, "validation", iter([examples]), len(examples), decoded=0, shown=0)
        if not math.isfinite(found.loss):
            self._stop(f"the validation loss is not finite at step {progress.step:,}")
        if found.loss < progress.best["loss"]:
            progress.best = {"step": progress.step, "loss": found.loss, "accuracy": found.accuracy}
        progress.validated = progress.step
        progress.below = progress.below + 1 if settings.stop_below and found.loss < settings.stop_below else 0
        progress.stopped_early = progress.below >= settings.stop_for and progress.step < total
        progress.finished = progress.stopped_early or progress.step >= total
        record = {"step": progress.step, "validation": {"loss": found.loss, "accuracy": found.accuracy}}
        self.directory.append_metrics(record)
        self.report({"event": "validation", "total": total, "loss": found.loss, "accuracy": found.accuracy, **record})
        self._save()

    def _save(self) -> None:
        """Write a checkpoint unless it is there; the first, the best and the last two are kept."""
        if self.saved == self.progress.step:
            return
        self._note_time()
        model = {name: tensor.detach().cpu().contiguous() for name, tensor in self.model.state_dict().items()}
        checkpoint = Checkpoint(self.progress.step, model, optimiser_tensors(self.optimiser), self.progress.to_json())
        self.directory.write_checkpoint(checkpoint)
        self.saved = self.progress.step
        newest = self.directory.checkpoint_steps()[-2:]
        self.directory.keep_checkpoints({0, int(self.progress.best["step"]), *newest})

    def _note_time(self) -> None:
        """Add the time since the last note to the run's seconds: batches, steps, validation and writing alike."""
        now = time.perf_counter()
        self.progress.seconds += now - self.started
        self.started = now

    def _pick_up(self) -> None:
        """Start from the newest whole checkpoint, if there is one."""
        found, damages = self.directory.newest_checkpoint()
        for damage in damages:
            self._warn(f"{damage}; {'training starts again' if found is None else 'the one before it is used'}")
        # A damaged checkpoint must not count as one of the last two, which are kept.
        whole = {step for step in self.directory.checkpoint_steps() if found is not None and step <= found.step}
        self.directory.keep_checkpoints(whole)
        self.directory.mend_metrics()
        if found is None:
            if self.directory.metrics():
                self.directory.append_metrics({"resumed_at": -1})
            return
        self.model.load_state_dict(found.model)
        restore_optimiser(self.optimiser, found.trainer)
        self.progress = Progress(**found.state)
        self.saved = found.step
        if self.progress.finished:
            return
        self._warn_of_other_circumstances()
        self.directory.append_metrics({"resumed_at": found.step})
        self.report({"event": "resumed", "step": found.step})

    def _warn_of_other_circumstances(self) -> None:
        """Say what will make the weights differ from those of a run that was never stopped."""
        threads, record = torch.get_num_threads(), self.directory.provenance()
        first: dict[str, object] = {"device": record.get("device"), "torch": record.get("versions", {}).get("torch")}
        now: dict[str, object] = {"device": self.device.type, "torch": torch.__version__}
        if self.device.type == "cpu":
            first["threads"], now["threads"] = self.progress.threads, threads
        for what in now:
            if first[what] != now[what]:
                self._warn(
                    f"this run had {what} {first[what]} and now has {now[what]}; "
                    "the weights will differ in the last bits from an uninterrupted run"
                )
        self.progress.threads = threads

    def _warn(self, text: str) -> None:
        self.warnings.append(text)
        self.report({"event": "warning", "text": text})

    def _result(self) -> TrainResult:
        progress = self.progress
        metrics = {"validation_loss": progress.best["loss"], "validation_accuracy": progress.best["accuracy"]}
        best = int(progress.best["step"])
        return TrainResult(
            run=str(self.directory.path),
            steps=progress.step,
            seconds=progress.seconds,
            metrics={**metrics, "best_step": best},
            stopped_early=progress.stopped_early,
            warnings=self.warnings,
        )


def learning_rate(settings: TrainConfig, step: int, total: int) -> float:
    """The rate of a step (from 0): a straight rise over the warm-up, then the schedule down to lr_end x lr."""
    warm = settings.warmup * total
    if step < warm:
        return settings.lr * (step + 1) / (math.floor(warm) + 1)
    done = (step - warm) / max(total - warm, 1)
    fall = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}[settings.schedule]
    return settings.lr * (settings.lr_end + (1 - settings.lr_end) * fall)


def make_optimiser(model: Transformer, settings: TrainConfig) -> torch.optim.AdamW:
    """AdamW; weight decay acts on the matrices of linear layers and nothing else."""
    matrices = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)}
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if id(p) in matrices], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if id(p) not in matrices], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.lr, betas=(settings.beta1, settings.beta2), fused=True)


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's memory as named tensors: `3.exp_avg` belongs to its fourth parameter."""
    state = optimiser.state_dict()["state"]
    return {
        f"{index}.{name}": torch.as_tensor(value).cpu().contiguous()
        for index, values in state.items()
        for name, value in values.items()
    }


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = tensor
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})


@contextmanager
def deterministic(device: torch.device) -> Iterator[None]:
    """The same numbers on every run on a CPU, and the caller's random state untouched."""
    switches: Any = torch.utils.deterministic
    before = torch.are_deterministic_algorithms_enabled(), switches.fill_uninitialized_memory
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.use_deterministic_algorithms(device.type == "cpu")
        switches.fill_uninitialized_memory = False  # a check of kernels that costs time
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before[0])
            switches.fill_uninitialized_memory = before[1]


@contextmanager
def noticing_interrupts() -> Iterator[Callable[[], bool]]:
    """Ctrl-C once is noted, so that the loop can save; twice stops at once."""
    noted = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal noted
        if noted:
            raise KeyboardInterrupt
        noted = True

    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:  # not the main thread: nobody can press Ctrl-C here
        yield lambda: False
        return
    try:
        yield lambda: noted
    finally:
        signal.signal(signal.SIGINT, before)
