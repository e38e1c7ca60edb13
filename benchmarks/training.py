"""Training against two peers: examples a second, and the time to 99.9 % of all sums.

Time to an accuracy is steps times seconds a step. The steps are counted by training and checking the answers after
every pass over the examples; checking is not timed, on either side. The seconds of a step are measured side by side.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measuring import Row, Settings, ratio_row, seconds_of
from benchmarks.peers import BATCH, HuggingFaceLoop, Peer, PlainLoop, hugging_face_is_here
from headway.api import read_recipe
from headway.batches import make_batch
from headway.config import RunConfig
from headway.evaluation import Trained, load, teacher_forced_pass
from headway.randomness import generator
from headway.tasks import Examples, make_task
from headway.training import train

TOY_SIZE = {"d_model": 16, "n_heads": 2, "d_ff": 16, "layers": 1}
TOY = {
    "task.digits": 2,
    "data.train": 40,
    "data.validation": 6,
    "data.test": 6,
    "model.d_model": 16,
    "model.n_heads": 2,
    "model.d_ff": 16,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "train.epochs": 3,
    "train.batch_size": 16,
}
WANTED = 0.999
SIEVE = 4_000
"""Sums after which fewer than 99.5 % say that all are not at 99.9 %; a chance below one in a million to be wrong."""


def recipe(settings: Settings, name: str = "addition", **changes: Any) -> RunConfig:
    """A recipe for addition, of the toy's size where that is wanted."""
    assignments = {**(TOY if settings.toy else {}), **changes}
    return read_recipe(name, set=list(assignments.items()))[1]


