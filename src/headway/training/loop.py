"""The training loop for one model."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor, nn

from headway.batches import make_batch, make_model, pick_device
from headway.callbacks import OnEvent
from headway.config import RunConfig, TrainConfig
from headway.errors import Interrupted
from headway.evaluation import Trained, evaluate_examples
from headway.model.transformer import Transformer
from headway.processes import handling_signals
from headway.randomness import derive
from headway.runs import RunDirectory
from headway.tasks import Examples, Task, make_task
from headway.tasks.splits import Split
from headway.training.adamw import AdamW, Group
from headway.training.data import TrainingData
from headway.training.guided import Guide
from headway.training.preparation import open_run
from headway.training.seed_run import SeedRun, TrainResult


def train(
    config: RunConfig,
    out: Path | str,
    *,
    device: str = "auto",
    resume: bool = False,
    data: Path | None = None,
    command: list[str] | None = None,
    on_event: OnEvent = lambda event: None,
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
            return _Loop(SeedRun(config, directory, where, on_event), task, splits).run(interrupted, until)


class _Loop:
    def __init__(self, seed_run: SeedRun, task: Task, splits: dict[Split, Examples]):
        self.seed_run, self.task, self.config, self.device = seed_run, task, seed_run.config, seed_run.device
        torch.manual_seed(derive(self.config.seed, "initialisation"))
        self.model = make_model(task, self.config.model).to(self.device)
        self.optimiser = make_optimiser(self.model, self.config.train)
        self.data = TrainingData(self.config, task, splits)
        self.guide = Guide(self.config, task) if self.config.train.guided else None

    def run(self, interrupted: Callable[[], bool], until: int | None = None) -> TrainResult:
        seed_run = self.seed_run
        self._pick_up()
        last = seed_run.total if until is None else min(until, seed_run.total)
        while not seed_run.state.finished:
            step = seed_run.state.step
            if seed_run.keeps(step):
                seed_run.keep(step, self._weights())
            due = step % self.config.train.validate_every == 0 or step in (last, seed_run.total)
            if due and seed_run.state.validated != step:
                self._validate()
                self._save()
            if seed_run.state.finished or step >= last:
                break
            if interrupted():
                self._save()
                why = f"stopped at step {step:,} of {seed_run.total:,}"
                raise Interrupted(f"{why}; --resume continues {seed_run.directory.path}")
            self._update(step)
        if interrupted():
            state = "finished" if seed_run.state.finished else f"saved at step {seed_run.state.step:,}"
            raise Interrupted(f"stopped; {seed_run.directory.path} is {state}")
        return seed_run.result()

    def _update(self, step: int) -> None:
        """One step: a batch, its loss, the gradient, the optimiser."""
        settings = self.config.train
        examples = self.data.batch(step)
        if self.guide is not None:
            examples = self.guide.mixed(examples, step)
        batch = make_batch(self.task, self.model, examples, self.device, cut=False)
        self.model.train()
        self.model.noise.begin(noise_keys([self.config.seed], step).to(self.device))
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
        rate = learning_rate(settings, step, self.seed_run.total)
        self.optimiser.step(rate)
        self.seed_run.note_steps(
            [{"step": step + 1, "loss": float(loss.detach()), "lr": rate, "gradient": float(norm)}]
        )

    def _stop_unless_finite(self, loss: Tensor, norm: Tensor) -> None:
        what = "loss" if not loss.isfinite() else "gradient" if not norm.isfinite() else None
        if what is not None:
            raise self.seed_run.stopped(not_finite(what, self.seed_run.state.step + 1))

    def _validate(self) -> None:
        step = self.seed_run.state.step
        now = Trained(self.seed_run.directory, self.config, self.task, self.model.eval(), step)
        examples = self.data.splits["validation"]
        found = evaluate_examples(now, "validation", iter([examples]), len(examples), decoded=0, shown=0)
        # A run that is stopped between two validations goes on with the pool that it had.
        due = step % self.config.train.validate_every == 0
        left = None if self.guide is None else self.guide.look(now, refill=due)
        self.seed_run.note_validation(found.loss, found.accuracy, left)

    def _save(self) -> None:
        if self.seed_run.saved != self.seed_run.state.step:
            guided = {} if self.guide is None else self.guide.tensors()
            self.seed_run.save(self._weights(), {**self.optimiser.tensors(), **guided})

    def _weights(self) -> dict[str, Tensor]:
        return {name: tensor.detach().cpu().contiguous() for name, tensor in self.model.state_dict().items()}

    def _pick_up(self) -> None:
        """Load the newest valid checkpoint, if there is one."""
        found = self.seed_run.find_checkpoint()
        if found is not None:
            self.model.load_state_dict(found.model)
            self.optimiser.restore(found.trainer if self.guide is None else self.guide.restore(found.trainer))
        self.seed_run.continue_from(found)


def not_finite(what: str, step: int) -> str:
    return f"the {what} is not finite at step {step:,}; nothing was updated"


def noise_keys(seeds: Sequence[int], step: int) -> Int[Tensor, "seed 2"]:
    """The key of a step's dropout and random positions, from the seed and the step only."""
    words = np.array([derive(seed, "noise", step) for seed in seeds], dtype=np.int64)
    return torch.from_numpy(words.view(np.int32).reshape(-1, 2).copy())


def learning_rate(settings: TrainConfig, step: int, total: int) -> float:
    """The learning rate of a step (from 0): linear warm-up, then the schedule down to lr_end x lr."""
    warm = settings.warmup * total
    if step < warm:
        return settings.lr * (step + 1) / (math.floor(warm) + 1)
    done = (step - warm) / max(total - warm, 1)
    fall = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}[settings.schedule]
    return settings.lr * (settings.lr_end + (1 - settings.lr_end) * fall)


def make_optimiser(model: Transformer, settings: TrainConfig) -> AdamW:
    """Weight decay acts on the matrices of linear layers and nothing else."""
    matrices, others = optimiser_groups(model)
    groups = [
        Group([model.get_parameter(name) for name in matrices], settings.weight_decay),
        Group([model.get_parameter(name) for name in others], 0.0),
    ]
    return AdamW(groups, (settings.beta1, settings.beta2))


def optimiser_groups(model: Transformer) -> tuple[list[str], list[str]]:
    """The weights of linear layers, and all other parameters, in the optimiser's order."""
    linear = {f"{path}.weight" for path, module in model.named_modules() if isinstance(module, nn.Linear)}
    names = [name for name, _ in model.named_parameters()]
    return [name for name in names if name in linear], [name for name in names if name not in linear]


@contextmanager
def deterministic(device: torch.device) -> Iterator[None]:
    """Make a CPU run deterministic, and restore the caller's random state."""
    switches: Any = torch.utils.deterministic
    before = torch.get_deterministic_debug_mode(), switches.fill_uninitialized_memory
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        # torch.use_deterministic_algorithms does the same, and imports PyTorch's compiler.
        torch.set_deterministic_debug_mode("error" if device.type == "cpu" else "default")
        switches.fill_uninitialized_memory = False  # a check of kernels that costs time
        try:
            yield
        finally:
            torch.set_deterministic_debug_mode(before[0])
            switches.fill_uninitialized_memory = before[1]


@contextmanager
def noticing_interrupts() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C or SIGTERM is recorded, so that the loop can save; the second stops immediately."""
    noted = False

    def note() -> None:
        nonlocal noted
        if noted:
            raise KeyboardInterrupt
        noted = True

    with handling_signals(note):
        yield lambda: noted
