"""An attack is a numbered series of cases; the campaign runs them, counts how they ended and keeps every failure.

A row's module defines `attempts(seed, folder)`, a context manager that prepares what the cases share and yields a
function from a case's number to its outcome in a few words. A case is drawn from (seed, number) alone, so that
`python -m faults ROW --seed S --only NUMBER` repeats it. A case whose bar does not hold raises `BarBroken`; any other
exception counts as a failure, too.
"""

import random
import re
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from headway.randomness import derive

Attempt = Callable[[int], str]
"""One case by its number: returns how it ended, for example "refused"; raises `BarBroken` if the bar does not hold."""
LONGEST = 600
"""Characters of a failure's description."""


class BarBroken(Exception):
    """The bar of a row does not hold in this case; the message says what was done and what was seen."""


@dataclass(frozen=True)
class Row:
    """An attack: what is tried, the bar, and how many cases the long version has.

    `position` is its place in the table of docs/faults.md. `limits` names what the row does not try, or what could not
    be fixed.
    """

    name: str
    position: int
    attack: str
    bar: str
    count: int
    attempts: Callable[[int, Path], AbstractContextManager[Attempt]]
    limits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failure:
    """A case whose bar did not hold."""

    case: int
    seen: str
    reproduce: str


@dataclass(frozen=True)
class RowResult:
    """What happened in a row: cases by outcome, and each failure with the command that repeats it."""

    row: str
    seed: int
    tried: int
    outcomes: Mapping[str, int]
    failures: tuple[Failure, ...]
    seconds: float
    circumstances: Mapping[str, object] = field(default_factory=dict)


def run(row: Row, count: int, seed: int, *, only: int | None = None, told: Callable[[str], object] = str) -> RowResult:
    """Run cases 0 to count - 1 of a row, or one of them; `told` gets a line for each failure."""
    outcomes: Counter[str] = Counter()
    failures: list[Failure] = []
    numbers: Iterable[int] = range(count) if only is None else [only]
    started = time.perf_counter()
    folder = Path(tempfile.mkdtemp(prefix=f"headway-faults-{row.name}-"))
    try:
        with row.attempts(seed, folder) as attempt:
            for number in numbers:
                try:
                    outcomes[attempt(number)] += 1
                except Exception as problem:
                    outcomes["FAILED"] += 1
                    failures.append(
                        Failure(number, _seen(problem), f"python -m faults {row.name} --seed {seed} --only {number}")
                    )
                    told(f"{row.name} {number}: {failures[-1].seen}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = round(time.perf_counter() - started, 1)
    return RowResult(row.name, seed, outcomes.total(), dict(sorted(outcomes.items())), tuple(failures), seconds)


def _seen(problem: Exception) -> str:
    """What a failure says: the bar that broke, or the last lines of an unexpected exception."""
    text = str(problem) if isinstance(problem, BarBroken) else "".join(traceback.format_exception(problem)[-3:])
    text = " ".join(re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).split())  # without the codes of a terminal
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"


def chance(seed: int, row: str, number: int) -> random.Random:
    """The random numbers of one case."""
    return random.Random(derive(seed, f"faults {row}", number))


def must(holds: bool, seen: str) -> None:
    """Raise `BarBroken` unless the bar holds."""
    if not holds:
        raise BarBroken(seen)
