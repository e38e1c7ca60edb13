"""Examples of a stack's steps on the device: the host says which, ahead of time, and the device looks them up.

A fixed training set lies on the device whole; a step needs row numbers alone. Fresh examples are drawn on the host by
the same code as for one model, so a seed sees the same ones either way. Beside a GPU that is done in other processes
while the device works, and so is finding the rows of many seeds. Where those processes cannot live (one was killed, or
a script has no main guard) it is done here: the same examples, only later.
"""

import os
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import repeat
from multiprocessing import get_context
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from headway.config import RunConfig
from headway.processes import end_with_parent
from headway.tasks import Examples, make_task
from headway.training.data import TrainingData

Source = Int[Tensor, "row position"]
Target = Int[Tensor, "row *answer"]

DRAWERS = max(1, min(8, (os.cpu_count() or 2) - 2))
"""Processes that draw fresh examples, or find rows, for a GPU."""
MANY_SEEDS = 32
"""Seeds from which on rows are found in other processes: for 128 it takes this one 0.4 s, half the device's time."""


Found = tuple[np.ndarray, ...]
"""The examples of some steps, or where they lie, on the host."""


@runtime_checkable
class Feed(Protocol):
    """Gives a step its examples, the rows of the first seed first."""

    def find(self, first: int, count: int) -> Found:
        """The host's part of the work for `count` steps; may be done while the device works on steps before."""

    def load(self, found: Sequence[Tensor]) -> None:
        """Put what was found on the device, from place 0 on."""

    def take(self, at: Int[Tensor, "1"]) -> tuple[Source, Target]:
        """The examples of one of the loaded steps."""

    def close(self) -> None: ...


def make_feed(data: Sequence[TrainingData], longest: int, device: torch.device) -> Feed:
    return FreshFeed(data, longest, device) if data[0].config.data.fresh else FixedFeed(data, longest, device)


class FixedFeed:
    """The training set on the device, and for each step the rows and the writing of each example."""

    def __init__(self, data: Sequence[TrainingData], longest: int, device: torch.device):
        self.data, self.size = data, data[0].config.train.batch_size
        train = data[0].splits["train"]
        self.source = torch.from_numpy(train.source).to(device)
        self.target = torch.from_numpy(train.target).to(device)
        self.columns = torch.from_numpy(data[0].writings).to(device)
        self.drawers = make_drawers() if device.type == "cuda" and len(data) >= MANY_SEEDS else None
        self.rows, self.writing = torch.zeros(2, longest, len(data) * self.size, dtype=torch.int64, device=device)

    def find(self, first: int, count: int) -> Found:
        if self.drawers is None:
            chosen = [choose(one, first, count) for one in self.data]
        else:
            tables = [one.config.to_json() for one in self.data]
            sizes = repeat(self.data[0].size)
            try:
                chosen = list(self.drawers.map(choose_elsewhere, tables, sizes, repeat(first), repeat(count)))
            except BrokenProcessPool:
                self.drawers = None
                return self.find(first, count)
        return tuple(np.stack(part, axis=1).astype(np.int64).reshape(count, -1) for part in zip(*chosen, strict=True))

    def load(self, found: Sequence[Tensor]) -> None:
        for here, values in zip((self.rows, self.writing), found, strict=False):
            here[: len(values)].copy_(values, non_blocking=True)

    def take(self, at: Int[Tensor, "1"]) -> tuple[Source, Target]:
        rows = self.rows.index_select(0, at)[0]
        source = self.source[rows]
        if len(self.columns) > 1:
            source = source.gather(1, self.columns[self.writing.index_select(0, at)[0]])
        return source, self.target[rows]

    def close(self) -> None:
        if self.drawers is not None:
            self.drawers.shutdown(cancel_futures=True)


class FreshFeed:
    """Fresh examples: beside a GPU they are drawn in other processes."""

    def __init__(self, data: Sequence[TrainingData], longest: int, device: torch.device):
        self.data = data
        sample = data[0].batch(0)
        rows = len(data) * len(sample)
        self.source = torch.zeros(longest, rows, sample.source.shape[1], dtype=torch.int64, device=device)
        self.target = torch.zeros(longest, rows, *sample.target.shape[1:], dtype=torch.int64, device=device)
        self.drawers = make_drawers() if device.type == "cuda" else None

    def find(self, first: int, count: int) -> Found:
        if self.drawers is None:
            drawn = [[one.batch(first + step) for step in range(count)] for one in self.data]
        else:
            tables = [one.config.to_json() for one in self.data]
            try:
                drawn = list(self.drawers.map(draw, tables, repeat(first), repeat(count)))
            except BrokenProcessPool:
                self.drawers = None
                return self.find(first, count)
        sources, targets = (
            np.array([[getattr(batch, part) for batch in steps] for steps in drawn]) for part in ("source", "target")
        )
        return tuple(
            np.swapaxes(rows, 0, 1).reshape(count, *here.shape[1:])
            for rows, here in ((sources, self.source), (targets, self.target))
        )

    def load(self, found: Sequence[Tensor]) -> None:
        for here, values in zip((self.source, self.target), found, strict=True):
            here[: len(values)].copy_(values, non_blocking=True)

    def take(self, at: Int[Tensor, "1"]) -> tuple[Source, Target]:
        return self.source.index_select(0, at)[0], self.target.index_select(0, at)[0]

    def close(self) -> None:
        if self.drawers is not None:
            self.drawers.shutdown(cancel_futures=True)


def make_drawers(processes: int = DRAWERS) -> ProcessPoolExecutor:
    """Processes that draw."""
    return ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=begin_drawing)


def begin_drawing() -> None:
    """A process leaves Ctrl-C to the one that trains, and does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def choose(data: TrainingData, first: int, count: int) -> tuple[Int[np.ndarray, "step row"], ...]:
    """The rows of one seed's steps, and how each is written where there are several ways."""
    steps = range(first, first + count)
    rows = data.rows(first, count).reshape(count, -1)
    return (rows,) if len(data.writings) == 1 else (rows, np.stack([data.writing(step) for step in steps]))


def choose_elsewhere(table: dict[str, Any], size: int, first: int, count: int) -> Found:
    """`choose` in a process of its own, in numbers that are quick to send."""
    config = RunConfig.from_json(table)
    chosen = choose(TrainingData(config, make_task(config.task), {}, size), first, count)
    return tuple(part.astype(np.int32) for part in chosen)


def draw(table: dict[str, Any], first: int, count: int) -> list[Examples]:
    """Fresh examples of some steps, drawn in a process of its own."""
    config = RunConfig.from_json(table)
    data = TrainingData(config, make_task(config.task), {})
    return [data.batch(first + step) for step in range(count)]
