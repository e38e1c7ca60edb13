"""All single-head zero ablations of a GPT-2: hw.heads' passes with shared layers against a hook and a full pass each.

    python -m benchmarks.any_model [--sizes small,tiny,12x4x64] [--device cuda] [--bridge] [--no-memory] [--out FILE]

A size is a name, or layers x heads x d_model. All sides compute the logit difference of two answers after the last
token of 500 sequences of 64 tokens, and logits at that position alone. The hook has its best batch size. `--bridge`
adds a loop over `run_with_hooks` of TransformerLens' TransformerBridge, at its best batch size too. Results must be
equal. Sides are measured in turns; on a CPU in seconds of the process with one thread, which other processes disturb
less than the wall clock. Writes any-model-*.json to benchmarks/results.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.machine import circumstances, machine_name
from benchmarks.measuring import in_turns, synchronise
from benchmarks.memory import most_in_use, start_watching
from headway.attached_analysis.attached_runs import AttachedRuns
from headway.attached_analysis.examples import ModelExamples, read_data
from headway.attached_analysis.metrics import find_metric
from headway.attachment.attached import attach
from headway.batches import pick_device
from headway.errors import InputError

LENGTH, VOCABULARY = 64, 50_257
SIZES: dict[str, dict[str, int]] = {
    "small": {"n_layer": 12, "n_head": 12, "n_embd": 768},
    "half": {"n_layer": 8, "n_head": 8, "n_embd": 256},
    "tiny": {"n_layer": 4, "n_head": 8, "n_embd": 128},
    "shallow": {"n_layer": 2, "n_head": 4, "n_embd": 128},
}
"""`small` is GPT-2 small; `tiny` is where launches dominate on a GPU."""
NUMBERS = re.compile(r"(\d+)x(\d+)x(\d+)")
Loop = Callable[[int, int | None], np.ndarray]
"""Batch size, and how many heads (None for all) -> the mean logit difference without each."""
BATCHES = {"cpu": (16, 64, 250), "cuda": (64, 250, 500)}
LEAST = {"small": 1.65, "half": 1.65, "tiny": 4.0}


def numbers_of(size: str) -> dict[str, int]:
    """Layers, heads and d_model of a size."""
    if size in SIZES:
        return SIZES[size]
    match = NUMBERS.fullmatch(size)
    if match is None:
        raise InputError(f"no size {size!r}; {', '.join(SIZES)}, or layers x heads x d_model such as 12x4x64")
    return dict(zip(("n_layer", "n_head", "n_embd"), map(int, match.groups()), strict=True))


def make(size: str, device: torch.device) -> nn.Module:
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=LENGTH, **numbers_of(size))
    model: nn.Module = transformers.GPT2LMHeadModel(config).to(device).eval()
    return model


def data(sequences: int, device: torch.device) -> ModelExamples:
    random = torch.Generator().manual_seed(1)
    drawn = torch.randint(0, VOCABULARY, (sequences, LENGTH + 2), generator=random).to(device)
    return read_data({"input_ids": drawn[:, :LENGTH], "answer": drawn[:, LENGTH], "other": drawn[:, LENGTH + 1]})


def shared(runs: AttachedRuns, heads: int) -> np.ndarray:
    """The mean logit difference without each head, by headway."""
    return runs.run(np.eye(heads, dtype=np.int64)).values.mean(1) * runs.scale


@torch.no_grad()
def plain(model: Any, examples: ModelExamples, batch: int, heads: int | None = None) -> np.ndarray:
    """The same by a hook on the output projection and a full pass for each head."""
    found = []
    width = model.config.n_embd // model.config.n_head
    every = [(layer, head) for layer in model.transformer.h for head in range(model.config.n_head)]
    for layer, head in every[:heads]:
        handle = layer.attn.c_proj.register_forward_pre_hook(without(head * width, width))
        found.append(
            float(torch.cat([difference(model, examples, at, batch) for at in starts(examples, batch)]).mean())
        )
        handle.remove()
    return np.array(found)


def starts(examples: ModelExamples, batch: int) -> range:
    return range(0, len(examples), batch)


def difference(model: Any, examples: ModelExamples, start: int, batch: int) -> Tensor:
    rows = slice(start, start + batch)
    logits = model(examples.columns["input_ids"][rows], logits_to_keep=1, use_cache=False).logits[:, -1]
    answer, other = (examples.columns[name][rows, None] for name in ("answer", "other"))
    return (logits.gather(1, answer) - logits.gather(1, other))[:, 0]


def without(start: int, width: int) -> Callable[[nn.Module, Any], Any]:
    def hook(module: nn.Module, arguments: Any) -> Any:
        changed = arguments[0].clone()
        changed[..., start : start + width] = 0
        return (changed, *arguments[1:])

    return hook


def bridge_of(size: str, device: torch.device) -> Any:
    """The same model inside TransformerBridge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it imports uses names that other packages retired
        from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

        model = make(size, device)
        return build_bridge_from_module(model, "GPT2LMHeadModel", hf_config=model.config).eval()


