"""Intervals of a real-valued metric on the examples of a model, drawn again and again; the long version is a table."""

import numpy as np
import torch
from benchmarks.induction import AttentionOnly
from benchmarks.real_population import check, differences


def test_the_interval_covers_the_mean_of_a_models_differences() -> None:
    torch.manual_seed(3)
    random = np.random.default_rng(3)
    for population in differences(AttentionOnly().eval(), "next_token_loss", 500)[::3]:
        found = check(population, 60, 600, random)
        # 600 draws: a true 95 % is seen as at least 92 % in 999 of 1,000.
        assert population.std() > 0 and found["coverage"] > 0.92
        assert abs(found["coverage"] + found["above"] + found["below"] - 1) < 1e-12
