"""Checkpoints of a run, written atomically."""

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headway.bounded_files import read_bytes
from headway.errors import InputError
from headway.origin import digests_in
from headway.runs.directory import Directory
from headway.runs.records import TrainingRecord, training_record
from headway.storage import naming, sync, write_synced

if TYPE_CHECKING:
    from torch import Tensor

STEP_NAME = re.compile(r"step-(\d{6,})")
FILES = ("model.safetensors", "trainer.safetensors", "state.json")


LARGEST_MANIFEST = 100_000
LARGEST_STATE = 1_000_000
"""Bytes of these files of a checkpoint; they have under a thousand. Weights may have any size."""


class DamagedCheckpoint(Exception):
    """A checkpoint whose files do not match its manifest; the message names both."""


@contextmanager
def panics_as_memory_errors(name: str) -> Iterator[None]:
    """Turn safetensors' panic for lack of memory, which is not an `Exception`, into `MemoryError`."""
    try:
        yield
    except BaseException as problem:
        if type(problem).__name__ != "PanicException":  # its class cannot be imported
            raise
        raise MemoryError(f"no room for the tensors of {name}: {problem}") from None


@dataclass(frozen=True)
class Checkpoint:
    """Weights, optimiser state and the state of the training loop after `step` updates."""

    step: int
    model: "dict[str, Tensor]"
    trainer: "dict[str, Tensor]"
    state: TrainingRecord


class Checkpoints(Directory):
    """The checkpoints in a run's directory."""

    def checkpoint_path(self, step: int) -> Path:
        return self.path / "checkpoints" / f"step-{step:06d}"

    def checkpoint_steps(self) -> list[int]:
        """The steps that have a checkpoint, oldest first."""
        return _steps_in(self.path / "checkpoints")

    def newest_state(self) -> TrainingRecord:
        """The loop's state at the newest checkpoint whose state is whole; empty if there is none."""
        return self._newest_state()[0]

    def damaged_state(self) -> str:
        """What is wrong with the state of a checkpoint that is newer than the newest whole one; empty if nothing is."""
        return self._newest_state()[1]

    def _newest_state(self) -> tuple[TrainingRecord, str]:
        damage = ""
        for step in reversed(self.checkpoint_steps()):
            place = self.checkpoint_path(step)
            try:
                with _damages_of(place):
                    (state,) = _read_folder(place, FILES[-1:])
                    return _record_of(state, place, step), damage
            except DamagedCheckpoint as problem:
                damage = damage or str(problem)
        return {}, damage

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint atomically."""
        from safetensors.torch import save

        place = self.checkpoint_path(checkpoint.step)
        state = json.dumps(checkpoint.state, indent=1, allow_nan=False).encode()
        with panics_as_memory_errors(place.name):
            contents = dict(zip(FILES, (save(checkpoint.model), save(checkpoint.trainer), state), strict=True))
        _write_folder(place, contents)

    def read_checkpoint(self, step: int) -> Checkpoint:
        """The checkpoint of a step, verified by its manifest; raises `DamagedCheckpoint`."""
        from safetensors.torch import load

        place = self.checkpoint_path(step)
        with _damages_of(place):
            model, trainer, state = _read_folder(place, FILES)
            with panics_as_memory_errors(place.name):
                return Checkpoint(step, load(model), load(trainer), _record_of(state, place, step))

    def newest_checkpoint(self, steps: list[int] | None = None) -> tuple[Checkpoint | None, list[str]]:
        """The newest intact checkpoint, and a message for each newer damaged one."""
        damages: list[str] = []
        for step in reversed(self.checkpoint_steps() if steps is None else steps):
            try:
                return self.read_checkpoint(step), damages
            except DamagedCheckpoint as damage:
                damages.append(str(damage))
        return None, damages

    def keep_checkpoints(self, steps: set[int]) -> None:
        """Remove all other checkpoints, and temporary directories of killed processes."""
        for step in self.checkpoint_steps():
            if step not in steps:
                _remove_folder(self.checkpoint_path(step))
        for left_over in self.path.glob("checkpoints/writing-*"):
            shutil.rmtree(left_over)

    # Weights that are kept for analyses, apart from the checkpoints that training continues from

    def kept_path(self, step: int) -> Path:
        return self.path / "kept" / f"step-{step:06d}"

    def kept_steps(self) -> list[int]:
        """The steps whose weights were kept by `train.keep_every`, oldest first."""
        return _steps_in(self.path / "kept")

    def keep_weights(self, step: int, model: "dict[str, Tensor]") -> None:
        """Write the weights of a step atomically, without the optimiser's state."""
        from safetensors.torch import save

        place = self.kept_path(step)
        with panics_as_memory_errors(place.name):
            _write_folder(place, {FILES[0]: save(model)})

    def read_kept(self, step: int) -> "dict[str, Tensor]":
        """The kept weights of a step, verified by their manifest; raises `DamagedCheckpoint`."""
        from safetensors.torch import load

        place = self.kept_path(step)
        with _damages_of(place), panics_as_memory_errors(place.name):
            return load(*_read_folder(place, FILES[:1]))

    def forget_kept(self, after: int) -> None:
        """Remove kept weights after a step, and temporary directories of killed processes."""
        for step in self.kept_steps():
            if step > after:
                _remove_folder(self.kept_path(step))
        for left_over in self.path.glob("kept/writing-*"):
            shutil.rmtree(left_over)


