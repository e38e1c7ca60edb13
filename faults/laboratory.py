"""A folder with one small object of every kind that a command reads: recipes, runs, data, a sweep, a pickle."""

import contextlib
import io
import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headway.api import plan_sweep
from headway.cli import main
from headway.results.comparison import Outcome
from headway.runs import SweepDirectory

RECIPE = """seed = 0
[task]
name = "addition"
digits = 2
[data]
train = 64
validation = 16
test = 16
[model]
d_model = 8
n_heads = 2
d_ff = 16
encoder_layers = 1
decoder_layers = 1
[train]
steps = 4
batch_size = 8
lr = 0.01
validate_every = 2
keep_every = 2
"""
SORTEDNESS = """[task]
name = "sortedness"
min_length = 3
max_length = 5
test_lengths = [7]
[data]
train = 64
validation = 16
test = 16
[model]
shape = "encoder"
d_model = 8
n_heads = 2
d_ff = 16
encoder_layers = 1
[train]
steps = 4
batch_size = 8
validate_every = 2
"""
LINES = (
    "train tiny.toml --out run",
    "train sort.toml --out sort-run",
    "data addition --out data --set task.digits=2 --set data.train=40 --set data.validation=8 --set data.test=24",
)


@dataclass(frozen=True)
class Answer:
    """What a command line did: its exit code, stdout and stderr, and the error that it raised, if any."""

    code: int | None
    out: str
    err: str
    raised: BaseException | None = None


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def answer_to(arguments: list[str]) -> Answer:
    """Run a command line in this process. Its streams encode as a terminal's do: stdout strictly, stderr escaped."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    code, raised = None, None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main.run(arguments)
        except BaseException as problem:
            if isinstance(problem, KeyboardInterrupt):
                raise
            raised = problem
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    return Answer(code, texts[0], texts[1], raised)


def build(folder: Path) -> None:
    """Make the folder; every command line must succeed."""
    import matplotlib.figure  # noqa: F401  makes its own folder when it is first imported
    import torch

    sys.dont_write_bytecode = True
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tiny.toml").write_text(RECIPE)
    (folder / "sort.toml").write_text(SORTEDNESS)
    torch.save({"weight": torch.zeros(3)}, folder / "weights.pth")
    (folder / "a-file").write_text("text")
    (folder / "runs").mkdir()
    (folder / "other").mkdir()
    (folder / "other" / "notes.txt").write_text("mine")
    with inside(folder):
        for line in LINES:
            words = [*line.split(), "--quiet"]
            answer = answer_to(words)
            if answer.code != 0:
                raise RuntimeError(f"{line}: {answer.code} {answer.err} {answer.raised!r}")
        write_sweep(Path("sweep"))


def write_sweep(place: Path) -> None:
    """A finished sweep of two settings with six seeds each; its outcomes are drawn, no trial is trained."""
    plan = plan_sweep("tiny.toml", vary=["train.lr=0.01,0.02"], seeds=range(6))
    directory, draw = SweepDirectory(place), random.Random(0)
    directory.begin(plan.to_json())
    for trial in plan.trials:
        measured = {"steps": 4, "validation_loss": draw.random(), "validation_accuracy": draw.random(), "best_step": 4}
        directory.append_result(
            Outcome(trial.name, dict(trial.settings), trial.seed, "finished", measured, seconds=draw.random())
        )
