"""The order of system calls of every file that a command leaves, seen by strace."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from faults.campaign import Attempt, Row, must
from faults.forking import forking
from faults.victims import VICTIMS, Stage

CALLS = "openat,write,fsync,rename,renameat,renameat2"
TRACED = re.compile(r"^(\w+)\((.*)\)\s+= (-?\d+)")
BY_NUMBER = re.compile(r"^\d+<([^>]*)>")
NAMES = re.compile(r'"([^"]*)"')
APPENDED = ("metrics.jsonl", "results.jsonl")
"""Files that grow in place."""
UNWRITTEN = ("lock",)
"""Files that hold nothing which must outlive the machine."""


@dataclass
class Order:
    """What a command's calls have done so far, and what was out of order.

    `dirty` are files with content, and folders with names, that are not on disk; `placed` are the names that were
    renamed into place; `waiting` are the folders whose new names are not on disk.
    """

    folder: Path
    dirty: set[Path] = field(default_factory=set)
    opened: list[Path] = field(default_factory=list)
    placed: set[Path] = field(default_factory=set)
    waiting: set[Path] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)

    def take(self, line: str) -> None:
        """Follow one line of strace."""
        match = TRACED.match(line)
        if match is None or int(match[3]) < 0:
            return
        call, arguments = match[1], match[2]
        numbered = BY_NUMBER.match(arguments)
        if call == "openat" and re.search(r"O_WRONLY|O_RDWR", arguments):
            self.opened.append(self.folder / NAMES.findall(arguments)[0])
        elif call == "write" and numbered:
            self.dirty.add(Path(numbered[1]))
        elif call == "fsync" and numbered:
            self.dirty.discard(Path(numbered[1]))
            self.waiting.discard(Path(numbered[1]))
        elif call.startswith("rename"):
            source, target = (self.folder / name for name in NAMES.findall(arguments)[:2])
            if "writing-removed" not in target.name:
                self.rename(source, target)

    def rename(self, source: Path, target: Path) -> None:
        """A file or folder takes its place: its content is on disk, and a manifest came last."""
        unsynced = [path for path in self.dirty if path == source or source in path.parents]
        self.wrong += [f"{path.name} is not synced when {target.name} takes its place" for path in unsynced]
        inside = [path for path in self.opened if source in path.parents]
        if target.parent.name in ("checkpoints", "kept") and (not inside or inside[-1].name != "MANIFEST"):
            self.wrong.append(f"the manifest of {target.name} is not its last file")
        if target.parent.name == "checkpoints":
            metrics = target.parent.parent / "metrics.jsonl"
            self.wrong += [f"{metrics.name} is not synced before {target.name}"] * (metrics in self.dirty)
        self.placed.add(target)
        self.waiting.add(target.parent)

    def finish(self, out: Path) -> None:
        """Every file that the command leaves took its place by a rename, and its folder is on disk."""
        files = [path for path in out.rglob("*") if path.is_file() and path.name not in UNWRITTEN]
        for path in files:
            if path.name not in APPENDED and not self.placed.intersection([path, *path.parents]):
                self.wrong.append(f"{path.relative_to(self.folder)} was written where it stands")
        self.wrong += [f"{path} is not synced at the end" for path in self.dirty if path in files]
        self.wrong += [f"{path} is not synced after a rename into it" for path in self.waiting if path.is_dir()]


class WriteOrder:
    def __init__(self, stage: Stage, folder: Path, traces: Path):
        self.stage, self.folder, self.traces = stage, folder, traces

    def attempt(self, number: int) -> str:
        victim = list(VICTIMS.values())[number % len(VICTIMS)]
        place = self.stage.place(victim, self.folder / f"case-{number}").resolve()
        before = {path: path.stat().st_mtime_ns for path in (place / victim.out).rglob("*") if path.is_file()}
        seen = set(self.traces.iterdir())
        ended = self.stage.do(victim, place)
        must(ended.code in (0, 1), f"{victim.name}: exit {ended.code}, {ended.printed}")
        order = Order(place)
        for trace in sorted(set(self.traces.iterdir()) - seen):
            for line in trace.read_text(errors="replace").splitlines():
                order.take(line)
        written = len(order.placed)
        must(written > 0, f"{victim.name}: strace saw no file take its place")
        order.placed |= {path for path, changed in before.items() if path.stat().st_mtime_ns == changed}
        order.finish(place / victim.out)
        must(not order.wrong, f"{victim.name}: {'; '.join(order.wrong[:5])}")
        shutil.rmtree(place)
        return f"{victim.name}: {written} files and folders in order"


@contextmanager
def attempts(seed: int, folder: Path) -> Iterator[Attempt]:
    traces = folder / "traces"
    traces.mkdir()
    watch = ("strace", "-ff", "--seccomp-bpf", "-y", "-s", "0", "-e", f"trace={CALLS}", "-o", str(traces / "trace"))
    with forking(*watch) as commands:
        yield WriteOrder(Stage(commands, folder), folder, traces).attempt


ROW = Row(
    name="write-order",
    position=2,
    attack="the system calls of each command that writes, seen by strace",
    bar="write, fsync of the file, rename, fsync of the folder; a checkpoint's manifest last, after its metrics",
    count=len(VICTIMS),
    attempts=attempts,
    limits=(
        "It needs strace. The event files of TensorBoard, a mirror of the metrics, are written by its own library.",
    ),
)
