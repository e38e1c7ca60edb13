"""Ctrl-C and SIGTERM at random moments of every command, half of them in a terminal."""

import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.campaign import Attempt, Row, chance, must
from faults.forking import Ended, forking
from faults.victims import VICTIMS, Stage, Victim, differences, fingerprint

COMMANDS = [victim for victim in VICTIMS.values() if not victim.call]
NUMBERS = (signal.SIGINT, signal.SIGTERM)
GONE_WITHIN = 10.0
"""Seconds in which the processes of an ended command must be gone."""
MARK = "HEADWAY_FAULT_CASE"
DONE = "interrupted when all was done"
"""What a command says that had done its work: what it should leave is then there without another try."""

EARLY = 0.02
"""Seconds after the start in which a forked command may not handle signals yet."""


class Signals:
    def __init__(self, stage: Stage, seed: int, folder: Path):
        self.stage, self.seed, self.folder = stage, seed, folder

    def attempt(self, number: int) -> str:
        victim, terminal = COMMANDS[number % len(COMMANDS)], number // len(COMMANDS) % 2 == 1
        random = chance(self.seed, "signals", number)
        sent, expected = random.choice(NUMBERS), self.stage.expected(victim)
        place = self.stage.place(victim, self.folder / f"case-{number}")
        after, mark = random.uniform(0, expected.seconds), f"{self.folder.name}-{number}"
        before = fingerprint(place)
        fault = {"signal_after": after, "number": sent, "environment": {MARK: mark}}
        ended = self.stage.do(victim, place, **fault, **({"terminal": True} if terminal else {}))
        told = f"{victim.name}, {sent.name} after {after:.2f} s: exit {ended.code}, {ended.printed}"
        must(not left_running(mark), f"{told}: a process is left")
        must(ended.restored is not False, f"{told}: the terminal is not restored")
        if ended.code == -sent and after < EARLY and not ended.printed and fingerprint(place) == before:
            outcome = "ended by the system, before headway handles signals and writes"
        else:
            outcome = self.judged(victim, ended, sent, told)
        apart = differences(fingerprint(place / victim.out), expected.left)
        must(not (apart and DONE in ended.printed), f"{told}; but {'; '.join(apart[:5])}")
        if ended.code != expected.code and DONE not in ended.printed and (apart or not victim.once):
            again = self.stage.do(victim, place)
            must(again.code == expected.code, f"{told}; continued: exit {again.code}, {again.printed}")
            apart = differences(fingerprint(place / victim.out), expected.left)
        must(not apart, f"{told}; continued: {'; '.join(apart[:5])}")
        shutil.rmtree(place)
        return f"{sent.name}{' in a terminal' if terminal else ''}: {outcome}"

    def judged(self, victim: Victim, ended: Ended, sent: signal.Signals, told: str) -> str:
        """How the command ended: by the signal's exit code with one line, or because it had done its work."""
        must("Traceback" not in ended.printed, told)
        if ended.code == self.stage.expected(victim).code:
            return "the command had ended"
        must(ended.code == 128 + sent, told)
        must("headway: " in ended.printed, f"{told}: no line says so")
        if DONE in ended.printed:
            return f"exit {ended.code}, all was done and is there"
        return f"exit {ended.code}, and the next one leaves what it should"


def left_running(mark: str) -> list[int]:
    """The processes that carry a case's mark after some patience."""
    end = time.monotonic() + GONE_WITHIN
    while (found := carrying(mark)) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def carrying(mark: str) -> list[int]:
    wanted, found = f"{MARK}={mark}\0".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


@contextmanager
def attempts(seed: int, folder: Path) -> Iterator[Attempt]:
    with forking() as commands:
        yield Signals(Stage(commands, folder), seed, folder).attempt


ROW = Row(
    name="signals",
    position=9,
    attack=f"Ctrl-C and SIGTERM at random moments of {len(COMMANDS)} commands, half of them in a terminal",
    bar="exit 130 or 143 with one line, no process left, the terminal as it was; the same command then leaves what an "
    "undisturbed one leaves; a command that says it was done has left all, and so has one that refuses a second try",
    count=100,
    attempts=attempts,
    limits=(
        "While Python still imports headway, in the first tenths of a second, a signal ends it as it ends any Python "
        "program: Ctrl-C with a traceback, exit 130. Nothing has been written by then.",
    ),
)
