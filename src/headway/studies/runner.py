"""From a plan to its findings: what is trained and measured already is kept, and a run that fails costs no other."""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from headway.batches import pick_device
from headway.errors import InputError, Interrupted, RunStopped
from headway.runs import RunDirectory, StudyDirectory
from headway.studies.plan import Cell, Plan, Study
from headway.sweeps.local import available_cores
from headway.sweeps.trial import DiskFull, in_one_line, stopping_when_full

if TYPE_CHECKING:
    from headway.sweeps.plan import Trial

Document = dict[str, Any]
FEWEST_TOKENS = 200_000
"""Tokens past training, of all runs to measure, from which on processes save more time than they take to start."""
RIGHT = 0.9
"""A run that is less often right at the lengths of training has not learned the task, and cannot lose it."""
LOST = 0.1
"""Accuracy that a run must lose past training for the question why."""


def left_to_train(cells: Sequence[Cell], directory: StudyDirectory) -> "list[Trial]":
    """The runs that are not finished; one that was begun with other settings is refused."""
    from headway.tasks import make_task
    from headway.training.preparation import plan_run

    found = []
    for trial in (trial for cell in cells for trial in cell.trials):
        run = directory.run(trial.name)
        plan_run(run, trial.config, make_task(trial.config.task), resume=True, data=None)
        if not run.newest_state().get("finished"):
            found.append(trial)
    return found


def training_of(run: RunDirectory) -> Document:
    """What the training of a finished run took. The seeds of a stack took their seconds together, not one by one."""
    state, circumstances = run.newest_state(), run.provenance()
    metrics = {"validation_loss": state["best"]["loss"], "validation_accuracy": state["best"]["accuracy"]}
    return {
        "run": str(run.path),
        "steps": state["step"],
        "seconds": state["seconds"],
        "metrics": {**metrics, "best_step": state["best"]["step"]},
        "stopped_early": state["stopped_early"],
        "device": circumstances.get("gpu") or circumstances.get("device"),
    }


