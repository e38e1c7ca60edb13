"""Nothing past the training range is looked at before the final measurement, and the measurement chooses nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from headway.cli.main import run as run_command
from headway.evaluation import load
from headway.length_analysis.measure import ON_VALIDATION, measure_lengths
from headway.model.transformer import Inputs, Transformer
from headway.results.lengths import Checkpoint
from headway.runs import RunDirectory
from headway.tasks import Examples
from headway.tasks.sortedness import Sortedness
from headway.training import train
from tests.length_analysis.small_runs import SORTEDNESS
from tests.tiny import config


class Widths:
    """The width of every sequence that a task draws and a model sees."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.drawn: set[int] = set()
        self.seen: set[int] = set()
        draw, forward = Sortedness.draw, Transformer.forward

        def drawing(task: Sortedness, random: np.random.Generator, n: int) -> Examples:
            examples = draw(task, random, n)
            self.drawn.add(examples.source.shape[1])
            return examples

        def passing(model: Transformer, inputs: Inputs, record: dict[str, Tensor] | None = None) -> Any:
            self.seen.add(inputs.source.shape[1])
            return forward(model, inputs, record)

        monkeypatch.setattr(Sortedness, "draw", drawing)
        monkeypatch.setattr(Transformer, "forward", passing)


@pytest.mark.parametrize("fresh", [False, True])
def test_training_and_the_choice_of_a_checkpoint_never_see_a_longer_sequence(
    fresh: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths = Widths(monkeypatch)
    settings = config(SORTEDNESS, data={"fresh": fresh, "seed": 9_001 + fresh}, train={"steps": 6, "lr": 0.05})
    train(settings, tmp_path / "run", device="cpu")
    opened = load(tmp_path / "run", device="cpu")
    assert max(widths.drawn) <= 6 and max(widths.seen) <= 6
    assert 6 in widths.drawn and 6 in widths.seen, "or nothing was watched"
    measure_lengths(opened, at=[11], n=20)
    assert max(widths.drawn) == max(widths.seen) == 11, "the watch would have seen it"


def test_measuring_reads_the_checkpoint_that_validation_chose_and_changes_nothing_about_it(tmp_path: Path) -> None:
    settings = config(SORTEDNESS, train={"steps": 12, "validate_every": 2, "lr": 0.3})
    train(settings, tmp_path / "run", device="cpu")
    directory = RunDirectory(tmp_path / "run")
    losses = {one["step"]: one["validation"]["loss"] for one in directory.metrics() if "validation" in one}
    lowest = min(losses, key=lambda step: losses[step])
    assert lowest < max(losses), "the last checkpoint would be no choice"
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    steps = []
    for _ in range(2):
        assert run_command(["lengths", str(tmp_path / "run"), "--at", "9", "--n", "20", "--quiet", "--no-figures"]) == 0
        document = directory.read_analysis("lengths")
        assert document is not None
        steps.append(document["checkpoint"])
    assert steps == [{"step": lowest, "chosen_on": ON_VALIDATION}] * 2
    assert load(tmp_path / "run", device="cpu").step == lowest
    assert {path: path.read_bytes() for path in before} == before


def test_a_checkpoint_that_validation_did_not_choose_is_not_said_to_be_chosen(tmp_path: Path) -> None:
    settings = config(SORTEDNESS, train={"steps": 12, "validate_every": 2, "lr": 0.3})
    train(settings, tmp_path / "run", device="cpu")
    last = load(tmp_path / "run", checkpoint="last", device="cpu")
    assert measure_lengths(last, at=[9], n=20).checkpoint == Checkpoint(step=12, chosen_on="asked for by step")
