"""Runs analyses on several cores, as jobs of this machine's worker pool.

The cores are shared evenly: one thread each while there are as many analyses as cores; the last analysis gets all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from headway.batches import pick_device
from headway.callbacks import Event, OnEvent, OnShare
from headway.errors import Interrupted
from headway.processes import available_cores
from headway.studies.jobs import RunAnalysis
from headway.sweeps.pool import PoolJob, run_in_workers
from headway.sweeps.trial import DiskFull, in_one_line, stopping_when_full

FEWEST_TOKENS = 200_000
"""Smallest total of tokens through models for which processes save more time than their start takes."""
WORTH = 0.8
"""Efficiency of a core on an analysis that all cores share, relative to its own analysis."""
GPU_PIECES = 8
"""Analyses that share a GPU: decoding a few sequences is mostly work of the host."""

Note = Callable[[RunAnalysis[Any], float], None]
"""Called with a running analysis and the share of it that is done."""
Done = Callable[[RunAnalysis[Any], str | None], None]
"""Called with an analysis that ended, and its error if it failed."""


def run_analyses(analyses: Sequence[RunAnalysis[Any]], *, device: str, note: Note, done: Done) -> None:
    """Do the analyses without a stored result; `done` is called with each one and its error if it failed.

    Several processes share a GPU. On a CPU, several analyses at once with a share of the cores each are faster than one
    after another with all cores.
    """
    left = [analysis for analysis in analyses if analysis.known() is None]
    for analysis in (analysis for analysis in analyses if analysis not in left):
        done(analysis, None)
    where = pick_device(device).type
    workers = min(available_cores(), len(left), *([GPU_PIECES] if where == "cuda" else []))
    costs = {id(analysis): analysis.passes() for analysis in left if analysis.run.exists()}
    if not are_processes_faster(list(costs.values()), workers):
        for analysis in left:
            done(analysis, attempt(analysis, device, partial(note, analysis)))
        return
    # The longest first, so that parallel analyses end at nearly the same time.
    in_processes(sorted(left, key=lambda analysis: -costs.get(id(analysis), 0)), where, workers, note, done)


def are_processes_faster(costs: Sequence[int], workers: int) -> bool:
    """Whether one process per analysis is faster than one analysis after another with all cores.

    It is not if there is little to do, or if one analysis takes most of the total time.

    >>> are_processes_faster([9_000_000, 7_000_000], 2), are_processes_faster([9_000_000, 700_000], 2)
    (True, False)
    """
    if workers < 2 or sum(costs) < FEWEST_TOKENS:
        return False
    return max(costs) <= sum(costs) / (WORTH * workers)


def attempt(analysis: RunAnalysis[Any], device: str, tell: OnShare) -> str | None:
    """Do an analysis; returns its error in one line, or None. Only errors that end the whole study are raised."""
    try:
        with stopping_when_full(analysis.run.path):
            analysis.do(device=device, tell=tell)
            return None
    except (Interrupted, DiskFull):
        raise
    except Exception as problem:
        return in_one_line(problem)


@dataclass(frozen=True)
class Analysis(PoolJob):
    """An analysis as a job of the pool; its result is its error, or None."""

    number: int
    analysis: RunAnalysis[Any]
    device: str

    @property
    def name(self) -> str:
        return f"{self.analysis.run.name} {self.analysis.what}"

    def do(self, tell: OnEvent) -> str | None:
        return attempt(
            self.analysis, self.device, lambda share: tell({"event": "share", "number": self.number, "share": share})
        )

    def failed(self, error: str) -> str:
        return error

    def is_failed(self, result: str | None) -> bool:
        return result is not None


def in_processes(left: Sequence[RunAnalysis[Any]], device: str, workers: int, note: Note, done: Done) -> None:
    """Do the analyses in the worker pool. If this is interrupted, running analyses are dropped."""
    cores = available_cores()

    def on_event(event: Event) -> None:
        if event["event"] == "share":
            note(left[event["number"]], event["share"])

    jobs = [Analysis(number, analysis, device) for number, analysis in enumerate(left)]
    run_in_workers(
        jobs, workers, lambda busy: max(1, cores // busy), lambda job, error: done(job.analysis, error), on_event
    )