def stopping_at_passes(config: RunConfig) -> RunConfig:
    """The same, validated and saved after every pass over the examples, and never stopped early."""
    every = -(-config.data.train // config.train.batch_size)
    return replace(config, train=replace(config.train, validate_every=every, stop_below=1e-300))


def peer(kind: type[PlainLoop] | type[HuggingFaceLoop], settings: Settings, seed: int = 0) -> Any:
    """A peer of the course's size, or of the toy's."""
    if settings.toy:
        return kind(seed, settings.device, 40, digits=2, **TOY_SIZE)
    return kind(seed, settings.device, 10_000)


def peers(settings: Settings) -> dict[str, Callable[[], Peer]]:
    """The peers that can be run here."""
    found: dict[str, Callable[[], Peer]] = {"torch.nn.Transformer, plain loop": lambda: peer(PlainLoop, settings)}
    if hugging_face_is_here():
        found[f"transformers {version('transformers')} (BART), plain loop"] = lambda: peer(HuggingFaceLoop, settings)
    return found


WARM = 4
"""Steps that are taken before the clock starts."""


def our_step_seconds(config: RunConfig, device: torch.device, steps: int) -> float:
    """Seconds of one step of headway's own training: batches, noise, clipping, metrics and all, but no saving."""
    times: list[float] = []

    def note(event: Mapping[str, Any]) -> None:
        if event["event"] == "step":
            times.append(time.perf_counter())

    config = replace(config, train=replace(config.train, validate_every=10**6))
    with tempfile.TemporaryDirectory() as folder:
        train(config, Path(folder) / "run", device=device.type, on_event=note, until=steps + WARM)
    return (times[-1] - times[WARM - 1]) / steps


def step_seconds(
    settings: Settings, config: RunConfig, make: Callable[[], Peer], repeats: int
) -> tuple[list[float], list[float]]:
    """Seconds an example of ours and theirs, by turns."""
    steps = settings.pick(4, 40, 150)
    their = make()
    for _ in range(WARM):
        their.step()

    def take() -> None:
        for _ in range(steps):
            their.step()

    own: list[float] = []
    others: list[float] = []
    sides = [
        lambda: own.append(our_step_seconds(config, settings.device, steps) / config.train.batch_size),
        lambda: others.append(seconds_of(take, settings.device) / steps / BATCH),
    ]
    for repeat in range(repeats):
        for side in sides if repeat % 2 == 0 else reversed(sides):
            side()
    return own, others


def throughput(settings: Settings) -> Iterator[Row]:
    """Examples a second of one training step, each side with its own batch size."""
    config = recipe(settings)
    for name, make in peers(settings).items():
        own, others = step_seconds(settings, config, make, settings.repeats)
        yield ratio_row(
            "throughput",
            "examples a second in training",
            name,
            [other / mine for mine, other in zip(own, others, strict=True)],
            note=f"batches of {config.train.batch_size} against {BATCH}",
            details={"ours_seconds_an_example": own, "theirs_seconds_an_example": others},
        )


# Time to an accuracy


def all_sums(settings: Settings) -> Examples:
    """Every sum of the domain in an order drawn once; a tenth of them unless all are wanted."""
    task = make_task(recipe(settings).task)
    everything = Examples.join(list(task.domain()), task.vocabulary.pad)
    rows = generator(0, "benchmark domain").permutation(len(everything))
    return everything.take(rows if settings.whole or settings.toy else rows[: len(rows) // 10])


def share_right(right: Callable[[Examples], np.ndarray], sums: Examples, piece: int) -> float:
    """The share of sums answered rightly; of those that were asked, once it is clear that it is too small."""
    allowed = int((1 - WANTED) * len(sums))
    wrong = done = 0
    for start in range(0, len(sums), piece):
        answered = right(sums.take(slice(start, start + piece)))
        done, wrong = done + len(answered), wrong + int((~answered).sum())
        hopeless = done >= SIEVE and wrong > 5 * (1 - WANTED) * done
        if wrong > allowed or hopeless:
            break
    return 1 - wrong / done


@dataclass(frozen=True)
class Count:
    """How many steps it took, or were taken in vain; the share that was right after every pass."""

    reached: bool
    steps: int
    shares: tuple[float, ...]


def count_steps(passes: Iterable[tuple[int, Callable[[Examples], np.ndarray]]], sums: Examples, piece: int) -> Count:
    """Take passes until 99.9 % are right; each tells the steps so far and how sums are answered now."""
    shares: list[float] = []
    steps = 0
    for steps, right in passes:
        shares.append(share_right(right, sums, piece))
        if shares[-1] >= WANTED:
            return Count(True, steps, tuple(shares))
    return Count(False, steps, tuple(shares))


def passes_of_peer(their: Peer, most: int) -> Iterator[tuple[int, Callable[[Examples], np.ndarray]]]:
    for count in range(1, most + 1):
        for _ in range(their.steps_a_pass):
            their.step()
        their.end_of_pass()
        yield count * their.steps_a_pass, their.right


def passes_of_ours(config: RunConfig, device: torch.device) -> Iterator[tuple[int, Callable[[Examples], np.ndarray]]]:
    """headway's recipe, which is stopped after every pass and continued."""
    config = stopping_at_passes(config)
    every, total = config.train.validate_every, config.train.total_steps(config.data)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        for step in [*range(every, total, every), total]:
            train(config, run, device=device.type, resume=step > every, until=step)
            yield step, partial(answers, load(run, checkpoint="last", device=device.type))


def answers(trained: Trained, examples: Examples) -> np.ndarray:
    """Which whole answers are right."""
    batch = make_batch(trained.task, trained.model, examples, trained.device)
    predicted = teacher_forced_pass(trained.model, batch, trained.task.vocabulary.pad).predicted
    found: np.ndarray = trained.task.correct(predicted, batch.target).cpu().numpy()
    return found


def time_to_accuracy(settings: Settings) -> Iterator[Row]:
    """Median over seeds of steps, times seconds a step; a side that never got there counts with all its steps."""
    sums, piece = all_sums(settings), settings.pick(2_000, 680, 40_000)
    most = settings.pick(2, 100 if settings.whole else 40, 100)
    config = recipe(settings, "addition-fast")
    ours, theirs = [], []
    for seed in settings.seeds:
        ours.append(count_steps(passes_of_ours(replace(config, seed=seed), settings.device), sums, piece))
        theirs.append(count_steps(passes_of_peer(peer(PlainLoop, settings, seed), most), sums, piece))
    own, others = step_seconds(settings, config, lambda: peer(PlainLoop, settings), settings.repeats)
    our_examples = config.train.batch_size * statistics.median(one.steps for one in ours)
    their_examples = BATCH * statistics.median(one.steps for one in theirs)
    in_vain = [sum(not one.reached for one in side) for side in (ours, theirs)]
    note = f"{len(sums):,} sums checked after every pass, seeds: {len(settings.seeds)}"
    if any(in_vain):
        note += f"; never reached by {in_vain[0]} of ours and {in_vain[1]} of theirs, counted with all their steps"
    yield ratio_row(
        "time-to-accuracy",
        f"time to {100 * WANTED:.1f} % of all sums, addition-fast",
        "torch.nn.Transformer, plain loop",
        [their_examples * other / (our_examples * mine) for mine, other in zip(own, others, strict=True)],
        note=note,
        details={
            "seeds": list(settings.seeds),
            "ours": [asdict(one) for one in ours],
            "theirs": [asdict(one) for one in theirs],
            "ours_examples": our_examples,
            "theirs_examples": their_examples,
            "ours_seconds_an_example": own,
            "theirs_seconds_an_example": others,
        },
    )
