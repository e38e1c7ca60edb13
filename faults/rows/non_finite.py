"""NaN and infinity, put where a computation could meet them: training stops before the update, or a command says so.

A value that is not finite is put into a logit, a gradient, a weight or the loss at a random step of a training (alone
and in a stack), into the logits of a validation, into the weights of a checkpoint that a command reads, and into the
logits of a command. Whatever happens, every JSON file of the run stays free of NaN and Infinity, no command prints
one as a number, and the weights that a training leaves are finite.
"""

import random
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from faults import laboratory
from faults.campaign import Attempt, Row, chance, must
from faults.laboratory import Answer, answer_to, inside
from headway.api import read_recipe
from headway.errors import RunStopped
from headway.model.transformer import Transformer
from headway.runs import Checkpoint, RunDirectory
from headway.training import loop
from headway.training.stack import StackLoop, train_stack

SAYS = re.compile(r"finite|not a number|NaN")
NUMBERS = re.compile(r"(?<![\w-])[-+]?(nan|inf|infinity)\b", re.IGNORECASE)
"""A number that is none, as Python or JSON prints it."""
TRAIN = ("train", "tiny.toml", "--out", "new", "--quiet")
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("evaluate", "run"),
    ("heads", "run", "--n", "20", "--no-figures"),
    ("doctor", "run"),
    ("attack", "sort-run", "--seconds", "1", "--tries", "50"),
    ("lengths", "sort-run", "--n", "50", "--no-figures"),
    ("evaluate", "sort-run"),
    ("explore", "run", "--out", "page.html"),
    ("prune", "run", "--max-drop", "5", "--out", "pruned"),
    ("train", "tiny.toml", "--out", "run", "--resume"),
)


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def spoil(tensor: Tensor, value: float, draw: random.Random) -> None:
    """Put a value at a random place of a tensor."""
    with torch.no_grad():
        flat = tensor.view(-1)
        flat[draw.randrange(flat.numel())] = value


def into_logit(draw: random.Random, value: float, *, training: bool | None) -> Any:
    """Logits with the value in them from a random call on; only in training or validation, if that is given."""
    first, calls, forward = draw.randrange(4), [0], Transformer.forward

    def spoilt(model: Transformer, *arguments: Any, **named: Any) -> Tensor:
        logits: Tensor = forward(model, *arguments, **named)
        if training is None or model.training is training:
            calls[0] += 1
            if calls[0] > first:
                logits = logits.clone()
                spoil(logits, value, draw)
        return logits

    return replaced(Transformer, "forward", spoilt)


def into_model(draw: random.Random, value: float, *, gradient: bool) -> Any:
    """A weight that gets the value before a random step, or a gradient that has it."""
    first, calls, make = draw.randrange(4), [0], getattr(loop, "make_model")  # noqa: B009

    def made(*arguments: Any, **named: Any) -> Transformer:
        model = make(*arguments, **named)
        parameter = draw.choice([one for name, one in model.named_parameters() if "embed" not in name])

        def spoilt(found: Tensor) -> Tensor:
            calls[0] += 1
            if calls[0] <= first:
                return found
            found = found.clone()
            spoil(found, value, draw)
            return found

        def before(module: Any, arguments: Any) -> None:
            calls[0] += module.training
            if calls[0] == first + 1:
                spoil(parameter.data, value, draw)

        if gradient:
            parameter.register_hook(spoilt)
        else:
            model.register_forward_pre_hook(before)
        return model

    return replaced(loop, "make_model", made)


def into_loss(draw: random.Random, value: float) -> Any:
    first, calls, entropy = draw.randrange(4), [0], functional.cross_entropy

    def spoilt(*arguments: Any, **named: Any) -> Tensor:
        loss = entropy(*arguments, **named)
        if not loss.requires_grad:
            return loss
        calls[0] += 1
        return loss * value if calls[0] > first else loss

    return replaced(functional, "cross_entropy", spoilt)


def train_spoilt(what: str, draw: random.Random, value: float) -> str:
    """A training into which the value is put; it must stop with one line, and leave finite weights."""
    how = {
        "logit in training": lambda: into_logit(draw, value, training=True),
        "logit in validation": lambda: into_logit(draw, value, training=False),
        "gradient": lambda: into_model(draw, value, gradient=True),
        "weight in training": lambda: into_model(draw, value, gradient=False),
        "loss": lambda: into_loss(draw, value),
    }[what]
    with how():
        answer = answer_to(list(TRAIN))
    check(f"{what} = {value}: train", answer, Path("new"))
    steps = RunDirectory("new").checkpoint_steps()
    must(all(is_finite(Path("new"), step) for step in steps), f"{what} = {value}: a checkpoint that is not finite")
    if answer.code == 0:
        must(what != "loss", f"{what} = {value}: trained on")
        return "no effect: a logit of minus infinity, or of a padded place"
    must(answer.code == 1, f"{what} = {value}: {answer.code} {answer.err}")
    return "stopped before the update" if "nothing was updated" in answer.err else "stopped at the validation"


