"""Pieces of work on several cores: jobs of the pool of this machine.

The cores are shared out evenly: one thread each while there are as many pieces as cores, and the last piece gets all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from headway.batches import pick_device
from headway.errors import Interrupted
from headway.processes import available_cores
from headway.studies.pieces import Piece, Tell
from headway.sweeps.pool import PoolJob, Report, run_in_workers
from headway.sweeps.trial import DiskFull, in_one_line, stopping_when_full

FEWEST_TOKENS = 200_000
"""Tokens through models, of all pieces, from which on processes save more time than they take to start."""
WORTH = 0.8
"""Work that a core does for a piece that all cores share, as a share of what it does for one of its own."""
GPU_PIECES = 8
"""Pieces that share a GPU: decoding a few sequences is mostly the host's work."""

Note = Callable[[Piece[Any], float], None]
"""Told of a piece that runs, and the share of it that is done."""
Done = Callable[[Piece[Any], str | None], None]
"""Told of a piece that ended, and why it failed if it did."""


def work_off(pieces: Sequence[Piece[Any]], *, device: str, note: Note, done: Done) -> None:
    """Do what was not done before; `done` is told each piece as it ends, and why it failed if it did.

    Several processes share a GPU. On a CPU several at once, each with its share of the cores, are faster than one with
    all of them.
    """
    left = [piece for piece in pieces if piece.known() is None]
    for piece in (piece for piece in pieces if piece not in left):
        done(piece, None)
    where = pick_device(device).type
    workers = min(available_cores(), len(left), *([GPU_PIECES] if where == "cuda" else []))
    costs = {id(piece): piece.passes() for piece in left if piece.run.exists()}
    if not are_processes_faster(list(costs.values()), workers):
        for piece in left:
            done(piece, attempt(piece, device, partial(note, piece)))
        return
    # The longest first: the pieces that run side by side then end at nearly the same time.
    in_processes(sorted(left, key=lambda piece: -costs.get(id(piece), 0)), where, workers, note, done)


def are_processes_faster(costs: Sequence[int], workers: int) -> bool:
    """Whether a process for each piece ends sooner than one piece after the other with all cores.

    Not where there is little to do, nor where one piece is so long that it would mostly have all cores anyway.

    >>> are_processes_faster([9_000_000, 7_000_000], 2), are_processes_faster([9_000_000, 700_000], 2)
    (True, False)
    """
    if workers < 2 or sum(costs) < FEWEST_TOKENS:
        return False
    return max(costs) <= sum(costs) / (WORTH * workers)


def attempt(piece: Piece[Any], device: str, tell: Tell) -> str | None:
    """Do a piece; why it failed in one line, or None. Only what ends the whole study is raised."""
    try:
        with stopping_when_full(piece.run.path):
            piece.do(device=device, tell=tell)
            return None
    except (Interrupted, DiskFull):
        raise
    except Exception as problem:
        return in_one_line(problem)


@dataclass(frozen=True)
class Analysis(PoolJob):
    """A piece as a job of the pool; its result is why it failed, or None."""

    number: int
    piece: Piece[Any]
    device: str

    @property
    def name(self) -> str:
        return f"{self.piece.run.name} {self.piece.what}"

    def do(self, tell: Report) -> str | None:
        return attempt(
            self.piece, self.device, lambda share: tell({"event": "share", "number": self.number, "share": share})
        )

    def failed(self, error: str) -> str:
        return error

    def is_failed(self, result: str | None) -> bool:
        return result is not None


def in_processes(left: Sequence[Piece[Any]], device: str, workers: int, note: Note, done: Done) -> None:
    """Work the pieces off in the pool of this machine. When this ends early, by Ctrl-C say, what runs is given up."""
    cores = available_cores()

    def report(event: Mapping[str, Any]) -> None:
        if event["event"] == "share":
            note(left[event["number"]], event["share"])

    jobs = [Analysis(number, piece, device) for number, piece in enumerate(left)]
    run_in_workers(jobs, workers, lambda busy: max(1, cores // busy), lambda job, error: done(job.piece, error), report)
