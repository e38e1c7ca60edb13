"""Plays a scene: runs its command lines in this process and collects what they print and write."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from faults.laboratory import answer_to, inside
from matplotlib.figure import Figure

from tests.recorded.changed_documents import told
from tests.recorded.figures_as_data import write_as_data
from tests.recorded.normal_form import content_of, masked, normal
from tests.recorded.scenes import RECIPES, RUNS, Scene

LEFT_OUT = ("provenance.json", "MANIFEST", "lock", "trainer.safetensors", "state.json", "model.safetensors")
"""Files that tell of the machine, or of a few steps of training, which rounding moves: biases of keys have no gradient
but rounding, and AdamW makes it a step."""
ON_A_DEVICE = ("train", "evaluate", "heads", "lengths", "attack", "prove", "doctor", "prune", "sweep")


def play(scene: Scene, folder: Path) -> list[dict[str, Any]]:
    """One entry for each command line: exit code, streams, and the files that are new or changed.

    The last entries say what is said of changed versions of the runs' documents.
    """
    shutil.copytree(RECIPES, folder, dirs_exist_ok=True)
    for name in scene.runs:
        shutil.copytree(RUNS / name, folder / name)
    with inside(folder), pytest.MonkeyPatch.context() as patch:
        lines = [*scene.lines, *(scene.prepare(folder) or ())]
        patch.setattr(Figure, "savefig", write_as_data)
        patch.setenv("COLUMNS", "100")
        found = [*_played(lines, folder, patch), *_changed(scene, folder)]
    return json.loads(json.dumps(found))


def _played(lines: Sequence[str], folder: Path, patch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    before = _digests(folder)
    for line in lines:
        words = line.split()
        patch.setattr(sys, "argv", ["headway", *words])
        answer = answer_to([*words, "--quiet", *(["--device", "cpu"] if words[0] in ON_A_DEVICE else [])])
        if answer.raised:
            raise answer.raised
        after = _digests(folder)
        changed = [name for name in after if after[name] != before.get(name)]
        yield {
            "line": line,
            "exit": answer.code,
            "out": _document_or_lines(answer.out, folder),
            "err": _lines(answer.err, folder),
            "files": {name: content_of(folder / name, str(folder)) for name in changed},
            "deleted": [name for name in before if name not in after],
        }
        before = after


def _changed(scene: Scene, folder: Path) -> Iterator[dict[str, Any]]:
    for name in scene.runs[:1]:
        for document, lines in told(Path(name)).items():
            yield {"changed": f"{name} {document}", "said": [masked(line, str(folder)) for line in lines]}


def _document_or_lines(text: str, folder: Path) -> Any:
    return normal(json.loads(text), str(folder)) if text.startswith("{") else _lines(text, folder)


def _lines(text: str, folder: Path) -> list[str]:
    return [masked(line.rstrip(), str(folder)) for line in text.splitlines()]


def _digests(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in LEFT_OUT)
    return {os.path.relpath(path, folder): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
