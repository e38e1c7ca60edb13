"""A stack of seeds against one seed at a time; `stack.py` says how each is measured."""

from collections.abc import Iterator
from typing import Any

from benchmarks.measuring import Row, Settings, ratio_row
from benchmarks.stack import in_a_stack, in_processes, one_at_a_time
from benchmarks.training import recipe
from headway.config import RunConfig


def undisturbed(settings: Settings, **changes: Any) -> RunConfig:
    """The recipe without validation, and never stopped early."""
    return recipe(settings, **{"train.validate_every": 100_000, "train.stop_below": 1e-300, **changes})


def stacks(settings: Settings) -> Iterator[Row]:
    """Model-steps a second of stacks, and on a CPU of one process for each seed, which is what is used there."""
    config = undisturbed(settings, **({"train.epochs": 400} if settings.toy else {}))
    device, steps = settings.device.type, settings.pick(24, 40, 120)
    loads = settings.pick(4, 4, 5)
    for seeds in settings.pick((1, 2), (1, 2, 4), (1, 8, 32, 128)):
        before = one_at_a_time(config, device, steps)
        row = in_a_stack(config, device, seeds, loads)
        alone = (before + one_at_a_time(config, device, steps)) / 2
        rates = [row[key] / alone for key in ("least", "model_steps_a_second", "most")]
        yield ratio_row(
            "stack",
            f"model-steps a second in a stack of {seeds}",
            "one at a time (its mean before and after)",
            rates,
            note="the spread is that of loads in one run",
            details={**row, "one_at_a_time": alone},
        )
    if not settings.cuda and not settings.toy:  # processes report once a second, which a toy does not last
        pairs = [(in_processes(config, 100), one_at_a_time(config, device, steps)) for _ in range(settings.repeats)]
        yield ratio_row(
            "stack",
            "model-steps a second, a process of one thread for each core",
            "one at a time",
            [ours / theirs for ours, theirs in pairs],
            details={"model_steps_a_second": pairs},
        )
