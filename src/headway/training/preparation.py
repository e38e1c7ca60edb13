"""Before the first step: check everything, and create the run directory or recognise the one to resume."""

import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

import torch

from headway.config import ModelConfig, RunConfig, build, differences, options_of, to_table, with_options
from headway.errors import InputError
from headway.model.encodings import ENCODINGS, position_kind_of
from headway.model.poolings import POOLINGS
from headway.model.transformer import check_size
from headway.proofs.prove import check_guidable
from headway.runs import RunDirectory, check_links
from headway.runs.records import DataFiles, Environment, Provenance
from headway.tasks import Examples, Task, make_task
from headway.tasks.files import FILE_NAMES, files_of_lengths, make_splits, read_splits
from headway.tasks.splits import Split

BEFORE_CONFIG = ("lock", "provenance.json", "config.json.writing-", "data")
"""Prefixes of the names that a run directory may contain before its config.json."""


def resolve(config: RunConfig, task: Task) -> RunConfig:
    """The recipe with every option of task, encoding and pooling filled in, and its sizes checked."""
    model = config.model
    encoding: Any = options_of(ENCODINGS.get(model.encoding.name).Options, model.encoding, "model.encoding")
    model = replace(model, encoding=with_options(model.encoding, encoding))
    if model.pooling is not None:
        pooling: Any = options_of(POOLINGS.get(model.pooling.name).Options, model.pooling, "model.pooling")
        model = replace(model, pooling=with_options(model.pooling, pooling))
    _check_size_once(json.dumps(to_table(model)), len(task.vocabulary), task.n_classes)
    task.check_positions(position_kind_of(model.encoding))
    return replace(config, task=with_options(config.task, task.options), model=model)


@lru_cache
def _check_size_once(model: str, n_tokens: int, n_classes: int) -> int:
    """`check_size` builds the model without memory; it is cached, as the trials of a sweep mostly share one."""
    return check_size(build(ModelConfig, json.loads(model), "model"), n_tokens, n_classes)


@contextmanager
def open_run(
    directory: RunDirectory,
    config: RunConfig,
    task: Task,
    device: torch.device,
    *,
    resume: bool,
    data: Path | None,
    command: list[str],
) -> Iterator[tuple[RunConfig, dict[Split, Examples]]]:
    """Lock the run for writing and yield the resolved config and the splits.

    Everything is checked before a file is written.
    """
    config, splits, source = plan_run(directory, config, task, resume=resume, data=data)
    circumstances = describe_environment(device, config.seed, command)
    with directory.lock():
        check_place(directory, resume=resume)
        if directory.exists():
            _check_same(directory, config, data)
            if not directory.newest_state().get("finished"):
                directory.note_resume(circumstances)
        else:
            directory.create(
                config, cast(Provenance, {**circumstances, **source}), [] if data is None else _files_in(data)
            )
        yield config, splits


def plan_run(
    directory: RunDirectory, config: RunConfig, task: Task, *, resume: bool, data: Path | None
) -> tuple[RunConfig, dict[Split, Examples], DataFiles]:
    """The resolved config, the splits, and the files' part of provenance.json; nothing is written."""
    check_place(directory, resume=resume)
    plan = _plan(directory, resolve(config, task), task, data)
    if config.train.guided:
        check_guidable(task, plan[0].model)
    if directory.exists():
        _check_same(directory, plan[0], data)
    return plan


def _plan(
    directory: RunDirectory, config: RunConfig, task: Task, data: Path | None
) -> tuple[RunConfig, dict[Split, Examples], DataFiles]:
    there = directory.config().data if directory.exists() else None
    if there is not None and there.files and data is None:
        config = replace(config, data=replace(config.data, files=True, allow_overlap=there.allow_overlap))
    if data is None and not config.data.files:
        return config, make_splits(task, config.data), {}
    if data is None and not directory.exists():
        raise InputError("data.files = true is set by --data; name the directory there")
    place = data or directory.data
    if data is None:
        directory.check_data()
    splits, overlap = read_splits(task, place, allow_overlap=config.data.allow_overlap)
    train, validation, test = (len(examples) for examples in splits.values())
    sizes = replace(config.data, files=True, train=train, validation=validation, test=test)
    hashes = {path.name: _sha256(path) for path in _files_in(place)}
    return replace(config, data=sizes), splits, {"data": str(data), "data_sha256": hashes, "overlap": overlap}


def check_place(directory: RunDirectory, *, resume: bool) -> None:
    path = directory.path
    if directory.exists():
        check_links(path)
    if directory.exists() and not resume:
        directory.check_not_locked()
        raise InputError(f"{path} holds a run already; --resume continues it, another --out starts a new one")
    if path.exists() and not path.is_dir():
        raise InputError(f"--out {path} is a file; a directory needed")
    occupied = path.is_dir() and not directory.exists() and any(p.name != "lock" for p in path.iterdir())
    if occupied and not _is_left_by_a_kill(directory):
        raise InputError(f"--out {path} holds other files; an empty or new directory needed")


def _is_left_by_a_kill(directory: RunDirectory) -> bool:
    """Whether the directory holds only the beginning of a run: its provenance and its copy of the data."""
    path = directory.path
    if any(not entry.name.startswith(BEFORE_CONFIG) for entry in path.iterdir()):
        return False
    try:
        record = directory.provenance() if (path / "provenance.json").exists() else {"versions": {"headway": None}}
    except InputError:
        return False
    return isinstance(record, dict) and "headway" in (record.get("versions") or ())


def _files_in(data: Path) -> list[Path]:
    return [*(data / name for name in FILE_NAMES.values()), *files_of_lengths(data)]


def _check_same(directory: RunDirectory, config: RunConfig, data: Path | None) -> None:
    there = directory.config()
    there = resolve(there, make_task(there.task))  # an earlier version may have named values otherwise
    apart = differences(there, config)
    if apart:
        raise InputError(f"{directory.path} was begun with other settings ({'; '.join(apart)}); use another --out")
    if data is not None and any(_sha256(data / n) != _sha256(directory.data / n) for n in FILE_NAMES.values()):
        raise InputError(f"{directory.path} was begun with other data than {data} now holds; use another --out")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def describe_environment(device: torch.device, seed: int, command: list[str]) -> Environment:
    """What else affects the numbers: commit, versions, device, threads, command line."""
    packages = ("headway", "torch", "numpy", "scipy", "safetensors")
    found: Environment = {
        "commit": _commit(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in packages}},
        "device": device.type,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "seed": seed,
        "command": command,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    if device.type == "cuda":
        found["gpu"] = torch.cuda.get_device_name()
    return found


@cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def _commit() -> str | None:
    """The commit of the source tree, with `-dirty` if it was changed; None outside a checkout. It is read once."""
    package = Path(__file__).resolve().parents[1]

    def git(*words: str) -> str:
        command = ["git", "-C", str(package), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    try:
        # A copy installed inside somebody else's repository is not at that repository's commit.
        if Path(git("rev-parse", "--show-toplevel")) / "src" / "headway" != package:
            return None
        changed = "-dirty" if git("status", "--porcelain", "--untracked-files=no") else ""
        return git("rev-parse", "HEAD") + changed
    except (OSError, subprocess.SubprocessError):
        return None
