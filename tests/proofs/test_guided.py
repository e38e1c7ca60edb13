"""Guided training: what goes into the pool, and that a resumed run goes on with the same one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headway.config import RunConfig, build
from headway.errors import InputError
from headway.proofs.open_contexts import OpenContexts
from headway.proofs.prove import open_contexts
from headway.proofs.sortedness import prove
from headway.proofs.sortedness_open import open_descents
from headway.runs import RunDirectory
from headway.tasks.splits import SPLITS, fixed_split, split_of
from headway.training import guided, train
from headway.training.guided import Guide
from tests.proofs.planted import SETTINGS, planted
from tests.proofs.test_sortedness_search import random_table

MODEL = {**SETTINGS["model"], "pooling": {"name": "detector", "detectors": 1, "favours": 0}}
TRAIN = {"steps": 8, "batch_size": 16, "validate_every": 4, "guided": 0.5}


def config(**changes: Any) -> RunConfig:
    tables = {**SETTINGS, "model": MODEL, "train": TRAIN, "data": {**SETTINGS["data"], "fresh": True}}
    return build(RunConfig, {**tables, **changes}, "")


def test_a_proved_model_has_no_open_context_and_a_bad_triple_has_its_own(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    right = planted(tmp_path)
    assert prove(right).answer == "proved"
    assert open_contexts(right, 1.0, random).contexts == 0
    found = open_contexts(planted(tmp_path, bad=(0, 2, 1)), 1.0, random)
    assert found.contexts == 4  # 0 2 1 before 1, 2, 3 or nothing: before 0 there is another descent
    text = [" ".join(map(str, row)) for row in found.examples.source]
    assert all("0 2 1" in one for one in text)
    assert set(found.examples.target.tolist()) == {0}


def test_a_larger_margin_leaves_more_descents_open() -> None:
    table, counts = random_table(3), []
    for margin in (-100.0, -2.0, -0.5, 0.0, 0.5, 2.0, 100.0):
        count, kept = open_descents(table, margin, np.random.default_rng(0))
        assert (count > 0) == (len(kept) > 0) and (kept[:, 1] > kept[:, 2]).all()
        counts.append(count)
    assert counts == sorted(counts) and counts[0] == 0 < counts[-1]


def test_batches_hold_open_contexts_of_the_training_split_alone(tmp_path: Path) -> None:
    wrong = planted(tmp_path, bad=(0, 2, 1))
    settings = replace(wrong.config, train=replace(wrong.config.train, guided=0.5))
    guide = Guide(settings, wrong.task)
    assert guide.look(wrong) == 4
    assert guide.pool is not None and len(guide.pool) > 0
    train_rows = split_of(wrong.task, guide.pool.source, settings.data.seed) == SPLITS.index("train")
    assert train_rows.all()
    drawn = wrong.task.draw(np.random.default_rng(1), 20)
    mixed = guide.mixed(drawn, step=3)
    assert len(mixed) == 20
    pool = {tuple(row) for row in guide.pool.source}
    assert sum(tuple(row) in pool for row in mixed.source[:, : guide.pool.source.shape[1]]) >= 10


def test_up_to_a_third_of_the_pool_is_of_earlier_rounds(tmp_path: Path) -> None:
    """What was learned from earlier contexts is shown again."""
    first = planted(tmp_path, bad=(0, 2, 1))
    guide = Guide(replace(first.config, train=replace(first.config.train, guided=0.5)), first.task)
    guide.look(first)
    assert guide.pool is not None
    before = {tuple(row) for row in guide.pool.source.tolist()}
    guide.look(replace(planted(tmp_path, bad=(3, 1, 0)), step=1))
    rows = [tuple(row[: len(next(iter(before)))]) in before for row in guide.pool.source.tolist()]
    assert 0 < np.mean(rows) <= 1 / 3


@pytest.mark.parametrize(
    ("earlier", "fresh", "most"), [(40, 20, 10), (40, 21, 10.5), (7, 20, 7), (12, 20, 10), (9, 1, 0.5), (9, 0, 0)]
)
def test_a_third_of_the_pool_is_of_earlier_rounds_if_they_have_as_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: int, fresh: int, most: float
) -> None:
    """One part of earlier contexts goes with two of new ones; what is new is never left out."""
    model = planted(tmp_path)
    guide = Guide(replace(model.config, train=replace(model.config.train, guided=0.5)), model.task)
    drawn = fixed_split(model.task, "train", earlier + fresh, model.config.data.seed)
    rounds = [drawn.take(slice(0, earlier)), drawn.take(slice(earlier, None))]
    monkeypatch.setattr(guided, "open_contexts", lambda now, margin, random: OpenContexts(3, rounds.pop(0)))
    guide.look(model)
    guide.look(replace(model, step=1))
    assert guide.pool is not None
    rows = [tuple(row) for row in guide.pool.source.tolist()]
    first, second = drawn.source[:earlier].tolist(), drawn.source[earlier:].tolist()
    kept = len(set(rows) & set(map(tuple, first)))
    assert most - 1 <= kept <= most, "rounded down"
    assert len(rows) == len(set(rows)) == kept + fresh
    assert set(rows) >= set(map(tuple, second))


def test_a_resumed_run_has_the_weights_of_an_uninterrupted_one(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train(config(), whole, device="cpu")
    train(config(), cut, device="cpu", until=6)
    train(config(), cut, device="cpu", resume=True)
    one, other = (RunDirectory(place).newest_checkpoint()[0] for place in (whole, cut))
    assert one is not None and other is not None and one.step == other.step == 8
    assert all(torch.equal(one.model[name], other.model[name]) for name in one.model)
    counts = [row["validation"]["open_contexts"] for row in RunDirectory(whole).metrics() if "validation" in row]
    assert len(counts) == 3 and all(count > 0 for count in counts)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": {**MODEL, "window": 2}}, "model.window = 2"),
        (
            {"task": {"name": "parity"}, "model": {**MODEL, "pooling": {"name": "mean"}}},
            "task 'parity'; for sortedness",
        ),
        ({"model": {**MODEL, "pooling": {"name": "detector", "favours": 2}}}, "model.pooling.favours = 2: .* 0 to 1"),
    ],
)
def test_what_cannot_be_guided_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        train(config(**changes), tmp_path / "run", device="cpu")
