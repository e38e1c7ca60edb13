"""Bit flips and truncations: every one is noticed, or it is shown to be harmless.

A tiny run with data of its own, all analyses and kept weights, and a sweep, are damaged one file at a time; then a
command that reads the file runs in this process, and what it prints as JSON is compared with what it printed of the
whole files. `headway verify` must notice every damage of a run, unless the damaged file says the same: equal JSON,
equal tensors. A number that differs without a word is the failure that this row is for.
"""

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults import laboratory
from faults.campaign import Attempt, BarBroken, Row, chance, must
from faults.laboratory import Answer, answer_to, inside

VOLATILE = re.compile(r'^\s*"(seconds|page|markdown|bytes|speed|time|elapsed|rate)": [^\n]*$', re.MULTILINE)
"""Lines of JSON that differ between two runs of one command."""
WARNS = re.compile(r"^headway: (warning: )?", re.MULTILINE)
LONGEST = 300

RUN = (
    ("evaluate", "damaged"),
    ("evaluate", "damaged", "--split", "all"),
    ("evaluate", "damaged", "--checkpoint", "last"),
    ("runs", "."),
    ("verify", "damaged"),
    ("prove", "damaged"),
    ("train", "tiny.toml", "--out", "damaged", "--data", "data", "--resume"),
)
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "checkpoints": (*RUN, ("explore", "damaged", "--out", "explorer.html")),
    "config.json": RUN,
    "provenance.json": (*RUN, ("report", "damaged")),
    "metrics.jsonl": (("runs", "."), ("runs", "."), ("verify", "damaged"), ("report", "damaged")),
    "data": (("evaluate", "damaged"), ("evaluate", "damaged", "--split", "train"), ("verify", "damaged")),
    "kept": (("verify", "damaged"), ("heads", "damaged", "--over-training", "--n", "20", "--no-figures")),
    "analysis": (
        ("verify", "damaged"),
        ("heads", "damaged", "--n", "20", "--no-figures"),
        ("explore", "damaged", "--out", "explorer.html"),
        ("report", "damaged"),
    ),
    "sweep.json": (
        ("compare", "sweep"),
        ("compare", "sweep", "--by", "train.lr"),
        ("compare", "sweep", "--sort", "success"),
    ),
    "results.jsonl": (("compare", "sweep"), ("compare", "sweep", "--by", "train.lr")),
}
"""Commands that read a file, by its name or its folder."""
SLOW = ("report", "explore", "prove")
"""Commands that take a second: one case in 64 of theirs is run, the others get the first command."""
PREPARE = (
    "train tiny.toml --out damaged --data data",
    "evaluate damaged",
    "evaluate damaged --split all",
    "heads damaged --n 20 --no-figures",
    "heads damaged --n 20 --over-training --no-figures",
    "attack damaged --seconds 0.2 --tries 20",
    "doctor damaged",
)


@dataclass(frozen=True)
class Damage:
    """What was done to the bytes of a file."""

    what: str
    content: bytes


def damaged(content: bytes, draw: random.Random) -> Damage:
    """A file with a flipped bit, an exchanged digit, a block of zeros, an end cut off, or a part twice."""
    n = len(content)
    kind = draw.choice(
        ["bit", "bit", "bit", "digit", "digit", "digit", "truncated", "truncated", "zeros", "twice", "lines"]
    )
    digits = [place for place, byte in enumerate(content[:200_000]) if 48 <= byte <= 57]
    if kind == "digit" and digits:
        place = draw.choice(digits)
        other = draw.choice([byte for byte in range(48, 58) if byte != content[place]])
        return Damage(f"digit {place}", content[:place] + bytes([other]) + content[place + 1 :])
    if kind == "truncated":
        keep = draw.choice([0, n - 1, n - 2, draw.randrange(n)])
        return Damage(f"truncated to {keep}", content[: max(0, keep)])
    if kind == "zeros":
        place, size = draw.randrange(n), draw.choice([1, 16, 512])
        return Damage(f"zeros at {place}", content[:place] + bytes(min(size, n - place)) + content[place + size :])
    if kind == "twice":
        place, size = draw.randrange(n), draw.randrange(1, 200)
        return Damage(f"twice at {place}", content[:place] + content[place : place + size] + content[place:])
    if kind == "lines" and content.count(b"\n") > 2:
        lines = content.splitlines(keepends=True)
        gone = draw.randrange(len(lines))
        return Damage(f"line {gone} gone", b"".join(lines[:gone] + lines[gone + 1 :]))
    place, bit = draw.randrange(n), 1 << draw.randrange(8)
    return Damage(f"bit {bit} of byte {place}", content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])


