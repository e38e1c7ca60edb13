"""The commands that are attacked, at toy size: what each starts from, how it is begun, and how it is continued.

`Stage` prepares trained toy runs once; `Stage.place` copies what a command needs into a new folder. `fingerprint` is
the SHA-256 of every file that a command leaves, with times left out: an interrupted and an uninterrupted command must
leave the same.
"""

import copy
import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.campaign import must
from faults.forking import Commands, Ended
from headway.runs import RunDirectory
from headway.studies.plan import Arm, HeadsOf, Study

ADDITION = """
[task]
name = "addition"
digits = 2
leading_zeros = true
[data]
train = 40
validation = 6
test = 20
[model]
d_model = 8
n_heads = 2
d_ff = 16
encoder_layers = 1
decoder_layers = 1
dropout = 0.1
[train]
steps = 24
batch_size = 8
lr = 0.01
validate_every = 4
keep_every = 12
"""
SORTEDNESS = """
[task]
name = "sortedness"
min_length = 3
max_length = 5
test_lengths = [7]
[data]
train = 40
validation = 10
test = 20
[model]
shape = "encoder"
d_model = 8
n_heads = 2
d_ff = 16
encoder_layers = 1
[train]
steps = 12
batch_size = 8
lr = 0.01
validate_every = 6
"""
STUDY = Study(
    arms=(Arm(name="addition", recipe="addition.toml"),),
    seeds=(0,),
    measured="accuracy",
    heads=HeadsOf(examples=20),
)
"""A study of one run, whose training and analyses all happen in the command's own process."""


@dataclass(frozen=True)
class Victim:
    """A command that writes: `starts_from` a trained run or nothing, and leaves its files in `out`.

    `call` replaces the command line by a Python function, where there is no command. `once`: the command refuses a
    directory that is there.
    """

    name: str
    arguments: tuple[str, ...]
    out: str
    starts_from: str = ""
    call: str = ""
    resume: bool = False
    once: bool = False

    def words(self, folder: Path, *, progress: bool = False) -> tuple[str, ...]:
        """The command line; continuing a training needs --resume."""
        shown = [word for word in self.arguments if not (progress and word == "--quiet")]
        return (*shown, *(["--resume"] if self.resume and (folder / self.out).exists() else []))

    def options(self) -> dict[str, Any]:
        return {"call": self.call} if self.call else {}


VICTIMS = {
    one.name: one
    for one in (
        Victim("train", ("train", "addition.toml", "--out", "run", "--quiet"), "run", resume=True),
        Victim("stack", ("addition.toml", "stacked"), "stacked", call="faults.victims:train_three"),
        Victim(
            "sweep",
            ("sweep", "addition.toml", "--vary", "train.lr=0.01,0.02", "--out", "sweep", "--workers", "2", "--quiet"),
            "sweep",
        ),
        Victim("heads", ("heads", "run", "--n", "20", "--no-figures", "--quiet"), "run", "trained"),
        Victim("lengths", ("lengths", "run", "--n", "4", "--no-figures", "--quiet"), "run", "sortedness"),
        Victim("study", ("study", "addition", "--preset", "toy", "--no-figures", "--out", "study", "--quiet"), "study"),
        Victim("report", ("report", "run", "--quiet"), "run", "addition"),
        Victim("evaluate", ("evaluate", "run", "--quiet"), "run", "trained"),
        Victim("attack", ("attack", "run", "--tries", "20", "--quiet"), "run", "addition"),
        Victim("doctor", ("doctor", "run", "--quiet"), "run", "addition"),
        Victim("explore", ("explore", "run", "--out", "pages/page.html", "--quiet"), "pages", "addition"),
        Victim("prune", ("prune", "run", "--keep", "enc0.self.h1", "--out", "pruned", "--quiet"), "pruned", "addition"),
        Victim(
            "data", ("data", "sortedness", "--set", "data.train=300", "--out", "data", "--quiet"), "data", once=True
        ),
        Victim("new", ("new", "task", "package", "--quiet"), "package", once=True),
        Victim("exercise", ("exercise", "exercise", "--quiet"), "exercise", once=True),
    )
}
"""Commands by name; docs/commands describes them."""


def train_three(recipe: str, out: str) -> int:
    """Train three seeds as a stack, which on a CPU only Python does; 0 as an exit code."""
    from headway.config import load_recipe
    from headway.errors import InputError
    from headway.training import train_stack

    configs = [load_recipe(Path(recipe), [], seed) for seed in range(3)]
    places = [Path(out) / f"seed{seed}" for seed in range(3)]
    try:
        found = train_stack(configs, places, device="cpu", resume=True)
    except InputError as error:
        print(f"headway: {error}")
        return 2
    return int(any(isinstance(one, Exception) for one in found))


