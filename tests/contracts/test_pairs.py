"""Every encoding with every pooling trains for 3 steps and is evaluated far past its training length."""

import math
from itertools import product
from pathlib import Path

import pytest

from headway.config import RunConfig, build
from headway.errors import InputError
from headway.evaluation import evaluate_examples, load
from headway.model.encodings import ENCODINGS
from headway.model.poolings import POOLINGS
from headway.tasks.splits import fixed_split
from headway.training import train


def config_of(encoding: str, pooling: str) -> RunConfig:
    table = {
        "task": {"name": "sortedness", "min_length": 4, "max_length": 6, "values": 20},
        "data": {"train": 64, "validation": 8, "test": 8},
        "model": {
            "shape": "encoder", "d_model": 12, "n_heads": 2, "d_ff": 10, "encoder_layers": 1,
            "encoding": encoding, "pooling": pooling,
        },
        "train": {"steps": 3, "batch_size": 8, "validate_every": 3, "lr": 0.01},
    }  # fmt: skip
    return build(RunConfig, table, "")


@pytest.mark.parametrize(("encoding", "pooling"), list(product(ENCODINGS.names(), POOLINGS.names())))
def test_the_pair_trains_and_is_evaluated_at_length_256(encoding: str, pooling: str, tmp_path: Path) -> None:
    if ENCODINGS.get(encoding).position_kind != "index":
        with pytest.raises(InputError, match=f"task 'sortedness' has no {encoding} positions; it has: index"):
            train(config_of(encoding, pooling), tmp_path / "run", device="cpu")
        return
    result = train(config_of(encoding, pooling), tmp_path / "run", device="cpu")
    assert result.steps == 3
    trained = load(tmp_path / "run", checkpoint="last", device="cpu")
    longer = trained.task.at_length(256)
    examples = fixed_split(longer, "test", 8, 641)
    assert examples.source.shape == (8, 256)
    found = evaluate_examples(trained, "256", iter([examples]), 8)
    assert math.isfinite(found.loss)
    assert found.n == 8
