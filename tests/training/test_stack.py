"""Seeds trained in a stack: like each alone, stopped and continued, and none harmed by another."""

import functools
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headway.batches import Batch, make_batch, make_model
from headway.config import RunConfig
from headway.errors import InputError, Interrupted, RunStopped
from headway.evaluation import load
from headway.model import dot_products
from headway.model.stack import stack_models
from headway.runs import Checkpoint, RunDirectory
from headway.tasks import make_task
from headway.tasks.files import make_splits, write_files
from headway.training import TrainResult, train, train_stack
from headway.training.data import TrainingData
from headway.training.prefetch import FixedPrefetcher, OnlinePrefetcher, make_prefetcher
from headway.training.stack import validate_stack
from headway.training.step import StackStep
from tests.model.stacking import double_precision
from tests.tiny import ADDITION, SORTEDNESS, config, weights_hash

CPU = torch.device("cpu")
SEEDS = [3, 4, 11]
TEXT: dict[str, Any] = {
    "task": {"name": "addition-text", "max_characters": 16, "order": "least-significant-first", "test_lengths": [18]},
    "data": {"train": 60, "validation": 10, "test": 10},
    "model": {"shape": "decoder", "d_model": 12, "n_heads": 2, "d_ff": 16, "decoder_layers": 1},
    "train": {"steps": 16, "batch_size": 12, "validate_every": 8, "lr": 0.01},
}
LONG = {"steps": 14, "validate_every": 7, "lr": 0.005}


def recipe(base: dict[str, Any], **tables: dict[str, Any]) -> Callable[[int], RunConfig]:
    return lambda seed: config(base, seed, **{**tables, "train": {**LONG, **tables.get("train", {})}})


RECIPES = {
    "swap": recipe(ADDITION, task={"digits": 2, "swap": True}),
    "sortedness": recipe(SORTEDNESS, train={"weight_decay": 0.3, "label_smoothing": 0.1}),
    "clip": recipe(SORTEDNESS, train={"clip": 0.05}, model={"pooling": "multi-feature", "norm": "post"}),
    "fresh": recipe(SORTEDNESS, data={"fresh": True}),
    "fresh text": recipe(TEXT, data={"fresh": True}, train={"label_smoothing": 0.1}),
    "randomized": recipe(ADDITION, model={"encoding": "randomized"}),
    "coupled": recipe(ADDITION, model={"encoding": "coupled"}),
    "decoder": recipe(TEXT, model={"encoding": "t5"}),
    "window": recipe(SORTEDNESS, model={"encoding": "clipped", "window": 1, "pooling": "max"}),
    "pruned": recipe(ADDITION, model={"kept_heads": ["enc0.self.h1", "dec0.cross.h0"]}),
    "rates": lambda seed: recipe(SORTEDNESS, train={"lr": 0.003 + 0.0004 * seed})(seed),
}


Both = Callable[[str], tuple[list[Path], list[Path]]]


def train_both(of: Callable[[int], RunConfig], folder: Path) -> tuple[list[Path], list[Path]]:
    """Three seeds in a stack, and the first and the last of them alone; where these two are, both times."""
    train_stack([of(seed) for seed in SEEDS], places(folder / "stack"), device="cpu")
    compared = [SEEDS[0], SEEDS[2]]
    for seed, place in zip(compared, places(folder / "alone", compared), strict=True):
        train(of(seed), place, device="cpu")
    return places(folder / "stack", compared), places(folder / "alone", compared)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    """What `train_both` makes of a recipe, made once."""
    return functools.cache(lambda name: train_both(RECIPES[name], tmp_path_factory.mktemp("both")))


def places(folder: Path, seeds: Sequence[int] = SEEDS) -> list[Path]:
    return [folder / str(seed) for seed in seeds]


def weights(run: Path, step: int) -> dict[str, torch.Tensor]:
    return RunDirectory(run).read_checkpoint(step).model


def stack(base: dict[str, Any], folder: Path, seeds: Sequence[int] = SEEDS, **more: Any) -> list[Any]:
    """Train seeds of a small experiment in one stack; `train` changes its settings."""
    settings = more.pop("train", {})
    configs = [config(base, seed, train=settings) for seed in seeds]
    return train_stack(configs, places(folder, seeds), device="cpu", **more)


def steps_of(run: Path) -> list[int]:
    """The steps that metrics.jsonl has, validations left out."""
    return [record["step"] for record in RunDirectory(run).metrics() if "loss" in record]


