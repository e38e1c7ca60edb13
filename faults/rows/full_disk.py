"""A disk that is soon full, and a limit on the size of files, at twenty levels for every command that writes."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from faults.campaign import Attempt, Row, chance, must
from faults.forking import Ended, forking
from faults.victims import VICTIMS, Stage, Victim, differences, fingerprint

LEVELS = 20
ROOM = 256 * 2**20
"""Bytes of the small disk while it is not full."""
PAGE = os.sysconf("SC_PAGE_SIZE")
COMMANDS = [victim for victim in VICTIMS.values() if not victim.call]


class SmallDisk:
    """A file system in memory, whose size can change."""

    def __init__(self, place: Path):
        self.place = place
        place.mkdir()
        self._mount("-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs")

    def _mount(self, *options: str) -> None:
        done = subprocess.run(["mount", *options, self.place], capture_output=True, text=True)
        must(done.returncode == 0, f"a small disk cannot be mounted (root can): {done.stderr.strip()}")

    def used(self) -> int:
        found = os.statvfs(self.place)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def resize(self, size: int) -> None:
        self._mount("-o", f"remount,size={max(size, PAGE)}")

    def close(self) -> None:
        subprocess.run(["umount", self.place], check=True)


class FullDisk:
    def __init__(self, stage: Stage, seed: int, folder: Path):
        self.stage, self.seed, self.folder = stage, seed, folder

    @cached_property
    def disk(self) -> SmallDisk:
        return SmallDisk(self.folder / "disk")

    def close(self) -> None:
        if "disk" in vars(self):
            self.disk.close()

    def attempt(self, number: int) -> str:
        victim, limited = COMMANDS[number % len(COMMANDS)], number // len(COMMANDS) % 2 == 1
        level = chance(self.seed, "full-disk", number).randrange(LEVELS)
        expected = self.stage.expected(victim)
        place = self.stage.place(victim, (self.folder if limited else self.disk.place) / f"case-{number}")
        before = fingerprint(place / victim.out)
        fault: dict[str, Any] = {}
        if limited:
            fault["terminal"] = "quiet"  # the limit would hold for a log, too
            fault["largest"] = self.largest(victim, before) * level // LEVELS
        else:
            self.disk.resize(self.disk.used() + self.growth(victim) * level // LEVELS // PAGE * PAGE)
        ended = self.stage.do(victim, place, log=self.folder, **fault)
        if not limited:
            self.disk.resize(ROOM)
        what = (
            f"files of at most {fault['largest']:,} bytes" if limited else f"a disk full at level {level} of {LEVELS}"
        )
        told = f"{victim.name}, {what}: exit {ended.code}, {ended.printed}"
        outcome = self.judged(victim, ended, told)
        self.check_whole(place / victim.out, before, expected.left, told)
        if outcome != "there was room":
            again = self.stage.do(victim, place, log=self.folder)
            must(again.code == expected.code, f"{told}; with room: exit {again.code}, {again.printed}")
        apart = differences(fingerprint(place / victim.out), expected.left)
        must(not apart, f"{told}; with room: {'; '.join(apart[:5])}")
        shutil.rmtree(place)
        return f"{'a limit on files' if limited else 'a full disk'}: {outcome}"

    def growth(self, victim: Victim) -> int:
        """The bytes of all that the command leaves, in whole pages."""
        left = self.folder_of(victim)
        return sum(-(-path.stat().st_size // PAGE) * PAGE for path in left.rglob("*") if path.is_file())

    def largest(self, victim: Victim, before: Mapping[str, str]) -> int:
        """The size of the largest file that the command writes."""
        left = self.stage.expected(victim).left
        written = [name for name, content in left.items() if before.get(name) != content]
        return max((self.folder_of(victim) / name).stat().st_size for name in written)

    def folder_of(self, victim: Victim) -> Path:
        return self.stage.folder / f"undisturbed-{victim.name}" / victim.out

    def judged(self, victim: Victim, ended: Ended, told: str) -> str:
        """How the command ended: one line that names a file, or as if there was room."""
        lines = [line for line in ended.printed.splitlines() if line.startswith("headway: ")]
        if ended.code == self.stage.expected(victim).code and not any("[Errno" in line for line in lines):
            return "there was room"
        must(ended.code == 1, told)
        must("Traceback" not in ended.printed and len(lines) == 1, told)
        must(re.search(rf"\b{re.escape(victim.out)}\b", lines[0]) is not None, f"{told}: it names no file")
        return "exit 1, a file named, complete with room"

    def check_whole(self, place: Path, before: Mapping[str, str], finished: Mapping[str, str], told: str) -> None:
        """What was there is there, as it was or as the command makes it."""
        after = fingerprint(place)
        lost = [name for name, content in before.items() if after.get(name) not in (content, finished.get(name))]
        must(not lost, f"{told}: {', '.join(lost)} is not what it was")


@contextmanager
def attempts(seed: int, folder: Path) -> Iterator[Attempt]:
    with forking() as commands:
        attack = FullDisk(Stage(commands, folder), seed, folder)
        try:
            yield attack.attempt
        finally:
            attack.close()


ROW = Row(
    name="full-disk",
    position=3,
    attack=f"a disk that is full, and a limit on the size of files, at {LEVELS} levels for {len(COMMANDS)} commands",
    bar="what was there stays whole, one line names the file, exit 1; with room, the same command leaves what an "
    "undisturbed one leaves, and no other file",
    count=100,
    attempts=attempts,
    limits=("The small disk is mounted, which needs root.",),
)