def measure_all(runs: Sequence[RunDirectory], study: Study, *, device: str) -> Iterator[tuple[str, str | None]]:
    """Measure what was not measured before; yields the name of each run as it ends, and why it failed if it did.

    A GPU takes one after the other. On a CPU several at once, each with one thread, are faster than one with all cores.
    """
    left = [run for run in runs if known_lengths(run, study) is None]
    yield from ((run.name, None) for run in runs if run not in left)
    workers = min(available_cores(), len(left))
    tokens = len(left) * study.n * sum(study.at)
    if pick_device(device).type == "cuda" or workers < 2 or tokens < FEWEST_TOKENS:
        for run in left:
            yield run.name, attempt(run, partial(lengths_of, run, study, device=device))[1]
        return
    start = partial(begin_process, available_cores() // workers)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=start) as pool:
        waiting: dict[Future[tuple[Document | None, str | None]], str] = {}
        try:
            while left or waiting:
                while left and len(waiting) < workers:  # no more: what is handed over cannot be taken back by Ctrl-C
                    run = left.pop(0)
                    task = partial(lengths_of, run, study, device="cpu")
                    waiting[pool.submit(attempt, run, task)] = run.name
                for ended in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield waiting.pop(ended), ended.result()[1]
        except BrokenProcessPool:
            raise RunStopped("a process that measured was ended from outside; the same command continues") from None
        finally:
            pool.shutdown(cancel_futures=True)


def begin_process(threads: int) -> None:
    """A process that measures leaves Ctrl-C to the one that started it, which waits for it to finish its run."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)


def attempt(run: RunDirectory, measure: Callable[[], Document]) -> tuple[Document | None, str | None]:
    """What was measured, or why not in one line; only what ends the whole study is raised."""
    try:
        with stopping_when_full(run.path):
            return measure(), None
    except (Interrupted, DiskFull):
        raise
    except Exception as problem:
        return None, in_one_line(problem)


def lengths_of(run: RunDirectory, study: Study, *, device: str) -> Document:
    """The run's accuracy against length: read where it was measured with these settings, else measured and kept."""
    from headway.evaluation import load
    from headway.lengths.measure import measure_lengths

    if (earlier := known_lengths(run, study)) is not None:
        return earlier
    found: Document = measure_lengths(load(run, device=device), at=study.at, n=study.n).to_json()
    run.replace_analysis("lengths", found)
    return found


def known_lengths(run: RunDirectory, study: Study) -> Document | None:
    """What was measured of the run before with these settings, or None."""
    try:
        found = run.read_analysis("lengths") if run.exists() else None
    except InputError:  # a file that cannot be read is measured anew
        return None
    return found if isinstance(found, dict) and is_same_measurement(found, run, study) else None


def is_same_measurement(found: Mapping[str, Any], run: RunDirectory, study: Study) -> bool:
    """Whether it was measured at the checkpoint that counts now, at these lengths and with as many examples."""
    from headway.lengths.measure import FORM

    if found.get("form") != FORM or "checkpoint" not in found:
        return False
    best = run.newest_state().get("best", {}).get("step")
    wanted = (best, study.n, sorted(set(study.at)))
    return (found["checkpoint"]["step"], found["n"], found.get("at")) == wanted


# Which runs are asked why they fail


def main_set(document: Mapping[str, Any]) -> str:
    """The set whose unsorted sequences are like those of training; the strictest one where both kinds were trained."""
    sets = list(dict.fromkeys(row["negatives"] for row in document["lengths"]))
    trained = str(document.get("negatives_trained"))
    return trained if trained in sets else "adjacent" if "adjacent" in sets else sets[0]


def accuracies(document: Mapping[str, Any], name: str) -> dict[int, float]:
    """Length -> accuracy on a set."""
    return {row["length"]: row["accuracy"] for row in document["lengths"] if row["negatives"] == name}


def loss_of(document: Mapping[str, Any]) -> float:
    """Accuracy lost from the longest training length to the worst one past it; 0 where the task was not learned."""
    found, longest = accuracies(document, main_set(document)), document["training"]["longest"]
    inside = [length for length in found if length <= longest]
    before = found[max(inside)] if inside else 0.0
    past = [share for length, share in found.items() if length > longest]
    return before - min(past) if past and before >= RIGHT else 0.0


def asked_why(cells: Sequence[Sequence[str]], measured: Mapping[str, Document], how: str) -> list[str]:
    """Of each cell the run that loses most, where it loses anything worth the question; or the one that loses most."""
    lost = {name: loss_of(document) for name, document in measured.items()}
    losing = [max(names, key=lost.__getitem__) for names in cells if names]
    losing = [name for name in losing if lost[name] >= LOST]
    if how == "worst":
        return [max(losing, key=lost.__getitem__)] if losing else []
    return losing if how == "failing" else []


def explain(run: RunDirectory, document: Document, *, device: str) -> Document:
    """Which head changes first as lengths grow: kept with the run's lengths, and not asked again."""
    if document.get("mechanism"):
        return document
    from headway.evaluation import load
    from headway.lengths.mechanism import mechanism

    longest = document["training"]["longest"]
    lengths = [length for length in sorted(accuracies(document, main_set(document))) if length >= longest]
    found = mechanism(load(run, device=device), lengths, sets=main_set(document)).to_json()
    run.add_to_analysis("lengths", {"mechanism": found})
    return {**document, "mechanism": found}


# What the study holds


def findings(
    plan: Plan, directory: StudyDirectory, measured: Mapping[str, Document], failed: Mapping[str, str]
) -> list[Document]:
    """One record a cell: its runs' documents, what they say together, what training took, and what failed."""
    from headway.lengths.together import together

    found = []
    for cell in plan.cells:
        names = [trial.name for trial in cell.trials]
        runs = [measured[name] for name in names if name in measured]
        found.append(
            {
                "cell": cell.name,
                "label": cell.label,
                "arm": cell.arm,
                "settings": dict(cell.settings),
                "encoding": cell.config.model.encoding.name,
                "pooling": None if cell.config.model.pooling is None else cell.config.model.pooling.name,
                "planned": len(names),
                "failed": {name: failed[name] for name in names if name in failed},
                "training": [training_of(directory.run(name)) for name in names if name in measured],
                "together": together(runs) if runs else None,
                "runs": runs,
            }
        )
    return found
