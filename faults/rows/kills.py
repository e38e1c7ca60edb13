"""SIGKILL at a random moment, or inside a write: the continued command leaves what an undisturbed one leaves."""

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from faults.campaign import Attempt, Row, chance, must
from faults.forking import forking
from faults.victims import VICTIMS, Stage, Victim, differences, fingerprint

ORDER = (
    *("train", "heads", "stack", "lengths", "sweep", "study", "report"),
    *("train", "heads", "stack", "lengths", "sweep", "train"),
    *("heads", "stack", "lengths", "sweep", "study", "report", "train"),
)
"""The commands of twenty cases; cheap ones come more often."""
WORKER_POINTS = 150
"""Points at which a worker of a sweep can die: those of its first three checkpoints."""
MOST_TRIES = 30
"""Times that a kill may come after the end of its command."""


class Kills:
    def __init__(self, stage: Stage, seed: int, folder: Path):
        self.stage, self.seed, self.folder = stage, seed, folder

    def attempt(self, number: int) -> str:
        victim = VICTIMS[ORDER[number % len(ORDER)]]
        random = chance(self.seed, "kills", number)
        inside = (number + number // len(ORDER)) % 2 == 1
        expected = self.stage.expected(victim)
        for _ in range(MOST_TRIES):
            place = self.stage.place(victim, self.folder / f"case-{number}")
            fault = (
                self.fault(victim, random, place) if inside else {"signal_after": random.uniform(0, expected.seconds)}
            )
            ended = self.stage.do(victim, place, **fault)
            if ended.code == -signal.SIGKILL or (place / "worker-died").exists():
                break
            must(ended.code == 0, f"{victim.name} with {fault}: exit {ended.code}, {ended.printed}")
            shutil.rmtree(place)
        else:
            must(False, f"{victim.name}: no kill met it")
        self.compare(victim, place, fault)
        shutil.rmtree(place)
        whose = " (a worker)" if "worker_fuse" in fault else ""
        return f"{victim.name}{whose}, {'inside a write' if inside else 'at a random moment'}: equal"

    def fault(self, victim: Victim, random: Random, place: Path) -> dict[str, Any]:
        """A kill at a file operation; of a sweep, half in its driver and half in a worker."""
        if victim.name == "sweep" and random.random() < 0.5:
            return {"worker_fuse": f"{random.randint(1, WORKER_POINTS)}:{(place / 'worker-died').resolve()}"}
        return {"kill_at": random.randint(1, self.stage.expected(victim).points)}

    def compare(self, victim: Victim, place: Path, fault: dict[str, Any]) -> None:
        """Continue the command, and compare everything it leaves."""
        again = self.stage.do(victim, place)
        must(again.code == 0, f"{victim.name} after {fault}: exit {again.code}, {again.printed}")
        apart = differences(fingerprint(place / victim.out), self.stage.expected(victim).left)
        must(not apart, f"{victim.name} after {fault}: {'; '.join(apart[:5])}")


@contextmanager
def attempts(seed: int, folder: Path) -> Iterator[Attempt]:
    with forking() as commands:
        yield Kills(Stage(commands, folder), seed, folder).attempt


ROW = Row(
    name="kills",
    position=1,
    attack="SIGKILL during training, stacks, sweeps, heads, lengths, studies and reports, half of them inside a write",
    bar="the continued command leaves the same SHA-256 of weights, optimiser, metrics, analyses and pages (times "
    "apart), and no other file",
    count=300,
    attempts=attempts,
    limits=("Only processes are killed. What a loss of power may take is the subject of write-order.",),
)
