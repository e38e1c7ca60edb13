"""Docs that cannot drift: every name, setting, command and option has its place, every example runs."""

import doctest
import importlib
import re
from dataclasses import fields
from pathlib import Path

import pytest
import typer

import headway
from headway.api import find_recipe, read_recipe
from headway.cli.main import app
from headway.config import DataConfig, ModelConfig, TrainConfig, describe_range
from headway.head_analysis.scores import EVERYWHERE, SELF_ONLY
from headway.model.encodings import ENCODINGS
from headway.model.poolings import POOLINGS
from headway.model.transformer import check_size
from headway.tasks import TASKS, make_task
from headway.training.preparation import resolve

ROOT = Path(headway.__file__).parents[2]
DOCS = ROOT / "docs"
RECIPES = sorted(path.stem for path in (ROOT / "recipes").glob("*.toml"))
NAMED = [
    "addition",
    "addition-course",
    "addition-text",
    "addition-deep",
    "addition-four-heads",
    "addition-text-eight-heads",
    "addition-text-deep",
    "sortedness",
    "sortedness-course",
    "long-addition",
]
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("registry", [TASKS, ENCODINGS, POOLINGS], ids=lambda registry: registry.kind)
def test_every_registered_name_and_option_is_in_the_docs(registry) -> None:  # type: ignore[no-untyped-def]
    text = (DOCS / "recipes.md").read_text()
    for name in registry.names():
        section = re.search(rf"^### `{name}`$(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
        assert section, f"docs/recipes.md has no section on the {registry.kind} {name}"
        for option in fields(registry.get(name).Options):
            assert f"`{option.name}`" in section[1], f"the option {option.name} of {name} is not described"


@pytest.mark.parametrize(("table", "cls"), [("data", DataConfig), ("model", ModelConfig), ("train", TrainConfig)])
def test_every_setting_is_in_the_docs_with_its_meaning_and_limits(table: str, cls: type) -> None:
    text = (DOCS / "recipes.md").read_text()
    section = re.search(rf"^## \[{table}\]$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section
    for field in fields(cls):
        row = next((line for line in section[1].splitlines() if line.startswith(f"| `{field.name}`")), "")
        limits = describe_range(*(field.metadata.get(key) for key in ("low", "high", "above")))
        assert field.metadata["help"] in row, f"{table}.{field.name}: {field.metadata['help']}"
        assert limits in row, f"{table}.{field.name}: {limits}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_has_its_place_in_the_docs(name: str) -> None:
    page = (DOCS / "commands" / f"{name}.md").read_text()
    command = COMMANDS[name]
    assert "Example:" in (command.help or ""), "the help shows an example"
    for parameter in command.params:
        for option in parameter.opts:
            shown = f"`{option}`" if option.startswith("-") else f"`{option.upper()}`"
            assert shown in page, f"docs/commands/{name}.md does not mention {shown}"
    assert f"commands/{name}.md" in (ROOT / "README.md").read_text()


def test_no_page_is_about_a_command_that_is_gone() -> None:
    assert sorted(path.stem for path in (DOCS / "commands").glob("*.md")) == sorted(COMMANDS)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_complete_and_listed(name: str) -> None:
    _, config = read_recipe(name)
    task = make_task(config.task)
    assert check_size(resolve(config, task).model, len(task.vocabulary), task.n_classes) > 0
    assert f"`{name}.toml`" in (DOCS / "recipes.md").read_text()


def test_the_recipes_of_the_design_are_there() -> None:
    assert [name for name in NAMED if find_recipe(name).exists()] == NAMED


@pytest.mark.parametrize("name", TASKS.names())
def test_every_score_is_defined_in_the_docs_in_the_words_of_the_code(name: str) -> None:
    page = " ".join((DOCS / "heads.md").read_text().split())
    own = {score.__name__: score.__doc__ or "" for score in (*EVERYWHERE, *SELF_ONLY)}
    for score, meaning in {**TASKS.get(name).PARTS, **own}.items():
        assert f"`{score}`" in page
        assert " ".join(meaning.split()) in page, f"docs/heads.md does not define {score} as the code does"


LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


@pytest.mark.parametrize("page", sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")]), ids=lambda path: path.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = [target for target in LINK.findall(page.read_text()) if not (page.parent / target).exists()]
    assert broken == []


@pytest.mark.parametrize(
    "module",
    [
        "headway.errors",
        "headway.statistics.families",
        "headway.statistics.means",
        "headway.statistics.paired",
        "headway.statistics.proportions",
        "headway.statistics.seeds",
        "headway.sweeps.deaths",
        "headway.model.sites",
        "headway.tasks.columns",
        "headway.sweeps.ray_session",
        "headway.cli.options",
        "headway.cli.doctor",
        "headway.cli.lengths",
        "headway.narration.places",
        "headway.narration.text",
        "headway.narration.numbers",
        "headway.narration.tables",
        "headway.length_analysis.held",
        "headway.sweeps.tables",
        "headway.reports.settings",
        "headway.reports.weights",
        "headway.reports.lengths",
        "headway.reports.length_table",
        "headway.reports.positions",
        "headway.length_analysis.identities",
    ],
)
def test_examples_in_docstrings_are_right(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module), extraglobs={"np": importlib.import_module("numpy")})
    assert found.attempted > 0
    assert found.failed == 0
