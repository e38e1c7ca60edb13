"""Checks of output paths: only files that headway wrote are replaced, and never a run's own files."""

import os
from collections.abc import Iterable
from pathlib import Path

from headway.errors import InputError
from headway.storage import is_written_by_headway

OWN_FILES = {
    "config.json": (
        "run",
        ("provenance.json", "metrics.jsonl", "data", "checkpoints", "kept", "analysis", "tensorboard", "lock"),
    ),
    "study.json": ("study", ("analysis", "lock")),
    "model.json": ("analysed model", ("analysis", "lock")),
    "sweep.json": ("sweep", ("results.jsonl", "lock")),
}
"""The file that marks a run, a study or a sweep, and the other names in it that no output may replace."""


def check_outputs(paths: Iterable[Path], *, force: bool, option: str = "--out") -> None:
    """Raise if writing these files would replace one that headway did not write, unless `force` is set.

    The own files of a run, a study or a sweep (settings, metrics, weights, data, analyses) are protected even then.
    Nothing is written.
    """
    for path in paths:
        if (own := owner_of(path)) is not None:
            kind, directory = own
            raise InputError(f"{option} {path} is part of the {kind} {directory} itself; choose a path outside of it")
        if path.is_dir():
            raise InputError(f"{option} {path} is a directory; a file needed")
        if not force and os.path.lexists(path) and not is_written_by_headway(path):
            raise InputError(f"{option}: {path} was not written by headway; choose another path, or add --force")


def owner_of(path: Path) -> tuple[str, Path] | None:
    """The kind and directory of the run, study or sweep to whose own files the path belongs; else None."""
    place = path.resolve()
    for folder in place.parents:
        inside = place.relative_to(folder).parts[0]
        for mark, (kind, names) in OWN_FILES.items():
            if (inside == mark or inside in names) and (folder / mark).is_file():
                return kind, folder
    return None
