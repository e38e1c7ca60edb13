"""Docs that cannot drift: every name, setting, command and option has its place, every example runs."""

import doctest
import importlib
import importlib.util
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

import headway
from headway.api import find_recipe, read_recipe
from headway.cli.main import app
from headway.config import DataConfig, ModelConfig, TrainConfig, describe_range
from headway.diagnosis.specimens import SPECIMENS
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


LINK = re.compile(r"(?:\]\(|<img src=\")(?!https?:|#)([^)#\"]+)")


@pytest.mark.parametrize("page", sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")]), ids=lambda path: path.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = [target for target in LINK.findall(page.read_text()) if not (page.parent / target).exists()]
    assert broken == []


ANCHOR = re.compile(r"\]\((?!https?:)([^)#]*)#([^)]+)\)")


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings have on GitHub."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")]), ids=lambda path: path.name)
def test_every_anchor_is_a_heading_of_its_page(page: Path) -> None:
    links = ANCHOR.findall(page.read_text())
    broken = [link for link in links if link[1] not in anchors(page.parent / link[0] if link[0] else page)]
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


def committed(name: str) -> Any:
    """One of the result files that docs/results.md is made from."""
    return json.loads((DOCS / "results" / f"{name}.json").read_text())


def heads_in_words() -> list[str]:
    """Heads that cost under 1 point alone, what they cost together, and the set that elimination found."""
    runs = committed("heads-addition")["runs"]
    sets = [next(found for found in run["removable"] if found["limit"] == 1.0) for run in runs]
    alone = [len(found["alone_under_limit"]["heads"]) for found in sets]
    together = [round(found["alone_under_limit"]["drop"]) for found in sets]
    chosen = [len(found["heads"]) for found in sets]
    return [
        f"each of {len(runs)} seeds, {min(alone)} to {max(alone)} of the {len(runs[0]['heads'])} heads",
        f"the same heads cost {min(together)} to {max(together)} points",
        f"finds {min(chosen)} to {max(chosen)} heads that cost at most {max(found['drop'] for found in sets)} points",
        f"seed 0: {alone[0]} of 24 heads can be removed one at a time, but only {chosen[0]} together",
    ]


def long_addition_in_words() -> list[str]:
    found = committed("long-addition")
    cell = next(cell for cell in found["cells"] if cell["arm"] == "encoder-decoder")
    longest = cell["lengths"][-1]
    wrong = [[seeds[-1] for seeds in cell["wrong"][name]] for name in cell["wrong"]]
    right = sum(not any(seed) for seed in zip(*wrong, strict=True))
    digits = found["characters_to_digits"]
    return [
        f"{right} of {len(cell['seeds'])} seeds trained on up to {digits['32']} digits make no error "
        f"in {cell['n'] * len(wrong):,} sums of {digits[str(longest)]} digits"
    ]


def encodings_in_words() -> list[str]:
    runs = [run for run in committed("text-encodings")["runs"] if run["arm"] == "least-significant-first"]
    mastered = {run["encoding"] for run in runs if run["mastered"]}
    right = [1 - run["wrong"]["sums"][run["lengths"].index(64)] / run["n"] for run in runs if run["mastered"]]
    return [f"none of the {len(mastered)} positional encodings that learn 13 digits gets more than {max(right):.0%}"]


def sortedness_in_words() -> list[str]:
    found = committed("sortedness-long")
    sampled = [found["wrong"][name] for name in ("swaps", "adjacent", "matched")]
    wrong = [sum(sum(lengths) for lengths in seed) for seed in zip(*sampled, strict=True)]
    n = found["n"] * len(found["lengths"]) * len(sampled)
    assert "0 0 0 1 0 63 63 63 -> 0, answered 1" in found["examples"]["descents"][found["seeds"].index(9)]
    assert len(found["seeds"]) == 10
    return [
        f"at most {max(wrong)} errors in {n:,} test sequences of up to {max(found['lengths']):,} elements",
        "seed 9 calls `0 0 0 1 0 63 63 63` sorted",
    ]


def proofs_in_words() -> list[str]:
    said = []
    for recipe, name in (("local-addition", "adder"), ("proved-sortedness", "sortedness classifier")):
        files = (DOCS / "results/proofs").glob(f"{recipe}-seed*/analysis/proof.json")
        answers = [json.loads(path.read_text())["answer"] for path in files]
        said.append(f"{answers.count('proved')} of {len(answers)} seeds of a smaller {name}")
    return said


@pytest.mark.parametrize(
    "in_words", [heads_in_words, long_addition_in_words, encodings_in_words, sortedness_in_words, proofs_in_words]
)
def test_the_findings_in_the_readme_are_those_of_the_committed_results(in_words) -> None:  # type: ignore[no-untyped-def]
    readme = " ".join((ROOT / "README.md").read_text().split()).replace(" %", "%")
    for claim in in_words():
        assert claim in readme


def test_the_readme_counts_the_planted_mistakes() -> None:
    assert f"[{len(SPECIMENS)} planted mistakes]" in (ROOT / "README.md").read_text()


def test_the_figures_of_results_are_drawn_from_the_committed_numbers() -> None:
    spec = importlib.util.spec_from_file_location("draw_results", DOCS / "tools/draw_results.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    grid = tool.sortedness(tool.read("sortedness-grid")["cells"], 1000)
    rotary = next(group for group in grid if group.name == "rotary, multi-feature")
    assert len(grid) == 30 and len(rotary.runs) == 5
    assert rotary.runs[0].at(1024, "swaps").accuracy == 1.0
    assert next(group for group in grid if group.name == "rotary, mean").runs[0].at(64, "swaps").constant == "0"
    texts = tool.text_encodings(tool.read("text-encodings")["runs"])
    assert [group.runs[3].at(64, "sums").wrong for group in texts if group.name == "abacus"] == [711]
    assert next(group for group in texts if group.name == "none").masters == 0