@torch.no_grad()
def bridged(bridge: Any, examples: ModelExamples, batch: int, heads: int | None = None) -> np.ndarray:
    """The same by run_with_hooks of a TransformerBridge for each head."""
    config = bridge.cfg
    every = [(layer, head) for layer in range(config.n_layers) for head in range(config.n_heads)]
    answer, other = (examples.columns[name][:, None] for name in ("answer", "other"))
    found = []
    for layer, head in every[:heads]:
        hooks = [(f"blocks.{layer}.attn.hook_z", without_slot(head))]
        parts = []
        for start in starts(examples, batch):
            ids = examples.columns["input_ids"][start : start + batch]
            parts.append(bridge.run_with_hooks(ids, return_type="logits", fwd_hooks=hooks, logits_to_keep=1)[:, -1])
        logits = torch.cat(parts)
        found.append(float((logits.gather(1, answer) - logits.gather(1, other)).mean()))
    return np.array(found)


def without_slot(head: int) -> Callable[..., Tensor]:
    def hook(z: Tensor, hook: Any) -> Tensor:
        changed = z.clone()
        changed[:, :, head] = 0
        return changed

    return hook


def best_batch(loop: Loop, device: torch.device) -> int:
    """The batch size at which a full pass with a hook is fastest."""
    times = {}
    for batch in BATCHES[device.type]:
        loop(batch, 1)
        synchronise(device)
        start = time.perf_counter()
        loop(batch, 2)
        synchronise(device)
        times[batch] = time.perf_counter() - start
    return min(times, key=times.__getitem__)


def by_operations(size: str) -> float:
    """The ratio that matrix products give, if the pass of a head begins at its layer."""
    numbers = numbers_of(size)
    layers, width = numbers["n_layer"], numbers["n_embd"]
    layer = LENGTH * (24 * width**2 + 4 * LENGTH * width)
    logits = 2 * width * VOCABULARY
    return (layers * layer + logits) / ((layers + 1) / 2 * layer + logits)


def loops_of(size: str, device: torch.device, examples: ModelExamples, *, bridge: bool) -> dict[str, Loop]:
    """The sides that compute every pass in full."""
    model = make(size, device)
    found: dict[str, Loop] = {"hook": lambda batch, heads: plain(model, examples, batch, heads)}
    if bridge:
        wrapped = bridge_of(size, device)
        found["bridge"] = lambda batch, heads: bridged(wrapped, examples, batch, heads)
    return found


def shared_of(size: str, device: torch.device, examples: ModelExamples) -> Callable[[], np.ndarray]:
    """headway's side."""
    runs = AttachedRuns(attach(make(size, device)), examples, find_metric("logit_difference"), scale=1.0)
    numbers = numbers_of(size)
    return lambda: shared(runs, numbers["n_layer"] * numbers["n_head"])


