"""Committed runs give what they gave: every line, number, file and figure of the recorded scenes.

The scenes are played in a process of their own: shapes are checked by other tests, and here they would take most of
the time.
"""

import json
import os
import subprocess
import sys
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.recorded.__main__ import SESSIONS
from tests.recorded.normal_form import differences
from tests.recorded.scenes import SCENES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("played")
    command = [sys.executable, "-m", "tests.recorded", str(folder)]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert ended.returncode == 0, ended.stderr[-2_000:]
    return folder


@cache
def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [scene.name for scene in SCENES])
def test_a_scene_gives_what_is_recorded(name: str, played: Path) -> None:
    recorded, found = (read(folder / f"{name}.json") for folder in (SESSIONS, played))
    assert list(islice(differences(recorded, found), 12)) == []


def test_every_recording_belongs_to_a_scene() -> None:
    assert {path.stem for path in SESSIONS.glob("*.json")} == {scene.name for scene in SCENES}
