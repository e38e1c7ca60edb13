"""Measuring a length takes memory that grows with the length, not with its square."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headway.batches import make_batch
from headway.errors import InputError
from headway.evaluation import Trained, evaluate_examples
from headway.length_analysis.sets import length_set
from headway.model.encodings import ENCODINGS
from headway.tasks.base import Task
from tests.head_analysis.small import untrained
from tests.length_analysis.small_runs import SORTEDNESS

FOR_DIGITS = {"abacus", "coupled"}

ROOT = Path(__file__).parents[2]


class Largest(TorchDispatchMode):
    """Remembers the most elements that a tensor had which any operation made."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        made = function(*arguments, **(options or {}))
        sizes = (
            leaf.untyped_storage().nbytes() // leaf.element_size() for leaf in tree_leaves(made) if is_tensor(leaf)
        )
        self.elements = max(self.elements, *sizes, 0)
        return made


def is_tensor(leaf: object) -> bool:
    return isinstance(leaf, torch.Tensor)


def largest_tensor(trained: Trained, length: int) -> int:
    """Elements of the largest tensor while a sequence of this length is measured."""
    examples = length_set(trained, "adjacent", length, 2).take(slice(0, 1))
    with Largest() as largest:
        evaluate_examples(trained, "adjacent", iter([examples]), 1)
    return largest.elements


@pytest.mark.parametrize("encoding", [name for name in ENCODINGS.names() if name not in FOR_DIGITS])
def test_the_largest_tensor_grows_linearly_with_the_length(encoding: str) -> None:
    options = {"learned": {"past": "untrained"}, "fire": {"width": 2}}.get(encoding, {})
    model = {"encoding": {"name": encoding, **options}, "d_head": 4, "n_heads": 2, "d_model": 6, "d_ff": 7}
    trained = untrained(SORTEDNESS, model=model)
    shorter, longer = largest_tensor(trained, 2_048), largest_tensor(trained, 4_096)
    assert longer <= 2.2 * shorter, "twice the length, and a little for what does not depend on it"
    assert longer < 4_096**2 * 2, "the scores of one sequence in two heads"


def test_the_watch_sees_an_attention_matrix() -> None:
    trained = untrained(SORTEDNESS)
    examples = length_set(trained, "adjacent", 300, 2)
    batch = make_batch(trained.task, trained.model, examples, trained.device)
    with Largest() as largest, torch.inference_mode():
        trained.model(batch.inputs, record={})
    assert largest.elements >= 2 * 3 * 300**2


def test_positions_that_need_digits_are_refused_for_sortedness() -> None:
    for encoding in FOR_DIGITS:
        with pytest.raises(InputError, match=f"task 'sortedness' has no {encoding} positions"):
            untrained(SORTEDNESS, model={"encoding": {"name": encoding}})


@pytest.mark.parametrize("name", ["swaps", "adjacent", "matched"])
def test_drawing_holds_no_more_than_its_rows(name: str) -> None:
    task: Task = untrained(SORTEDNESS).task.for_lengths(name, 4_096)
    assert task.draw(np.random.default_rng(0), 6).source.shape == (6, 4_096)


PEAK = """
import resource, sys
import torch
torch.set_num_threads(1)
from headway.evaluation import evaluate_examples
from headway.length_analysis.sets import length_set
from tests.head_analysis.small import untrained
from tests.tiny import SORTEDNESS

trained = untrained(SORTEDNESS, model={"encoding": {"name": "t5"}, "encoder_layers": 2, "n_heads": 4, "d_model": 16})
examples = length_set(trained, "adjacent", int(sys.argv[1]), 4)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
evaluate_examples(trained, "peak", iter([examples]), 4)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.long
def test_the_whole_process_grows_with_the_length_too() -> None:
    """No tensor need be large for that: pieces that are kept between temporaries once filled the heap with holes."""

    def megabytes(length: int) -> float:
        command = [sys.executable, "-c", PEAK, str(length)]
        return int(subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout) / 1_024

    assert megabytes(4_096) < 2.2 * max(megabytes(2_048), 30), "and at least what one chunk takes"
