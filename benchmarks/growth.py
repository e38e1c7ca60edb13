"""How time grows: with heads, examples, seeds and length."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.heads import sweep
from benchmarks.measuring import Row, Settings, Work, growth
from benchmarks.subject import half_trained
from benchmarks.training import recipe
from headway.batches import make_batch, make_model
from headway.config import Choice, ModelConfig
from headway.evaluation import Trained
from headway.heads.variants import heads_of
from headway.randomness import generator
from headway.tasks import Examples, make_task
from headway.training import train_stack


def with_heads(settings: Settings, examples: Examples, n_heads: int) -> Work:
    """A sweep over all heads of an untrained model that has this many at each site."""
    trained = half_trained(settings)
    config = replace(trained.config.model, n_heads=n_heads, d_head=trained.config.model.d_model // n_heads)
    model = make_model(trained.task, config).to(settings.device).eval()
    other = Trained(trained.directory, trained.config, trained.task, model, 0)
    plan = np.eye(len(heads_of(other)), dtype=np.int64)
    return partial(sweep, other, examples, plan)


def with_examples(settings: Settings, count: int) -> Work:
    """A sweep over all heads on this many examples."""
    trained = half_trained(settings)
    examples = trained.task.draw(generator(0, "growth"), count)
    return partial(sweep, trained, examples, np.eye(len(heads_of(trained)), dtype=np.int64))


def with_seeds(settings: Settings, steps: int, seeds: int) -> Work:
    """A few steps of a stack of seeds; opening and saving the runs are in it."""
    config = recipe(settings, **{"data.validation": 10})

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder:
            configs = [replace(config, seed=seed) for seed in range(seeds)]
            outs = [Path(folder) / str(seed) for seed in range(seeds)]
            train_stack(configs, outs, device=settings.device.type, until=steps)

    return work


def with_length(settings: Settings, length: int) -> Work:
    """One pass over a sequence of this length."""
    task = make_task(Choice(name="sortedness", options={"min_length": length, "max_length": length}))
    config = ModelConfig(shape="encoder", encoder_layers=settings.pick(1, 4, 4), pooling=Choice(name="max"))
    model = make_model(task, config).to(settings.device).eval()
    batch = make_batch(task, model, task.draw(generator(0, "growth"), 2), settings.device)

    def work() -> None:
        with torch.inference_mode():
            model(batch.inputs)

    return work


def growths(settings: Settings) -> Iterator[Row]:
    """The exponent of each, fitted over four sizes or more."""
    examples = half_trained(settings).examples("test").take(slice(0, settings.pick(6, 128, 500)))
    heads = settings.pick((1, 2, 4), (2, 4, 8, 16), (2, 4, 8, 16))
    sites = len(half_trained(settings).model.sites)
    yield growth(
        settings, "heads", heads, partial(with_heads, settings, examples), "a zero sweep over all of them", sites
    )
    counts = settings.pick((4, 8, 16), (64, 128, 256, 512), (500, 2_000, 8_000, 32_000))
    yield growth(settings, "examples", counts, partial(with_examples, settings), "a zero sweep over all heads")
    seeds, steps = settings.pick(((1, 2, 3), 2), ((1, 2, 4), 10), ((1, 8, 32, 128), 300))
    yield growth(settings, "seeds", seeds, partial(with_seeds, settings, steps), f"{steps} steps of a stack")
    lengths = settings.pick((16, 32, 64), (256, 512, 1_024, 2_048), (1_024, 2_048, 4_096, 8_192))
    yield growth(settings, "length", lengths, partial(with_length, settings), "a pass over two sequences")