def _record_of(state: bytes, place: Path, step: int) -> TrainingRecord:
    """The contents of a state.json, which must be that of the folder's step: a renamed folder is damaged."""
    found = training_record(state, FILES[-1])
    if found["step"] != step:
        raise DamagedCheckpoint(f"{place.name} is damaged: its {FILES[-1]} is that of step {found['step']}")
    return found


def _steps_in(folder: Path) -> list[int]:
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(match[1]) for name in names if (match := STEP_NAME.fullmatch(name)))


def _write_folder(place: Path, contents: Mapping[str, bytes]) -> None:
    """Write files and their manifest as one folder, atomically; on an error, such as a full disk, nothing is left."""
    manifest = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in contents.items())
    beside = place.with_name(f"writing-{place.name}")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        with naming(place):
            beside.mkdir(parents=True)
        for name, content in {**contents, "MANIFEST": manifest.encode()}.items():
            with naming(place / name):
                write_synced(beside / name, content)
        with naming(place):
            sync(beside)
            _remove_folder(place)  # only a damaged one can be here
            os.rename(beside, place)
            sync(place.parent)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _remove_folder(place: Path) -> None:
    """Remove a folder so that a kill cannot leave a part of it under its name."""
    if not place.is_dir():
        return
    beside = place.with_name(f"writing-removed-{place.name}")
    shutil.rmtree(beside, ignore_errors=True)
    os.rename(place, beside)
    shutil.rmtree(beside)


def _read_folder(place: Path, names: Sequence[str]) -> list[bytes]:
    """The files of a folder, compared with its manifest."""
    expected = digests_in(read_bytes(place / "MANIFEST", LARGEST_MANIFEST).decode())
    contents = []
    for name in names:
        most = LARGEST_STATE if name == "state.json" else sys.maxsize
        contents.append(read_bytes(place / name, most))
        if hashlib.sha256(contents[-1]).hexdigest() != expected[name]:
            raise DamagedCheckpoint(f"{place.name} is damaged: {name} does not match its manifest")
    return contents


@contextmanager
def _damages_of(place: Path) -> Iterator[None]:
    """Turn what reading a damaged folder raises into `DamagedCheckpoint`."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, ValueError, KeyError, SafetensorError, InputError) as error:
        raise DamagedCheckpoint(f"{place.name} is damaged: {error}") from None
