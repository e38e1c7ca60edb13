"""Side by side: times from alternating runs, ratios with their spread, floors and growth.

A row of the table is a value with its spread, and never an absolute time alone.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from scipy import stats
from torch.utils.flop_counter import FlopCounterMode

Work = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One line of the table: `value` is a ratio (theirs over ours) or an exponent, with its spread.

    `by_operations` is the ratio that counting multiplications gives, `floor` how many times as long as the
    multiplications alone our side takes.
    """

    part: str
    what: str
    against: str
    value: float
    low: float
    high: float
    repeats: int
    unit: str = "times"
    by_operations: float | None = None
    floor: float | None = None
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Settings:
    """How large every part is: full, for a GPU, or a toy that a test can wait for."""

    device: torch.device
    toy: bool = False
    repeats: int = 3
    seeds: tuple[int, ...] = (0,)
    whole: bool = False
    """Time to 99.9 % checks all sums instead of a tenth of them."""

    @property
    def cuda(self) -> bool:
        return self.device.type == "cuda"

    def pick(self, toy: Any, cpu: Any, cuda: Any) -> Any:
        """The size for this run."""
        return toy if self.toy else cuda if self.cuda else cpu


def seconds_of(work: Work, device: torch.device, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds until everything is done, on a GPU too."""
    synchronise(device)
    start = clock()
    work()
    synchronise(device)
    return clock() - start


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def alternate(ours: Work, theirs: Work, repeats: int, device: torch.device) -> list[tuple[float, float]]:
    """Seconds of both sides, one right after the other; who goes first changes every time."""
    return [(own, other) for own, other in in_turns([ours, theirs], repeats, device)]


def in_turns(
    works: Sequence[Work], repeats: int, device: torch.device, clock: Callable[[], float] = time.perf_counter
) -> list[list[float]]:
    """Seconds of every work, one right after the other; who goes first changes every time."""
    rounds = []
    for repeat in range(repeats):
        order = [(place + repeat) % len(works) for place in range(len(works))]
        found = {place: seconds_of(works[place], device, clock) for place in order}
        rounds.append([found[place] for place in range(len(works))])
    return rounds


def measure_ratio(
    settings: Settings,
    part: str,
    what: str,
    against: str,
    ours: Work,
    theirs: Work,
    *,
    note: str = "",
    details: dict[str, Any] | None = None,
    rescale: float = 1.0,
) -> Row:
    """Theirs over ours from alternating runs, after one of each that counts operations and warms up.

    `rescale` is how much more work ours does than theirs, where they were not given the same amount.
    """
    operations = [count_operations(work) for work in (ours, theirs)]
    pairs = alternate(ours, theirs, settings.repeats, settings.device)
    least = operations[0] / peak(settings.device)
    median = statistics.median(own for own, _ in pairs)
    return ratio_row(
        part,
        what,
        against,
        [rescale * other / own for own, other in pairs],
        by_operations=rescale * operations[1] / operations[0],
        floor=median / least,
        note=note,
        details={
            "ours_seconds": [own for own, _ in pairs],
            "theirs_seconds": [other for _, other in pairs],
            "ours_operations": operations[0],
            "theirs_operations": operations[1],
            **(details or {}),
        },
    )


def ratio_row(part: str, what: str, against: str, ratios: Sequence[float], **others: Any) -> Row:
    """Median, least and most of some ratios."""
    return Row(part, what, against, statistics.median(ratios), min(ratios), max(ratios), len(ratios), **others)


def count_operations(work: Work) -> float:
    """Floating-point operations in matrix products; everything else is left out."""
    with FlopCounterMode(display=False) as counter:
        work()
    return float(counter.get_total_flops())


_PEAKS: dict[str, float] = {}


def peak(device: torch.device) -> float:
    """Operations a second of a large fp32 matrix product here, what a floor is counted in: the best seen so far."""
    size = 8_192 if device.type == "cuda" else 1_024
    one, other = torch.randn(2, size, size, device=device)
    best = min(seconds_of(lambda: one @ other, device) for _ in range(5))
    _PEAKS[device.type] = max(2 * size**3 / best, _PEAKS.get(device.type, 0.0))
    return _PEAKS[device.type]


def fastest(candidates: Sequence[int], work: Callable[[int], object], device: torch.device) -> int:
    """The candidate (a batch size) with which some work is done soonest; the better of two tries each."""
    return min(candidates, key=lambda size: min(seconds_of(lambda: work(size), device) for _ in range(2)))


def fit_exponent(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float, float]:
    """The slope of log time against log size, and its 95 % interval (t, from the residuals)."""
    found = stats.linregress([math.log(size) for size in sizes], [math.log(second) for second in seconds])
    half = stats.t.ppf(0.975, len(sizes) - 2) * found.stderr
    return float(found.slope), float(found.slope - half), float(found.slope + half)


def growth(
    settings: Settings, what: str, sizes: Sequence[int], measure: Callable[[int], float], note: str = "", scale: int = 1
) -> Row:
    """How seconds grow with a size: the fitted exponent over sizes measured in turns, all of them in every repeat.

    The first round warms up.
    """
    rounds = [[measure(size) for size in sizes] for _ in range(1 + settings.repeats)][1:]
    measured = [(size * scale, seconds) for round_ in rounds for size, seconds in zip(sizes, round_, strict=True)]
    slope, low, high = fit_exponent(*zip(*measured, strict=True))
    details = {"sizes": [size for size, _ in measured], "seconds": [seconds for _, seconds in measured]}
    title = f"time against {what}"
    return Row("growth", title, "", slope, low, high, settings.repeats, "exponent", note=note, details=details)
