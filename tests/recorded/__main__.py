"""Plays scenes: `python -m tests.recorded FOLDER [SCENE ...]` writes what they give; `--write` records it anew."""

import json
import sys
import tempfile
import time
from pathlib import Path

import torch

from tests.recorded.playing import play
from tests.recorded.scenes import HERE, SCENES

SESSIONS = HERE / "sessions"


def main() -> None:
    torch.set_num_threads(1)
    place, *names = sys.argv[1:]
    folder = SESSIONS if place == "--write" else Path(place)
    for scene in SCENES:
        if not names or scene.name in names:
            began = time.process_time()
            with tempfile.TemporaryDirectory() as made:
                found = play(scene, Path(made))
            write(folder / f"{scene.name}.json", found)
            print(f"{scene.name}: {time.process_time() - began:.1f} s of processor time", flush=True)


def write(path: Path, found: object) -> None:
    """One value a line, so that a change is a few lines of a diff."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(found, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
