"""A recipe becomes one frozen config, and everything wrong in it is one line that names the key."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from headway.api import read_recipe
from headway.config import (
    Choice,
    DataConfig,
    ModelConfig,
    RunConfig,
    TrainConfig,
    assign,
    build,
    describe_range,
    differences,
    load_recipe,
    options_of,
    parse_assignments,
    read_toml,
    stackable,
    to_table,
    with_options,
)
from headway.errors import InputError
from headway.tasks import make_task
from headway.tasks.addition import AdditionOptions
from headway.tasks.addition_text import AdditionTextOptions
from headway.tasks.sortedness import SortednessOptions

RECIPES = sorted((Path(__file__).parents[1] / "recipes").glob("*.toml"))
SECTIONS = (
    DataConfig,
    ModelConfig,
    TrainConfig,
    AdditionOptions,
    AdditionTextOptions,
    SortednessOptions,
)
RECIPE = """
seed = 3
[task]
name = "addition"
digits = 2
[data]
train = 50
[model]
d_model = 24
n_heads = 3
encoding = { name = "learned", table_size = 16 }
[train]
steps = 7
lr = 1
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(RECIPE)
    return path


def table(**changes):
    return {"task": {"name": "addition"}, "train": {"steps": 7}} | changes


def refused(words, **changes):
    with pytest.raises(InputError) as caught:
        build(RunConfig, table(**changes), "")
    message = str(caught.value)
    assert words in message
    assert "\n" not in message


def test_a_recipe_is_read_and_what_it_leaves_out_has_its_default(recipe):
    config = load_recipe(recipe)
    assert config.task == Choice(name="addition", options={"digits": 2})
    assert config.model.encoding == Choice(name="learned", options={"table_size": 16})
    assert (config.seed, config.data.train, config.data.validation) == (3, 50, 2_000)
    assert (config.model.d_head, config.model.encoder_layers, config.model.pooling) == (8, 2, None)


def test_set_and_seed_win_over_the_recipe(recipe):
    config = load_recipe(recipe, ["train.lr=0.25", "model.encoding=rotary"], seed=11)
    assert (config.seed, config.train.lr, config.model.encoding) == (11, 0.25, Choice(name="rotary"))