@dataclass(frozen=True)
class Undisturbed:
    """A command that nothing happened to: its seconds, its points for a fuse, and what it left."""

    seconds: float
    points: int
    left: dict[str, str]
    code: int = 0


class Stage:
    """Trained toy runs, made once, from which every case gets copies."""

    def __init__(self, commands: Commands, folder: Path):
        self.commands, self.folder, self.prepared = commands, folder, folder / "prepared"
        self.undisturbed: dict[str, Undisturbed] = {}
        self.prepared.mkdir()
        for task, name, text in (("addition", "trained", ADDITION), ("sortedness", "sortedness", SORTEDNESS)):
            (self.prepared / f"{task}.toml").write_text(text)
            (self.prepared / name).mkdir()
            self._do(name, "train", f"../{task}.toml", "--out", "run")
        shutil.copytree(self.prepared / "trained", self.prepared / "addition")
        self._do("addition", "evaluate", "run")
        self._do("addition", "heads", "run", "--n", "20", "--no-figures")

    def _do(self, place: str, *words: str) -> None:
        ended = self.commands.run(self.prepared, *words, "--quiet", cwd=str(self.prepared / place))
        must(ended.code == 0, f"headway {words[0]}, undisturbed: {ended.printed}")

    def place(self, victim: Victim, folder: Path) -> Path:
        """A new folder with what the command starts from."""
        folder.mkdir(parents=True)
        for recipe in self.prepared.glob("*.toml"):
            shutil.copy(recipe, folder)
        if victim.starts_from:
            shutil.copytree(self.prepared / victim.starts_from, folder, dirs_exist_ok=True)
        (folder / "pages").mkdir()
        return folder

    def do(self, victim: Victim, folder: Path, **fault: Any) -> Ended:
        """The command, or its continuation, with at most one fault."""
        words = victim.words(folder, progress=fault.get("terminal") is True)
        log = fault.pop("log", folder)
        return self.commands.run(log, *words, cwd=str(folder), **victim.options(), **fault)

    def expected(self, victim: Victim) -> Undisturbed:
        """What the command leaves if nothing happens to it; it is run once."""
        if victim.name not in self.undisturbed:
            place = self.place(victim, self.folder / f"undisturbed-{victim.name}")
            ended = self.do(victim, place, count=str(place / "points"))
            must(ended.code in (0, 1), f"{victim.name}, undisturbed: {ended.printed}")  # 1: it reports an error
            left, points = fingerprint(place / victim.out), int((place / "points").read_text())
            self.undisturbed[victim.name] = Undisturbed(ended.seconds, points, left, int(ended.code == 1))
        return self.undisturbed[victim.name]

    def broken_by(self, plant: str) -> "Stage":
        """The same runs, for commands in which something is broken."""
        broken = copy.copy(self)
        broken.commands = self.commands.broken_by(plant)
        return broken


UNEQUAL = ("lock", "provenance.json", "MANIFEST", "log.txt")
"""Files that differ from one undisturbed run to the next: they hold times (a manifest: the digest of one that does)."""
TIMES = ("seconds", "time", "took", "sha256")
"""Fields with times, and the checksum of a document, which covers them."""
SHOWN_TIMES = re.compile(
    rb"""\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|<data value="[0-9.]+" data-at="[^"]*seconds">[^<]*"""
    rb"""|(in|and) [\d.]+ m?s\b| --quiet"""
)
"""What differs on a page: the clock, how long something took, and whether the command was to print its progress."""


def fingerprint(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file below a folder, by path, without times."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in UNEQUAL)
    return {str(path.relative_to(folder)): hashlib.sha256(content_of(path)).hexdigest() for path in files}


def content_of(path: Path) -> bytes:
    """A file's content, without times and without the notes that a run was continued."""
    if path.name == "metrics.jsonl":
        rows = [row for row in RunDirectory(path.parent).metrics() if "resumed_at" not in row]
        return json.dumps(rows).encode()
    if path.suffix == ".json":
        return json.dumps(without_times(json.loads(path.read_bytes())), sort_keys=True).encode()
    if path.suffix == ".jsonl":
        rows = [without_times(json.loads(line)) for line in path.read_text().splitlines()]
        return json.dumps(rows, sort_keys=True).encode()
    return SHOWN_TIMES.sub(b"", path.read_bytes())


def without_times(value: Any) -> Any:
    """A document without times, and without the digest of heads.json, which holds one."""
    if isinstance(value, Mapping):
        kept = {key: one for key, one in value.items() if key not in TIMES and not (key == "heads" and one == str(one))}
        return {key: without_times(one) for key, one in kept.items()}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def differences(found: Mapping[str, str], expected: Mapping[str, str]) -> list[str]:
    """The files that are missing, too many or different, in words."""
    return [
        f"{name} is {'missing' if name not in found else 'left over' if name not in expected else 'different'}"
        for name in sorted({*found, *expected})
        if found.get(name) != expected.get(name)
    ]