def stack_spoilt(draw: random.Random, value: float) -> str:
    """A stack of three seeds, one with a spoilt weight: that one stops, the others finish."""
    configs = [read_recipe("tiny.toml", seed=seed)[1] for seed in range(3)]
    places = [Path("new") / str(seed) for seed in range(3)]
    step, row, advance = draw.randrange(4), draw.randrange(3), StackLoop._advance

    def spoilt(stack_loop: StackLoop, at: int, last: int) -> int:
        if at <= step and not done:
            blocks = stack_loop.stack.layout.blocks(stack_loop.stack.weights)
            spoil(draw.choice([block for name, block in blocks.items() if "embed" not in name])[row], value, draw)
            done.append(at)
        return advance(stack_loop, at, last)

    done: list[int] = []
    with replaced(StackLoop, "_advance", spoilt):
        found = train_stack(configs, places, device="cpu")
    stopped = [place for place, one in enumerate(found) if isinstance(one, RunStopped)]
    must(stopped == [row], f"stack, weight of seed {row} = {value}: stopped {stopped}")
    must(bool(SAYS.search(str(found[row]))), f"stack: {found[row]}")
    for place in places:
        check_files(f"stack, weight = {value}", place)
        steps = RunDirectory(place).checkpoint_steps()
        must(all(is_finite(place, one) for one in steps), f"stack, weight = {value}: a checkpoint that is not finite")
    return "one seed stopped, the others finished"


def checkpoint_spoilt(command: tuple[str, ...], draw: random.Random, value: float) -> str:
    """A command on a run whose newest checkpoint has a weight that is not finite."""
    name = "sort-run" if "sort-run" in command else "run"
    directory = RunDirectory(name)
    found = directory.read_checkpoint(4)
    weights = [one for key, one in sorted(found.model.items()) if "embed" not in key]
    spoil(draw.choice(weights), value, draw)
    losses = {row["step"]: row["validation"] for row in directory.metrics() if "validation" in row}
    best = {**found.state["best"], "step": 4, **losses[4]}
    state: Any = {**found.state, "best": best}
    if command[0] == "train":
        state = {**state, "finished": False, "validated": -1}
    directory.write_checkpoint(Checkpoint(4, found.model, found.trainer, state))
    return answered(f"weight of the checkpoint = {value}", command, name)


def answered(what: str, command: tuple[str, ...], name: str) -> str:
    answer = answer_to([*command, "--json", "--quiet"])
    check(f"{what}: {' '.join(command)}", answer, Path(name))
    if answer.code == 0:
        told = bool(SAYS.search(answer.err + answer.out))
        return "reported" if told else "nothing that was printed depends on it, or it counts as a wrong answer"
    must(answer.code in (1, 2), f"{what}: {answer.code} {answer.err}")
    return "reported, exit code 1" if answer.code == 1 else "refused"


def check(what: str, answer: Answer, run: Path) -> None:
    """Raise for a traceback, for more than one line on stderr, and for a NaN that is printed or written."""
    must(answer.raised is None, f"{what}: {type(answer.raised).__name__}: {answer.raised}")
    must(not NUMBERS.search(answer.out), f"{what}: printed {answer.out[:200]!r}")
    lines = [line for line in answer.err.split("\n") if line]
    must(all(line.startswith(("headway: ", "warning: ")) for line in lines), f"{what}: {answer.err[:200]!r}")
    told = bool(lines) or '"error"' in answer.out or '"found"' in answer.out  # errors of the doctor, failing inputs
    must(answer.code == 0 or told, f"{what}: {answer.code} without a word")
    check_files(what, run)


def check_files(what: str, run: Path) -> None:
    """Raise for a JSON file of a run with a number that is not finite."""
    for path in run.rglob("*.json*"):
        for line in path.read_text().split("\n") if path.suffix == ".jsonl" else [path.read_text()]:
            if line:
                found = re.search(r"(?<![\\w\"])-?(NaN|Infinity)", line)
                must(found is None, f"{what}: {path} holds {found and found[0]}")


def is_finite(run: Path, step: int) -> bool:
    path = RunDirectory(run).checkpoint_path(step)
    tensors = [tensor for name in ("model", "trainer") for tensor in load_file(path / f"{name}.safetensors").values()]
    return all(bool(tensor.isfinite().all()) for tensor in tensors if tensor.is_floating_point())


TRAININGS = ("logit in training", "gradient", "weight in training", "loss", "logit in validation")


@contextmanager
def attempts(seed: int, folder: Path) -> Iterator[Attempt]:
    whole, place = folder / "whole", folder / "lab"
    laboratory.build(whole)

    def attempt(number: int) -> str:
        draw = chance(seed, ROW.name, number)
        value = draw.choice([float("nan"), float("inf"), float("-inf")])
        shutil.copytree(whole, place)
        try:
            with inside(place):
                if number % 5 < 2:
                    what = TRAININGS[number // 5 * 2 % len(TRAININGS) + number % 5 - len(TRAININGS)]
                    return f"{what}: {train_spoilt(what, draw, value)}"
                if number % 5 == 2:
                    return f"weight in a stack: {stack_spoilt(draw, value)}"
                command = COMMANDS[number // 5 % len(COMMANDS)]
                if number % 5 == 3:
                    return f"weight of a checkpoint: {checkpoint_spoilt(command, draw, value)}"
                with into_logit(draw, value, training=None):
                    name = "sort-run" if "sort-run" in command else "run"
                    return f"logit of a command: {answered(f'logit = {value}', command, name)}"
        finally:
            shutil.rmtree(place)

    yield attempt


ROW = Row(
    name="non-finite",
    position=8,
    attack="NaN and infinity in logits, gradients, weights, the loss and validations of a training, of a stack, of a "
    "checkpoint, and of the commands that measure",
    bar="stopped before the update or reported; never logged as a number",
    count=50,
    attempts=attempts,
    limits=("On the CPU alone.",),
)
