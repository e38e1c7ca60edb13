"""Every recipe trains: a few steps at toy size, with the shape, layers and heads that it names."""

from pathlib import Path

import pytest

from headway.api import find_recipe, read_recipe, train
from headway.batches import make_model
from headway.tasks import make_task

RECIPES = sorted(path.stem for path in find_recipe("addition").parent.glob("*.toml"))
TOY = {
    "model.d_model": 16,
    "model.d_head": 4,
    "model.d_ff": 16,
    "data.train": 64,
    "data.validation": 16,
    "data.test": 16,
    "train.steps": 2,
    "train.batch_size": 16,
    "train.validate_every": 2,
}


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_trains(name: str, tmp_path: Path) -> None:
    assert train(name, set=TOY, out=tmp_path / "run").steps == 2


@pytest.mark.parametrize(
    ("name", "heads"),
    [("addition-four-heads", 4), ("addition-text-eight-heads", 8), ("addition-text-deep", 40), ("addition-deep", 40)],
)
def test_a_report_s_model_has_as_many_heads_as_the_report_counts(name: str, heads: int) -> None:
    recipe = read_recipe(name, set=[f"{key}={value}" for key, value in TOY.items()])[1]
    model = make_model(make_task(recipe.task), recipe.model)
    assert sum(len(site.heads) for site in model.sites) == heads