# A seed in a stack is like the seed alone


@pytest.mark.parametrize("name", RECIPES)
def test_the_examples_are_the_same_in_the_same_order(name: str) -> None:
    configs = [RECIPES[name](seed) for seed in SEEDS]
    task = make_task(configs[0].task)
    splits = make_splits(task, configs[0].data)
    data = [TrainingData(one, task, splits) for one in configs]
    prefetcher = make_prefetcher(data, 7, CPU)
    for first, count in ((0, 7), (7, 4), (30, 2)):
        prefetcher.load([torch.from_numpy(found) for found in prefetcher.find(first, count)])
        for at in range(count):
            source, target = prefetcher.take(torch.tensor([at]))
            batches = [one.batch(first + at) for one in data]
            assert np.array_equal(source, np.concatenate([batch.source for batch in batches]))
            assert np.array_equal(target, np.concatenate([batch.target for batch in batches]))
    prefetcher.close()


@pytest.mark.parametrize("name", RECIPES)
def test_the_weights_are_those_of_each_seed_alone(name: str, both: Both) -> None:
    stacked, alone = both(name)
    for one, other in zip(stacked, alone, strict=True):
        assert weights_hash(one, 0) == weights_hash(other, 0)
        first, mine, expected = weights(other, 0), weights(one, 14), weights(other, 14)
        for key in expected:
            # A key's bias moves all scores of a query alike and softmax takes no notice, so its gradient is nothing
            # but rounding errors, of which Adam takes the sign. The test in float64 covers it.
            if not key.endswith("key.bias"):
                # 14 steps of 0.005 end 2e-6 apart at most; one wrong batch moves weights by 1e-3.
                torch.testing.assert_close(mine[key], expected[key], rtol=0, atol=1e-5)
        assert max(float((first[key] - expected[key]).abs().max()) for key in expected if first[key].numel()) > 0.02
        losses = [[r["loss"] for r in RunDirectory(run).metrics() if "loss" in r] for run in (one, other)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize("name", ["sortedness", "fresh text", "randomized"])
def test_in_float64_weights_and_the_optimisers_memory_agree_to_ten_digits(name: str, tmp_path: Path) -> None:
    with double_precision():
        stacked, alone = train_both(RECIPES[name], tmp_path)
    for one, other in zip(stacked, alone, strict=True):
        mine, expected = (RunDirectory(run).read_checkpoint(14) for run in (one, other))
        # Rounding errors are 1e-16; what remains is a key's bias, whose update is one of them over Adam's epsilon.
        torch.testing.assert_close(mine.model, expected.model, rtol=0, atol=1e-10)
        torch.testing.assert_close(mine.trainer, expected.trainer, rtol=0, atol=1e-10)
        assert shapes(mine.trainer) == shapes(expected.trainer)


def test_what_the_two_ways_make_of_a_keys_bias_changes_no_logit(both: Both) -> None:
    stacked, alone = both("sortedness")
    other = load(RunDirectory(alone[0]), device="cpu")
    batch = make_batch(other.task, other.model, other.examples("validation"), CPU)
    before = other.model(batch.inputs)
    mine = weights(stacked[0], other.step)
    with torch.no_grad():
        for name, parameter in other.model.named_parameters():
            if name.endswith("key.bias"):
                parameter.copy_(mine[name] + 1)
    torch.testing.assert_close(other.model(batch.inputs), before, rtol=0, atol=1e-5)


def test_validation_and_the_results_are_those_of_each_seed_alone(both: Both) -> None:
    stacked, alone = both("swap")
    for one, other in zip(stacked, alone, strict=True):
        found, expected = ([r for r in RunDirectory(x).metrics() if "validation" in r] for x in (one, other))
        assert [r["step"] for r in found] == [r["step"] for r in expected] == [0, 7, 14]
        for mine, its in zip(found, expected, strict=True):
            assert mine["validation"]["loss"] == pytest.approx(its["validation"]["loss"], rel=1e-4)
            assert mine["validation"]["accuracy"] == its["validation"]["accuracy"]


@pytest.mark.parametrize("base", [ADDITION, pytest.param(TEXT, marks=pytest.mark.long)], ids=["addition", "text"])
def test_a_run_may_enter_and_leave_a_stack(base: dict[str, Any], tmp_path: Path) -> None:
    steps = base["train"]["steps"]
    train(config(base, SEEDS[0]), tmp_path / "alone", device="cpu")
    stack(base, tmp_path / "leaves", until=8)
    train(config(base, SEEDS[0]), tmp_path / "leaves" / str(SEEDS[0]), device="cpu", resume=True)
    for seed, place in zip(SEEDS, places(tmp_path / "enters"), strict=True):
        train(config(base, seed), place, device="cpu", until=8)
    stack(base, tmp_path / "enters", resume=True)
    whole = RunDirectory(tmp_path / "alone").read_checkpoint(steps)
    for way in ("leaves", "enters"):
        found = RunDirectory(places(tmp_path / way)[0]).read_checkpoint(steps)
        assert shapes(found.trainer) == shapes(whole.trainer)
        for key in whole.model:
            if not key.endswith("key.bias"):
                torch.testing.assert_close(found.model[key], whole.model[key], rtol=0, atol=1e-4)


def shapes(tensors: Mapping[str, torch.Tensor]) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}


