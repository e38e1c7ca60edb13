"""The small files of a run as types: provenance.json, and state.json of a checkpoint."""

from typing import Any, TypedDict, cast, get_type_hints, is_typeddict

from headway.errors import InputError
from headway.results.schema import Hint, check
from headway.storage import parse_json


class Environment(TypedDict, total=False):
    """What affects the numbers of a run beside its settings."""

    commit: str | None
    versions: dict[str, str | None]
    device: str
    gpu: str
    machine: str
    cores: int | None
    threads: int
    seed: int
    command: list[str]
    time: str


class DataFiles(TypedDict, total=False):
    """The files that a run was trained on: their directory, their SHA-256, and examples that two splits share."""

    data: str
    data_sha256: dict[str, str]
    overlap: dict[str, int]


class Provenance(Environment, DataFiles, total=False):
    """provenance.json: how a run began, the run whose weights it began with, and each time it was continued."""

    made_from: str
    made_from_step: int
    resumed: list[Environment]


class Best(TypedDict, total=False):
    """The checkpoint with the lowest validation loss; in guided training, with the fewest open contexts."""

    step: int
    loss: float
    accuracy: float
    open_contexts: int


class TrainingRecord(TypedDict, total=False):
    """state.json of a checkpoint: how far training was."""

    step: int
    seconds: float
    best: Best
    below: int
    above: int
    above_since: int
    mastered_at: int | None
    validated: int
    finished: bool
    stopped_early: bool
    threads: int


def training_record(content: bytes, where: str) -> TrainingRecord:
    """The contents of a state.json; a field that training does not write, or of another type, raises `InputError`."""
    found = parse_json(content, where)
    _check(TrainingRecord, found, where)
    if "step" not in found or "step" not in found.get("best", {}):
        raise InputError(f"{where}: step and best.step needed")
    return cast(TrainingRecord, found)


def _check(kind: Hint, value: Any, where: str) -> None:
    if not is_typeddict(kind):
        check(kind, value, where)
        return
    check(dict[str, object], value, where)
    fields = get_type_hints(kind)
    for key, item in value.items():
        if key not in fields:
            raise InputError(f"{where}: {key} is unknown; {', '.join(fields)} allowed")
        _check(fields[key], item, f"{where}: {key}")
