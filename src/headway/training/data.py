"""Which examples each step sees: fixed by the seed and the step, whatever was drawn before."""

from functools import lru_cache

import numpy as np

from headway.config import RunConfig
from headway.randomness import generator
from headway.tasks import Examples, Task
from headway.tasks.splits import Split, fresh_batch


class TrainingData:
    """A fixed set passed over again and again, each pass in an order of its own; or fresh examples for ever."""

    def __init__(self, config: RunConfig, task: Task, splits: dict[Split, Examples]):
        self.config, self.task = config, task
        self.splits = splits
        self._order = lru_cache(maxsize=2)(self._new_order)

    def batch(self, step: int) -> Examples:
        size = self.config.train.batch_size
        if self.config.data.fresh:
            examples = fresh_batch(self.task, size, self.config.data.seed, self.config.seed, step)
        else:
            examples = self.splits["train"].take(self._rows(step * size, size))
        return self.task.augment(generator(self.config.seed, "augment", step), examples)

    def _rows(self, start: int, size: int) -> np.ndarray:
        """Rows `start` to `start + size` of all passes laid end to end."""
        n = len(self.splits["train"])
        places = np.arange(start, start + size)
        return np.concatenate([self._order(e)[places[places // n == e] % n] for e in np.unique(places // n).tolist()])

    def _new_order(self, epoch: int) -> np.ndarray:
        return generator(self.config.seed, "order", epoch).permutation(len(self.splits["train"]))
