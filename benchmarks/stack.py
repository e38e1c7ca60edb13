"""Training in a stack of seeds against one seed at a time, by the commands' own code, in one run.

    python -m benchmarks.stack [--recipe addition] [--seeds 8,32,128] [--device cuda] [--out FILE]
    python -m benchmarks.stack --encodings sinusoidal,t5,coupled --seeds 5,15     the stacks of the study text-encodings

Model-steps a second: optimiser steps times seeds, with batches, noise, clipping and metrics, without compiling,
validating and saving. Steps are counted from the 100th on (eager: from the 20th). On a GPU two floors stand beside: the
operations of matrix products at the rate of one large bf16 product, and the bytes that a step cannot do without at the
rate of one large copy.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.measuring import count_operations, seconds_of
from headway.api import read_recipe
from headway.batches import make_batch, make_model, pick_device
from headway.config import RunConfig
from headway.model.transformer import count_parameters
from headway.processes import available_cores
from headway.studies.presets import LONG_TEXT, TEXT_ENCODINGS
from headway.sweeps.seeds import train_seeds
from headway.tasks import make_task
from headway.tasks.files import make_splits
from headway.training import train, train_stack
from headway.training.data import TrainingData
from headway.training.preparation import describe_environment, resolve


class Clock:
    """When each step was reported."""

    def __init__(self) -> None:
        self.began, self.at = time.perf_counter(), {0: time.perf_counter()}

    def __call__(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "step":
            self.at[event["step"]] = time.perf_counter()

    def rate(self, first: int, last: int) -> float:
        return (last - first) / (self.at[last] - self.at[first])


def one_at_a_time(config: RunConfig, device: str, steps: int) -> float:
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        train(config, Path(folder) / "run", device=device, on_event=clock, until=steps)
    return clock.rate(20, steps)


def in_a_stack(config: RunConfig, device: str, seeds: int, loads: int) -> dict[str, float]:
    """Rate over all loads but the first and the last; seconds until the first load began (mostly compiling)."""
    clock = Clock()
    load = 100 if pick_device(device).type == "cuda" else 10
    configs = [replace(config, seed=seed) for seed in range(seeds)]
    with tempfile.TemporaryDirectory() as folder:
        outs = [Path(folder) / str(seed) for seed in range(seeds)]
        quiet = [lambda event: None] * (seeds - 1)
        train_stack(configs, outs, device=device, on_events=[clock, *quiet], until=load * loads)
    rates = [clock.rate(load * i, load * (i + 1)) * seeds for i in range(1, loads - 1)]  # the last is noted early
    return {
        "seeds": seeds,
        "model_steps_a_second": statistics.median(rates),
        "least": min(rates),
        "most": max(rates),
        "ready_after_seconds": clock.at[load] - clock.began - 1 / clock.rate(load, 2 * load) * load,
    }


def in_processes(config: RunConfig, steps: int) -> float:
    """Model-steps a second of as many processes as there are cores, one thread each, as on a CPU seeds are trained."""
    shorter = replace(config, train=replace(config.train, steps=steps, epochs=None))
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / str(seed) for seed in range(available_cores())]
        configs = [replace(shorter, seed=seed) for seed in range(len(places))]
        clocks = {place.name: Clock() for place in places}
        train_seeds(configs, places, device="cpu", on_event=lambda event: clocks.get(event.get("trial"), skip)(event))
        return sum(clock.rate(min(clock.at.keys() - {0}), max(clock.at)) for clock in clocks.values())


def floors(config: RunConfig, device: torch.device) -> dict[str, float]:
    """The least a model-step must compute and move, and the model-steps a second that this would allow on the device.

    Operations: three forward passes' worth of matrix products. Bytes, all in bf16 but for AdamW's: every linear layer's
    input and output once in the forward pass and twice in the backward pass; weights, gradient and both moments once.
    """
    task = make_task(config.task)
    model = make_model(task, resolve(config, task).model)
    data = TrainingData(config, task, {} if config.data.fresh else make_splits(task, config.data))
    moved = [0]
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(lambda _, given, made: moved.append(given[0].numel() + made.numel()))
    batch = make_batch(task, model, data.batch(0), torch.device("cpu"), cut=False)
    operations = 3 * count_operations(lambda: model(batch.inputs))
    parameters = count_parameters(model)
    bytes_moved = 3 * 2 * sum(moved) + parameters * (2 + 2 + 2 * 4 * 3)
    product, copy = product_rate(device), copy_rate(device)
    return {
        "operations": operations,
        "bytes": bytes_moved,
        "operations_a_second": product,
        "bytes_a_second": copy,
        "model_steps_a_second_by_operations": product / operations,
        "model_steps_a_second_by_bytes": copy / bytes_moved,
    }


def product_rate(device: torch.device, size: int = 8_192) -> float:
    """Operations a second of one large bf16 product."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    seconds = [seconds_of(lambda: a @ b, device) for _ in range(8)]
    return 2 * size**3 / statistics.median(seconds)