def test_a_config_cannot_be_changed(recipe):
    with pytest.raises(dataclasses.FrozenInstanceError):
        load_recipe(recipe).train.lr = 2.0  # type: ignore[misc]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_of_the_project_builds_its_task(path):
    config = load_recipe(path)
    assert make_task(config.task).name == config.task.name


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_every_setting_says_what_it_means(section):
    assert [field.name for field in dataclasses.fields(section) if not field.metadata.get("help")] == []


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_every_default_lies_within_its_own_limits(section):
    given = {"steps": 5} if section is TrainConfig else {}
    whole = to_table(section(**given))
    assert to_table(build(section, {key: value for key, value in whole.items() if value is not None}, "")) == whole


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"modle": {}}, "unknown key 'modle'; did you mean model? known: data, model, seed, task, train"),
        ({"model": {"n_head": 2}}, "unknown key 'model.n_head'; did you mean n_heads? known: activation"),
        ({"data": {"zzz": 2}}, "unknown key 'data.zzz'; known: allow_overlap"),
        ({"data": 5}, "data: expected a table, got 5"),
        ({"task": {"digits": 3}}, "task: expected a table with a name, got {'digits': 3}"),
        ({"task": {"name": 3}}, "task: expected a table with a name, got {'name': 3}"),
        ({"task": 3}, "task: expected a table with a name, got 3"),
        ({"seed": "one"}, "seed = 'one'; a whole number needed"),
        ({"seed": True}, "seed = True; a whole number needed"),
        ({"seed": 1.0}, "seed = 1.0; a whole number needed"),
        ({"seed": -1}, "seed = -1; at least 0 needed"),
        ({"seed": 2**63}, "seed = 9223372036854775808; at least 0 and at most 9,223,372,036,854,775,807 needed"),
        (
            {"data": {"seed": 2**63}},
            "data.seed = 9223372036854775808; at least 0 and at most 9,223,372,036,854,775,807",
        ),
        ({"seed": None}, "seed is empty; a whole number needed"),
        ({"data": {"train": 0}}, "data.train = 0; at least 1 and at most 50,000,000 needed"),
        ({"data": {"fresh": 1}}, "data.fresh = 1; true or false needed"),
        ({"model": {"dropout": 1}}, "model.dropout = 1.0; at least 0 and at most 0.95 needed"),
        ({"model": {"shape": "encoder-decodr"}}, "model.shape = 'encoder-decodr'; did you mean encoder-decoder? known"),
        ({"model": {"norm": ["pre"]}}, "model.norm = ['pre']; "),
        ({"train": {"steps": 7, "lr": 0}}, "train.lr = 0.0; more than 0 and at most 10 needed"),
        ({"train": {"steps": 7, "lr": "fast"}}, "train.lr = 'fast'; a number needed"),
        ({"train": {"steps": 7, "lr": True}}, "train.lr = True; a number needed"),
        ({"train": {"steps": 7, "lr": float("nan")}}, "train.lr = nan; a finite number needed"),
        ({"train": {"steps": 7, "clip": float("inf")}}, "train.clip = inf; a finite number needed"),
        ({"train": {"steps": 7, "clip": 10**400}}, "train.clip = "),
        ({"train": {}}, "[train] needs exactly one of epochs and steps; neither given"),
        ({"train": {"steps": 7, "epochs": 2}}, "[train] needs exactly one of epochs and steps; both given"),
        ({"train": {"epochs": 2}, "data": {"fresh": True}}, "data.fresh = true has no epochs; set train.steps"),
        ({"data": {"fresh": True, "files": True}}, "data.fresh = true draws examples, and --data reads them; use one"),
        (
            {"model": {"d_model": 128, "n_heads": 130}},
            "model.n_heads = 130 does not divide model.d_model = 128; choose a divisor or set model.d_head",
        ),
        ({"model": {"encoder_layers": 0}}, "model.encoder_layers = 0, and model.shape = 'encoder-decoder' needs"),
        (
            {"model": {"shape": "encoder", "decoder_layers": 1}},
            "model.decoder_layers = 1, and model.shape = 'encoder' has no decoder",
        ),
        (
            {"model": {"shape": "decoder", "encoder_layers": 3}},
            "model.encoder_layers = 3, and model.shape = 'decoder' has no encoder",
        ),
        ({"model": {"pooling": "max"}}, "model.pooling needs model.shape = 'encoder', and the shape is 'encoder-decod"),
        (
            {"model": {"shape": "decoder", "causal_encoder": True}},
            "model.causal_encoder needs an encoder, and model.shape is 'decoder'",
        ),
    ],
)
def test_what_is_wrong_in_a_table_is_named(changes, words):
    refused(words, **changes)


def test_a_key_that_must_be_there_is_asked_for():
    with pytest.raises(InputError, match=r"^missing task; a table needed$"):
        build(RunConfig, {"train": {"steps": 7}}, "")
    with pytest.raises(InputError, match=r"^recipe: expected a table, got 'addition'$"):
        build(RunConfig, "addition", "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"test_lengths": 64}, "task.test_lengths = 64; a list of whole numbers needed"),
        ({"test_lengths": [64, "128"]}, "task.test_lengths = '128'; a whole number needed"),
        ({"test_lengths": [64, 6]}, "task.test_lengths = 6; at least 8 and at most 8,192 needed"),
        ({"max_character": 40}, "unknown key 'task.max_character'; did you mean max_characters?"),
    ],
)
def test_options_of_a_task_are_checked_like_any_table(options, words):
    with pytest.raises(InputError, match=re.escape(words)):
        make_task(Choice(name="addition-text", options=options))


def test_a_list_in_a_recipe_becomes_a_tuple():
    choice = Choice(name="addition-text", options={"test_lengths": [10, 12]})
    assert options_of(AdditionTextOptions, choice, "task").test_lengths == (10, 12)


def test_all_options_can_be_spelled_out():
    choice = with_options(Choice(name="addition"), AdditionOptions(digits=5))
    assert choice.options == {
        "digits": 5,
        "base": 10,
        "order": "most-significant-first",
        "sampling": "uniform",
        "swap": False,
        "leading_zeros": False,
    }


def test_a_head_may_have_a_width_of_its_own():
    assert ModelConfig(d_model=10, n_heads=3, d_head=7).d_head == 7


@pytest.mark.parametrize(("shape", "layers"), [("encoder-decoder", (2, 2)), ("encoder", (2, 0)), ("decoder", (0, 2))])
def test_a_stack_that_the_shape_lacks_has_no_layers(shape, layers):
    config = ModelConfig(shape=shape)
    assert (config.encoder_layers, config.decoder_layers) == layers
    assert config.pooling == (Choice(name="mean") if shape == "encoder" else None)


