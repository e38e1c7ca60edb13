"""What a run's positions are: which rows training moved, what biases are, and the two identities."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headway.batches import make_model
from headway.evaluation import Trained, load
from headway.length_analysis.identities import best_rotation, measure_identities, residual_share, rotation_error
from headway.length_analysis.patterns import PLACES, SIZES, encoding_patterns
from headway.length_analysis.positions import MOST_COMPARED, positions, sinusoid, trained_block
from headway.model.encodings import ENCODINGS
from headway.model.encodings.t5 import T5, T5Options
from headway.results.positions import Positions
from headway.results.schema import read, write
from headway.runs import RunDirectory
from headway.storage import write_json
from headway.training import train
from tests.tiny import SORTEDNESS, config

ODD = 13
"""An odd width: the sinusoid's last sine has no cosine."""


def make_run(folder: Path, encoding: dict[str, Any]) -> Trained:
    settings = config(
        SORTEDNESS,
        task={"min_length": 9, "max_length": 11},
        model={"encoding": encoding},
        train={"steps": 4, "validate_every": 2},
    )
    train(settings, folder, device="cpu")
    return load(folder, checkpoint="last", device="cpu")


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return make_run(tmp_path_factory.mktemp("runs") / "learned", {"name": "learned", "table_size": 17})


def test_rows_that_training_never_reached_have_not_moved(learned: Trained) -> None:
    found = positions(learned)
    assert found.table is not None
    assert found.table.moved is not None
    assert [moved > 0 for moved in found.table.moved] == [True] * 11 + [False] * 6, "lengths 9 to 11 were trained"
    assert found.table.untrained_rows == 6
    assert np.shape(found.table.values) == (17, 12)
    assert found.words == ("6 of 17 rows are as they were at step 0", "a position past row 16 takes that row")
    assert found.biases == ()


def test_findings_survive_being_written(learned: Trained) -> None:
    found = positions(learned)
    assert read(Positions, json.loads(json.dumps(write(found), allow_nan=False)), "lengths.json") == found


def test_identities_are_measured_on_the_trained_rows_and_on_as_many_of_the_sinusoid(learned: Trained) -> None:
    found = positions(learned).identities
    assert list(found) == ["sinusoidal", "learned", "start"]
    assert {(one.rows, one.coordinates) for one in found.values()} == {(11, 12)}
    assert found["sinusoidal"].products.within_share < 1e-20
    assert found["learned"].products.within_share > 0.5


@pytest.mark.parametrize("damage", ["made elsewhere", "gone"])
def test_without_a_step_0_of_its_own_nothing_is_said_of_training(tmp_path: Path, damage: str) -> None:
    run = make_run(tmp_path / "run", {"name": "learned", "table_size": 17})
    if damage == "gone":
        run.directory.checkpoint_path(0).rename(tmp_path / "elsewhere")
    else:
        write_json(run.directory.path / "provenance.json", {**run.directory.provenance(), "made_from": "another"})
    found = positions(run)
    assert found.table is not None
    assert (found.table.moved, found.table.untrained_rows) == (None, None)
    assert list(found.identities) == ["sinusoidal", "learned"]
    assert found.words == ("a position past row 16 takes that row",)


def fresh(learned: Trained, encoding: dict[str, Any]) -> Trained:
    """A run with another encoding that was never trained and has no directory."""
    settings = config(SORTEDNESS, model={"encoding": encoding})
    model = make_model(learned.task, settings.model).eval()
    return Trained(RunDirectory("nowhere"), settings, learned.task, model, 0)


def test_what_becomes_of_positions_past_the_table_is_said(learned: Trained) -> None:
    untrained = positions(fresh(learned, {"name": "learned", "past": "untrained"}))
    assert untrained.words == ("a position past row 4,095 is refused", "the first 256 rows are shown")
    assert untrained.table is not None
    assert (untrained.table.rows, len(untrained.table.values)) == (4096, 256)
    spread = positions(fresh(learned, {"name": "randomized", "over": "learned", "max_position": 100}))
    assert spread.words == ("positions are spread over the 100 rows",)
    few = positions(fresh(learned, {"name": "learned", "table_size": 5}))
    assert few.words[-1] == "the identities need 9 consecutive trained rows; there are fewer"
    assert few.identities == {}


def test_biases_are_what_each_head_adds(learned: Trained) -> None:
    found = positions(fresh(learned, {"name": "alibi"}))
    assert [(bias.kind, bias.head) for bias in found.biases] == [("encoder", 0), ("encoder", 1)]
    for bias, slope in zip(found.biases, (2**-4, 2**-8), strict=True):
        # Four digits are kept.
        assert bias.values == pytest.approx([-slope * abs(one) for one in bias.distances], rel=1e-3)
    flat = positions(fresh(learned, {"name": "clipped"}))
    assert flat.words == ("every bias is 0: attention is as flat as before training",)


@pytest.mark.parametrize("encoding", ["none", "rotary", "one-hot"])
def test_an_encoding_without_anything_learned_has_no_picture_of_its_own(learned: Trained, encoding: str) -> None:
    found = positions(fresh(learned, {"name": encoding}))
    assert (found.table, found.biases, found.identities, found.rotation_error) == (None, (), {}, None)
    assert found.encoding == encoding


def test_a_sinusoidal_run_has_the_sinusoids_identities(learned: Trained) -> None:
    found = positions(fresh(learned, {"name": "sinusoidal"}))
    assert list(found.identities) == ["sinusoidal"]
    assert found.identities["sinusoidal"].rows == MOST_COMPARED
    assert found.rotation_error is not None
    assert found.rotation_error < 1e-12


