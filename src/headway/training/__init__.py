"""Training: one plain loop that can be stopped at any moment and continued to the same weights."""

from headway.training.loop import train
from headway.training.seed_run import TrainResult
from headway.training.stack import train_stack

__all__ = ["TrainResult", "train", "train_stack"]
