"""The state of one seed in training: its run directory, its progress and its checkpoints."""

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from headway.callbacks import Event, MetricsRow, OnEvent, Validation
from headway.config import RunConfig
from headway.errors import RunStopped
from headway.runs import Checkpoint, RunDirectory
from headway.runs.records import Best, TrainingRecord


@dataclass(frozen=True)
class TrainResult:
    """The result of training; `metrics` are those of the best checkpoint on validation.

    `mastered_at` is the first of the consecutive validations that reached `stop_accuracy`; None if they did not.
    """

    run: str
    steps: int
    seconds: float
    metrics: dict[str, float]
    stopped_early: bool
    mastered_at: int | None = None
    warnings: list[str] = field(default_factory=list)


@dataclass
class TrainingState:
    """The numbers that a checkpoint must hold besides weights and optimiser state."""

    step: int = 0
    seconds: float = 0.0
    best: Best = field(default_factory=lambda: Best(step=0, loss=math.inf))
    below: int = 0
    above: int = 0
    above_since: int = 0
    mastered_at: int | None = None
    validated: int = -1
    finished: bool = False
    stopped_early: bool = False
    threads: int = field(default_factory=torch.get_num_threads)

    def record(self) -> TrainingRecord:
        return TrainingRecord(**vars(self))  # type: ignore[typeddict-item]


