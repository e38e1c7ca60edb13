"""Places that cannot be written, that vanish, or that have strange names; and a clock that goes back."""

import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

from faults.campaign import Attempt, Row, chance, must
from faults.forking import Ended, forking
from faults.victims import VICTIMS, Stage, Victim, differences, fingerprint

NAMES = (
    "two words",
    'it\'s "quoted"',
    "line\nbreak",
    "x" * 200,
    "<img src=x onerror=alert(1)>",
    "--help",
    "ünïcode 数",
    "$HOME;`id`",
)
"""Names of a run, a study or an output."""
NOBODY = 65534
COMMANDS = [victim for victim in VICTIMS.values() if not victim.call]
ALONE = [victim for victim in COMMANDS if victim.name != "sweep"]
"""Commands without worker processes, which another user may not be able to start."""


class Places:
    def __init__(self, stage: Stage, seed: int, folder: Path):
        self.stage, self.seed, self.folder = stage, seed, folder
        self.kinds: list[Callable[[int, Random], str]] = [
            self.read_only,
            self.not_permitted,
            self.clock_goes_back,
            self.deleted,
            self.strange_name,
            self.strange_name,
        ]
        folder.chmod(0o755)

    def attempt(self, number: int) -> str:
        return self.kinds[number % len(self.kinds)](number, chance(self.seed, "places", number))

    def read_only(self, number: int, random: Random) -> str:
        """A folder on a disk that is mounted read-only."""
        victim = COMMANDS[number // len(self.kinds) % len(COMMANDS)]
        place = self.stage.place(victim, self.folder / f"case-{number}")
        _mount("--bind", str(place), str(place))
        try:
            _mount("-o", "remount,bind,ro", str(place))
            return f"read-only folder: {self.refused(victim, place)}"
        finally:
            subprocess.run(["umount", place], check=True)
            shutil.rmtree(place)

    def not_permitted(self, number: int, random: Random) -> str:
        """A folder of somebody else."""
        victim = ALONE[number // len(self.kinds) % len(ALONE)]
        place = self.stage.place(victim, self.folder / f"case-{number}")
        said = self.refused(victim, place, user=NOBODY)
        shutil.rmtree(place)
        return f"missing permission: {said}"

    def refused(self, victim: Victim, place: Path, **fault: int) -> str:
        """The command ends with one line that names a path, and changes nothing."""
        before = fingerprint(place)
        ended = self.stage.do(victim, place, log=self.folder, **fault)
        told = f"{victim.name} in {place.name} {fault}: exit {ended.code}, {ended.printed}"
        apart = differences(fingerprint(place), before)
        must(not apart, f"{told}; {'; '.join(apart[:5])}")
        if ended.code == self.stage.expected(victim).code and "[Errno" not in ended.printed:
            return "nothing had to be written"
        must(ended.code in (1, 2) and is_one_line(ended), told)
        return "one line, nothing written"

    def clock_goes_back(self, number: int, random: Random) -> str:
        victim = COMMANDS[number // len(self.kinds) % len(COMMANDS)]
        place = self.stage.place(victim, self.folder / f"case-{number}")
        ended = self.stage.do(victim, place, plant="faults.rows.places:turn_the_clock_back")
        told = f"{victim.name} while the clock goes back: exit {ended.code}, {ended.printed}"
        expected = self.stage.expected(victim)
        must(ended.code == expected.code, told)
        apart = differences(fingerprint(place / victim.out), expected.left)
        must(not apart, f"{told}; {'; '.join(apart[:5])}")
        shutil.rmtree(place)
        return "clock going back: plain success"

    def deleted(self, number: int, random: Random) -> str:
        """The folder that a command works in is deleted at a random moment."""
        victim = COMMANDS[number // len(self.kinds) % len(COMMANDS)]
        expected = self.stage.expected(victim)
        place = self.stage.place(victim, self.folder / f"case-{number}")
        fault = {"delete": str(place / victim.out), "delete_after": random.uniform(0, expected.seconds)}
        ended = self.stage.do(victim, place, log=self.folder, **fault)
        told = f"{victim.name}, deleted after {fault['delete_after']:.2f} s: exit {ended.code}, {ended.printed}"
        shutil.rmtree(place)
        if ended.code == expected.code and "Errno" not in ended.printed:
            return "folder deleted under it: the command ended as always"
        must(ended.code in (1, 2) and "Traceback" not in ended.printed, told)
        return f"folder deleted under it: exit {ended.code} with a line"

    def strange_name(self, number: int, random: Random) -> str:
        name = random.choice(NAMES)
        victim = COMMANDS[number // len(self.kinds) % len(COMMANDS)]
        place = self.stage.place(victim, self.folder / f"case-{number}" / "here")
        if (place / victim.out).exists():
            os.rename(place / victim.out, place / name)
        words = tuple(renamed(word, victim.out, f"./{name}") for word in victim.arguments)
        strange = replace(victim, arguments=words, out=name)
        ended = self.stage.do(strange, place, log=self.folder)
        told = f"{victim.name} with the name {name[:40]!r}: exit {ended.code}, {ended.printed}"
        must("Traceback" not in ended.printed, told)
        pages = [path.read_text() for path in place.rglob("*.html")]
        must(not any("<img src=x" in page for page in pages), f"{told}: the name is markup in a page")
        if ended.code == 2:
            must(is_one_line(ended), told)
            return "strange name: refused in one line"
        must(ended.code == self.stage.expected(victim).code, told)
        shutil.rmtree(place.parent)
        return "strange name: plain success"


def renamed(word: str, old: str, new: str) -> str:
    """An argument, with another path if it is the old one or a path in it."""
    return new + word.removeprefix(old) if word == old or word.startswith(f"{old}/") else word


def is_one_line(ended: Ended) -> bool:
    """Whether the command says one thing, without a traceback."""
    return ended.printed.count("headway: ") == 1 and "Traceback" not in ended.printed


def turn_the_clock_back() -> None:
    """Make the wall clock of this process go an hour back at every reading."""
    start, readings = time.time(), itertools.count()
    time.time = lambda: start - 3600.0 * next(readings)
    time.gmtime = lambda seconds=None: plain_gmtime(time.time() if seconds is None else seconds)


plain_gmtime = time.gmtime


def _mount(*options: str) -> None:
    done = subprocess.run(["mount", *options], capture_output=True, text=True)
    must(done.returncode == 0, f"mounting is not possible (root can): {done.stderr.strip()}")


@contextmanager
def attempts(seed: int, folder: Path) -> Iterator[Attempt]:
    with forking() as commands:
        yield Places(Stage(commands, folder), seed, folder).attempt


ROW = Row(
    name="places",
    position=10,
    attack="read-only folder, missing permission, clock going back, folder deleted under a command, names with spaces, "
    "quotes, line breaks, 200 characters or HTML",
    bar="a clear line or plain success, never a traceback; nothing is written where nothing may be",
    count=60,
    attempts=attempts,
    limits=("Mounting a folder read-only and becoming another user need root.",),
)
