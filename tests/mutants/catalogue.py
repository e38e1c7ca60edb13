"""The planted bugs, as data: which text of which file becomes which, and what a user would see."""

import hashlib
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = Path("src/headway")
PLANTED = Path(__file__).parent / "planted"
KEYS = {"id", "file", "old", "new", "seen", "tests", "earlier", "judged", "round"}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One bug. `old` occurs exactly once in the file."""

    id: str
    file: str
    """Below src/headway."""
    old: str
    new: str
    seen: str
    """What a user would see, in one sentence."""
    tests: tuple[str, ...]
    """Test files that are asked first, those that mirror the file; each may be narrowed to one test with ::name."""
    earlier: bool = False
    """It is one of the twelve bugs that the suite did not notice when 66 were planted."""
    judged: str = ""
    """Why it may survive; empty for a bug that must be noticed."""
    round: int = 1
    """2 and higher: planted after the tests for the survivors of the round before were written."""

    @property
    def room(self) -> str:
        first, *rest = Path(self.file).parts
        return "page" if "page" in rest or "stored_page" in rest else first.removesuffix(".py")

    @property
    def digest(self) -> str:
        """Changes with the bug or with the tests that are asked, so that an old verdict is not taken for a new one."""
        parts = (self.file, self.old, self.new, *self.tests)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    def plant(self, text: str) -> str:
        """The file's text with the bug; ValueError if the bug does not fit the text any more."""
        if (found := text.count(self.old)) != 1:
            raise ValueError(f"{self.id}: the old text occurs {found} times in {self.file}, not once: {self.old!r}")
        if self.old == self.new:
            raise ValueError(f"{self.id}: old and new text are the same")
        return text.replace(self.old, self.new)


def read_catalogue(folder: Path = PLANTED) -> list[Mutant]:
    """All planted bugs, in the order of their files; ValueError names a record that is wrong."""
    found = [mutant for path in sorted(folder.glob("*.toml")) for mutant in read_file(path)]
    ids = [mutant.id for mutant in found]
    if twice := {name for name in ids if ids.count(name) > 1}:
        raise ValueError(f"two bugs with the name {', '.join(sorted(twice))}")
    return found


def read_file(path: Path) -> Iterable[Mutant]:
    """The bugs of one file, which may begin with the `tests` of those that name none."""
    document = tomllib.loads(path.read_text())
    for record in document["mutant"]:
        if unknown := set(record) - KEYS:
            raise ValueError(f"{path.name}: {record.get('id')}: unknown key {', '.join(sorted(unknown))}")
        tests = tuple(record.pop("tests", document.get("tests", ())))
        if not tests:
            raise ValueError(f"{path.name}: {record['id']}: no tests are named")
        yield Mutant(**record, tests=tests)
