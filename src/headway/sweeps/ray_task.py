"""The Ray task that runs one job of a sweep, on any machine."""

import shutil
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

from headway.errors import Interrupted
from headway.processes import end_with_parent
from headway.results.comparison import Outcome
from headway.sweeps.packing import pack, unpack
from headway.sweeps.trial import DiskFull, Job, stopping_when_full


class Ended(TypedDict, total=False):
    """How a job ended: with outcomes, by an interruption, or for want of disk space."""

    outcomes: Sequence[Outcome]
    interrupted: bool
    disk_full: str


def run_in_ray(job: Job, folder: str | None, packed: bytes) -> tuple[Ended, bytes]:
    """Run a job in its directories or in a local folder; returns its outcome and its runs as bytes."""
    import torch

    end_with_parent()  # the parent is Ray's node; Ray would let an orphaned worker finish its task
    torch.set_num_threads(job.how.threads)
    places = job.places if folder is None else _places_in(_work_folder(folder), len(job.places))
    ended: Ended
    try:
        if folder is not None and not any(place.exists() for place in places):
            with stopping_when_full(places[0]):
                unpack(packed, places)
        ended = {"outcomes": replace(job, places=places).do()}
    except (Interrupted, KeyboardInterrupt):
        ended = {"interrupted": True}
    except DiskFull as problem:
        ended = {"disk_full": f"on {socket.gethostname()}: {problem}"}
    if folder is None:
        return ended, b""
    content = pack(places)
    shutil.rmtree(_work_folder(folder), ignore_errors=True)
    return ended, content


def _work_folder(name: str) -> Path:
    """The same folder for every try of a job on a machine, so that a retry resumes from its checkpoint."""
    return Path(tempfile.gettempdir()) / name


def _places_in(folder: Path, count: int) -> tuple[Path, ...]:
    return tuple(folder / str(number) for number in range(count))