def copy_rate(device: torch.device, size: int = 1 << 30) -> float:
    """Bytes a second, read and written, of one large copy."""
    a = torch.ones(size, device=device)
    b = torch.empty_like(a)
    seconds = [seconds_of(lambda: b.copy_(a), device) for _ in range(8)]
    return 2 * 4 * size / statistics.median(seconds)


def skip(event: Mapping[str, Any]) -> None:
    pass


def chosen(arguments: argparse.Namespace) -> dict[str, RunConfig]:
    """Name -> config: a recipe, or cells of the study text-encodings; never validated, never stopped early."""
    undisturbed = {"train.validate_every": 100_000, "train.stop_below": 1e-300, "train.stop_accuracy": None}
    if arguments.encodings is None:
        return {arguments.recipe: read_recipe(arguments.recipe, set=list(undisturbed.items()))[1]}
    settings = {**LONG_TEXT, **undisturbed}
    return {
        name: read_recipe("long-addition", set=[*settings.items(), *TEXT_ENCODINGS[name].items()])[1]
        for name in arguments.encodings.split(",")
    }


def measure(name: str, config: RunConfig, arguments: argparse.Namespace) -> dict[str, Any]:
    """Every stack of one config beside one seed at a time, before and after each."""
    cuda = pick_device(arguments.device).type == "cuda"
    steps = 120 if cuda else 40
    eager, rows = [one_at_a_time(config, arguments.device, steps)], []
    for seeds in map(int, arguments.seeds.split(",")):
        row = in_a_stack(config, arguments.device, seeds, arguments.loads)
        eager.append(one_at_a_time(config, arguments.device, steps))
        rows.append({**row, "ratio": row["model_steps_a_second"] / statistics.median(eager)})
        spread = f"{row['least']:,.0f}-{row['most']:,.0f}"
        print(
            f"{name:>14} {seeds:6} {row['model_steps_a_second']:14,.0f} {spread:>16} {rows[-1]['ratio']:7.1f} "
            f"{row['ready_after_seconds']:10.0f} s",
            flush=True,
        )
    alone = {"steps_a_second": statistics.median(eager), "least": min(eager), "most": max(eager)}
    print(f"one at a time: {alone['steps_a_second']:,.1f} steps a second ({min(eager):,.1f}-{max(eager):,.1f})")
    found: dict[str, Any] = {"recipe": name, "one_at_a_time": alone, "stacks": rows}
    if cuda:
        found["floor"] = floors(config, torch.device("cuda"))
        by = [found["floor"][f"model_steps_a_second_by_{what}"] for what in ("operations", "bytes")]
        print(f"floors: {by[0]:,.0f} model-steps a second by operations, {by[1]:,.0f} by bytes", flush=True)
    else:
        rates = [in_processes(config, 100) for _ in range(3)]
        found["processes"] = {"model_steps_a_second": statistics.median(rates), "rates": rates}
        ratio = statistics.median(rates) / alone["steps_a_second"]
        print(f"{available_cores()} processes of one thread: {statistics.median(rates):,.1f} ({ratio:.2f} times)")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="addition")
    parser.add_argument("--encodings", help="cells of the study text-encodings instead of a recipe")
    parser.add_argument("--seeds", default="8,32,128")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--loads", type=int, default=6, help="how many times steps are put on the device")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    print(f"{'':>14} {'seeds':>6} {'model-steps/s':>14} {'spread':>16} {'ratio':>7} {'ready after':>12}")
    configs = chosen(arguments)
    found = [measure(name, config, arguments) for name, config in configs.items()]
    cuda = pick_device(arguments.device).type == "cuda"
    precision = next(iter(configs.values())).train.stack_precision
    result = {
        **(found[0] if arguments.encodings is None else {"cells": found}),
        "precision": f"{precision} in stacks, full in one at a time" if cuda else "full",
        **describe_environment(torch.device("cuda" if cuda else "cpu"), 0, ["benchmarks/stack.py"]),
    }
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
