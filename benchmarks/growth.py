"""How time grows: with heads, examples, seeds and length."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial

import numpy as np
import torch

from benchmarks.heads import sweep
from benchmarks.measuring import Row, Settings, Work, growth, seconds_of
from benchmarks.stack import in_a_stack
from benchmarks.stacks import undisturbed
from benchmarks.subject import half_trained
from headway.batches import make_batch, make_model
from headway.config import Choice, ModelConfig
from headway.evaluation import Trained
from headway.head_analysis.variants import heads_of
from headway.randomness import generator
from headway.tasks import Examples, make_task


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


def seconds_with_seeds(settings: Settings, seeds: int) -> float:
    """Seconds of one step of a stack, without opening and saving."""
    config = undisturbed(settings, **{"train.epochs": settings.pick(400, 4, 4)})  # too short to be worth compiling
    return seeds / in_a_stack(config, settings.device.type, seeds, 3)["model_steps_a_second"]


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


def timed(settings: Settings, work: Callable[[int], Work]) -> Callable[[int], float]:
    """Seconds of some work of a size, which is prepared once."""
    prepared = cache(work)
    return lambda size: seconds_of(prepared(size), settings.device)


def growths(settings: Settings) -> Iterator[Row]:
    """The exponent of each, fitted over several sizes."""
    examples = half_trained(settings).examples("test").take(slice(0, settings.pick(6, 128, 500)))
    heads = settings.pick((1, 2, 4), (2, 4, 8, 16), (2, 4, 8, 16))
    sites = len(half_trained(settings).model.sites)
    sweeps = timed(settings, partial(with_heads, settings, examples))
    yield growth(settings, "heads", heads, sweeps, "a zero sweep over all of them", sites)
    counts = settings.pick((4, 8, 16), (64, 128, 256, 512), (500, 2_000, 8_000, 32_000))
    yield growth(settings, "examples", counts, timed(settings, partial(with_examples, settings)), "a zero sweep")
    seeds = settings.pick((1, 2, 3), (1, 2, 4), (1, 8, 32, 128))
    yield growth(settings, "seeds", seeds, partial(seconds_with_seeds, settings), "a step of a stack")
    lengths = settings.pick((16, 32, 64), (256, 512, 1_024, 2_048), (1_024, 2_048, 4_096, 8_192))
    yield growth(
        settings, "length", lengths, timed(settings, partial(with_length, settings)), "a pass over two sequences"
    )
