"""Examples of a stack's steps on the device: the host says which, ahead of time, and the device looks them up.

A fixed training set lies on the device whole; a step needs row numbers alone. Fresh examples are drawn on the host by
the same code as for one model, in other processes while the device works, so a seed sees the same ones either way.
"""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from headway.config import RunConfig
from headway.tasks import Examples, make_task
from headway.training.data import TrainingData

Source = Int[Tensor, "row position"]
Target = Int[Tensor, "row *answer"]

DRAWERS = max(1, min(8, (os.cpu_count() or 2) - 2))
"""Processes that draw fresh examples for a GPU."""


@runtime_checkable
class Feed(Protocol):
    """Gives a step its examples, the rows of the first seed first."""

    def prepare(self, first: int, count: int) -> None:
        """Begin to find the examples of `count` steps; they are needed at the next `load`."""

    def load(self, first: int, count: int) -> None:
        """Put the examples of `count` steps on the device, from place 0 on."""

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
        self.rows, self.writing = torch.zeros(2, longest, len(data) * self.size, dtype=torch.int64, device=device)
        self.waiting: dict[tuple[int, int], tuple[np.ndarray, np.ndarray | None]] = {}

    def prepare(self, first: int, count: int) -> None:
        rows = np.stack([one.rows(first, count).reshape(count, self.size) for one in self.data], axis=1)
        writing = None
        if len(self.columns) > 1:
            writing = np.array([[one.writing(first + step) for one in self.data] for step in range(count)])
        self.waiting = {(first, count): (rows, writing)}

    def load(self, first: int, count: int) -> None:
        if (first, count) not in self.waiting:
            self.prepare(first, count)
        rows, writing = self.waiting.pop((first, count))
        copy_to(self.rows[:count], rows.reshape(count, -1))
        if writing is not None:
            copy_to(self.writing[:count], writing.reshape(count, -1))

    def take(self, at: Int[Tensor, "1"]) -> tuple[Source, Target]:
        rows = self.rows.index_select(0, at)[0]
        source = self.source[rows]
        if len(self.columns) > 1:
            source = source.gather(1, self.columns[self.writing.index_select(0, at)[0]])
        return source, self.target[rows]

    def close(self) -> None:
        pass


class FreshFeed:
    """Fresh examples: beside a GPU they are drawn in other processes, a load ahead."""

    def __init__(self, data: Sequence[TrainingData], longest: int, device: torch.device):
        self.data = data
        sample = data[0].batch(0)
        rows = len(data) * len(sample)
        self.source = torch.zeros(longest, rows, sample.source.shape[1], dtype=torch.int64, device=device)
        self.target = torch.zeros(longest, rows, *sample.target.shape[1:], dtype=torch.int64, device=device)
        self.drawers = ProcessPoolExecutor(DRAWERS, mp_context=get_context("spawn")) if device.type == "cuda" else None
        self.waiting: dict[tuple[int, int], list[Future[list[Examples]]]] = {}

    def prepare(self, first: int, count: int) -> None:
        if self.drawers is not None:
            tables = [one.config.to_json() for one in self.data]
            self.waiting = {(first, count): [self.drawers.submit(draw, table, first, count) for table in tables]}

    def load(self, first: int, count: int) -> None:
        if self.drawers is None:
            drawn = [[one.batch(first + step) for step in range(count)] for one in self.data]
        else:
            if (first, count) not in self.waiting:
                self.prepare(first, count)
            drawn = [future.result() for future in self.waiting.pop((first, count))]
        for here, parts in (
            (self.source, [[batch.source for batch in steps] for steps in drawn]),
            (self.target, [[batch.target for batch in steps] for steps in drawn]),
        ):
            copy_to(here[:count], np.swapaxes(np.array(parts), 0, 1).reshape(here[:count].shape))

    def take(self, at: Int[Tensor, "1"]) -> tuple[Source, Target]:
        return self.source.index_select(0, at)[0], self.target.index_select(0, at)[0]

    def close(self) -> None:
        if self.drawers is not None:
            self.drawers.shutdown(cancel_futures=True)


def draw(table: dict[str, Any], first: int, count: int) -> list[Examples]:
    """Fresh examples of some steps, drawn in a process of its own."""
    config = RunConfig.from_json(table)
    data = TrainingData(config, make_task(config.task), {})
    return [data.batch(first + step) for step in range(count)]


def copy_to(here: Tensor, values: np.ndarray) -> None:
    """Copy without waiting for the device."""
    found = torch.from_numpy(np.ascontiguousarray(values))
    here.copy_(found.pin_memory() if here.device.type == "cuda" else found, non_blocking=True)