class Bench:
    """The whole files in memory, the answers of the commands to them, and a folder that is put back after a case."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.whole = {path: path.read_bytes() for path in self._files()}
        self.targets = [path for path in self.whole if self.part_of(path) is not None]
        self.answers: dict[tuple[str, ...], Answer] = {}

    def _files(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_file() or path.is_symlink()]

    def part_of(self, path: Path) -> str | None:
        """The entry of `COMMANDS` for a file; None for files that are not damaged."""
        parts = path.relative_to(self.folder).parts
        if parts[0] not in ("damaged", "sweep") or len(parts) < 2:
            return None
        return parts[1] if parts[1] in COMMANDS else None

    def put_back(self) -> None:
        """Make the folder as it was."""
        for path in self._files():
            if path not in self.whole:
                path.unlink()
        for path, content in self.whole.items():
            if not path.exists() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

    def expected(self, command: tuple[str, ...]) -> Answer:
        """The answer of a command to the whole files."""
        if command not in self.answers:
            self.answers[command] = answer_to([*command, "--json", "--quiet"])
            self.put_back()
        return self.answers[command]


def said(answer: Answer) -> str:
    return VOLATILE.sub("", answer.out)


def is_told(answer: Answer) -> bool:
    """Whether stderr says what is wrong, each thing on one line of at most 300 characters."""
    lines = [line for line in answer.err.split("\n") if line]
    return bool(lines) and all(line.startswith(("headway: ", "warning: ")) and len(line) <= LONGEST for line in lines)


def means_the_same(name: str, before: bytes, after: bytes) -> bool:
    """Whether a file says what it said: equal bytes, lines of a manifest, JSON, or lines of JSON in a log."""
    if name.endswith(".jsonl"):
        return _records(before) == _records(after)
    if name == "MANIFEST":
        return before.splitlines() == after.splitlines()
    return before == after or (name.endswith(".json") and _parsed(before) == _parsed(after))


def _parsed(content: bytes) -> Any:
    try:
        found = json.loads(content)
    except ValueError:
        return content
    if isinstance(found, dict):  # a damage of the checksum's own key or of an unknown key leaves what is read as it was
        return {key: value for key, value in found.items() if not key.startswith("sha2") and len(key) != len("sha256")}
    return found


def _records(content: bytes) -> list[Any]:
    return [_parsed(line) for line in content.split(b"\n") if line.strip()]


def judge(command: tuple[str, ...], expected: Answer, answer: Answer, same: bool) -> str:
    """How a damage was answered; raises `BarBroken` for a traceback, an ugly message or a silent wrong number."""
    shown = f"{' '.join(command)}: {answer.code} {answer.out[:80]!r} {answer.err[:200]!r}"
    must(answer.raised is None, f"{' '.join(command)}: {type(answer.raised).__name__}: {str(answer.raised)[:200]}")
    told = is_told(answer)
    if answer.err.strip() and answer.err != expected.err:
        must(told, f"not one line for each thing: {shown}")
    if command[0] == "verify" and answer.code == 1:
        return "noticed by verify"
    if answer.code == 2:
        must(told and not answer.out, f"no clear line: {shown}")
        return "refused in one line"
    if said(answer) == said(expected) and answer.code == expected.code:
        if told and answer.err != expected.err:
            return "noticed, the same numbers"
        must(same or command[0] != "verify", f"verify noticed nothing: {shown}")
        return "harmless: the file says the same" if same else "harmless: what is printed is the same"
    if command[0] == "verify" and '"no checksum' in answer.out:
        return "noticed, the checksum is missing"
    if command[0] == "compare" and answer.code == 0 and _finished(answer) < _finished(expected):
        return "noticed, shown as unfinished"
    unreadable = command[0] == "runs" and '"state": "unreadable"' in answer.out
    must(told or unreadable, f"another result without a word: {shown}")
    if "is damaged" in answer.err and "step-" in answer.err and command[0] in ("evaluate", "train", "explore", "prove"):
        return "noticed, the checkpoint before it is used"
    return "noticed, the rest is shown"


def _finished(answer: Answer) -> int:
    """Finished trials of a comparison, which says how many were planned, too."""
    return int(json.loads(answer.out)["trials_finished"])


@contextmanager
def attempts(seed: int, folder: Path) -> Iterator[Attempt]:
    laboratory.build(folder)
    with inside(folder):
        for line in PREPARE:
            answer = answer_to([*line.split(), "--quiet"])
            must(answer.code in (0, 1), f"{line}: {answer.err} {answer.raised!r}")
        for name in ("run", "sort-run", "runs", "other"):
            shutil.rmtree(folder / name)
        bench = Bench(folder)

        def attempt(number: int) -> str:
            draw = chance(seed, ROW.name, number)
            kind = draw.choice(sorted({str(bench.part_of(path)) for path in bench.targets}))
            path = draw.choice([one for one in bench.targets if bench.part_of(one) == kind and bench.whole[one]])
            command = draw.choice(COMMANDS[kind])
            if command[0] in SLOW and draw.random() > 1 / 64:
                command = COMMANDS[kind][0]
            expected = bench.expected(command)
            harm = damaged(bench.whole[path], draw)
            path.write_bytes(harm.content)
            try:
                with inside(folder):
                    answer = answer_to([*command, "--json", "--quiet"])
                same = means_the_same(path.name, bench.whole[path], harm.content)
                where = f"{path.relative_to(folder)}, {harm.what}"
                return f"{kind}: {named(where, lambda: judge(command, expected, answer, same))}"
            finally:
                bench.put_back()

        yield attempt


def named(where: str, check: Callable[[], str]) -> str:
    """The result of a check; a broken bar names the damage."""
    try:
        return check()
    except BarBroken as broken:
        raise BarBroken(f"{where}: {broken}") from None


ROW = Row(
    name="damage",
    position=4,
    attack="Bit flips, exchanged digits, truncations, zeros, and parts twice or missing, in checkpoint, kept weights, "
    "config, metrics, data, analysis and sweep files; then the commands that read them, compared with the whole files",
    bar="every one noticed or provably harmless (equal JSON, or output equal byte for byte); one line, never a "
    "traceback, never a wrong number; the previous checkpoint offered",
    count=5_000,
    attempts=attempts,
    limits=(
        "Commands that take a second (report, explore, prove) are run in one case of sixteen of theirs.",
        "Seconds and paths are left out of the comparison.",
        "Lines that are missing at the end of a sweep's results.jsonl look like a sweep that was interrupted: compare "
        "says how many of the planned trials finished.",
    ),
)
