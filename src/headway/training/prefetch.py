"""Prefetching of a stack's examples to the device: the host chooses them ahead of time, and the device looks them up.

A fixed training set is stored on the device; a step needs row numbers only. Online examples are drawn on the host by
the same code as for one model, so a seed gets the same examples either way. For a GPU this is done in other processes
while the device works, as is the computation of row numbers of many seeds. If those processes cannot run (one was
killed, or a script has no main guard), this process does their work: the same examples, only later. They are not
workers of `sweeps/pool.py`: their jobs take milliseconds, are sent ahead in order, and are neither saved nor retried.
"""

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from headway.config import RunConfig
from headway.json_values import JsonObject
from headway.processes import end_with_parent
from headway.tasks import make_task
from headway.training.data import TrainingData

Source = Int[Tensor, "row position"]
Target = Int[Tensor, "row *answer"]

PROCESSES = max(1, min(12, (os.cpu_count() or 2) - 2))
"""Number of processes that draw online examples, or find rows, for a GPU."""
MANY_SEEDS = 32
"""From this many seeds on, rows are found in other processes: for 128 seeds it takes 0.4 s, half the device's time."""


Found = tuple[np.ndarray, ...]
"""The examples of some steps, or their row numbers, on the host."""


@runtime_checkable
class Prefetcher(Protocol):
    """Provides the examples of a step, the rows of the first seed first."""

    def find(self, first: int, count: int) -> Found:
        """The host's work for `count` steps; it can overlap with the device's work on earlier steps."""

    def load(self, found: Sequence[Tensor]) -> None:
        """Copy prepared steps to the device, to index 0 and following."""

    def take(self, at: Int[Tensor, "1"]) -> tuple[Source, Target]:
        """The examples of one of the loaded steps."""

    def close(self) -> None: ...


def make_prefetcher(data: Sequence[TrainingData], longest: int, device: torch.device) -> Prefetcher:
    return (
        OnlinePrefetcher(data, longest, device) if data[0].config.data.fresh else FixedPrefetcher(data, longest, device)
    )


class FixedPrefetcher:
    """The training set on the device, and for each step the row and augmentation of each example."""

    def __init__(self, data: Sequence[TrainingData], longest: int, device: torch.device):
        train = data[0].splits["train"]
        self.source = torch.from_numpy(train.source).to(device)
        self.target = torch.from_numpy(train.target).to(device)
        self.columns = torch.from_numpy(data[0].augmentations).to(device)
        size = data[0].config.train.batch_size
        self.seeds = Seeds(data, choose, apart=device.type == "cuda" and len(data) >= MANY_SEEDS)
        self.rows, self.writing = torch.zeros(2, longest, len(data) * size, dtype=torch.int64, device=device)

    def find(self, first: int, count: int) -> Found:
        chosen = zip(*self.seeds.find(first, count), strict=True)
        return tuple(np.stack(part, axis=1).astype(np.int64).reshape(count, -1) for part in chosen)

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
        self.seeds.close()


class OnlinePrefetcher:
    """Online examples; for a GPU they are drawn in other processes."""

    def __init__(self, data: Sequence[TrainingData], longest: int, device: torch.device):
        sample = data[0].batch(0)
        rows = len(data) * len(sample)
        self.source = torch.zeros(longest, rows, sample.source.shape[1], dtype=torch.int64, device=device)
        self.target = torch.zeros(longest, rows, *sample.target.shape[1:], dtype=torch.int64, device=device)
        self.seeds = Seeds(data, draw, apart=device.type == "cuda")

    def find(self, first: int, count: int) -> Found:
        drawn = zip(*self.seeds.find(first, count), strict=True)
        return tuple(np.concatenate(part, axis=1) for part in drawn)

    def load(self, found: Sequence[Tensor]) -> None:
        for here, values in zip((self.source, self.target), found, strict=True):
            here[: len(values)].copy_(values, non_blocking=True)

    def take(self, at: Int[Tensor, "1"]) -> tuple[Source, Target]:
        return self.source.index_select(0, at)[0], self.target.index_select(0, at)[0]

    def close(self) -> None:
        self.seeds.close()


Work = Callable[[TrainingData, int, int], Any]
"""The work for one seed: its data, the first step, and the number of steps."""


class Seeds:
    """Runs a function for every seed: `apart` in other processes, or in this one if there are none or they die."""

    def __init__(self, data: Sequence[TrainingData], work: Work, *, apart: bool):
        self.data, self.work = data, work
        self.pool = make_pool() if apart else None

    def find(self, first: int, count: int) -> list[Any]:
        """The result for each seed, in their order."""
        if self.pool is not None:
            # Few seeds leave processes idle, so each seed's steps are shared out.
            size = -(-count // max(1, PROCESSES // len(self.data)))
            starts = range(0, count, size)
            jobs = [
                (self.work, one.config.to_json(), one.size, first + start, min(size, count - start))
                for one in self.data
                for start in starts
            ]
            try:
                done = list(self.pool.map(work_there, jobs))
                return [_joined(done[i : i + len(starts)]) for i in range(0, len(done), len(starts))]
            except BrokenProcessPool:
                self.pool = None
        return [self.work(one, first, count) for one in self.data]

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)


def _joined(found: Sequence[Found]) -> Found:
    """Concatenate consecutive parts of one seed's steps."""
    return tuple(np.concatenate(part) for part in zip(*found, strict=True))


def choose(data: TrainingData, first: int, count: int) -> tuple[Int[np.ndarray, "step row"], ...]:
    """The rows and augmentations of one seed's steps, in a small integer type."""
    found = [data.rows(first, count).reshape(count, -1)]
    if len(data.augmentations) > 1:
        found.append(np.stack([data.writing(step) for step in range(first, first + count)]))
    return tuple(part.astype(np.int32) for part in found)


def draw(data: TrainingData, first: int, count: int) -> Found:
    """Online examples of one seed's steps, `step row *any`, in a small integer type."""
    batches = [data.batch(first + step) for step in range(count)]
    return tuple(np.array([getattr(one, part) for one in batches], np.int32) for part in ("source", "target"))


# In a process


def make_pool(processes: int = PROCESSES) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=begin_process)


def begin_process() -> None:
    """Worker processes ignore Ctrl-C and end with the training process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def work_there(job: tuple[Work, JsonObject, int, int, int]) -> Any:
    work, table, size, first, count = job
    config = RunConfig.from_json(table)
    return work(TrainingData(config, make_task(config.task), {}, size), first, count)
