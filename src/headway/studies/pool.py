"""Pieces of work on several cores: a process each, which says how far it is and stops when told to.

The cores are shared out evenly: one thread each while there are as many pieces as cores, and the last piece gets all.
"""

import queue
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import Any

from headway.batches import pick_device
from headway.errors import Interrupted, RunStopped
from headway.processes import end_with_parent
from headway.studies.pieces import Piece, Tell
from headway.sweeps.local import available_cores
from headway.sweeps.trial import DiskFull, in_one_line, stopping_when_full

FEWEST_TOKENS = 200_000
"""Tokens through models, of all pieces, from which on processes save more time than they take to start."""
WORTH = 0.8
"""Work that a core does for a piece that all cores share, as a share of what it does for one of its own."""
GPU_PIECES = 8
"""Pieces that share a GPU: decoding a few sequences is mostly the host's work."""
LOOK_EVERY = 0.2
"""Seconds between two looks at how far the processes are."""

Note = Callable[[Piece[Any], float], None]
"""Told of a piece that runs, and the share of it that is done."""


def work_off(pieces: Sequence[Piece[Any]], *, device: str, note: Note) -> Iterator[tuple[Piece[Any], str | None]]:
    """Do what was not done before; yields each piece as it ends, and why it failed if it did.

    Several processes share a GPU. On a CPU several at once, each with its share of the cores, are faster than one with
    all of them.
    """
    left = [piece for piece in pieces if piece.known() is None]
    yield from ((piece, None) for piece in pieces if piece not in left)
    where = pick_device(device).type
    workers = min(available_cores(), len(left), *([GPU_PIECES] if where == "cuda" else []))
    costs = {id(piece): piece.passes() for piece in left if piece.run.exists()}
    if not are_processes_faster(list(costs.values()), workers):
        for piece in left:
            yield piece, attempt(piece, device, partial(note, piece))
        return
    # The longest first: the pieces that run side by side then end at nearly the same time.
    yield from in_processes(sorted(left, key=lambda piece: -costs.get(id(piece), 0)), where, workers, note)


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


def in_processes(
    left: Sequence[Piece[Any]], device: str, workers: int, note: Note
) -> Iterator[tuple[Piece[Any], str | None]]:
    """Work the pieces off in processes. When this ends early, by Ctrl-C say, what runs is given up."""
    context = get_context("spawn")
    news, stop, running = context.Queue(), context.Event(), context.Value("i", workers, lock=False)
    start = partial(begin_process, available_cores(), news, stop, running)
    with ProcessPoolExecutor(workers, mp_context=context, initializer=start) as pool:
        waiting: dict[Future[str | None], Piece[Any]] = {}
        coming = iter(enumerate(left))
        try:
            while True:
                while len(waiting) < workers and (following := next(coming, None)) is not None:
                    waiting[pool.submit(attempt_there, device, *following)] = following[1]
                if not waiting:
                    return
                running.value = len(waiting)
                ended = wait(waiting, timeout=LOOK_EVERY, return_when=FIRST_COMPLETED).done
                for place, share in drained(news):
                    note(left[place], share)
                for one in ended:
                    yield waiting.pop(one), one.result()
        except BrokenProcessPool:
            raise RunStopped("a process that measured was ended from outside; the same command continues") from None
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


def drained(news: Any) -> Iterator[tuple[int, float]]:
    """What lies in a queue."""
    while True:
        try:
            yield news.get_nowait()
        except queue.Empty:
            return


# In a process


_line: dict[str, Any] = {}
"""What this process was begun with: the cores that there are, and what it shares with the others."""


def begin_process(cores: int, news: Any, stop: Any, running: Any) -> None:
    """A process leaves Ctrl-C to the one that started it, and does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    news.cancel_join_thread()  # the last words of a process may stay unheard; they must not keep it from ending
    _line.update(cores=cores, news=news, stop=stop, running=running)
    take_share()
    end_with_parent()


def take_share() -> None:
    """As many threads as there are cores for each piece that runs."""
    import torch

    threads = max(1, _line["cores"] // max(1, _line["running"].value))
    if threads != torch.get_num_threads():
        torch.set_num_threads(threads)


def attempt_there(device: str, place: int, piece: Piece[Any]) -> str | None:
    def tell(share: float) -> None:
        if _line["stop"].is_set():
            raise Interrupted("stopped")
        take_share()
        _line["news"].put((place, share))

    return attempt(piece, device, tell)
