"""The trials of a grid: every combination once, names that stay apart and inside the sweep's directory."""

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.config import Choice
from headway.errors import InputError
from headway.runs import SweepDirectory
from headway.sweeps.plan import LONGEST_NAME, check_plan, parse_vary, plan_grid, split_values, trial_name
from tests.tiny_recipes import write_recipe

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


def test_a_grid_is_every_combination_with_every_seed_in_order(tmp_path: Path) -> None:
    vary = ["model.encoding.name=rotary,alibi", "train.lr=0.01,0.02"]
    plan = plan_grid(write_recipe(tmp_path), ["train.steps=7"], vary, [3, 5])
    expected = list(itertools.product(["rotary", "alibi"], [0.01, 0.02], [3, 5]))
    found = [(t.config.model.encoding.name, t.config.train.lr, t.seed) for t in plan.trials]
    assert found == expected
    assert plan.trials[0].name == "encoding=rotary,lr=0.01,seed=3"
    assert all(trial.config.train.steps == 7 for trial in plan.trials)
    assert plan.to_json() == json.loads(json.dumps(plan.to_json()))


def test_values_from_python_and_from_the_command_line_are_one_plan(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    typed = plan_grid(recipe, [], ["train.lr=0.01,0.02"], [0])
    assert plan_grid(recipe, [], {"train.lr": (0.01, 0.02)}, [0]) == typed


@given(values=st.lists(VALUES, min_size=1, max_size=6), seed=st.integers(0, 2**40))
def test_names_stay_inside_the_sweep_whatever_the_values(values: list[Any], seed: int) -> None:
    settings = {f"a.key{index}": value for index, value in enumerate(values)}
    name = trial_name(settings, seed)
    folder = Path("/sweeps/x")
    assert SweepDirectory(folder).trial(name).path.resolve().parent == folder / "trials"
    assert len(name.encode()) <= LONGEST_NAME
    assert name.isascii()
    assert name.isprintable()
    assert not name.startswith((".", "-"))


@given(
    one=st.tuples(VALUES, VALUES, st.integers(0, 3)),
    other=st.tuples(VALUES, VALUES, st.integers(0, 3)),
)
def test_trials_that_differ_have_names_that_differ(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    names = [trial_name({"a.x": x, "b.y": y}, seed) for x, y, seed in (one, other)]
    assert (names[0] == names[1]) == same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"x": 1, "y": 2}, {"x": "1", "y": 2}),
        ({"x": True, "y": 2}, {"x": "true", "y": 2}),
        ({"x": "1,y=2", "y": "3"}, {"x": "1", "y": "2,y=3"}),
        ({"x": "../..", "y": 0}, {"x": "..-..", "y": 0}),
        ({"x": "a" * 300, "y": 0}, {"x": "a" * 301, "y": 0}),
        ({"x": "ü", "y": 0}, {"x": "é", "y": 0}),
        ({"x": 1, "y": 0}, {"x": 1.0, "y": 0}),
    ],
)
def test_values_that_look_alike_are_kept_apart(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert trial_name(one, 0) != trial_name(other, 0)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a,b", ["a", "b"]),
        ('learned,{name="learned", size=64}', ["learned", '{name="learned", size=64}']),
        ("[1,2],[3]", ["[1,2]", "[3]"]),
        ('"a,b",c', ['"a,b"', "c"]),
    ],
)
def test_commas_inside_brackets_and_quotes_part_nothing(text: str, values: list[str]) -> None:
    assert split_values(text) == values


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        (["train.lr"], "--vary 'train.lr': write it as key.key=value,value, for example train.lr=0.001,0.002"),
        (["train.lr=0.1,"], "--vary 'train.lr=0.1,': write it as"),
        (["=3"], "--vary '=3': write it as"),
        (["train.lr=0.1,0.1"], "--vary train.lr: a value is repeated"),
        ({"train.lr": []}, "--vary train.lr: no value is given"),
        (["train.lr=0.1", "train.lr=0.2"], "--vary: a setting is repeated; list its values after one --vary"),
        (["seed=1,2"], "--vary seed: use --seeds"),
        (["task.digits=2020-01-01"], "--vary task.digits: a value must be a text, a finite number"),
        (["task.digits=nan"], "--vary task.digits: a value must be a text, a finite number"),
        (["train.rate=0.1"], "tiny.toml: unknown key 'train.rate'"),
        (["train.lr=20.0"], "tiny.toml: train.lr = 20.0; more than 0 and at most 10 needed"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(vary: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        plan_grid(write_recipe(tmp_path), [], vary, [0])
    assert message in str(refused.value)


def test_a_sweep_has_at_most_so_many_trials(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the sweep would have 100,001 trials; at most 100,000 are allowed"):
        plan_grid(write_recipe(tmp_path), [], [], range(100_001))


def test_a_value_is_read_as_set_reads_it() -> None:
    found = parse_vary('a.b=1,1.5,true,word,"1",{name="x", size=2}')
    assert found == ("a.b", [1, 1.5, True, "word", "1", {"name": "x", "size": 2}])


@pytest.mark.parametrize(
    ("vary", "split", "message"),
    [
        (
            ["model.encoding.name=rotary,rotry"],
            "test",
            "encoding=rotry,seed=0: unknown encoding 'rotry'; did you mean rotary?",
        ),
        (["task.digit=2"], "test", "digit=2,seed=0: unknown key 'task.digit'; did you mean digits?"),
        (["task.digits=6"], "all", "--split all: the domain of addition is too large to list; use test or validation"),
    ],
)
def test_what_every_trial_would_stumble_over_is_refused_before(
    vary: list[str], split: str, message: str, tmp_path: Path
) -> None:
    plan = plan_grid(write_recipe(tmp_path), [], vary, [0])
    with pytest.raises(InputError) as refused:
        check_plan(replace(plan, split=split))
    assert message in str(refused.value)


def test_an_option_that_is_set_stays_where_its_name_is_varied(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "sortedness")
    plan = plan_grid(recipe, ["model.encoding.table_size=37"], ["model.encoding.name=learned"], [0])
    assert plan.trials[0].config.model.encoding == Choice(name="learned", options={"table_size": 37})


def test_what_is_varied_is_not_set_as_well(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"train\.lr is given twice; once needed, by --set or --vary"):
        plan_grid(write_recipe(tmp_path), ["train.lr=0.5"], ["train.lr=0.1,0.2"], [0])


@pytest.mark.parametrize(
    ("vary", "seeds", "message"),
    [
        (["model.encoding=learned", "model.encoding.name=rotary"], [0], "--vary model.encoding and --vary model.enc"),
        ({"train.lr": 0.001}, [0], "vary train.lr: a list of values needed, got 0.001"),
        ({"train.lr": None}, [0], "vary train.lr: a list of values needed, got None"),
        ([], [0, 0], "--seeds: a seed is repeated"),
        ([], [], "--seeds: at least one seed needed"),
    ],
)
def test_what_cannot_be_meant_is_refused(vary, seeds, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        plan_grid(write_recipe(tmp_path), [], vary, seeds)


def test_the_seed_of_the_data_keeps_its_full_name() -> None:
    assert trial_name({"data.seed": 5}, 1) == "data.seed=5,seed=1"
