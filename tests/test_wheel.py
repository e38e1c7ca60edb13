"""The built wheel works without the repository: recipes, page, shipped models and commands are inside."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.build import build_wheel

import headway

ROOT = Path(headway.__file__).parents[2]
LARGEST = 6_000_000
"""Bytes of the wheel."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files in a folder of their own, beside the packages that headway needs."""
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        wheel = folder / build_wheel(str(folder))
    assert wheel.stat().st_size < LARGEST
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


def command(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    script = f"import headway, sys; assert headway.__file__.startswith({str(installed)!r}); "
    script += "from headway.cli.main import main; sys.argv[0] = 'headway'; main()"
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "made"),
    [
        (("train", "quick-addition", "--dry-run"), None),
        (("explore", "--out", "models.html"), "models.html"),
        (("data", "sortedness", "--out", "data", "--set", "data.train=20"), "data/train.json"),
    ],
)
def test_commands_of_the_wheel_need_no_repository(installed: Path, tmp_path: Path, arguments, made) -> None:  # type: ignore[no-untyped-def]
    ended = command(installed, tmp_path, *arguments)
    assert ended.returncode == 0, ended.stderr
    assert made is None or (tmp_path / made).stat().st_size > 0


def test_every_recipe_and_no_test_is_inside(installed: Path) -> None:
    inside = {path.name for path in (installed / "headway" / "recipes").glob("*.toml")}
    assert inside == {path.name for path in (ROOT / "recipes").glob("*.toml")}
    assert not list(installed.glob("tests*"))
