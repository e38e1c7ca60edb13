"""Zero ablation of every head: headway's sweep against the plain way, side by side in one run.

    python benchmarks/heads.py [RUN] [--examples 500] [--repeats 3]

Without a run, the addition recipe is trained for six passes first, which takes a minute or less.

The plain way is what a careful script does: a forward hook that zeroes one head, a full greedy decode without kept
keys (the source encoded once), batches of 64, one head at a time. The same with one parallel pass instead of decoding
stands beside it. All three must find the same accuracy for every head, and the ratio of times is printed.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

import headway as hw
from headway.batches import make_batch
from headway.evaluation import Trained, load
from headway.heads.variants import heads_of, run_variants, zero
from headway.model.sites import Head
from headway.model.transformer import Inputs
from headway.tasks import Examples

BATCH = 64


def sweep(trained: Trained, examples: Examples) -> list[float]:
    """headway's way: one walk that branches where variants part."""
    plan = np.eye(len(heads_of(trained)), dtype=np.int64)
    return run_variants(trained, examples, plan, [zero]).accuracy.tolist()


def plain(trained: Trained, examples: Examples, accuracy: Callable[[Trained, Examples], float]) -> list[float]:
    """One head at a time, by a hook on the input of its output projection."""
    found = []
    for head in heads_of(trained):
        handle = hook(trained, head)
        found.append(accuracy(trained, examples))
        handle.remove()
    return found


def hook(trained: Trained, head: Head) -> torch.utils.hooks.RemovableHandle:
    stack, layer, looks = head.site.split(".")
    attention = getattr(getattr(trained.model, stack)[int(layer)], "cross" if looks == "cross" else "own")
    start = head.index * attention.d_head

    def switch_off(module: torch.nn.Module, arguments: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        mixed = arguments[0].clone()
        mixed[:, :, start : start + attention.d_head] = 0
        return (mixed,)

    return attention.output.register_forward_pre_hook(switch_off)


def batches(trained: Trained, examples: Examples):  # type: ignore[no-untyped-def]
    for start in range(0, len(examples), BATCH):
        yield make_batch(trained.task, trained.model, examples.take(slice(start, start + BATCH)), trained.device)


@torch.inference_mode()
def by_decoding(trained: Trained, examples: Examples) -> float:
    """Whole answers written token by token; the source is read once, the prefix again at every step."""
    right = 0
    for batch in batches(trained, examples):
        model, task, inputs = trained.model, trained.task, batch.inputs
        prefix = inputs.source.new_full((len(inputs.source), 1), task.vocabulary.bos)
        memory = None
        for _ in range(batch.target.shape[1]):
            source_positions, prefix_positions = task.positions(model.encoding.position_kind, inputs.source, prefix)
            now = model.placed(Inputs(inputs.source, source_positions, inputs.source_visible, prefix, prefix_positions))
            memory = model.begin(now) if memory is None else memory
            token = model.decode(memory, now)[:, -1].argmax(-1)
            prefix = torch.cat([prefix, token[:, None]], dim=1)
        right += int(task.correct(prefix[:, 1:], batch.target).sum())
    return right / len(examples)


@torch.inference_mode()
def by_one_pass(trained: Trained, examples: Examples) -> float:
    right = 0
    for batch in batches(trained, examples):
        right += int(trained.task.correct(trained.model(batch.inputs).argmax(-1), batch.target).sum())
    return right / len(examples)


def seconds(work: Callable[[], list[float]]) -> tuple[float, list[float]]:
    start = time.perf_counter()
    found = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start, found


def compare(trained: Trained, examples: Examples, repeats: int) -> dict[str, object]:
    """Ratios of times, plain over sweep, from alternating runs; raises unless all accuracies are identical."""
    others = {
        "hook and greedy decode": partial(plain, trained, examples, by_decoding),
        "hook and one parallel pass": partial(plain, trained, examples, by_one_pass),
    }
    sweep(trained, examples.take(slice(0, BATCH)))  # warm up
    ratios: dict[str, list[float]] = {name: [] for name in others}
    for _ in range(repeats):
        for name, work in others.items():
            ours, found = seconds(partial(sweep, trained, examples))
            theirs, expected = seconds(work)
            if found != expected:
                raise SystemExit(f"{name} finds other accuracies than the sweep: {expected} and {found}")
            ratios[name].append(theirs / ours)
    return {
        "run": str(trained.directory.path),
        "heads": len(heads_of(trained)),
        "examples": len(examples),
        "device": trained.device.type,
        "threads": torch.get_num_threads(),
        "repeats": repeats,
        "identical_accuracies": True,
        "ratios": {name: {"median": statistics.median(r), "all": sorted(r)} for name, r in ratios.items()},
    }


def half_trained() -> Trained:
    """The addition model after a short training: some heads matter already."""
    with tempfile.TemporaryDirectory() as folder:
        result = hw.train("addition", set={"train.epochs": 6}, out=f"{folder}/run")
        return load(result.run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", nargs="?")
    parser.add_argument("--examples", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    trained = load(options.run) if options.run else half_trained()
    found = compare(trained, trained.examples("test").take(slice(0, options.examples)), options.repeats)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    print(f"zero ablation of {found['heads']} heads on {found['examples']} examples, identical accuracies")
    for name, row in found["ratios"].items():  # type: ignore[attr-defined]
        print(f"{name:32} takes {row['median']:5.2f} times as long ({row['all'][0]:.2f} to {row['all'][-1]:.2f})")


if __name__ == "__main__":
    main()
