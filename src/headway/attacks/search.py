"""The search: batches drawn from attack families, and hill climbing from their worst inputs to smaller margins.

An island is one family at one length, with its inputs of smallest margin. Each round draws a batch from every family
and mutates the worst inputs of every island. The islands with the smallest margins get more batches, and so do
enumerable families at the shortest length. The search depends on the seed alone; a time budget only decides after which
batch it stops.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int

from headway.attacks.gradients import steepest
from headway.attacks.mutations import mutate
from headway.attacks.scoring import margins
from headway.evaluation import Trained, rows_at_once
from headway.randomness import generator
from headway.results.attack import Ended
from headway.tasks import Examples, Task
from headway.tasks.attack_families import Family, ListedFamily
from headway.tasks.splits import fingerprint

Rows = Int[np.ndarray, "batch width"]
OnBatch = Callable[[float, "Search"], None]
"""Called after each batch with the seconds since the start and the search."""

ELITE = 32
"""Inputs of smallest margin that an island keeps for hill climbing."""
PATIENCE = 12
"""Batches of hill climbing without a smaller margin, after which an island restarts from new inputs."""
ROWS_A_GRADIENT = 16
"""One input in so many of a batch gets a gradient, which costs about three forward passes and more memory."""
FOCUS = 4
"""The best 1 / FOCUS of the islands, by smallest margin, get FOCUS more batches of hill climbing per round."""
ENOUGH = 100
"""A length is no longer searched after this many failing inputs."""
REMEMBERED = 2_000_000
"""Inputs whose hashes are stored so that none is tried twice; beyond this number repeats are possible, but a failing
input counts once."""
FOR_SEARCH = 0.9
"""Share of the time budget after which a search with failures ends; the rest is for confirming and simplifying."""
IDLE = 10
"""The search ends after this many rounds without a new input."""


@dataclass(frozen=True)
class Budget:
    """The limits of a search: seconds and tried inputs."""

    seconds: float
    tries: float = math.inf
    start: float = field(default_factory=time.monotonic)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.start


@dataclass(frozen=True)
class Failure:
    """An input with a margin below 0, with its length, its family and the number of inputs tried before it."""

    source: Int[np.ndarray, " width"]
    margin: float
    length: int | None
    family: str
    climbed: bool
    after: int


@dataclass(frozen=True)
class Fall:
    """A new smallest margin, after `tried` inputs."""

    tried: int
    margin: float
    length: int | None
    family: str
    climbed: bool


class Island:
    """One family at one length."""

    def __init__(self, task: Task, length: int | None, name: str, family: Family, seed: int):
        self.task, self.length, self.name, self.family = task, length, name, family
        self.purpose = f"attack/{length or 0}/{name}"
        self.seed = seed
        self.drawn = self.climbed = self.found = 0
        self.smallest = math.inf
        self.batches = self.taken = self.stale = 0
        self.elite: Rows = np.zeros((0, 0), dtype=np.int64)
        self.elite_margins: Float[np.ndarray, " batch"] = np.zeros(0)
        self.newest: tuple[Rows, np.ndarray] = (self.elite, self.elite_margins)

    @property
    def exhausted(self) -> bool:
        """Whether every input of an enumerable family was tried."""
        return isinstance(self.family, ListedFamily) and self.taken >= self.family.size

    def next_random(self) -> np.random.Generator:
        self.batches += 1
        return generator(self.seed, self.purpose, self.batches)

    def draw(self, n: int) -> Rows:
        """The next inputs of the family; an enumerable family gives each input once, in a spread-out order."""
        random = self.next_random()
        if not isinstance(self.family, ListedFamily):
            return self.family.draw(random, n)
        size = self.family.size
        step = _coprime(int(size * 0.6180339887), size)
        number = (
            generator(self.seed, self.purpose).integers(size) + step * np.arange(self.taken, self.taken + n)
        ) % size
        number = number[: max(0, size - self.taken)]
        self.taken += n
        return self.family.pick(number)

    def climb(self, n: int, tokens: np.ndarray, trained: Trained) -> Rows:
        """Mutations of the inputs with the smallest margins; after `PATIENCE` batches without progress, of new inputs.

        Half of them are single-token changes along the margin's gradient, half random edits; long inputs get random
        edits only.
        """
        if self.stale >= PATIENCE:
            self.elite, self.elite_margins = self.newest
            self.stale = 0
        random, pad = self.next_random(), self.task.vocabulary.pad
        # The smaller the margin, the more often an input is changed.
        parents = (random.random(n) ** 2 * len(self.elite)).astype(np.int64)
        mates = random.integers(0, len(self.elite), size=n)
        rows = mutate(random, self.elite[parents], self.elite[mates], tokens, pad)
        if n < ROWS_A_GRADIENT:
            return rows
        best = self.elite[: n // ROWS_A_GRADIENT]
        suggested = steepest(trained, best, tokens)
        if suggested is not None:
            places, others = suggested
            half = np.arange(n // 2)
            which, change = parents[half] % len(best), random.integers(0, places.shape[1], size=len(half))
            rows[half] = best[which]
            rows[half, places[which, change]] = others[which, change]
        return rows

    def keep(self, rows: Rows, found: Float[np.ndarray, " batch"], climbed: bool) -> None:
        """Keep the inputs with the smallest margins."""
        best = np.argsort(found, kind="stable")[:ELITE]
        if not climbed:
            self.newest = rows[best], found[best]
        before = self.elite_margins[0] if len(self.elite) else math.inf
        if len(self.elite):
            rows, found = np.concatenate([self.elite, rows[best]]), np.concatenate([self.elite_margins, found[best]])
            best = np.argsort(found, kind="stable")[:ELITE]
        self.elite, self.elite_margins = rows[best], found[best]
        if climbed:
            self.stale = 0 if self.elite_margins[0] < before else self.stale + 1


def _coprime(near: int, size: int) -> int:
    """The first number from `near` on that is coprime to `size`."""
    return next(one for one in range(max(1, near), near + size + 2) if math.gcd(one, size) == 1)


class Search:
    """Tries inputs of all islands until the budget is spent; results can be read at any time."""

    def __init__(self, trained: Trained, lengths: list[int | None], seed: int, budget: Budget, report: OnBatch):
        self.trained, self.budget, self.report = trained, budget, report
        self.islands = [
            Island(trained.task if length is None else trained.task.at_length(length), length, name, family, seed)
            for length in lengths
            for name, family in trained.task.attack_families(length).items()
        ]
        self.tried = self.refused = 0
        self.failures: list[Failure] = []
        self.falls: list[Fall] = []
        self.seen: set[int] = set()
        self.tokens: dict[int | None, np.ndarray] = {}
        self.ended: Ended = "time"

    @property
    def smallest(self) -> float:
        return self.falls[-1].margin if self.falls else math.inf

    def run(self) -> None:
        idle = 0
        while not self.over():
            before = self.tried
            for island, climbing in self._round():
                if self.over():
                    return
                self._try(island, climbing)
            idle = 0 if self.tried > before else idle + 1
            if idle >= IDLE or not self._open():
                self.ended = "failures" if not self._open() else "inputs"
                return

    def over(self) -> bool:
        if self.tried >= self.budget.tries:
            self.ended = "tries"
            return True
        share = FOR_SEARCH if self.failures else 1.0
        return self.budget.elapsed >= share * self.budget.seconds

    def _open(self) -> list[Island]:
        """The islands of lengths with fewer than `ENOUGH` failures."""
        counts: dict[int | None, int] = {}
        for failure in self.failures:
            counts[failure.length] = counts.get(failure.length, 0) + 1
        return [island for island in self.islands if counts.get(island.length, 0) < ENOUGH]

    def _round(self) -> Iterator[tuple[Island, bool]]:
        """The islands of one round in order, each with whether it climbs."""
        for island in self._open():
            if not island.exhausted:
                yield island, False
            yield island, True
        ordered = sorted(self._open(), key=lambda island: island.smallest)
        for island in ordered[: max(1, len(ordered) // FOCUS)]:
            for _ in range(FOCUS):
                yield island, True
        yield from self._sweep(len(ordered))

    def _sweep(self, batches: int) -> Iterator[tuple[Island, bool]]:
        """More batches of the enumerable families at the shortest length, until all their inputs were tried."""
        shortest = min((island.length or 0 for island in self.islands), default=0)
        listed = [one for one in self._open() if isinstance(one.family, ListedFamily) and (one.length or 0) == shortest]
        for turn in range(batches if listed else 0):
            island = listed[turn % len(listed)]
            if not island.exhausted:
                yield island, False

    def _try(self, island: Island, climbing: bool) -> None:
        """Run one batch: drop invalid and repeated inputs, compute margins, keep the worst inputs."""
        if climbing and not len(island.elite):
            return
        n = int(min(self._batch_size(island), self.budget.tries - self.tried))
        rows = island.climb(n, self.tokens[island.length], self.trained) if climbing else island.draw(n)
        rows = self._new_inputs(island, rows)
        if not climbing:
            self._learn_tokens(island, rows)
        if not len(rows):
            return
        found = margins(self.trained, rows)
        if climbing:
            island.climbed += len(rows)
        else:
            island.drawn += len(rows)
        self._note(island, rows, found, climbing)
        self.tried += len(rows)
        island.keep(rows, found, climbing)
        self.report(self.budget.elapsed, self)

    def _batch_size(self, island: Island) -> int:
        width = island.length or self.trained.task.widths()[0]
        answer = np.zeros((1, self.trained.task.longest_answer(width) or 0), dtype=np.int64)
        target = np.zeros(1, dtype=np.int64) if self.trained.task.kind == "class" else answer
        return rows_at_once(self.trained, Examples(np.zeros((1, width), dtype=np.int64), target))

    def _new_inputs(self, island: Island, rows: Rows) -> Int[np.ndarray, "some wider"]:
        """Valid rows that were not tried before, padded to the island's width."""
        pad = island.task.vocabulary.pad
        valid = island.task.is_valid(rows)
        self.refused += int((~valid).sum())
        rows = rows[valid]
        width = max(rows.shape[1], island.elite.shape[1])
        island.elite = _widened(island.elite, width, pad)
        island.newest = _widened(island.newest[0], width, pad), island.newest[1]
        rows = _widened(rows, width, pad)
        return rows[self._unseen(_keys(rows, island))]

    def _unseen(self, keys: Rows) -> Bool[np.ndarray, " batch"]:
        fresh, batch = np.zeros(len(keys), dtype=bool), set[int]()
        for row, key in enumerate(fingerprint(keys, 0).tolist()):
            if key not in self.seen and key not in batch:
                fresh[row] = True
                (self.seen if len(self.seen) < REMEMBERED else batch).add(key)
        return fresh

    def _learn_tokens(self, island: Island, rows: Rows) -> None:
        """Add the tokens seen in inputs of this length to the tokens that an edit may write."""
        known = self.tokens.get(island.length, np.zeros(0, dtype=np.int64))
        here = np.unique(rows)
        self.tokens[island.length] = np.union1d(known, here[here != island.task.vocabulary.pad])

    def _note(self, island: Island, rows: Rows, found: Float[np.ndarray, " batch"], climbed: bool) -> None:
        worst = int(np.argmin(found))
        island.smallest = min(island.smallest, float(found[worst]))
        if found[worst] < self.smallest:
            after = self.tried + worst + 1
            self.falls.append(Fall(after, float(found[worst]), island.length, island.name, climbed))
        failing = np.flatnonzero(found < 0)
        self.seen.update(fingerprint(_keys(rows[failing], island), 0).tolist())
        for row in failing.tolist():
            island.found += 1
            after = self.tried + row + 1
            failure = Failure(rows[row], float(found[row]), island.length, island.name, climbed, after)
            self.failures.append(failure)


def _keys(rows: Rows, island: Island) -> Rows:
    """The rows without padding, for their fingerprints."""
    return np.where(rows == island.task.vocabulary.pad, -1, rows)


def _widened(rows: Rows, width: int, pad: int) -> Int[np.ndarray, "batch {width}"]:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=pad)