def test_epochs_are_counted_in_examples_and_rounded_up():
    data = DataConfig(train=100)
    assert TrainConfig(epochs=3, batch_size=32).total_steps(data) == 10  # 300 examples, 32 a step
    assert TrainConfig(epochs=0.01, batch_size=32).total_steps(data) == 1
    assert TrainConfig(steps=5, batch_size=32).total_steps(data) == 5


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("train.lr=0.001", (["train", "lr"], 0.001)),
        ("seed=3", (["seed"], 3)),
        ("data.fresh=true", (["data", "fresh"], True)),
        ("task.test_lengths=[8, 10]", (["task", "test_lengths"], [8, 10])),
        ("model.encoding=rotary", (["model", "encoding"], "rotary")),
        ("a.b= x=y ", (["a", "b"], "x=y")),
        ("train.steps=", (["train", "steps"], "")),
    ],
)
def test_an_assignment_is_a_path_and_a_toml_value_or_else_text(text, parsed):
    assert parse_assignments([text]) == [parsed]


@pytest.mark.parametrize("text", ["train.lr", "=3", "train..lr=3", ""])
def test_an_assignment_without_key_or_equals_is_refused(text):
    with pytest.raises(InputError, match=rf"^--set '{re.escape(text)}': write it as key\.key=value, for example"):
        parse_assignments([text])


def test_assign_leaves_the_table_it_was_given_alone():
    before = {"train": {"lr": 1.0}}
    assert assign(before, ["train.lr=2.0", "data.seed=5"]) == {"train": {"lr": 2.0}, "data": {"seed": 5}}
    assert before == {"train": {"lr": 1.0}}


def test_a_new_name_drops_the_options_of_the_old_one():
    model = {"model": {"encoding": {"name": "learned", "table_size": 16}}}
    assert assign(model, ["model.encoding.name=rotary"]) == {"model": {"encoding": {"name": "rotary"}}}
    assert assign(model, ["model.encoding.name=learned"]) == model


def test_an_option_can_be_set_for_a_name_written_as_text():
    assert assign({"task": "addition"}, ["task.digits=4"]) == {"task": {"name": "addition", "digits": 4}}
    assert assign({"task": "addition"}, ["task.name=sortedness"]) == {"task": {"name": "sortedness"}}


def test_setting_steps_replaces_epochs_and_the_other_way_round():
    assert assign({"train": {"epochs": 3}}, ["train.steps=9"]) == {"train": {"steps": 9}}
    assert assign({"train": {"steps": 9}}, ["train.epochs=3"]) == {"train": {"epochs": 3}}


def test_a_recipe_that_cannot_be_read_says_why(tmp_path):
    with pytest.raises(InputError, match=r"^no recipe at .*absent\.toml$"):
        read_toml(tmp_path / "absent.toml")
    with pytest.raises(InputError, match=r"cannot be read: .*directory"):
        read_toml(tmp_path)
    broken = tmp_path / "broken.toml"
    broken.write_text("[train\nlr = ")
    with pytest.raises(InputError, match=r"broken\.toml is not TOML: .*line 1") as caught:
        read_toml(broken)
    assert "\n" not in str(caught.value)
    broken.write_text(f"seed = 0x{'9' * 5000}")
    with pytest.raises(InputError, match=r"broken\.toml is not TOML: .* digits"):
        read_toml(broken)
    broken.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"broken\.toml cannot be read: .*utf-8"):
        read_toml(broken)


def test_an_error_in_a_recipe_begins_with_the_file(recipe):
    with pytest.raises(InputError, match=r"small\.toml: unknown key 'train\.lrr'; did you mean lr\?"):
        load_recipe(recipe, ["train.lrr=1"])


def test_a_config_survives_json(recipe):
    config = load_recipe(recipe, ["task.name=addition-text", "task.test_lengths=[8, 10]", "train.stop_below=0.1"])
    assert RunConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


@pytest.mark.parametrize(("content", "found"), [({"form": 99}, "99"), ({}, "None"), ([], r"\[\]")])
def test_a_config_of_another_form_is_refused(content, found):
    with pytest.raises(InputError, match=rf"^config\.json: form {found} is not one this version reads \(1\)$"):
        RunConfig.from_json(content, "config.json")


