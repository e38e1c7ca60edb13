"""Models that answer everything right but for a planted kind of input; their margins are the same everywhere else."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from headway.evaluation import Trained
from headway.model.transformer import Inputs, Transformer
from headway.tasks import Task
from tests.head_analysis.small import SIZES, untrained

Bad = Callable[[np.ndarray], np.ndarray]
"""Rows of tokens -> whether the model answers each of them wrong."""
TRAINING = {"data": {"train": 60, "validation": 24, "test": 40}, "train": {"steps": 4, "batch_size": 8}}
ENCODER = {**SIZES, "shape": "encoder", "encoder_layers": 1}
DECODER = {**SIZES, "shape": "decoder", "decoder_layers": 1}
BOTH = {**SIZES, "encoder_layers": 1, "decoder_layers": 1}
SORTEDNESS = {**TRAINING, "task": {"name": "sortedness"}, "model": ENCODER}
ADDITION = {**TRAINING, "task": {"name": "addition"}, "model": BOTH}
TEXT = {**TRAINING, "task": {"name": "addition-text", "max_characters": 32}, "model": BOTH}
TEXT_DECODER = {**TEXT, "model": DECODER}
COPY = {**TRAINING, "task": {"name": "copy", "values": 10}, "model": BOTH}
PARITY = {**TRAINING, "task": {"name": "parity"}, "model": ENCODER}
SORTING = {**TRAINING, "task": {"name": "sorting"}, "model": DECODER}


class RightBut(Transformer):
    """Gives the oracle's answer, and another one to bad inputs."""

    task: Task
    bad: Bad

    def forward(self, inputs: Inputs, record: dict[str, Tensor] | None = None) -> Tensor:
        source = inputs.source.numpy()
        answer, wrong = self.task.answer(source), self.bad(source)
        if answer.ndim == 1:
            said = np.where(wrong, (answer + 1) % self.task.n_classes, answer)
        else:
            said = answer.copy()
            said[wrong, 0] = (answer[wrong, 0] + 1) % 2  # a digit or an element in every task here
            width = 0 if inputs.prefix is None else inputs.prefix.shape[1]
            said = np.pad(said, ((0, 0), (0, max(0, width - said.shape[1]))))[:, :width]
        return torch.nn.functional.one_hot(torch.from_numpy(said), self.readout.out_features).float()

    def decode(
        self, memory: object, inputs: Inputs, *, done: int = 0, keep: bool = False, record: object = None
    ) -> Tensor:  # type: ignore[override]
        return self(inputs)[:, done:]


def right_but(settings: dict, bad: Bad, **task: object) -> Trained:
    """A run of the task whose model fails on bad inputs alone."""
    trained = untrained({**settings, "task": {**settings["task"], **task}})
    model = RightBut(trained.model.config, len(trained.task.vocabulary), trained.task.n_classes)
    model.task, model.bad = trained.task, bad
    return replace(trained, model=model.eval())


def nothing(source: np.ndarray) -> np.ndarray:
    return np.zeros(len(source), dtype=bool)
