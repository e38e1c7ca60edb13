"""Weights kept over training, alone and in a stack, and the analysis of them."""

import shutil
from pathlib import Path

import pytest
import torch

from headway.config import RunConfig
from headway.errors import InputError
from headway.evaluation import load
from headway.head_analysis.over_training import heads_over_training, keep_over_training
from headway.results.over_training import OverTraining
from headway.runs import RunDirectory
from headway.training import train, train_stack
from tests.results.over_training import made_up
from tests.tiny import ADDITION, config

EVERY = 5
KEPT = [0, 5, 10, 15, 20]
TABLES = {"task": {"digits": 2, "leading_zeros": False}, "data": {"train": 60, "test": 30}}


def kept_config(seed: int = 0) -> RunConfig:
    return config(ADDITION, seed, train={"keep_every": EVERY}, **TABLES)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("kept") / "one"
    train(kept_config(), place, device="cpu")
    return place


def test_weights_are_kept_at_every_nth_step_besides_the_checkpoints(run: Path) -> None:
    directory = RunDirectory(run)
    assert directory.kept_steps() == KEPT
    assert directory.checkpoint_steps()[-1] == 24
    assert {path.name for path in directory.kept_path(10).iterdir()} == {"model.safetensors", "MANIFEST"}
    first = directory.read_checkpoint(0).model
    assert all(torch.equal(x, first[name]) for name, x in directory.read_kept(0).items())


def test_a_resumed_run_keeps_the_same_weights(run: Path, tmp_path: Path) -> None:
    place = tmp_path / "stopped"
    train(kept_config(), place, device="cpu", until=12)
    assert RunDirectory(place).kept_steps() == [0, 5, 10]
    # A killed process may have kept weights after its last checkpoint; these are written again.
    shutil.copytree(RunDirectory(run).kept_path(20), RunDirectory(place).kept_path(15))
    (place / "kept" / "writing-step-000020").mkdir()
    train(kept_config(), place, device="cpu", resume=True)
    assert RunDirectory(place).kept_steps() == KEPT
    assert not list(place.glob("kept/writing-*"))
    for step in KEPT:
        one, other = (RunDirectory(each).kept_path(step) / "MANIFEST" for each in (run, place))
        assert one.read_text() == other.read_text()


def test_a_stack_keeps_the_weights_of_each_seed(run: Path, tmp_path: Path) -> None:
    places = [tmp_path / "a", tmp_path / "b"]
    train_stack([kept_config(0), kept_config(1)], places, device="cpu")
    for place in places:
        assert RunDirectory(place).kept_steps() == KEPT
    alone, stacked = RunDirectory(run).read_kept(5), RunDirectory(places[0]).read_kept(5)
    for name, weights in alone.items():
        if "key.bias" not in name:  # no output depends on it, so it diverges freely
            torch.testing.assert_close(stacked[name], weights, atol=1e-3, rtol=0)
    start, other = (RunDirectory(place).read_kept(0)["readout.weight"] for place in places)
    assert not torch.equal(start, other)


def test_heads_over_training_measures_every_kept_step_and_the_last(run: Path) -> None:
    last = load(run, checkpoint="last", device="cpu")
    before = {name: x.clone() for name, x in last.model.state_dict().items()}
    found = keep_over_training(last, heads_over_training(last, examples=30, pairs=12))
    assert [one.step for one in found.steps] == [*KEPT, 24]
    assert found.heads == tuple(
        f"{site}.h{index}" for site in ("enc0.self", "dec0.self", "dec0.cross") for index in (0, 1)
    )
    assert found.subject == "carry"
    assert last.directory.read_result(OverTraining, "over_training") == found
    assert all(torch.equal(x, before[name]) for name, x in last.model.state_dict().items())
    for one in found.steps:
        for contrast in one.contrasts:
            # With all of cross-attention patched, the source's sum is all that the decoder sees of any sum.
            everything = found.groups.index("all cross")
            assert contrast.moved[everything] == pytest.approx(contrast.difference, abs=1e-3)
            assert all(flips <= contrast.usable for flips in contrast.flips)


def test_the_step_of_the_jump_and_of_a_head() -> None:
    found = made_up(accuracies=[0.0, 0.6, 0.2, 0.7, 1.0], drops=[0, 0, 0, 10, 40], steps=[0, 10, 20, 30, 40])
    assert found.jump == 30
    assert found.formed(found.drops_of("dec0.cross.h0")) == 40
    assert found.formed([None, 0.1, 0.6, 0.6, 1.0]) == 20
    assert found.formed([0.5, 0.5, 0.5, 0.5, 0.0]) is None


def test_a_run_that_kept_nothing_says_how_to_keep(tmp_path: Path) -> None:
    train(config(ADDITION), tmp_path / "run", device="cpu", until=2)
    with pytest.raises(InputError, match=r"kept no weights of its training; headway train RECIPE --keep-every N"):
        heads_over_training(tmp_path / "run")


def test_damaged_kept_weights_are_named(run: Path, tmp_path: Path) -> None:
    place = tmp_path / "damaged"
    shutil.copytree(run, place)
    (RunDirectory(place).kept_path(10) / "model.safetensors").write_bytes(b"x")
    with pytest.raises(InputError, match=r"kept step-000010 is damaged: model.safetensors does not match"):
        heads_over_training(place, examples=30, pairs=12)
