"""A task, an encoding and a pooling of a package outside of headway go through every command.

Is a string of brackets balanced? The task derives from `Task` alone and is no relative of a sum or of a sequence of
numbers; the encoding adds a trained vector and a bias, the pooling projects the mean and the maximum.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import headway as hw
from headway.cli.main import app
from headway.errors import InputError
from headway.results.doctor import Diagnosis

TASKS = '''
"""Brackets: ( ) ( ) is balanced, ) ( is not."""

from dataclasses import dataclass, replace

import numpy as np

from headway.config import setting
from headway.errors import InputError
from headway.tasks.base import Examples, LengthPlan, SimpleRule, Task, Vocabulary


@dataclass(frozen=True, kw_only=True)
class Options:
    min_pairs: int = setting(1, "fewest pairs", low=1, high=500)
    max_pairs: int = setting(6, "most pairs", low=1, high=500)


class Brackets(Task):
    name = "brackets"
    Options = Options
    kind = "class"
    n_classes = 2
    vocabulary = Vocabulary(("(", ")", "PAD"), pad=2)

    def draw(self, random, n):
        pairs = random.integers(self.options.min_pairs, self.options.max_pairs + 1, size=n)
        wanted = random.integers(0, 2, size=n)
        rows = [self._row(random, *one) for one in zip(pairs.tolist(), wanted.tolist())]
        source = np.array([np.pad(row, (0, 2 * int(pairs.max()) - len(row)), constant_values=2) for row in rows])
        return Examples(source, self.answer(source))

    def _row(self, random, pairs, balanced):
        row = random.permutation(np.repeat([0, 1], pairs))
        if balanced:  # rotated to begin after its deepest point
            row = np.roll(row, -1 - int(np.argmin(np.cumsum(1 - 2 * row))))
        elif random.random() < 0.3:
            row = random.integers(0, 2, size=2 * pairs)
        return row

    def answer(self, source):
        depth = np.cumsum(np.where(source == 2, 0, 1 - 2 * source), axis=1)
        return ((depth.min(1) >= 0) & (depth[:, -1] == 0)).astype(np.int64)

    def canonical(self, source):
        return np.where(source == 2, -1, source)

    def features(self, source):
        return {"brackets": (source != 2).sum(1)}

    def at_length(self, length):
        if length < 2 or length % 2:
            raise InputError(f"brackets at length {length}; an even number needed")
        return Brackets(replace(self.options, min_pairs=length // 2, max_pairs=length // 2))

    def length_plan(self):
        longest = 2 * self.options.max_pairs
        return LengthPlan("brackets", "brackets", ("strings",), 2, longest, (longest,), (2 * longest,))

    def widths(self):
        return (2 * self.options.max_pairs,)

    def class_names(self):
        return ("broken", "balanced")

    def simple_rules(self):
        return (SimpleRule("counts the brackets", self._counts, "Train on more strings that close too early."),)

    def _counts(self, source):
        return ((source == 0).sum(1) == (source == 1).sum(1)).astype(np.int64)

    def show(self, source, target=None):
        text = "".join(self.vocabulary.tokens[token] for token in source if token != 2)
        return text if target is None else f"{text} -> {int(target)}"

    def to_record(self, source, target):
        return {"text": self.show(source), "balanced": int(target)}

    def from_record(self, record):
        return ["()".index(letter) for letter in record["text"]], record["balanced"]
'''
MODEL = '''
"""An encoding and a pooling."""

from typing import ClassVar

import torch
from torch import nn

from headway.model.encodings.base import Encoding
from headway.model.poolings.base import Pooling
from headway.model.poolings.simple import highest, mean


class OddAndEven(Encoding):
    """One trained vector for even positions, one for odd ones, and scores that fall with the distance."""

    def __init__(self, options, sizes):
        super().__init__(options, sizes)
        self.table = nn.Embedding(2, sizes.d_model)

    def embed(self, positions):
        return self.table(positions % 2)

    def bias(self, query, key, kind):
        distance = (query[:, None, :, None] - key[:, None, None, :]).abs().float()
        return (-distance / 8).expand(-1, self.sizes.n_heads, -1, -1)


class MeanAndMax(Pooling):
    PAGE: ClassVar = {"features": ["mean", "max"], "project": "pooling.project"}

    def __init__(self, options, d_model):
        super().__init__(options, d_model)
        self.project = nn.Linear(2 * d_model, d_model)

    def forward(self, hidden, visible):
        return self.project(torch.cat([mean(hidden, visible), highest(hidden, visible)], dim=-1))


class Unsaid(MeanAndMax):
    """The same, and nobody told the page."""
'''
RECIPE = """
[task]
name = "bracket_lab.tasks:Brackets"

[data]
train = 120
validation = 30
test = 60

[model]
shape = "encoder"
d_model = 12
n_heads = 2
d_ff = 16
encoder_layers = 1
encoding = "bracket_lab.model:OddAndEven"
pooling = "bracket_lab.model:MeanAndMax"

[train]
steps = 40
batch_size = 16
validate_every = 20
lr = 0.01
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the package and a recipe, from which headway is started."""
    place = tmp_path_factory.mktemp("outside")
    package = place / "bracket_lab"
    package.mkdir()
    for name, text in {"__init__.py": "", "tasks.py": TASKS, "model.py": MODEL}.items():
        (package / name).write_text(text)
    (place / "brackets.toml").write_text(RECIPE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(sys, "path", [entry for entry in sys.path if entry])
        yield place
    for name in [name for name in sys.modules if name.partition(".")[0] == "bracket_lab"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    """A run that every analysis has seen."""
    place = folder / "runs" / "brackets"
    hw.train("brackets.toml", out=place, device="cpu")
    for command in ("evaluate", "heads --n 40 --no-figures", "lengths --n 40 --no-figures"):
        name, *options = command.split()
        found = CliRunner().invoke(app, [name, str(place), *options, "--device", "cpu", "--quiet"])
        assert found.exit_code == 0, found.output
    return place


def test_heads_and_lengths_are_found(run: Path) -> None:
    assert {path.name for path in run.rglob("*.json")} >= {"heads.json", "lengths.json"}


def test_the_doctor_looks_for_the_rule_that_the_task_names(run: Path) -> None:
    found = hw.doctor(run)
    assert isinstance(found, Diagnosis)
    assert found.task == "brackets"
    (rule,) = [finding for finding in found.findings if finding.check == "trivial-rule"]
    assert "the rule that counts the brackets gives" in rule.evidence
    assert {"agree_0", "agree_1"} <= set(rule.numbers)


def test_the_report_is_written(run: Path, folder: Path) -> None:
    text = Path(str(hw.report(run, out=folder / "report").page)).read_text()
    assert "bracket_lab.tasks:Brackets" in text


def test_a_sweep_trains_it_in_two_workers(folder: Path) -> None:
    hw.sweep(
        "brackets.toml",
        vary={"train.lr": [0.01, 0.003]},
        seeds=[0],
        set={"train.steps": 4, "train.validate_every": 2},
        out=folder / "sweep",
        workers=2,
        device="cpu",
    )
    lines = (folder / "sweep" / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["finished", "finished"]


def test_a_pooling_that_the_page_was_not_told_of_is_refused_by_name(folder: Path) -> None:
    place = folder / "runs" / "unsaid"
    small = {"model.pooling": "bracket_lab.model:Unsaid", "train.steps": 2, "train.validate_every": 1}
    hw.train("brackets.toml", out=place, set=small, device="cpu")
    with pytest.raises(InputError, match=r"pooling 'bracket_lab.model:Unsaid': class Unsaid defines no PAGE"):
        hw.explore(place)


# In a browser


@pytest.fixture(scope="module")
def problems() -> list[str]:
    return []


@pytest.fixture(scope="module")
def tab(browser: Any, run: Path, folder: Path, problems: list[str]) -> Any:
    made = hw.explore(run, out=folder / "page.html")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(Path(str(made.page)).resolve().as_uri())
    page.wait_for_selector("body[data-ready]")
    return page


def test_the_page_judges_by_the_oracles_stored_answers(tab: Any, run: Path, problems: list[str]) -> None:
    trained = hw.load(run, device="cpu")
    names = trained.task.class_names()
    for _ in range(6):
        tab.click("#another")
        source = tab.evaluate("explorerPage.source")
        right = names[int(trained.task.answer(np.array([source]))[0])]
        said = names[tab.evaluate("explorerPage.result.tokens[0]")]
        verdict = f"✓ right: it says {said}" if said == right else f"✗ wrong: it says {said}, and it is {right}"
        assert tab.text_content("#class-verdict") == verdict
    assert "judged by the stored answers of the oracle" in tab.text_content("#complaint")
    assert problems == []


def test_the_page_computes_what_the_model_does(tab: Any, run: Path, problems: list[str]) -> None:
    """All stored examples are as right in the page as in PyTorch, with outside encoding and pooling."""
    count = """explorerPage.run.examples.filter(({ source, target }) =>
        explorerPage.engine.answer(source, {}).tokens[0] === target).length"""
    assert tab.evaluate(count) == tab.evaluate("explorerPage.run.accuracy.right")
    assert problems == []


def test_what_cannot_be_typed_is_said_so(tab: Any, problems: list[str]) -> None:
    assert tab.get_attribute("#input", "readonly") is not None
    assert tab.is_hidden("#ask-now") and tab.is_hidden("#elements") and tab.is_hidden("#chart")
    refused = tab.evaluate("PageTasks.read(explorerPage.run, ') ) ) ) ) ) )').problem")
    assert refused == "No such example is stored, and this task has no form to type one in: press Another."
    stored = tab.evaluate("PageTasks.showSource(explorerPage.run, explorerPage.run.examples[3].source)")
    found = tab.evaluate("text => PageTasks.read(explorerPage.run, text).source", stored)
    assert found == tab.evaluate("explorerPage.run.examples[3].source")
    tab.click("#tour-start")
    for _ in range(5):
        tab.click("#tour-do")
        tab.click("#tour-next")
    assert problems == []
