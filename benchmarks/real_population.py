"""The intervals of real-valued metrics against the truth: a trained model on many examples is the population.

    python -m benchmarks.real_population [--out docs/results/statistics-real-population.json]

The two-layer model of benchmarks.induction is trained, and every head set to zero on 20,000 examples, which gives the
true mean differences of next-token loss and of KL divergence. Then samples are drawn with replacement, and the 95 %
interval of each is compared with the true mean: how often it covers it, and how often each end misses it, which is the
false-positive rate of the one-sided test at 2.5 %.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

import headway as hw
from benchmarks.induction import HEADS, LAYERS, AttentionOnly, draw, train
from benchmarks.machine import circumstances
from headway.attached_analysis.attached_runs import AttachedRuns
from headway.attached_analysis.examples import read_data
from headway.attached_analysis.metrics import find_metric
from headway.randomness import generator
from headway.statistics import moments_of, values_interval

METRICS = ("next_token_loss", "kl")


def differences(model: AttentionOnly, metric: str, examples: int) -> np.ndarray:
    """How much the metric of each example changes without each head, `head example`."""
    ids, _ = draw(examples, torch.Generator().manual_seed(1_000))
    runs = AttachedRuns(hw.attach(model, kind="decoder"), read_data({"input_ids": ids}), find_metric(metric))
    heads = LAYERS * HEADS
    masks = np.concatenate([np.zeros((1, heads), dtype=np.int64), np.eye(heads, dtype=np.int64)])
    values = runs.run(masks).values
    return np.asarray(values[:1] - values[1:])


def check(population: np.ndarray, size: int, samples: int, random: np.random.Generator) -> dict[str, Any]:
    """One population of differences: coverage of the interval, and how often each end misses."""
    truth = float(population.mean())
    drawn = random.choice(population, (samples, size))
    low, high = values_interval(moments_of(drawn))
    above, below = float((low > truth).mean()), float((high < truth).mean())
    skewness = float(moments_of(population).skewness)
    return {"n": size, "coverage": 1 - above - below, "above": above, "below": below, "skewness": skewness}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--samples", type=int, default=4_000)
    parser.add_argument("--steps", type=int, default=2_500)
    parser.add_argument("--out", type=Path, default=Path("docs/results/statistics-real-population.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, accuracy, steps = train(0, options.steps)
    random, rows = generator(0, "real population"), []
    for metric in METRICS:
        for head, population in enumerate(differences(model.eval(), metric, options.examples)):
            for size in (50, 200, 1_000):
                rows.append({"metric": metric, "head": head, **check(population, size, options.samples, random)})
    about = circumstances(torch.device("cpu"), ["python", "-m", "benchmarks.real_population", *sys.argv[1:]], None)
    told = {"accuracy": accuracy, "steps": steps, "population": options.examples, "samples": options.samples}
    options.out.write_text(json.dumps({**about, **told, "rows": rows}, indent=1) + "\n")
    for metric in METRICS:
        for size in (50, 200, 1_000):
            some = [row for row in rows if row["metric"] == metric and row["n"] == size]
            covered = [row["coverage"] for row in some]
            ends = max(max(row["above"], row["below"]) for row in some)
            print(f"| {metric} | {size} | {np.mean(covered):.1%} | {min(covered):.1%} | {ends:.1%} |")


if __name__ == "__main__":
    main()
