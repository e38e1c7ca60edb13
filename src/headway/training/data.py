"""Which examples each step uses; they depend on the seed and the step only."""

from functools import lru_cache

import numpy as np
from jaxtyping import Int

from headway.config import RunConfig
from headway.randomness import generator
from headway.tasks import Examples, Task
from headway.tasks.splits import Split, fresh_batch


class TrainingData:
    """A fixed set, shuffled again in each epoch, or online data.

    Row numbers can be computed without the examples; `size` is then their number.
    """

    def __init__(self, config: RunConfig, task: Task, splits: dict[Split, Examples], size: int | None = None):
        self.config, self.task = config, task
        self.splits = splits
        self.size = len(splits.get("train", ())) if size is None else size
        self.augmentations = task.augmentations()
        self._order = lru_cache(maxsize=2)(self._new_order)

    def batch(self, step: int) -> Examples:
        examples = self.fresh(step) if self.config.data.fresh else self.splits["train"].take(self.rows(step))
        if len(self.augmentations) == 1:
            return examples
        columns = self.augmentations[self.writing(step)]
        return Examples(np.take_along_axis(examples.source, columns, axis=1), examples.target)

    def padded(self) -> bool:
        """Whether some source is shorter than the widest."""
        if self.config.data.fresh:
            source = self.task.draw(generator(self.config.data.seed, "padded"), 1_024).source
        else:
            source = self.splits["train"].source
        return bool((source == self.task.vocabulary.pad).any())

    def fresh(self, step: int) -> Examples:
        """The online examples of a step."""
        config = self.config
        return fresh_batch(self.task, config.train.batch_size, config.data.seed, config.seed, step)

    def rows(self, step: int, count: int = 1) -> Int[np.ndarray, " row"]:
        """The rows of the training set that `count` steps use; epochs follow each other without a gap."""
        n, size = self.size, self.config.train.batch_size
        places = np.arange(step * size, (step + count) * size)
        passes = range(int(places[0]) // n, int(places[-1]) // n + 1)
        return np.concatenate([self._order(one)[places[places // n == one] % n] for one in passes])

    def writing(self, step: int) -> Int[np.ndarray, " row"]:
        """Which of the task's augmentations is used for each example of a step."""
        random = generator(self.config.seed, "augment", step).random(self.config.train.batch_size)
        return len(self.augmentations) - 1 - (random * len(self.augmentations)).astype(np.int64)

    def _new_order(self, number: int) -> np.ndarray:
        return generator(self.config.seed, "order", number).permutation(self.size)
