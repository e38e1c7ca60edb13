"""`hw.prove` and the check of a certificate: choose the method for a task, and compare a certificate with its run."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from headway.callbacks import OnProgress
from headway.config import ModelConfig
from headway.errors import InputError
from headway.evaluation import Trained, load
from headway.json_values import JsonObject
from headway.origin import KEY, origins_in
from headway.proofs.open_contexts import OpenContexts
from headway.proofs.rounding import out_of_range
from headway.results.proof import Check, Proof, Rounding
from headway.results.schema import names_of, read
from headway.runs import RunDirectory
from headway.seals import KEY as SEAL
from headway.storage import named_twice, read_document
from headway.tasks import Task

METHODS = {"addition-text": "headway.proofs.sums", "sortedness": "headway.proofs.sortedness"}
"""Task -> the module that proves it: `prove(trained, progress)` and `check(trained, proof, progress)`."""
READ_BESIDE = {KEY, SEAL, "counterexamples"}
"""What a certificate holds beside the facts of a proof; earlier versions wrote all counterexamples in one list."""
GUIDABLE = ("sortedness",)
"""Tasks whose method lists open contexts for training: `open_contexts(trained, margin, random)`."""


def prove(run: Trained | str | Path, *, progress: OnProgress = lambda done, total: None) -> Proof:
    """Decide whether a run is right on every input of every length: proved, counterexample or undecided. Writes
    nothing.

    >>> hw.prove("local-addition-seed0").answer   # doctest: +SKIP
    'proved'
    """
    trained = run if isinstance(run, Trained) else load(run)
    began = time.perf_counter()
    found: Proof = _method(trained).prove(trained, progress)
    return replace(found, seconds=time.perf_counter() - began)


def check(
    certificate: str | Path,
    *,
    run: str | Path | None = None,
    device: str = "auto",
    progress: OnProgress = lambda done, total: None,
) -> Check:
    """Verify the claims of a certificate with independent code. `run` defaults to the run directory that holds the
    file.
    """
    path = Path(certificate)
    document = read_document(path)
    if document is None:
        raise InputError(f"no file {path}; a proof.json needed")
    proof = read(Proof, document, str(path))
    directory = RunDirectory.find(str(path.parent.parent if run is None else run))
    if not directory.exists():
        raise InputError(f"{path} is not inside a run directory; name the run: headway prove RUN --check FILE")
    trained = load(directory, device=device)
    began = time.perf_counter()
    reasons = _other_origin(document, trained)
    reasons += _said_otherwise(path, document)
    if not reasons and proof.answer != "proved":
        reasons = [f"its answer is {proof.answer}; only a proof can be checked"]
    if not reasons and (lost := out_of_range(trained.model)):
        reasons = [lost]
    if reasons:
        return Check(certificate=str(path), holds=False, reasons=tuple(reasons), contexts=0, method="none", seconds=0.0)
    found: Check = _method(trained).check(trained, proof, progress)
    return replace(found, certificate=str(path), seconds=time.perf_counter() - began)


def open_contexts(trained: Trained, margin: float, random: np.random.Generator) -> OpenContexts:
    """What a proof that asks for this margin would leave open, for guided training."""
    found: OpenContexts = _method(trained).open_contexts(trained, margin, random)
    return found


def check_guidable(task: Task, model: ModelConfig) -> None:
    """Raise unless guided training knows the contexts of this task and model."""
    if task.name not in GUIDABLE:
        raise InputError(f"train.guided: no open contexts are known for task {task.name!r}; for {', '.join(GUIDABLE)}")
    import_module(METHODS[task.name]).check_config(model)


def _method(trained: Trained) -> Any:
    known = METHODS.get(trained.task.name)
    if known is None:
        raise InputError(f"no proof method for task {trained.task.name!r}; there is one for {', '.join(METHODS)}")
    return import_module(known)


def _said_otherwise(path: Path, document: JsonObject) -> Iterator[str]:
    """The reasons why another reader of a certificate could read more from it than what is checked here."""
    if twice := named_twice(path.read_bytes()):
        yield f"it says {twice} twice"
    for kind, part in ((Proof, document), (Rounding, document.get("rounding"))):
        known = [set(names_of(one)) for one in fields(kind)]
        said = set(part) if isinstance(part, Mapping) else set()
        for names in known:
            if len(said & names) > 1:
                yield f"it says {' and '.join(sorted(said & names))}, which are the same"
        if other := said - set().union(*known) - READ_BESIDE:
            yield f"it says {', '.join(sorted(other))}, which nothing here checks"


def _other_origin(document: JsonObject, trained: Trained) -> list[str]:
    """The reasons why a certificate is not about this run's weights; empty if it is."""
    own = trained.directory.origin(trained.step)
    origins = origins_in(document)
    if not origins:
        return ["it does not name the weights that it is about"]
    differ = {key for origin in origins for key, value in asdict(own).items() if origin.get(key) != value}
    return [f"it was made from other {' and '.join(sorted(differ))} than this run's"] if differ else []
