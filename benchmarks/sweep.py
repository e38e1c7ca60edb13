"""What a sweep costs beside its trials: many trials that do almost nothing, and how long listing and comparing take.

python benchmarks/sweep.py [--trials 2000] [--workers 2]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECIPE = """
[task]
name = "addition"
digits = 2
[data]
train = 64
validation = 16
test = 16
[model]
d_model = 8
n_heads = 2
d_ff = 16
encoder_layers = 1
decoder_layers = 1
[train]
steps = 1
batch_size = 8
"""


def timed(folder: Path, *words: str) -> float:
    """Seconds of a command, from the start of its process to the end."""
    started = time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, "-m", "headway", *words], cwd=folder, check=True, capture_output=True, env=environment
    )
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=2_000)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    n, workers = arguments.trials, arguments.workers
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tiny.toml").write_text(RECIPE)
        seeds = f"0-{n // 2 - 1}"
        wall = timed(
            folder, "sweep", "tiny.toml", "--vary", "train.lr=0.01,0.02", "--seeds", seeds, "--workers", str(workers)
        )
        lines = (folder / "sweeps" / "tiny" / "results.jsonl").read_text().splitlines()
        own = sum(json.loads(line)["seconds"] for line in lines)
        listing, comparing = timed(folder, "runs", "sweeps/tiny/trials"), timed(folder, "compare", "tiny")
    print(f"{len(lines):,} trials, {workers} workers: {wall:.1f} s, {1e3 * wall / len(lines):.1f} ms each")
    print(f"a trial's own time {1e3 * own / len(lines):.1f} ms, {workers} at a time")
    print(f"beside it {1e3 * (wall - own / workers) / len(lines):.1f} ms a trial, start included")
    print(f"headway runs {listing:.2f} s, headway compare {comparing:.2f} s")


if __name__ == "__main__":
    main()
