"""All single-head zero ablations of a GPT-2: hw.heads' passes with shared layers against a hook and a full pass each.

    python -m benchmarks.any_model [--sizes small,tiny] [--device cuda] [--out FILE]

Both sides compute the logit difference of two answers after the last token of 500 sequences of 64 tokens, and logits
at that position alone. The hook has its best batch size. Results must be equal. Writes any-model-*.json to
benchmarks/results.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.machine import circumstances, machine_name
from benchmarks.measuring import alternate, synchronise
from headway.attached_analysis.attached_runs import AttachedRuns
from headway.attached_analysis.examples import ModelExamples, read_data
from headway.attached_analysis.metrics import find_metric
from headway.attachment.attached import attach
from headway.batches import pick_device

LENGTH, VOCABULARY = 64, 50_257
SIZES: dict[str, dict[str, int]] = {
    "small": {"n_layer": 12, "n_head": 12, "n_embd": 768},
    "half": {"n_layer": 8, "n_head": 8, "n_embd": 256},
    "tiny": {"n_layer": 4, "n_head": 8, "n_embd": 128},
    "shallow": {"n_layer": 2, "n_head": 4, "n_embd": 128},
}
"""`small` is GPT-2 small; `tiny` is where launches dominate on a GPU."""
BATCHES = {"cpu": (16, 64, 250), "cuda": (64, 250, 500)}
LEAST = {"small": 1.65, "half": 1.65, "tiny": 4.0}


def make(size: str, device: torch.device) -> nn.Module:
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=LENGTH, **SIZES[size])
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


def best_batch(model: Any, examples: ModelExamples, device: torch.device) -> int:
    """The batch size at which a full pass with a hook is fastest."""
    times = {}
    for batch in BATCHES[device.type]:
        plain(model, examples, batch, heads=1)
        synchronise(device)
        start = time.perf_counter()
        plain(model, examples, batch, heads=2)
        synchronise(device)
        times[batch] = time.perf_counter() - start
    return min(times, key=times.__getitem__)


def compare(size: str, sequences: int, repeats: int, device: torch.device) -> dict[str, Any]:
    """One size: ratio in alternation, the largest difference of the results, and memory on a GPU."""
    model = make(size, device)
    examples = data(sequences, device)
    heads = SIZES[size]["n_layer"] * SIZES[size]["n_head"]
    runs = AttachedRuns(attach(model), examples, find_metric("logit_difference"), scale=1.0)
    batch = best_batch(model, examples, device)
    ours, theirs = shared(runs, heads), plain(model, examples, batch)
    times = alternate(lambda: shared(runs, heads), lambda: plain(model, examples, batch), repeats, device)
    ratios = sorted(other / own for own, other in times)
    return {
        "size": size,
        **SIZES[size],
        "heads": heads,
        "sequences": sequences,
        "hook_batch": batch,
        "seconds": [own for own, _ in times],
        "hook_seconds": [other for _, other in times],
        "ratios": ratios,
        "ratio": float(np.median(ratios)),
        "apart": float(np.abs(ours - theirs).max()),
        "largest_drop": float(np.abs(ours - ours.mean()).max()),
        "peak_bytes": {
            "shared": peak_of(lambda: shared(runs, heads), device),
            "hook": peak_of(lambda: plain(model, examples, batch, heads=2), device),
        },
    }


def peak_of(work: Callable[[], object], device: torch.device) -> int | None:
    if device.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats()
    work()
    return int(torch.cuda.max_memory_allocated())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="half,shallow")
    parser.add_argument("--sequences", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--commit")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = pick_device(options.device)
    rows = []
    for size in options.sizes.split(","):
        rows.append(compare(size, options.sequences, options.repeats, device))
        row = rows[-1]
        print(
            f"{size}: {row['heads']} heads, {row['ratio']:.2f} times a hook at batch {row['hook_batch']} "
            f"({min(row['seconds']):.2f} s against {min(row['hook_seconds']):.2f} s), apart {row['apart']:.2g}",
            flush=True,
        )
    out = options.out or Path("benchmarks/results") / f"any-model-{machine_name(device)}.json"
    document = {
        **circumstances(device, ["python", "-m", "benchmarks.any_model", *sys.argv[1:]], options.commit),
        "rows": rows,
    }
    out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