def compare(
    size: str, sequences: int, repeats: int, device: torch.device, *, bridge: bool, memory: bool
) -> dict[str, Any]:
    """One size: ratios of sides measured in turns, the largest difference of the results, and memory."""
    examples = data(sequences, device)
    ours, loops = shared_of(size, device, examples), loops_of(size, device, examples, bridge=bridge)
    batches = {side: best_batch(loop, device) for side, loop in loops.items()}
    results: dict[str, np.ndarray] = {}

    def keeping(side: str) -> Callable[[], object]:
        return lambda: results.__setitem__(side, ours() if side == "shared" else loops[side](batches[side], None))

    sides = ["shared", *loops]
    load = os.getloadavg()[0]
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    start = time.perf_counter()
    times = in_turns([keeping(side) for side in sides], repeats, device, clock)
    wall, used = time.perf_counter() - start, sum(map(sum, times))
    row: dict[str, Any] = {
        "size": size,
        **numbers_of(size),
        "heads": len(results["shared"]),
        "sequences": sequences,
        "by_operations": by_operations(size),
        "seconds": [turn[0] for turn in times],
        "largest_drop": float(np.abs(results["shared"] - results["shared"].mean()).max()),
        "load_before_and_after": [load, os.getloadavg()[0]],
        "share_of_a_core": used / wall if device.type == "cpu" else None,
    }
    for place, side in enumerate(sides[1:], 1):
        ratios = sorted(turn[place] / turn[0] for turn in times)
        name = "" if side == "hook" else f"{side}_"
        row |= {
            f"{side}_batch": batches[side],
            f"{side}_seconds": [turn[place] for turn in times],
            f"{name}ratios": ratios,
            f"{name}ratio": float(np.median(ratios)),
            f"{name}apart": float(np.abs(results["shared"] - results[side]).max()),
        }
    if memory:
        row["peak_bytes"] = {side: peak_of(size, sequences, side, batches.get(side, 0), device) for side in sides}
    return row


def peak_of(size: str, sequences: int, side: str, batch: int, device: torch.device) -> int:
    """The most memory of one side on top of the model; on a CPU in a process of its own."""
    if device.type == "cuda":
        return measure_peak(size, sequences, side, batch, device)
    wanted = json.dumps([size, sequences, side, batch])
    command = [sys.executable, "-m", "benchmarks.any_model", "--peak", wanted]
    root = Path(__file__).parents[1]
    return int(subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout)


def measure_peak(size: str, sequences: int, side: str, batch: int, device: torch.device) -> int:
    examples = data(sequences, device)
    work = shared_of(size, device, examples)
    if side != "shared":
        loop = loops_of(size, device, examples, bridge=side == "bridge")[side]
        work = lambda: loop(batch, 2)  # noqa: E731
    before = start_watching(device)
    work()
    return most_in_use(device) - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="half,shallow")
    parser.add_argument("--sequences", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--bridge", action="store_true")
    parser.add_argument("--memory", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--commit")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.peak:
        size, sequences, side, batch = json.loads(options.peak)
        print(measure_peak(size, sequences, side, batch, torch.device("cpu")))
        return
    device = pick_device(options.device)
    out = options.out or Path("benchmarks/results") / f"any-model-{machine_name(device)}.json"
    about = circumstances(device, ["python", "-m", "benchmarks.any_model", *sys.argv[1:]], options.commit)
    rows: list[dict[str, Any]] = []
    for size in options.sizes.split(","):
        row = compare(size, options.sequences, options.repeats, device, bridge=options.bridge, memory=options.memory)
        rows.append(row)
        print(
            f"{size}: {row['heads']} heads, {row['ratio']:.2f} times a hook at batch {row['hook_batch']} "
            f"({min(row['seconds']):.2f} s against {min(row['hook_seconds']):.2f} s), apart {row['apart']:.2g}"
            + (f", {row['bridge_ratio']:.2f} times a bridge" if options.bridge else ""),
            flush=True,
        )
        out.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
