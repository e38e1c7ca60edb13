"""One worker process of a local sweep: `python -m headway.sweeps.worker`, which ends whenever its driver does.

It is told what to do in JSON lines on its standard input: first the circumstances that all jobs share, then one job
after another. It answers in JSON lines on what was its standard output when it started:

    {"ready": true}                          once, when it can take a job
    {"event": {...}}                         what happens in a job, a few times a second
    {"outcomes": [...], "last": false}       how the job ended; "last": this process takes no more
    {"disk_full": "..."}                     there is no room to write

Whatever else it prints goes to standard error.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from headway.config import RunConfig
from headway.errors import InputError, Interrupted
from headway.results.comparison import Outcome
from headway.results.schema import read
from headway.runs import RunDirectory
from headway.sweeps.driver import Job
from headway.sweeps.plan import Trial
from headway.sweeps.trial import Circumstances, DiskFull, Report, run_job

EVENT_EVERY = 0.5
"""Seconds between two words about the steps of a job."""
LOCK_PATIENCE = 10.0
"""Seconds for which a run may still be held by a process that is about to end."""


def encode_job(job: Job) -> dict[str, Any]:
    trials = [{"name": t.name, "settings": dict(t.settings), "config": t.config.to_json()} for t in job.trials]
    return {"trials": trials, "places": [str(place) for place in job.places], "until": job.until}


def decode_job(record: Mapping[str, Any]) -> Job:
    trials = [Trial(t["name"], t["settings"], RunConfig.from_json(t["config"], t["name"])) for t in record["trials"]]
    return Job(tuple(trials), tuple(Path(place) for place in record["places"]), record["until"])


def encode_circumstances(how: Circumstances) -> dict[str, Any]:
    return asdict(how)


def decode_circumstances(record: Mapping[str, Any]) -> Circumstances:
    return Circumstances(**{**record, "command": tuple(record["command"])})


def main() -> None:
    """Serve jobs until the driver is gone or asks for an end with SIGINT."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    replies = os.dup(1)
    os.dup2(2, 1)
    told: "queue.SimpleQueue[dict[str, Any]]" = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(told,), daemon=True).start()
    try:
        _serve(told, replies)
    except (Interrupted, KeyboardInterrupt):
        os._exit(130)
    except BrokenPipeError:
        os._exit(1)


def _listen(told: "queue.SimpleQueue[dict[str, Any]]") -> None:
    """Pass on what the driver says; end the process at once when the driver is gone, by whatever death."""
    with os.fdopen(os.dup(0), "rb") as lines:
        for line in lines:
            told.put(json.loads(line))
    os._exit(1)


def _serve(told: "queue.SimpleQueue[dict[str, Any]]", replies: int) -> None:
    how = decode_circumstances(told.get())
    import torch

    import headway.evaluation
    import headway.training  # noqa: F401  slow to import, and no job should pay for it

    torch.set_num_threads(how.threads)
    say(replies, {"ready": True})
    while True:
        job = decode_job(told.get())
        for place in job.places:
            wait_until_free(RunDirectory(place))
        try:
            outcomes = run_job(job.trials, job.places, replace(how, until=job.until), _now_and_then(replies))
        except DiskFull as problem:
            say(replies, {"disk_full": str(problem)})
            return
        # An error on a GPU can leave every later call of the process failing.
        last = torch.cuda.is_initialized() and any(one.state == "failed" for one in outcomes)
        say(replies, {"outcomes": [one.to_json() for one in outcomes], "last": last})
        if last:
            return


def decode_outcomes(records: list[dict[str, Any]]) -> list[Outcome]:
    return [read(Outcome, record, "an outcome") for record in records]


def wait_until_free(directory: RunDirectory) -> None:
    """A worker of a driver that was killed a moment ago may still hold the run."""
    end = time.monotonic() + LOCK_PATIENCE
    while directory.path.is_dir() and time.monotonic() < end:
        try:
            with directory.lock():
                return
        except InputError:
            time.sleep(0.05)


def _now_and_then(replies: int) -> Report:
    """Reports every event but steps and validations, and of those one every half second."""
    last = -EVENT_EVERY

    def report(event: Mapping[str, Any]) -> None:
        nonlocal last
        if event["event"] in ("step", "validation"):
            if time.monotonic() - last < EVENT_EVERY:
                return
            last = time.monotonic()
        say(replies, {"event": dict(event)})

    return report


def say(replies: int, message: Mapping[str, Any]) -> None:
    content = memoryview((json.dumps(message) + "\n").encode())
    while content:
        content = content[os.write(replies, content) :]


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # without the time that tearing PyTorch down takes
