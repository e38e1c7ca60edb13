"""`hw.verify`: checks that a run's directory is as headway wrote it.

`verify` reads config.json, provenance.json and metrics.jsonl, compares every checkpoint with the SHA-256 sums of its
manifest, and checks that every analysis can be read and was made from a checkpoint that the run has.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from headway.bounded_files import read_bytes
from headway.errors import InputError
from headway.origin import OtherOrigin, origins_in
from headway.results.attack import Attack
from headway.results.doctor import Diagnosis
from headway.results.evaluation import Evaluations
from headway.results.heads import HeadAnalysis
from headway.results.integrity import CheckedFile, Integrity, State
from headway.results.lengths import Lengths
from headway.results.over_training import OverTraining
from headway.results.proof import Proof
from headway.runs.checkpoints import DamagedCheckpoint
from headway.runs.run import RunDirectory
from headway.storage import LARGEST_DOCUMENT, has_checksum, is_cut_off, parse_json, read_document

ANALYSES: dict[str, type] = {
    "evaluation": Evaluations,
    "heads": HeadAnalysis,
    "over_training": OverTraining,
    "lengths": Lengths,
    "attack": Attack,
    "proof": Proof,
    "doctor": Diagnosis,
}
"""The documents of a run, and the type that each is read as."""
NO_CHECKSUM = "no checksum, as earlier versions wrote it: a changed digit would not be noticed"


def verify(run: str | Path | RunDirectory) -> Integrity:
    """Check every file of a run; nothing is changed.

    >>> hw.verify("addition-seed0").faults   # doctest: +SKIP
    []
    """
    directory = run if isinstance(run, RunDirectory) else RunDirectory.find(str(run))
    checkpoints = [_checkpoint(directory, step) for step in directory.checkpoint_steps()]
    kept = [_kept(directory, step) for step in directory.kept_steps()]
    lost = [*_lost_checkpoints(directory), *_lost_kept(directory)]
    files = (*_plain_files(directory), *checkpoints, *kept, *lost, *_analyses(directory))
    usable = [one.step for one in checkpoints if one.state == "whole" and one.step is not None]
    return Integrity(run=str(directory.path), files=files, usable_step=max(usable, default=None))


def _checked(file: str, check: Callable[[], object], step: int | None = None, path: Path | None = None) -> CheckedFile:
    """The state of a file: whole if its check raises nothing. With `path` a file without a checksum is remarked."""
    state: State = "whole"
    detail = ""
    try:
        check()
    except OtherOrigin as problem:
        state, detail = "other-origin", str(problem)
    except (InputError, DamagedCheckpoint) as problem:
        state, detail = "damaged", str(problem)
    if path is not None and state == "whole" and not _is_sealed(path):
        detail = NO_CHECKSUM
    return CheckedFile(file=file, state=state, step=step, detail=detail)


def _is_sealed(path: Path) -> bool:
    """Whether a file has checksums; of a log, whether its last line has one."""
    content = read_bytes(path, LARGEST_DOCUMENT)
    return has_checksum(content if path.suffix == ".json" else content.rstrip(b"\n").rpartition(b"\n")[2])


def _plain_files(directory: RunDirectory) -> Iterator[CheckedFile]:
    yield _checked("config.json", directory.config, path=directory.path / "config.json")
    yield _checked("provenance.json", lambda: _check_provenance(directory), path=directory.path / "provenance.json")
    metrics = directory.path / "metrics.jsonl"
    if metrics.exists():
        yield _checked("metrics.jsonl", lambda: _check_metrics(directory), path=metrics)
    elif directory.newest_state().get("validated", -1) >= 0:
        yield CheckedFile(file="metrics.jsonl", state="damaged", step=None, detail=f"no file at {metrics}")
    if directory.data.is_dir():
        yield _checked("data", directory.check_data)


def _check_provenance(directory: RunDirectory) -> None:
    """Raise for a provenance of another seed than that of config.json: it was copied from another run."""
    found = directory.provenance().get("seed")
    try:
        seed = directory.config().seed
    except InputError:
        return  # reported with config.json
    if found not in (None, seed):
        raise InputError(f"provenance.json is that of another run: its seed is {found}, and config.json has {seed}")


def _lost_checkpoints(directory: RunDirectory) -> Iterator[CheckedFile]:
    """A fault where training went on and no checkpoint is left: the first one is written before the first step."""
    if directory.checkpoint_steps():
        return
    try:
        last = max((int(row.get("step", 0)) for row in directory.metrics()), default=0)
    except InputError:
        return  # reported with metrics.jsonl
    if last > 0:
        detail = f"none is left, and metrics.jsonl goes to step {last:,}"
        yield CheckedFile(file="checkpoints", state="damaged", step=None, detail=detail)


def _lost_kept(directory: RunDirectory) -> Iterator[CheckedFile]:
    """A fault for each step before the newest checkpoint whose weights `train.keep_every` kept and that is gone."""
    steps = directory.checkpoint_steps()
    try:
        every = directory.config().train.keep_every
    except InputError:
        return  # reported with config.json
    expected = range(0, steps[-1], every) if every and steps else ()
    for step in sorted(set(expected) - set(directory.kept_steps())):
        detail = f"it is missing: train.keep_every = {every}, and there is a checkpoint of step {steps[-1]:,}"
        yield CheckedFile(file=f"kept/{directory.kept_path(step).name}", state="damaged", step=step, detail=detail)


def _check_metrics(directory: RunDirectory) -> None:
    """Raise for damaged lines, for lines that are not JSON except one cut off by a kill, and for missing rows."""
    path = directory.path / "metrics.jsonl"
    for number, line in enumerate(read_bytes(path, LARGEST_DOCUMENT).split(b"\n"), 1):
        if line.strip() and not is_cut_off(line):
            parse_json(line, f"{path}: line {number}")
    directory.metrics()


def _checkpoint(directory: RunDirectory, step: int) -> CheckedFile:
    name = f"checkpoints/{directory.checkpoint_path(step).name}"
    return _checked(name, lambda: directory.read_checkpoint(step), step)


def _kept(directory: RunDirectory, step: int) -> CheckedFile:
    return _checked(f"kept/{directory.kept_path(step).name}", lambda: directory.read_kept(step), step)


def _analyses(directory: RunDirectory) -> Iterator[CheckedFile]:
    for name, kind in ANALYSES.items():
        path = directory.analysis(name)
        if path.exists():
            step = _step_of(path)
            file = f"analysis/{path.name}"
            yield _checked(file, partial(directory.read_result, kind, name, step), step, path)


def _step_of(path: Path) -> int | None:
    """The step in a document's origin; None if it has none or several."""
    try:
        steps = {origin.get("step") for origin in origins_in(read_document(path) or {})}
    except InputError:
        return None
    found = steps.pop() if len(steps) == 1 else None
    return found if isinstance(found, int) else None
