"""The files that `headway new task` writes: a small package with a task, its test and its recipe."""

import keyword
from dataclasses import dataclass
from pathlib import Path

from headway.errors import InputError
from headway.storage import naming, new_folder

TASK = '''"""Write a sequence backwards.

5 3 9  ->  9 3 5
"""

import numpy as np

from headway.tasks.sequences import SequenceTask


class {cls}(SequenceTask):
    """The answer holds the same elements in reverse order.

    `SequenceTask` draws sequences of whole numbers; `headway.tasks.Task` is for everything else.
    """

    name = "{name}"
    kind = "sequence"

    def answer_of(self, source, present):
        last = present.sum(axis=1, keepdims=True) - 1
        place = np.maximum(last - np.arange(source.shape[1]), 0)
        return np.take_along_axis(source, place, axis=1)
'''
TEST = '''"""The task keeps headway's contract, and its answer is what plain Python says."""

import numpy as np
import pytest
from {package} import {cls}

from headway.testing import TASK_CHECKS


@pytest.mark.parametrize("check", TASK_CHECKS, ids=lambda check: check.__name__)
def test_the_contract(check):
    check({cls}({cls}.Options()))


def test_the_answer():
    task = {cls}({cls}.Options())
    examples = task.draw(np.random.default_rng(0), 100)
    for source, target in zip(examples.source, examples.target, strict=True):
        record = task.to_record(source, target)
        assert record["target"] == record["input"][::-1]
'''
RECIPE = """# {name}: sequences of 2 to 8 digits, trained in about a minute on two cores.

[task]
name = "{package}:{cls}"
min_length = 2
max_length = 8
test_lengths = [16]

[data]
train = 10_000
validation = 1_000
test = 1_000

[model]
d_model = 64
n_heads = 2
d_ff = 128
encoder_layers = 1
decoder_layers = 2
encoding = {{ name = "learned", table_size = 9 }}

[train]
steps = 600
batch_size = 128
lr = 3e-3
validate_every = 200
"""
PROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{distribution}"
version = "0.1.0"
dependencies = ["headway"]

[project.entry-points."headway.tasks"]
{name} = "{package}:{cls}"

[tool.hatch.build.targets.wheel]
only-include = ["{package}.py"]
"""


@dataclass(frozen=True)
class NewTask:
    """The written files, the task's name in recipes, and the recipe's file name."""

    files: tuple[Path, ...]
    reference: str
    recipe: str


def write_task(directory: Path) -> NewTask:
    """Write the package into a new or empty directory, whose name becomes the task's name."""
    name = directory.absolute().name.lower().replace("_", "-")
    words = name.split("-")
    package = f"{'_'.join(words)}_task"
    if not package.isidentifier() or not name.isascii() or keyword.iskeyword(package):
        raise InputError(f"DIR {directory}: the task is named after it; it needs letters, digits and -, a letter first")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InputError(f"DIR {directory} exists and is not an empty directory")
    filled = {"name": name, "package": package, "cls": "".join(word.capitalize() for word in words)}
    contents = {
        f"{package}.py": TASK,
        f"test_{package}.py": TEST,
        f"{name}.toml": RECIPE,
        "pyproject.toml": PROJECT,
    }
    with new_folder(directory) as folder:
        for file, template in contents.items():
            with naming(directory / file):
                (folder / file).write_text(template.format(**filled, distribution=f"{name}-task"))
    files = tuple(directory / file for file in contents)
    return NewTask(files, f"{package}:{filled['cls']}", f"{name}.toml")
