"""Two processes on one run, stack, sweep or study: one writes, the other is turned away with the first one's number."""

import json
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.campaign import Attempt, Row, chance, must
from faults.forking import Ended, forking
from faults.victims import VICTIMS, Stage, Victim, differences, fingerprint
from headway.runs import RunDirectory

ORDER = ("train", "stack", "train", "sweep", "train", "stack", "train", "stack", "train", "study")
KINDS = ("together", "later", "after a kill")
"""Both start at once; the second starts while the first works; the first is killed, and the second starts at once."""
REFUSED = re.compile(r"headway: .* is being written by process (\d+)$")
ENDED_BEFORE = re.compile(r"headway: .* holds a run already; --resume continues it")


class Races:
    def __init__(self, stage: Stage, seed: int, folder: Path):
        self.stage, self.seed, self.folder = stage, seed, folder

    def attempt(self, number: int) -> str:
        victim, kind = VICTIMS[ORDER[number % len(ORDER)]], KINDS[number % len(KINDS)]
        random = chance(self.seed, "races", number)
        seconds = self.stage.expected(victim).seconds
        place = self.stage.place(victim, self.folder / f"case-{number}")
        if kind == "after a kill":
            said = self.take_over(victim, place, random.uniform(0, seconds))
        else:
            said = self.race(victim, place, random.uniform(0, 0.02 if kind == "together" else 0.9 * seconds))
        apart = differences(fingerprint(place / victim.out), self.stage.expected(victim).left)
        must(not apart, f"{victim.name}, {kind}, {said}: {'; '.join(apart[:5])}")
        shutil.rmtree(place)
        return f"{victim.name}, {kind}: {said}"

    def take_over(self, victim: Victim, place: Path, after: float) -> str:
        """Kill a process, which leaves its lock file, and start another on the same directory."""
        first = self.stage.do(victim, place, signal_after=after)
        must(first.code in (0, -signal.SIGKILL), f"{victim.name}, killed: exit {first.code}, {first.printed}")
        second = self.stage.do(victim, place)
        must(second.code == 0, f"{victim.name} after a kill at {after:.2f} s: exit {second.code}, {second.printed}")
        return "taken over" if first.code else "it had ended"

    def race(self, victim: Victim, place: Path, delay: float) -> str:
        """Start two at once or a moment apart; one of them writes everything."""
        options = {"cwd": str(place), **victim.options()}
        asked = [(place, victim.arguments, {**options, "delay": one}) for one in (0.0, delay)]
        ended = self.stage.commands.run_together(asked)
        writer, other = sorted(ended, key=lambda one: one.code != 0)
        told = f"{victim.name}, {delay:.2f} s apart: {[(one.code, one.printed) for one in ended]}"
        must(writer.code == 0, f"none of two wrote: {told}")
        resumed = [record for record in place.rglob("provenance.json") if json.loads(record.read_text()).get("resumed")]
        must(not resumed, f"both wrote: {told}")
        must(all(not again(path) for path in place.rglob("metrics.jsonl")), f"both wrote metrics: {told}")
        return self.judged(other, writer, told)

    def judged(self, other: Ended, writer: Ended, told: str) -> str:
        """How the second process ended: turned away by the writer's number, or after the writer's end."""
        lines = other.printed.splitlines()
        refused = [match for line in lines if (match := REFUSED.match(line))]
        if other.code == 2 and len(lines) == 1 and refused:
            must(int(refused[0][1]) == writer.pid, f"another process is named than {writer.pid}: {told}")
            return "turned away, the writer named"
        if other.code == 2 and len(lines) == 1 and ENDED_BEFORE.match(lines[0]):
            return "turned away from a run that had ended"
        must(other.code == 0, f"the other was not turned away: {told}")
        return "found everything done"


def again(metrics: Path) -> bool:
    """Whether a training was continued, as it is if two processes write it one after the other."""
    return any("resumed_at" in row for row in RunDirectory(metrics.parent).metrics())


@contextmanager
def attempts(seed: int, folder: Path) -> Iterator[Attempt]:
    with forking() as commands:
        yield Races(Stage(commands, folder), seed, folder).attempt


ROW = Row(
    name="races",
    position=5,
    attack="two processes on one run, stack, sweep or study; a lock left by a killed process",
    bar="one writes and the other exits with 2 and names it; after a kill the next takes over; the result is one's",
    count=100,
    attempts=attempts,
    limits=(
        "Locks are those of flock, which a killed process loses. Over a network they hold as far as the file system "
        "supports flock between machines; where it has none, the command says so and writes nothing.",
        "Analyses of one run may run at once: each waits for the other's write, and a file is replaced whole.",
    ),
)
