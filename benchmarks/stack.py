"""Training in a stack of seeds against one seed at a time, by the commands' own code, in one run.

    python benchmarks/stack.py [--recipe addition] [--seeds 8,32,128] [--device cuda] [--out FILE]

Model-steps a second: optimiser steps times seeds, with batches, noise, clipping and metrics, without compiling,
validating and saving. Steps are counted from the 100th on (eager: from the 20th).
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

from headway.api import read_recipe
from headway.batches import pick_device
from headway.config import RunConfig
from headway.sweeps.local import available_cores
from headway.sweeps.seeds import train_seeds
from headway.training import train, train_stack
from headway.training.preparation import describe_circumstances


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
        train(config, Path(folder) / "run", device=device, report=clock, until=steps)
    return clock.rate(20, steps)


def in_a_stack(config: RunConfig, device: str, seeds: int, loads: int) -> dict[str, float]:
    """Rate over all loads but the first and the last; seconds until the first load began (mostly compiling)."""
    clock = Clock()
    load = 100 if pick_device(device).type == "cuda" else 10
    configs = [replace(config, seed=seed) for seed in range(seeds)]
    with tempfile.TemporaryDirectory() as folder:
        outs = [Path(folder) / str(seed) for seed in range(seeds)]
        quiet = [lambda event: None] * (seeds - 1)
        train_stack(configs, outs, device=device, reports=[clock, *quiet], until=load * loads)
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
        train_seeds(configs, places, device="cpu", report=lambda event: clocks.get(event.get("trial"), skip)(event))
        return sum(clock.rate(min(clock.at.keys() - {0}), max(clock.at)) for clock in clocks.values())


def skip(event: Mapping[str, Any]) -> None:
    pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="addition")
    parser.add_argument("--seeds", default="8,32,128")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--loads", type=int, default=6, help="how many times steps are put on the device")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    _, config = read_recipe(arguments.recipe, set=["train.validate_every=100000", "train.stop_below=1e-300"])
    cuda = pick_device(arguments.device).type == "cuda"
    eager = [one_at_a_time(config, arguments.device, 120 if cuda else 40)]
    rows = []
    print(f"{'seeds':>6} {'model-steps/s':>14} {'spread':>16} {'ratio':>7} {'ready after':>12}")
    for seeds in map(int, arguments.seeds.split(",")):
        row = in_a_stack(config, arguments.device, seeds, arguments.loads)
        eager.append(one_at_a_time(config, arguments.device, 120 if cuda else 40))
        rows.append({**row, "ratio": row["model_steps_a_second"] / statistics.median(eager)})
        spread = f"{row['least']:,.0f}-{row['most']:,.0f}"
        print(
            f"{seeds:6} {row['model_steps_a_second']:14,.0f} {spread:>16} {rows[-1]['ratio']:7.1f} "
            f"{row['ready_after_seconds']:10.0f} s",
            flush=True,
        )
    processes = {}
    if not cuda:
        rates = [in_processes(config, 100) for _ in range(3)]
        processes = {"processes": {"model_steps_a_second": statistics.median(rates), "rates": rates}}
        ratio = statistics.median(rates) / statistics.median(eager)
        print(f"{available_cores()} processes of one thread: {statistics.median(rates):,.1f} ({ratio:.2f} times)")
    print(f"one at a time: {statistics.median(eager):,.1f} steps a second ({min(eager):,.1f}-{max(eager):,.1f})")
    result = {
        "recipe": arguments.recipe,
        "one_at_a_time": {"steps_a_second": statistics.median(eager), "least": min(eager), "most": max(eager)},
        "stacks": rows,
        **processes,
        "precision": f"{config.train.stack_precision} in stacks, full in one at a time" if cuda else "full",
        **describe_circumstances(torch.device("cuda" if cuda else "cpu"), 0, ["benchmarks/stack.py"]),
    }
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
