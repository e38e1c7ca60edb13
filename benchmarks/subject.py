"""The model that heads are taken from and sums are asked of: the addition recipe after a short training."""

import tempfile
from functools import cache
from pathlib import Path

from benchmarks.measuring import Settings
from benchmarks.training import recipe
from headway.evaluation import Trained, load
from headway.training import train


@cache
def half_trained(settings: Settings) -> Trained:
    """Trained for six passes (a minute or less): some heads matter already, and answers are mostly right."""
    with tempfile.TemporaryDirectory() as folder:
        config = recipe(settings, **{"train.epochs": 3 if settings.toy else 6})
        train(config, Path(folder) / "run", device=settings.device.type)
        return load(Path(folder) / "run", device=settings.device.type)
