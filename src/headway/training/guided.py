"""Counterexample-guided training: at every validation, contexts that a proof leaves open go into the next batches."""

import numpy as np
import torch
from torch import Tensor

from headway.config import RunConfig
from headway.evaluation import Trained
from headway.proofs.prove import check_guidable, open_contexts
from headway.randomness import generator
from headway.tasks import Examples, Task
from headway.tasks.splits import SPLITS, split_of

KEPT_BEFORE = 1 / 3
"""Share of the pool that earlier rounds keep, so that what was learned from them is not lost."""
NAMES = ("guided.source", "guided.target")
"""Names of the pool in a checkpoint, beside the optimiser's tensors."""


class Guide:
    """A pool of short inputs around open contexts. Inputs of validation and test are left out of it."""

    def __init__(self, config: RunConfig, task: Task):
        check_guidable(task, config.model)
        self.config, self.task = config, task
        self.pool: Examples | None = None

    def look(self, now: Trained, *, refill: bool = True) -> int:
        """Count the open contexts of the model as it is, and with `refill` put inputs around them into the pool."""
        random = generator(self.config.seed, "open contexts", now.step)
        found = open_contexts(now, self.config.train.guided_margin, random)
        if not refill:
            return found.contexts
        fresh = found.examples.take(split_of(self.task, found.examples.source, self.config.data.seed) == _TRAIN)
        if self.pool is not None:
            most = min(len(self.pool), int(len(fresh) * KEPT_BEFORE / (1 - KEPT_BEFORE)))
            kept = self.pool.take(random.permutation(len(self.pool))[:most])
            fresh = Examples.join([fresh, kept], self.task.vocabulary.pad)
        self.pool = fresh
        return found.contexts

    def mixed(self, examples: Examples, step: int) -> Examples:
        """A step's examples, some of them replaced by inputs of the pool: equally many of each class that it holds."""
        assert self.pool is not None
        random = generator(self.config.seed, "guided", step)
        rows = [np.flatnonzero(self.pool.target == one) for one in np.unique(self.pool.target)]
        each = int(self.config.train.guided * len(examples)) // max(1, len(rows))
        chosen = [random.choice(some, each) for some in rows]
        parts = [examples.take(slice(each * len(rows), None)), *(self.pool.take(some) for some in chosen)]
        return Examples.join([*parts, self.pool.take(slice(0, 0))], self.task.vocabulary.pad)

    def tensors(self) -> dict[str, Tensor]:
        """The pool, for a checkpoint."""
        if self.pool is None:
            return {}
        return {
            name: torch.from_numpy(rows.astype(np.int32))
            for name, rows in zip(NAMES, (self.pool.source, self.pool.target), strict=True)
        }

    def restore(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Take up the pool of a checkpoint; returns the optimiser's tensors."""
        if NAMES[0] in tensors:
            source, target = (tensors[name].numpy().astype(np.int64) for name in NAMES)
            self.pool = Examples(source, target)
        return {name: tensor for name, tensor in tensors.items() if name not in NAMES}


_TRAIN = SPLITS.index("train")
