"""Memory of one pass over a long sequence, against attention that is stored.

python -m benchmarks.memory fast 4096       the most memory that a process of its own needs, in bytes
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.measuring import Row, Settings, ratio_row
from headway.batches import make_batch, make_model, pick_device
from headway.config import Choice, ModelConfig
from headway.randomness import generator
from headway.tasks import make_task

WAYS = ("fast", "stored")


def one_pass(way: str, length: int, device: torch.device) -> int:
    """Bytes that a pass over one sequence needs on top of the model and the sequence."""
    task = make_task(Choice(name="sortedness", options={"min_length": length, "max_length": length}))
    config = ModelConfig(shape="encoder", encoder_layers=4, pooling=Choice(name="max"))
    model = make_model(task, config).to(device).eval()
    batch = make_batch(task, model, task.draw(generator(0, "memory"), 1), device)
    before = start_watching(device)
    with torch.inference_mode():
        model(batch.inputs, {} if way == "stored" else None)
    return most_in_use(device) - before


def start_watching(device: torch.device) -> int:
    """Forget the most memory so far; the bytes in use now."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the high-water mark starts again
    return process_bytes("VmRSS")


def most_in_use(device: torch.device) -> int:
    """The most bytes since: of the GPU's memory, or of the process."""
    return torch.cuda.max_memory_allocated() if device.type == "cuda" else process_bytes("VmHWM")


def process_bytes(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return 1_024 * int(found[1])


def in_a_process(way: str, length: int, device: torch.device) -> int:
    """The same in a new process: the most memory of an old one never falls."""
    command = [sys.executable, "-m", "benchmarks.memory", way, str(length), device.type]
    root = Path(__file__).parents[1]
    return int(json.loads(subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout))


def memory(settings: Settings) -> Iterator[Row]:
    """A pass over one long sequence that stores no attention, against one that stores it."""
    length = settings.pick(512, 4_096, 4_096)
    needed = {way: [in_a_process(way, length, settings.device) for _ in range(settings.repeats)] for way in WAYS}
    ratios = [theirs / max(ours, 1) for ours, theirs in zip(needed["fast"], needed["stored"], strict=True)]
    yield ratio_row(
        "memory",
        f"memory of a pass over {length:,} tokens (4 layers, 4 heads, d_model 128)",
        "the same with attention stored",
        ratios,
        note="a process for each",
        details={"bytes": needed, "tokens": length},
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(one_pass(sys.argv[1], int(sys.argv[2]), pick_device(sys.argv[3]))))