# Stopped and continued


class Stop(Exception):
    pass


def when(step: int, do: Callable[[], None]) -> Callable[[Mapping[str, Any]], None]:
    def report(event: Mapping[str, Any]) -> None:
        if event["event"] == "step" and event["step"] == step:
            do()

    return report


def stop() -> None:
    raise Stop


def nothing(event: Mapping[str, Any]) -> None:
    pass


def same_ends(one: Path, other: Path, seeds: Sequence[int] = SEEDS, step: int = 24) -> None:
    """Weights, checkpoints and metrics of two folders of runs are the same to the last bit."""
    for a, b in zip(places(one, seeds), places(other, seeds), strict=True):
        assert weights_hash(a, step) == weights_hash(b, step)
        assert RunDirectory(a).checkpoint_steps() == RunDirectory(b).checkpoint_steps()
        metrics = [[r for r in RunDirectory(x).metrics() if "step" in r] for x in (a, b)]
        assert metrics[0] == metrics[1]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stack that nothing disturbed: 24 steps, a validation every 8."""
    folder = tmp_path_factory.mktemp("whole")
    stack(ADDITION, folder)
    return folder


@pytest.mark.parametrize("moment", [3, 13, 24])
def test_a_stack_stopped_anywhere_continues_to_the_same_weights(moment: int, whole: Path, tmp_path: Path) -> None:
    with pytest.raises(Stop):
        stack(ADDITION, tmp_path, on_events=[nothing, when(moment, stop), nothing])
    found = stack(ADDITION, tmp_path, resume=True)
    assert [one.steps for one in found] == [24, 24, 24]
    same_ends(tmp_path, whole)


@pytest.fixture
def _ctrl_c() -> Iterator[None]:
    """SIGINT is handled as in a terminal, also where the tests were started with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c")
