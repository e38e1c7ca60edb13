"""Wrong command lines, recipes and overrides: each gets exit code 2 and one line, and nothing is written.

Every line runs in this process, with a watch that stops it where its work would begin: at the first file or folder
that it would write, and at the first forward pass of a model. A line that is wrong by construction and gets there
was accepted, which breaks the bar. A line that may be right (a hostile text can be a good name of a folder) counts
as accepted there, or if it ends with 0 or 1; it must not raise, and a refusal must have the right form.
"""

import os
import random
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faults import laboratory, wrong_lines, wrong_recipes
from faults.campaign import Attempt, Row, chance, must
from faults.laboratory import Answer, answer_to, inside
from faults.wrong_lines import Line

LONGEST = 300
"""Characters of a message."""
ALLOWED = re.compile(
    r"needed|needs|known|at least|at most|more than|above|did you mean|there (are|is)|range|use |write |excludes?\b|"
    r"each other|belongs|choose|give |no such|missing|takes no|expected|unexpected|no run at|no sweep at|has no|holds|"
    r"not TOML|cannot be read|has \w+ already|divide|for another model|twice|repeated|is a (directory|file)|exists|"
    r"ask for fewer|no recipe|no folder|one at a time|too (long|large)|are read|is not a|name the|did not write|"
    r"no file|no directory|no data directory|is for|past|must|larger than|cannot be set|only|does not take|requires",
    re.IGNORECASE,
)
"""Phrases that say what is allowed, or what is there instead."""


class WorkBegan(BaseException):
    """A line was accepted: it would write a file or compute with a model."""


_watching: list[bool] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook of Python, which sees every file that is opened; it cannot be removed, so it has a switch."""
    if not _watching[-1]:
        return
    if event == "open":
        path, _, flags = arguments
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        if writes and isinstance(path, str | bytes) and not os.fsdecode(path).startswith(("/dev/", "/proc/")):
            raise WorkBegan(f"it would write {os.fsdecode(path)[:80]}")
    elif event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "shutil.rmtree"):
        raise WorkBegan(f"{event} {str(arguments[0])[:80]}")


@contextmanager
def stopped_at_work() -> Iterator[None]:
    """Raise `WorkBegan` where a command would write or compute."""
    from headway.model.transformer import Transformer

    if not _watching:
        _watching.append(False)
        sys.addaudithook(_watch)

    def compute(*_: Any, **__: Any) -> None:
        raise WorkBegan("it would compute")

    forward = Transformer.forward
    Transformer.forward = compute  # type: ignore[assignment,method-assign]
    _watching[-1] = True
    try:
        yield
    finally:
        _watching[-1] = False
        Transformer.forward = forward  # type: ignore[method-assign]


def line_of(random_numbers: random.Random, commands: list[Any], folder: Path) -> Line:
    """A line of some kind; its recipe is written into the folder."""
    made = None
    while made is None:
        made = _drawn(random_numbers, commands, folder)
    return made


def _drawn(draw: random.Random, commands: list[Any], folder: Path) -> Line | None:
    share = draw.random()
    if share < 0.35:
        return draw.choice(wrong_lines.BY_COMMAND)(draw, draw.choice(commands))
    if share < 0.6:
        return draw.choice([wrong_lines.wrong_setting] * 3 + [wrong_lines.unknown_setting])(draw)
    if share < 0.68:
        return draw.choice([wrong_lines.broken_assignment, wrong_lines.inconsistent])(draw)
    if share < 0.8:
        make = draw.choice([*wrong_recipes.WRONG, *wrong_recipes.PERHAPS_WRONG])
        (folder / "wrong.toml").write_bytes(make(draw))
        words = (draw.choice(["train", "sweep"]), "wrong.toml", "--dry-run")
        kind = f"recipe: {make.__name__.replace('_', ' ')}"
        if make in wrong_recipes.PERHAPS_WRONG:
            return Line(words, kind, wrong=False)
        in_a_setting = (wrong_recipes.wrong_type, wrong_recipes.unknown_key, wrong_recipes.long_text)
        return Line(words, kind, names=() if make in in_a_setting else ("wrong.toml",))
    if share < 0.93:
        return wrong_lines.hostile_text(draw, draw.choice(commands))
    return wrong_lines.several_options(draw, draw.choice(commands))


def fault_of(line: Line, answer: Answer) -> str | None:
    """Why a line was answered wrongly; None if it was answered as it should be."""
    if isinstance(answer.raised, WorkBegan):
        return f"accepted: {answer.raised}" if line.wrong else None
    if answer.raised is not None:
        return f"raised {type(answer.raised).__name__}: {str(answer.raised)[:200]}"
    if not line.wrong and answer.code in (0, 1):
        return None
    return wrong_form(line, answer)


def wrong_form(line: Line, answer: Answer) -> str | None:
    """What a refusal lacks: exit code 2, one printable line of at most 300 characters that names what is wrong."""
    said = [text for text in answer.err.split("\n") if text and not text.startswith("headway: warning: ")]
    message = said[0] if said else ""
    if answer.code != 2:
        return f"exit code {answer.code}: {answer.err[:200]}"
    if answer.out:
        return f"on stdout: {answer.out[:100]}"
    if len(said) != 1 or not message.startswith("headway: "):
        return f"{len(said)} lines: {answer.err[:200]}"
    if len(message) > LONGEST:
        return f"{len(message)} characters: {message[:200]}"
    if not message.isprintable():
        return f"unprintable: {message[:200]!r}"
    for name in line.names:
        parts = [_beginning(one) for one in ((name,) if isinstance(name, str) else name)]
        if not any(part in message for part in parts):
            return f"does not name {parts!r}: {message}"
    return None if ALLOWED.search(message) else f"does not say what is allowed: {message}"


def _beginning(name: str) -> str:
    """The first characters of a text; messages cut long ones in the middle."""
    return " ".join(name.split())[:8].strip()


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder with its bytes; None for folders."""
    paths = [path for path in folder.rglob("*") if path.name != "wrong.toml"]
    return {str(path): path.read_bytes() if path.is_file() else None for path in paths}


@contextmanager
def attempts(seed: int, folder: Path) -> Iterator[Attempt]:
    laboratory.build(folder)
    commands = list(wrong_lines.parser().commands.values())
    before = contents(folder)

    def attempt(number: int) -> str:
        with inside(folder):
            line = line_of(chance(seed, ROW.name, number), commands, folder)
            with stopped_at_work():
                answer = answer_to(list(line.arguments))
        fault = fault_of(line, answer)
        must(fault is None, f"{line.kind}: {' '.join(repr(word[:60]) for word in line.arguments)}: {fault}")
        if line.wrong:
            return f"refused: {line.kind}"
        began = isinstance(answer.raised, WorkBegan)
        ended = "accepted, work would begin" if began else {0: "accepted", 1: "accepted, found an error"}
        return f"{line.kind}: {ended if isinstance(ended, str) else ended.get(answer.code or 0, 'refused')}"

    yield attempt
    must(contents(folder) == before, "a file was changed")


ROW = Row(
    name="command-lines",
    position=7,
    attack="Wrong command lines, recipes and overrides, from a grammar over all commands, options and settings, in one "
    "process",
    bar="exit 2, one line of at most 300 characters that names key, value and what is allowed; nothing written",
    count=5_000,
    attempts=attempts,
    limits=(
        "A line that may be right (hostile texts, several options, damaged recipes) is stopped where it would write "
        "or compute, and is not tried further.",
    ),
)