class SeedRun:
    """Everything the loop keeps for one seed except its weights."""

    def __init__(self, config: RunConfig, directory: RunDirectory, device: torch.device, on_event: OnEvent):
        self.config, self.directory, self.device, self.on_event = config, directory, device, on_event
        self.total = config.train.total_steps(config.data)
        self.state = TrainingState()
        self.warnings: list[str] = []
        self.saved = -1
        self.started = time.perf_counter()

    # Before the first step

    def find_checkpoint(self) -> Checkpoint | None:
        """The newest valid checkpoint; damaged ones are removed."""
        found, damages = self.directory.newest_checkpoint()
        for damage in damages:
            self.warn(f"{damage}; {'training starts again' if found is None else 'the one before it is used'}")
        self.forget_after(None if found is None else found.step)
        return found

    def forget_after(self, step: int | None) -> None:
        """Remove checkpoints after a step (None: all), and repair what a killed process left."""
        steps = self.directory.checkpoint_steps()
        self.directory.keep_checkpoints({one for one in steps if step is not None and one <= step})
        self.directory.forget_kept(-1 if step is None else step)
        self.directory.mend_metrics()

    def continue_from(self, found: Checkpoint | None) -> None:
        """Restore the training state of a checkpoint; None starts from the beginning."""
        if found is None:
            if self.directory.metrics():
                self.directory.append_metrics({"resumed_at": -1})
            return
        self.state = TrainingState(**found.state)
        self.saved = found.step
        if self.state.finished:
            self._keep_some_checkpoints()  # a kill may have come after the last was written and before others went
            return
        self._warn_of_other_circumstances()
        self.directory.append_metrics({"resumed_at": found.step})
        self.on_event({"event": "resumed", "step": found.step})

    def _warn_of_other_circumstances(self) -> None:
        """Warn of differences that will make the weights differ from those of an uninterrupted run."""
        threads, record = torch.get_num_threads(), self.directory.provenance()
        first: dict[str, object] = {"device": record.get("device"), "torch": record.get("versions", {}).get("torch")}
        now: dict[str, object] = {"device": self.device.type, "torch": torch.__version__}
        if self.device.type == "cpu":
            first["threads"], now["threads"] = self.state.threads, threads
        for what in now:
            if first[what] != now[what]:
                self.warn(
                    f"this run had {what} {first[what]} and now has {now[what]}; "
                    "the weights will differ in the last bits from an uninterrupted run"
                )
        self.state.threads = threads

    # While it trains

    def note_steps(self, records: Iterable[MetricsRow]) -> None:
        """Record completed steps."""
        noted = list(records)
        if not noted:
            return
        self.directory.append_metrics(*noted)
        for record in noted:
            self.state.step = record["step"]
            shown: Event = {"event": "step", "total": self.total, "step": record["step"], "loss": record["loss"]}
            self.on_event({**shown, "lr": record["lr"], "gradient": record["gradient"]})

    def note_validation(self, loss: float, accuracy: float, open_contexts: int | None = None) -> None:
        """Record a validation, and decide whether the run is finished; a guided one is when no context is open."""
        state, settings = self.state, self.config.train
        if not math.isfinite(loss):
            raise self.stopped(f"the validation loss is not finite at step {state.step:,}")
        fewest = state.best.get("open_contexts", 0 if open_contexts is None else math.inf)
        if (open_contexts or 0, loss) < (fewest, state.best["loss"]):
            state.best = {"step": state.step, "loss": loss, "accuracy": accuracy}
            if open_contexts is not None:
                state.best["open_contexts"] = open_contexts
        state.validated = state.step
        state.below = state.below + 1 if settings.stop_below and loss < settings.stop_below else 0
        self._note_mastery(loss, accuracy)
        is_ready = state.below >= settings.stop_for or state.mastered_at is not None or open_contexts == 0
        state.stopped_early = is_ready and state.step < self.total
        state.finished = state.stopped_early or state.step >= self.total
        found: Validation = {"loss": loss, "accuracy": accuracy}
        if open_contexts is not None:
            found["open_contexts"] = open_contexts
        self.directory.append_metrics({"step": state.step, "validation": found})
        shown: Event = {"event": "validation", "total": self.total, "loss": loss, "accuracy": accuracy}
        self.on_event({**shown, "step": state.step, "validation": found})

    def _note_mastery(self, loss: float, accuracy: float) -> None:
        """Count consecutive validations that reach the gate; after `stop_for` of them the run has mastered, since the
        first one.

        The chosen checkpoint is the best one that reaches the gate: a checkpoint with a lower loss but an accuracy
        below the gate has not mastered.
        """
        state, gate = self.state, self.config.train.stop_accuracy
        if gate is None:
            return
        if accuracy < gate:
            state.above = 0
            return
        state.above_since = state.step if state.above == 0 else state.above_since
        state.above += 1
        if state.above >= self.config.train.stop_for:
            state.mastered_at = state.above_since
            if state.best["accuracy"] < gate:
                state.best = {"step": state.step, "loss": loss, "accuracy": accuracy}

    def save(self, model: Mapping[str, Tensor], trainer: Mapping[str, Tensor]) -> None:
        """Write a checkpoint; the first, the best and the last two are kept."""
        self._note_time()
        checkpoint = Checkpoint(self.state.step, dict(model), dict(trainer), self.state.record())
        self.directory.sync_metrics()
        self.directory.write_checkpoint(checkpoint)
        self.saved = self.state.step
        self._keep_some_checkpoints()

    def _keep_some_checkpoints(self) -> None:
        """One that an interruption left between two validations goes with the next: the rest stays as without it."""
        *earlier, newest = self.directory.checkpoint_steps()
        before = [step for step in earlier if step % self.config.train.validate_every == 0][-1:]
        self.directory.keep_checkpoints({0, int(self.state.best["step"]), *before, newest})

    def keeps(self, step: int) -> bool:
        """Whether the weights of this step are to be kept by `train.keep_every` and are not yet."""
        every = self.config.train.keep_every
        return every is not None and step % every == 0 and not self.directory.kept_path(step).exists()

    def keep(self, step: int, model: Mapping[str, Tensor]) -> None:
        """Keep the weights of a step for analyses."""
        self.directory.keep_weights(step, dict(model))

    def _note_time(self) -> None:
        """Add the time since the last call to the run's seconds; batches, steps, validation and writing all count."""
        now = time.perf_counter()
        self.state.seconds += now - self.started
        self.started = now

    def stopped(self, why: str) -> RunStopped:
        """The error to raise, which names the checkpoint that is left."""
        steps = self.directory.checkpoint_steps()
        last = f"the last good checkpoint is step {steps[-1]:,} of" if steps else "there is no checkpoint yet in"
        return RunStopped(f"{why}, {last} {self.directory.path}")

    def warn(self, text: str) -> None:
        self.warnings.append(text)
        self.on_event({"event": "warning", "text": text})

    def result(self) -> TrainResult:
        state = self.state
        metrics = {"validation_loss": state.best["loss"], "validation_accuracy": state.best["accuracy"]}
        return TrainResult(
            run=str(self.directory.path),
            steps=state.step,
            seconds=state.seconds,
            metrics={**metrics, "best_step": int(state.best["step"])},
            stopped_early=state.stopped_early,
            mastered_at=state.mastered_at,
            warnings=self.warnings,
        )
