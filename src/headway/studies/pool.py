"""Analyses of runs on several cores, as jobs of the pool of this machine.

The cores are shared out evenly: one thread each while there are as many analyses as cores, and the last gets all.
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
"""Tokens through models, of all analyses, from which on processes save more time than they take to start."""
WORTH = 0.8
"""Work that a core does for an analysis that all cores share, as a share of what it does for one of its own."""
GPU_PIECES = 8
"""Pieces that share a GPU: decoding a few sequences is mostly the host's work."""

Note = Callable[[RunAnalysis[Any], float], None]
"""Told of an analysis that runs, and the share of it that is done."""
Done = Callable[[RunAnalysis[Any], str | None], None]
"""Told of an analysis that ended, and why it failed if it did."""


def run_analyses(analyses: Sequence[RunAnalysis[Any]], *, device: str, note: Note, done: Done) -> None:
    """Do what was not done before; `done` is told each analysis as it ends, and why it failed if it did.

    Several processes share a GPU. On a CPU several at once, each with its share of the cores, are faster than one with
    all of them.
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
    # The longest first: the analyses that run side by side then end at nearly the same time.
    in_processes(sorted(left, key=lambda analysis: -costs.get(id(analysis), 0)), where, workers, note, done)


def are_processes_faster(costs: Sequence[int], workers: int) -> bool:
    """Whether a process for each analysis ends sooner than one analysis after the other with all cores.

    Not where there is little to do, nor where one analysis is so long that it would mostly have all cores anyway.

    >>> are_processes_faster([9_000_000, 7_000_000], 2), are_processes_faster([9_000_000, 700_000], 2)
    (True, False)
    """
    if workers < 2 or sum(costs) < FEWEST_TOKENS:
        return False
    return max(costs) <= sum(costs) / (WORTH * workers)


def attempt(analysis: RunAnalysis[Any], device: str, tell: OnShare) -> str | None:
    """Do an analysis; why it failed in one line, or None. Only what ends the whole study is raised."""
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
    """An analysis as a job of the pool; its result is why it failed, or None."""

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
    """Work the analyses off in the pool of this machine. When this ends early, by Ctrl-C say, what runs is given up."""
    cores = available_cores()

    def on_event(event: Event) -> None:
        if event["event"] == "share":
            note(left[event["number"]], event["share"])

    jobs = [Analysis(number, analysis, device) for number, analysis in enumerate(left)]
    run_in_workers(
        jobs, workers, lambda busy: max(1, cores // busy), lambda job, error: done(job.analysis, error), on_event
    )
