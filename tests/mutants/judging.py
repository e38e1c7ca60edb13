"""Whether the tests notice a planted bug: the tests that mirror its file first, then a wider ring."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutants.catalogue import ROOT, Mutant
from tests.mutants.copies import Copy, Outcome, files_in

SLOWER, SPARE = 6, 120
"""A run with a bug may take six times what it takes without, and two minutes: other processes share the machine."""
OTHER = re.compile(r"^tests/(.*/)?test_[^/]*$|^tests/mutants/")
"""Files that a test file does not depend on: other test files, and the planted bugs."""
LONGEST = 1_800
"""Seconds that tests without a bug may take."""

NOTICED, TIME_LIMIT, SURVIVED = "noticed", "time limit", "survived"
NOT_JUDGED, NOT_IMPORTED = "not judged", "not imported"


@dataclass(frozen=True)
class Verdict:
    """What the tests said of one bug."""

    id: str
    digest: str
    verdict: str
    """noticed: a test failed; time limit: the tests did not end; survived: all passed; not judged: they fail without
    the bug, too; not imported: a file could not be imported, so that the bug proves nothing."""
    ring: str
    """Where it was noticed: mirrored or wider."""
    test: str
    """The first test that failed."""
    seconds: float

    @property
    def seen(self) -> bool:
        return self.verdict in (NOTICED, TIME_LIMIT)


class Baselines:
    """How long each test file takes without a bug; it must pass. Kept in a file, for all files but other tests as now.

    `failing` are those that fail without any bug.
    """

    def __init__(self, path: Path, root: Path = ROOT):
        self.path, self.root = path, root
        others = [name for name in files_in(root) if not OTHER.search(name)]
        self.code = digest_of(root / name for name in others)
        self.known: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
        self.failing: set[str] = set()

    def seconds(self, test: str, copy: Copy) -> float | None:
        """None if the file fails without any bug."""
        place = self.root / test.split("::")[0]
        key = f"{test} {self.code} {digest_of([place] if place.is_file() else sorted(place.rglob('*.py')))}"
        if test in self.failing:
            return None
        if key not in self.known:
            outcome = copy.run((test,), LONGEST)
            if outcome.status != 0:
                print(f"  without a bug {test} ends with {outcome.status}:\n{outcome.output}", flush=True)
                self.failing.add(test)
                return None
            self.known[key] = outcome.seconds
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(self.known, indent=1))
        return self.known[key]


def digest_of(paths: Iterable[Path]) -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()[:12]


def judge(mutant: Mutant, copy: Copy, baselines: Baselines, wider: tuple[str, ...] = ()) -> Verdict:
    """Plant the bug, and run the mirrored tests; those of the wider ring only if they all pass.

    A test file that fails without the bug says nothing: of the mirrored ones all must pass, of the others those that do
    are asked.
    """
    seconds, test, verdict = 0.0, "", SURVIVED
    rings = {"mirrored": mutant.tests, "wider": tuple(name for name in wider if name not in mutant.tests)}
    for ring, tests in rings.items():
        usual = {name: baselines.seconds(name, copy) for name in tests}
        passing = {name: took for name, took in usual.items() if took is not None}
        if ring == "mirrored" and len(passing) < len(tests):
            return Verdict(mutant.id, mutant.digest, NOT_JUDGED, "", "", 0.0)
        if not passing:
            continue
        with copy.planted(mutant):
            outcome = copy.run(tuple(passing), SLOWER * sum(passing.values()) + SPARE)
        seconds += outcome.seconds
        verdict, test = verdict_of(outcome), outcome.failed
        if verdict != SURVIVED:
            return Verdict(mutant.id, mutant.digest, verdict, ring, test, round(seconds, 1))
    return Verdict(mutant.id, mutant.digest, verdict, "", "", round(seconds, 1))


def verdict_of(outcome: Outcome) -> str:
    if outcome.status is None:
        return TIME_LIMIT
    if outcome.status == 0:
        return SURVIVED
    return NOTICED if outcome.status == 1 else NOT_IMPORTED


def read_verdicts(path: Path) -> dict[tuple[str, str], Verdict]:
    """The last verdict of each bug and digest."""
    lines = path.read_text().splitlines() if path.exists() else []
    found = [Verdict(**json.loads(line)) for line in lines]
    return {(verdict.id, verdict.digest): verdict for verdict in found}


def survived_at_first(path: Path) -> list[str]:
    """The bugs that the mirrored tests did not notice the first time, before tests were written for them."""
    lines = path.read_text().splitlines() if path.exists() else []
    found = [Verdict(**json.loads(line)) for line in lines]
    first = {verdict.id: verdict for verdict in reversed(found) if verdict.seen or verdict.verdict == SURVIVED}
    return [name for name, verdict in first.items() if verdict.ring != "mirrored"]


def append(path: Path, verdict: Verdict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        print(json.dumps(asdict(verdict)), file=file, flush=True)