@pytest.mark.parametrize("d_model", [12, ODD])
def test_the_sinusoid_turns_by_its_own_rotation(d_model: int) -> None:
    rows = sinusoid(60, d_model)
    # Angles up to 60 radians carry an error of about 60 times the 1e-16 of a double.
    assert rotation_error(rows, d_model) < 1e-13
    rows[41, 2] += 1e-6
    assert rotation_error(rows, d_model) == pytest.approx(1e-6, rel=1e-4), "one wrong number is seen"


def test_rows_made_by_a_rotation_leave_nothing_and_random_rows_everything() -> None:
    random = np.random.default_rng(0)
    turn = best_rotation(random.normal(size=(9, 6)), random.normal(size=(9, 6)))
    rows = [random.normal(size=6)]
    for _ in range(39):
        rows.append(rows[-1] @ turn)
    found = measure_identities(np.stack(rows))
    assert [one.shift for one in found.rotations] == [1, 2, 4, 8]
    assert max(one.residual_share for one in found.rotations) < 1e-20
    assert found.products.within_share < 1e-20, "rotations keep dot products"
    unrelated = measure_identities(random.normal(size=(40, 6)))
    assert min(one.residual_share for one in unrelated.rotations) > 0.8
    assert unrelated.products.within_share == pytest.approx(unrelated.products.unrelated, abs=0.05)


def test_a_map_is_never_judged_on_the_rows_it_was_fitted_on() -> None:
    # With more coordinates than rows an orthogonal map fits any pairs of vectors of one length.
    rows = np.random.default_rng(1).normal(size=(14, 40))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    fitted = rows[:-1] @ best_rotation(rows[:-1], rows[1:]) - rows[1:]
    assert (fitted**2).sum() / len(fitted) < 0.6
    assert residual_share(rows, 1) > 1.5


def test_the_residual_share_is_relative_to_the_mean_of_the_rows_that_fit() -> None:
    """Numbers on a line: the only rotations are 1 and -1. With shift 3 every fourth of eleven pairs is held out."""
    rows = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0, 5.0, 8.0, 9.0, 7.0])
    pairs = [(rows[place], rows[place + 3]) for place in range(11)]
    error = spread = 0.0
    for fold in range(4):
        fitted = [after for place, (_, after) in enumerate(pairs) if place % 4 != fold]
        for before, after in pairs[fold::4]:  # the products of all pairs are positive, so that the map is 1
            error += (after - before) ** 2
            spread += (after - sum(fitted) / len(fitted)) ** 2
    assert residual_share(rows[:, None], 3) == pytest.approx(error / spread)


def test_equal_rows_have_both_identities() -> None:
    found = measure_identities(np.ones((12, 3)))
    assert [one.residual_share for one in found.rotations] == [0.0] * len(found.rotations)
    assert found.products.within_share == 0


def test_products_are_gathered_by_distance() -> None:
    rows = np.array([[1.0], [2.0], [4.0]])
    found = measure_identities(rows).products
    assert found.pairs == 3
    assert (found.distances, found.mean, found.low, found.high) == ((1, 2), (5, 4), (2, 4), (8, 4))
    # 2, 8 and 4 lie 56/3 about their mean, and 2 and 8 lie 18 about theirs.
    assert found.within_share == pytest.approx(18 / (56 / 3), rel=1e-3)


def test_the_longest_stretch_of_trained_rows_is_compared() -> None:
    start = np.zeros((200, 2))
    rows = start.copy()
    rows[[3, 4, 10, 11, 12]] = 1
    assert trained_block(rows, start) == slice(10, 13)
    assert trained_block(start, start) == slice(0, 0)
    assert trained_block(rows, None) == slice(0, MOST_COMPARED)


# All encodings


@pytest.fixture(scope="module")
def patterns() -> dict[str, Any]:
    return {one.encoding: one for one in encoding_patterns().patterns}


def test_every_encoding_has_a_picture_by_the_hook_it_uses(patterns: dict[str, Any]) -> None:
    assert tuple(patterns) == ENCODINGS.names()
    hooks = {name: one.hook for name, one in patterns.items()}
    assert [name for name, hook in hooks.items() if hook == "bias"] == ["alibi", "t5", "clipped", "fire"]
    assert [name for name, hook in hooks.items() if hook == "rotate"] == ["rotary"]
    assert [name for name, hook in hooks.items() if hook == "none"] == ["none"]
    for name, one in patterns.items():
        assert len(one.values) == (0 if name == "none" else PLACES), name


def test_pictures_show_what_encodings_do(patterns: dict[str, Any]) -> None:
    row = patterns["sinusoidal"].values[5]
    assert row[:2] == pytest.approx([math.sin(5), math.cos(5)], rel=1e-3)
    turned = patterns["rotary"].values[3]
    assert turned[:2] == pytest.approx([math.cos(3), math.sin(3)], rel=1e-3), "(1, 0) turned by 3"
    place = torch.arange(PLACES)
    buckets = T5(T5Options(), SIZES).bucket(place[None, :] - place[:, None], causal=False)
    assert write(patterns["t5"].values) == buckets.tolist(), "which number each pair uses: they all start at 0"
    assert patterns["alibi"].values[2][5] == -3 * 2**-2


def test_pictures_are_the_same_every_time_and_leave_random_numbers_alone(patterns: dict[str, Any]) -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    again = encoding_patterns()
    assert torch.rand(1) == expected
    assert {one.encoding: one for one in again.patterns} == patterns
    assert write(again.sizes) == {"positions": 64, "d_model": 64, "n_heads": 4, "d_head": 16}