def test_ctrl_c_saves_every_seed_and_says_which(whole: Path, tmp_path: Path) -> None:
    long = {"train": {"validate_every": 12}}
    press = when(3, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(Interrupted) as caught:
        stack(ADDITION, tmp_path / "parts", on_events=[press, nothing, nothing], **long)
    names = ", ".join(str(place) for place in places(tmp_path / "parts"))
    assert str(caught.value) == f"stopped at step 12 of 24; --resume continues {names}"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    for place in places(tmp_path / "parts"):
        assert RunDirectory(place).checkpoint_steps() == [0, 12]
        assert steps_of(place) == list(range(1, 13))
    stack(ADDITION, tmp_path / "parts", resume=True, **long)
    stack(ADDITION, tmp_path / "whole", **long)
    same_ends(tmp_path / "parts", tmp_path / "whole")


def test_ctrl_c_at_the_end_says_that_nothing_is_left_to_do(tmp_path: Path) -> None:
    press = when(24, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(Interrupted, match=r"^stopped; the runs are finished$"):
        stack(ADDITION, tmp_path, on_events=[press, nothing, nothing])
    press = when(8, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(Interrupted, match=r"^stopped; the runs are saved$"):
        stack(ADDITION, tmp_path / "b", on_events=[press, nothing, nothing], until=8)


def test_four_names_are_too_many_for_a_line(tmp_path: Path) -> None:
    press = when(1, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(Interrupted, match=r"/0, \S+/1, \S+/2 and 2 more$"):
        stack(ADDITION, tmp_path, seeds=range(5), on_events=[press] + [nothing] * 4)


def test_seeds_that_a_kill_parted_start_again_at_their_common_step(whole: Path, tmp_path: Path) -> None:
    stack(ADDITION, tmp_path, until=16)
    # As after a kill while the checkpoints of step 16 were being written.
    RunDirectory(places(tmp_path)[1]).keep_checkpoints({0, 8})
    resumed, kept = [], []

    def report(event: Mapping[str, Any]) -> None:
        if event["event"] == "resumed":
            resumed.append(event["step"])
        if event["event"] == "step" and event["step"] == 9:
            kept.append([RunDirectory(place).checkpoint_steps() for place in places(tmp_path)])

    stack(ADDITION, tmp_path, resume=True, on_events=[report] * 3)
    assert resumed == [8, 8, 8]
    assert kept == [[[0, 8]] * 3] * 3  # what the seeds will do again is gone
    same_ends(tmp_path, whole)


def test_a_new_seed_does_not_throw_the_others_back(tmp_path: Path) -> None:
    stack(ADDITION, tmp_path, seeds=SEEDS[:2], until=16)
    seen: list[Any] = []
    found = stack(ADDITION, tmp_path, resume=True, on_events=[seen.append] * 3)
    assert [event["step"] for event in seen if event["event"] == "resumed"] == [16, 16]
    assert [one.steps for one in found] == [24, 24, 24]
    assert [steps_of(place) for place in places(tmp_path)] == [list(range(1, 25))] * 3


def test_a_seed_far_behind_does_not_throw_the_others_back(tmp_path: Path) -> None:
    often = {"train": {"steps": 12, "validate_every": 2}}
    stack(ADDITION, tmp_path / "whole", **often)
    stack(ADDITION, tmp_path / "parts", until=10, **often)
    late = RunDirectory(places(tmp_path / "parts")[1])
    stack(ADDITION, tmp_path / "late", until=4, **often)
    late.keep_checkpoints({0})
    for step in (2, 4):
        late.write_checkpoint(RunDirectory(places(tmp_path / "late")[1]).read_checkpoint(step))
    seen: list[list[Any]] = [[], [], []]
    found = stack(ADDITION, tmp_path / "parts", resume=True, on_events=[one.append for one in seen], **often)
    assert [event["step"] for events in seen for event in events if event["event"] == "resumed"] == [10, 4, 10]
    assert [one.run for one in found] == [str(place) for place in places(tmp_path / "parts")]
    for a, b in zip(places(tmp_path / "parts"), places(tmp_path / "whole"), strict=True):
        assert steps_of(a) == list(range(1, 13))
        for key, value in weights(b, 12).items():
            if not key.endswith("key.bias"):
                torch.testing.assert_close(weights(a, 12)[key], value, rtol=0, atol=1e-4)


def damage(run: Path, step: int, name: str = "trainer.safetensors") -> None:
    path = RunDirectory(run).checkpoint_path(step) / name
    path.write_bytes(path.read_bytes()[:-1])


def test_a_damaged_checkpoint_of_one_seed_is_told_of_that_seed(whole: Path, tmp_path: Path) -> None:
    stack(ADDITION, tmp_path, until=16)
    damage(places(tmp_path)[2], 16)
    found = stack(ADDITION, tmp_path, resume=True)
    line = "step-000016 is damaged: trainer.safetensors does not match its manifest; the one before it is used"
    assert [one.warnings for one in found] == [[], [], [line]]
    same_ends(tmp_path, whole)


def test_a_finished_seed_whose_last_checkpoint_is_damaged_is_trained_again(whole: Path, tmp_path: Path) -> None:
    stack(ADDITION, tmp_path)
    damage(places(tmp_path)[0], 24)
    found = stack(ADDITION, tmp_path, resume=True)
    assert [one.steps for one in found] == [24, 24, 24]
    assert RunDirectory(places(tmp_path)[0]).read_checkpoint(24).state["finished"]
    for key, value in weights(places(whole)[0], 24).items():
        if not key.endswith("key.bias"):
            torch.testing.assert_close(weights(places(tmp_path)[0], 24)[key], value, rtol=0, atol=1e-4)
    same_ends(tmp_path, whole, SEEDS[1:])


# One seed fails


def poison(run: Path, step: int, value: float = math.nan, **state: Any) -> None:
    """Put a weight that is not finite into a checkpoint."""
    directory = RunDirectory(run)
    found = directory.read_checkpoint(step)
    found.model["decoder.0.own.query.weight"][0, 0] = value
    directory.write_checkpoint(Checkpoint(step, found.model, found.trainer, {**found.state, **state}))


def test_a_loss_that_is_not_finite_stops_one_seed_alone(whole: Path, tmp_path: Path) -> None:
    stack(ADDITION, tmp_path, until=8)
    bad = places(tmp_path)[1]
    poison(bad, 8)
    before = {path: path.read_bytes() for path in bad.rglob("*.safetensors")}
    found = stack(ADDITION, tmp_path, resume=True)
    assert isinstance(found[1], RunStopped)
    assert str(found[1]) == (
        f"the loss is not finite at step 9; nothing was updated, the last good checkpoint is step 8 of {bad}"
    )
    assert {path: path.read_bytes() for path in bad.rglob("*.safetensors")} == before
    assert steps_of(bad) == list(range(1, 9))
    assert [isinstance(one, TrainResult) for one in found] == [True, False, True]
    same_ends(tmp_path, whole, [SEEDS[0], SEEDS[2]])


def test_a_failure_inside_a_load_is_dated_to_its_step(tmp_path: Path) -> None:
    """Each step makes the weights 99 times as large, so that they overflow between two validations."""
    explode = {
        "lr": 10.0,
        "weight_decay": 10.0,
        "schedule": "constant",
        "warmup": 0.0,
        "validate_every": 50,
        "steps": 50,
    }
    found = stack(ADDITION, tmp_path, train=explode)
    for seed, one in zip(SEEDS, found, strict=True):
        with pytest.raises(RunStopped) as caught:
            train(config(ADDITION, seed, train=explode), tmp_path / f"alone{seed}", device="cpu")
        assert str(one) == str(caught.value).replace(f"alone{seed}", str(seed))
        assert len(steps_of(tmp_path / str(seed))) > 5
        assert steps_of(tmp_path / str(seed)) == steps_of(tmp_path / f"alone{seed}")
        assert RunDirectory(tmp_path / str(seed)).checkpoint_steps() == [0]


def test_a_validation_loss_that_is_not_finite_stops_one_seed_alone(whole: Path, tmp_path: Path) -> None:
    stack(ADDITION, tmp_path, until=8)
    for place in places(tmp_path):
        poison(place, 8, 0.0 if place != places(tmp_path)[2] else math.nan, validated=-1)
    found = stack(ADDITION, tmp_path, resume=True)
    assert [isinstance(one, RunStopped) for one in found] == [False, False, True]
    assert str(found[2]).startswith("the validation loss is not finite at step 8, the last good checkpoint is step 8")


def test_a_seed_that_is_not_finite_keeps_it_from_seeds_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With rows side by side, as on a GPU: three rows of a block, five of each seed."""
    configs = [config(ADDITION, seed) for seed in SEEDS]
    task = make_task(configs[0].task)
    examples = make_splits(task, configs[0].data)["validation"].take(slice(0, 5))
    together = stack_models([make_model(task, one.model) for one in configs], CPU)
    monkeypatch.setattr(dot_products, "rows_side_by_side", lambda query, key, mask: 3 if len(query) == 15 else 1)
    before, _ = validate_stack(together, task, examples)
    together.layout.blocks(together.weights)["encoder.0.own.value.weight"][1, 0, 0] = math.nan
    after, _ = validate_stack(together, task, examples)
    assert math.isnan(after[1])
    assert [after[0], after[2]] == [before[0], before[2]]


def make_step(configs: Sequence[RunConfig], *, mixed: bool = False) -> StackStep:
    task = make_task(configs[0].task)
    splits = make_splits(task, configs[0].data)
    data = [TrainingData(one, task, splits) for one in configs]
    together = stack_models([make_model(task, one.model) for one in configs], CPU)
    return StackStep(
        together, task, configs[0].train, make_prefetcher(data, 5, CPU), padded=False, longest=5, mixed=mixed
    )


@pytest.mark.parametrize("mixed", [False, True])
def test_a_seed_that_is_not_finite_or_not_alive_stays_as_it_is(mixed: bool) -> None:
    configs = [config(ADDITION, seed) for seed in (*SEEDS, 12)]
    step = make_step(configs, mixed=mixed)
    together = step.stack
    together.layout.blocks(together.weights)["readout.weight"][1, 0, 0] = math.inf
    step.take_up_weights()
    step.alive[2] = False

    def numbers() -> list[dict[str, torch.Tensor]]:
        parts = [together.layout.read(x.clone()) for x in (together.weights, step.first, step.second)]
        return [{f"{i} {key}": x for i, part in enumerate(parts) for key, x in part[row].items()} for row in range(4)]

    before = numbers()
    step.load(step.find(0, 24, 3, configs))
    for _ in range(3):
        step.take()
    for row, (old, new) in enumerate(zip(before, numbers(), strict=True)):
        moved = {key for key in old if not torch.equal(old[key], new[key])}
        assert moved == (set(old) if row in (0, 3) else set())
    assert step.alive.tolist() == [True, False, False, True]
    losses, norms = step.readings(3)()
    assert losses.isfinite().all(0).tolist() == [True, False, True, True]
    assert norms.isfinite().all(0).tolist() == [True, False, True, True]


def test_a_seed_whose_gradient_alone_is_not_finite_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the loss of seed 1 a root at 0 is added: nothing, with an infinite slope."""
    configs = [config(ADDITION, seed) for seed in SEEDS]
    step = make_step(configs)
    right, leaf = step.loss_of, step.leaves[0]

    def with_a_root(batch: Batch, keys: torch.Tensor) -> torch.Tensor:
        root = (leaf[1] - leaf[1].detach()).sum().sqrt()
        return right(batch, keys) + root * torch.eye(3)[1]

    monkeypatch.setattr(step, "loss_of", with_a_root)
    before = [x.clone() for x in (step.stack.weights, step.first, step.second)]
    step.load(step.find(0, 24, 1, configs))
    step.take()
    losses, norms = step.readings(1)()
    assert losses.isfinite().all() and norms.isfinite().tolist() == [[True, False, True]]
    assert step.alive.tolist() == [True, False, True]
    for old, new in zip(before, (step.stack.weights, step.first, step.second), strict=True):
        one, other = (step.stack.layout.read(numbers) for numbers in (old, new))
        same = [all(torch.equal(one[row][key], other[row][key]) for key in one[row]) for row in range(3)]
        assert same == [False, True, False]


@pytest.mark.parametrize("encoding", ["learned", "sinusoidal", "alibi"])
def test_a_step_in_bf16_is_the_full_one_but_for_rounding(encoding: str) -> None:
    configs = [config(ADDITION, seed, model={"encoding": encoding}) for seed in SEEDS]
    torch.manual_seed(5)
    full = make_step(configs)
    torch.manual_seed(5)
    mixed = make_step(configs, mixed=True)
    for step in (full, mixed):
        step.load(step.find(0, 24, 3, configs))
        step.take()
    assert mixed.gradient.dtype == torch.bfloat16 and mixed.first.dtype == torch.float32
    apart = (mixed.gradient.float() - full.gradient).norm() / full.gradient.norm()
    assert 1e-5 < apart < 0.03  # bf16 has 8 bits
    for step in (full, mixed):
        step.take(), step.take()
    torch.testing.assert_close(mixed.losses[:3], full.losses[:3], rtol=0.02, atol=0.02)
    # The pass reads what AdamW keeps, rounded: a small step is not lost.
    assert torch.equal(mixed.used.weights, mixed.stack.weights.bfloat16())
    assert not torch.equal(mixed.used.weights.float(), mixed.stack.weights)


def test_when_every_seed_has_failed_the_stack_ends(tmp_path: Path) -> None:
    stack(ADDITION, tmp_path, until=8)
    for place in places(tmp_path):
        poison(place, 8)
    found = stack(ADDITION, tmp_path, resume=True)
    assert [isinstance(one, RunStopped) for one in found] == [True, True, True]


# Some seeds are ready before others


def test_seeds_master_each_at_its_own_step_as_they_do_alone(tmp_path: Path) -> None:
    gated = {**SORTEDNESS, "data": {"train": 400, "validation": 60, "test": 10}}
    settings: dict[str, Any] = {"steps": 80, "validate_every": 5, "stop_accuracy": 0.56, "stop_for": 3}
    seeds = [0, 1, 2]
    found = stack(gated, tmp_path / "stack", seeds, train=settings)
    alone = [
        train(config(gated, seed, train=settings), place, device="cpu")
        for seed, place in zip(seeds, places(tmp_path / "alone", seeds), strict=True)
    ]
    assert [(one.steps, one.mastered_at) for one in found] == [(one.steps, one.mastered_at) for one in alone]
    assert found[1].mastered_at is None
    assert len({one.mastered_at for one in found}) > 1
    for one, other in zip(found, alone, strict=True):
        assert one.steps == steps_of(Path(one.run))[-1] == RunDirectory(one.run).checkpoint_steps()[-1]
        for key, value in weights(Path(other.run), other.steps).items():
            if not key.endswith("key.bias"):
                torch.testing.assert_close(weights(Path(one.run), one.steps)[key], value, rtol=0, atol=1e-4)
    again = stack(gated, tmp_path / "stack", seeds, train=settings, resume=True)
    assert [(one.steps, one.mastered_at) for one in again] == [(one.steps, one.mastered_at) for one in found]


def test_seeds_stop_early_each_at_its_own_step(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"steps": 12, "validate_every": 2}
    stack(ADDITION, tmp_path / "free", train=settings)
    halfway = sorted(validation_loss(place, 6) for place in places(tmp_path / "free"))
    settings |= {"stop_below": (halfway[1] + halfway[2]) / 2, "stop_for": 1}
    found = stack(ADDITION, tmp_path / "stack", train=settings)
    alone = [
        train(config(ADDITION, seed, train=settings), place, device="cpu")
        for seed, place in zip(SEEDS, places(tmp_path / "alone"), strict=True)
    ]
    assert [(one.steps, one.stopped_early) for one in found] == [(one.steps, one.stopped_early) for one in alone]
    assert len({one.steps for one in found}) > 1  # so the last one went on in a smaller stack
    assert 0 < min(one.steps for one in found) <= 6 < max(one.steps for one in found)
    for one, other in zip(found, alone, strict=True):
        assert RunDirectory(one.run).checkpoint_steps() == RunDirectory(other.run).checkpoint_steps()
        assert steps_of(Path(one.run)) == list(range(1, one.steps + 1))
        for key, value in weights(Path(other.run), other.steps).items():
            if not key.endswith("key.bias"):
                torch.testing.assert_close(weights(Path(one.run), one.steps)[key], value, rtol=0, atol=1e-4)


def validation_loss(run: Path, step: int) -> float:
    (found,) = [r for r in RunDirectory(run).metrics() if "validation" in r and r["step"] == step]
    return float(found["validation"]["loss"])


def test_finished_seeds_are_left_as_they_are_and_new_ones_trained(whole: Path, tmp_path: Path) -> None:
    stack(ADDITION, tmp_path, seeds=SEEDS[:2])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    found = stack(ADDITION, tmp_path, resume=True)
    assert [one.steps for one in found] == [24, 24, 24]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert steps_of(places(tmp_path)[2]) == list(range(1, 25))


# What is refused, and what is recorded


def test_recipes_that_differ_are_refused(tmp_path: Path) -> None:
    configs = [config(ADDITION, 0), config(ADDITION, 1, train={"clip": 0.5})]
    with pytest.raises(InputError, match=r"^a stack needs one recipe; two differ in train\.clip: 1\.0 and 0\.5$"):
        train_stack(configs, places(tmp_path, [0, 1]), device="cpu")
    assert list(tmp_path.iterdir()) == []


def test_a_seed_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^a stack needs different seeds or rates; one is repeated$"):
        train_stack([config(ADDITION, 0)] * 2, places(tmp_path, [0, 1]), device="cpu")


def test_one_run_that_is_there_already_keeps_all_others_from_being_written(tmp_path: Path) -> None:
    stack(ADDITION, tmp_path, seeds=[SEEDS[2]], until=0)
    with pytest.raises(InputError, match=f"{SEEDS[2]} holds a run already; --resume continues it"):
        stack(ADDITION, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [str(SEEDS[2])]


def test_runs_with_other_files_are_not_stacked(tmp_path: Path) -> None:
    task = make_task(config(ADDITION).task)
    for seed in SEEDS[:2]:
        data = config(ADDITION, data={"seed": seed}).data
        write_files(task, data, tmp_path / f"data{seed}")
        train(config(ADDITION, seed), tmp_path / str(seed), device="cpu", data=tmp_path / f"data{seed}", until=0)
    with pytest.raises(InputError, match=r"^a stack needs one set of data; .*4 was begun with another one$"):
        stack(ADDITION, tmp_path, seeds=SEEDS[:2], resume=True)


def test_every_step_is_recorded_and_told_once_and_in_order(tmp_path: Path) -> None:
    seen: list[list[Any]] = [[], [], []]
    found = stack(ADDITION, tmp_path, on_events=[one.append for one in seen])
    assert [one.run for one in found] == [str(place) for place in places(tmp_path)]
    for place, events in zip(places(tmp_path), seen, strict=True):
        lines = [(r["step"], "validation" in r) for r in RunDirectory(place).metrics()]
        expected = [(0, True)]
        for step in range(1, 25):
            expected += [(step, False)] + [(step, True)] * (step % 8 == 0)
        assert lines == expected
        assert [(e["step"], e["event"] == "validation") for e in events] == expected


def test_until_stops_validated_and_saved(whole: Path, tmp_path: Path) -> None:
    found = stack(ADDITION, tmp_path, until=11)
    assert [(one.steps, one.stopped_early) for one in found] == [(11, False)] * 3
    for place in places(tmp_path):
        assert RunDirectory(place).checkpoint_steps()[-1] == 11
        assert not RunDirectory(place).newest_state()["finished"]
    assert [one.steps for one in stack(ADDITION, tmp_path, until=8, resume=True)] == [11, 11, 11]
    stack(ADDITION, tmp_path, resume=True)
    for a, b in zip(places(tmp_path), places(whole), strict=True):
        assert weights_hash(a, 24) == weights_hash(b, 24)


def test_the_callers_random_numbers_are_left_alone(tmp_path: Path) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    stack(ADDITION, tmp_path, until=2)
    assert torch.equal(torch.rand(3), expected)
    assert not torch.are_deterministic_algorithms_enabled()


# What a GPU does and a CPU can


@pytest.mark.parametrize("name", ["fresh text", "swap", "sortedness"])
def test_examples_found_by_other_processes_are_the_same(name: str) -> None:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    configs = [RECIPES[name](seed) for seed in SEEDS]
    task = make_task(configs[0].task)
    splits = make_splits(task, configs[0].data)
    data = [TrainingData(one, task, splits) for one in configs]
    here, there = make_prefetcher(data, 5, CPU), make_prefetcher(data, 5, CPU)
    assert isinstance(there, FixedPrefetcher | OnlinePrefetcher)
    there.seeds.pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    try:
        for first, count in ((2, 5), (9, 3)):
            for mine, expected in zip(there.find(first, count), here.find(first, count), strict=True):
                assert np.array_equal(mine, expected)
    finally:
        there.close()


@pytest.mark.parametrize("name", ["fresh text", "swap"])
def test_examples_are_found_here_where_the_other_processes_die(name: str) -> None:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    configs = [RECIPES[name](seed) for seed in SEEDS]
    task = make_task(configs[0].task)
    data = [TrainingData(one, task, make_splits(task, one.data)) for one in configs]
    here, there = make_prefetcher(data, 5, CPU), make_prefetcher(data, 5, CPU)
    assert isinstance(there, FixedPrefetcher | OnlinePrefetcher)
    there.seeds.pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=os._exit, initargs=(1,))
    for mine, expected in zip(there.find(2, 5), here.find(2, 5), strict=True):
        assert np.array_equal(mine, expected)
    there.close()


COMPILED = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from headway.model.dot_products import let_compiler_keep_walls
from headway.training import train_stack
from headway.training.step import StackStep
from tests.training.test_stack import RECIPES, SEEDS, places

plain = StackStep.__init__
def compiled(self, *arguments, **more):
    plain(self, *arguments, **more)
    let_compiler_keep_walls()
    self.loss_of = torch.compile(self._losses, dynamic=False)
StackStep.__init__ = compiled
train_stack([RECIPES[sys.argv[1]](seed) for seed in SEEDS], places(Path(sys.argv[2])), device="cpu", until=10)
"""
"""A program, since PyTorch's compiler cannot read functions whose shapes are checked."""


@pytest.mark.long
@pytest.mark.parametrize("name", ["swap", "decoder"])
def test_a_compiled_step_is_the_eager_one(name: str, tmp_path: Path) -> None:
    train_stack([RECIPES[name](seed) for seed in SEEDS], places(tmp_path / "eager"), device="cpu", until=10)
    command = [sys.executable, "-c", COMPILED, name, str(tmp_path / "compiled")]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])
    for a, b in zip(places(tmp_path / "eager"), places(tmp_path / "compiled"), strict=True):
        for key, value in weights(a, 10).items():
            if not key.endswith("key.bias"):
                torch.testing.assert_close(weights(b, 10)[key], value, rtol=0, atol=1e-4)
