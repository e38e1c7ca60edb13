"""What a Ray worker does, on whatever machine it is: one job of a sweep."""

import shutil
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from headway.errors import Interrupted
from headway.processes import end_with_parent
from headway.runs import RunDirectory
from headway.sweeps.packing import pack, unpack
from headway.sweeps.trial import DiskFull, run_job, stopping_when_full
from headway.sweeps.worker import decode_circumstances, decode_job, wait_until_free


def run_away_from_home(job: Mapping[str, Any], how: Mapping[str, Any], folder: str | None, packed: bytes) -> tuple:
    """What a Ray worker does: a job, in its places or in a folder of its own; how it ended, and its runs as bytes."""
    import torch

    end_with_parent()  # that is Ray's node; Ray alone lets a worker finish its task for nobody
    home = decode_job(job)
    circumstances = replace(decode_circumstances(how), until=home.until)
    torch.set_num_threads(circumstances.threads)
    places = home.places if folder is None else _places_in(_work_folder(folder), len(home.places))
    ended: dict[str, Any]
    try:
        for place in places:
            wait_until_free(RunDirectory(place))
        if folder is not None and not any(place.exists() for place in places):
            with stopping_when_full(places[0]):
                unpack(packed, places)
        ended = {"outcomes": [asdict(one) for one in run_job(home.trials, places, circumstances)]}
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
    """The same for every try of a job on a machine, so that a try goes on where one that was killed had saved."""
    return Path(tempfile.gettempdir()) / name


def _places_in(folder: Path, count: int) -> list[Path]:
    return [folder / str(number) for number in range(count)]