def test_differences_list_the_settings_that_differ_and_no_others(recipe):
    one = load_recipe(recipe)
    other = load_recipe(recipe, ["train.lr=0.5", "model.encoding.table_size=32"])
    assert differences(one, other) == ["model.encoding.table_size: 16 and 32", "train.lr: 1.0 and 0.5"]
    assert differences(one, one) == []


def test_an_option_that_one_config_alone_has_is_a_difference(recipe):
    own = load_recipe(recipe)
    other = load_recipe(recipe, ["model.encoding.name=none"])
    assert differences(own, other) == [
        "model.encoding.name: learned and none",
        "model.encoding.table_size: 16 and None",
    ]
    assert differences(other, own) == [
        "model.encoding.name: none and learned",
        "model.encoding.table_size: None and 16",
    ]
    short = dataclasses.replace(own, model=dataclasses.replace(own.model, encoding=Choice(name="learned")))
    assert differences(short, own) == ["model.encoding.table_size: None and 16"]


def test_runs_of_a_stack_differ_in_seed_and_rate_alone(recipe):
    own = load_recipe(recipe)
    assert stackable(dataclasses.replace(own, seed=7, train=dataclasses.replace(own.train, lr=0.5))) == stackable(own)
    for other in ({"batch_size": own.train.batch_size + 1}, {"weight_decay": 0.25}, {"clip": 0.5}):
        assert stackable(dataclasses.replace(own, train=dataclasses.replace(own.train, **other))) != stackable(own)


def test_limits_are_told_in_words():
    assert describe_range(1, 50_000_000, None) == "at least 1 and at most 50,000,000"
    assert describe_range(None, 2**63 - 1, None) == "at most 9,223,372,036,854,775,807"
    assert describe_range(None, 1e6, None) == "at most 1,000,000"
    assert describe_range(None, 0.95, 0) == "more than 0 and at most 0.95"


def test_none_unsets_a_number_that_may_be_left_out_and_no_other():
    config = read_recipe("long-addition", set=["model.window=none"])[1]
    assert config.model.window is None
    with pytest.raises(InputError, match=r"model\.d_model = 'none'; a whole number needed"):
        read_recipe("long-addition", set=["model.d_model=none"])


@pytest.mark.parametrize("key", ["model.window", "train.keep_every", "train.stop_below", "train.stop_accuracy"])
def test_none_leaves_out_a_whole_number_and_a_decimal_one(recipe, key):
    section, name = key.split(".")
    recipe.write_text(recipe.read_text().replace(f"[{section}]\n", f"[{section}]\n{name} = 1\n"))
    given, unset = load_recipe(recipe), load_recipe(recipe, [f"{key}=none"])
    assert getattr(getattr(given, section), name) == 1
    assert getattr(getattr(unset, section), name) is None


@pytest.mark.parametrize("key", ["train.lr", "train.stop_for"])
def test_a_number_that_is_always_needed_cannot_be_left_out(recipe, key):
    with pytest.raises(InputError, match=rf"{key.replace('.', '[.]')} = 'none'; a (whole )?number needed"):
        load_recipe(recipe, [f"{key}=none"])


def test_an_option_set_before_its_name_is_not_lost():
    table = assign(
        {"model": {"encoding": {"name": "learned", "table_size": 9}}},
        ["model.encoding.clip=3", "model.encoding.name=clipped"],
    )
    assert table == {"model": {"encoding": {"name": "clipped", "clip": 3}}}


def test_values_from_python_are_taken_as_they_are():
    assert assign({}, [("task.test_lengths", (64,)), ("task.name", 'a"b')]) == {
        "task": {"test_lengths": (64,), "name": 'a"b'}
    }


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["train.lr=0.1", "train.lr=0.2"], "train.lr is given twice; once needed, by --set or --vary"),
        (["model.encoding.name=rotary", "model.encoding.name=alibi"], "model.encoding.name is given twice"),
        (["train.steps=3", "train.epochs=1"], "train.epochs and train.steps are both given; one of the two needed"),
    ],
)
def test_of_two_values_of_a_setting_none_is_chosen_in_silence(given: list[str], told: str) -> None:
    with pytest.raises(InputError, match=told):
        assign({"train": {"lr": 1.0}}, given)


def test_steps_take_the_place_of_epochs_of_the_recipe() -> None:
    assert assign({"train": {"epochs": 5}}, ["train.steps=3"]) == {"train": {"steps": 3}}
    assert assign({"train": {"epochs": 5}}, [("train.epochs", None), ("train.steps", 3)]) == {"train": {"steps": 3}}
