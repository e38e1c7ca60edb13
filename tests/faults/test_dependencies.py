"""The oldest versions are those of pyproject.toml, and a suite that fails where they are installed is counted."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from faults.campaign import Attempt, Row, RowResult, run
from faults.rows import dependencies
from faults.rows.dependencies import ROOT, SUITE, Environments, find_python, floors, numbers, passed

PYPROJECT = """
[project]
name = "planted"
version = "1"
dependencies = ["torch>=2.6", "numpy>=1.9", "ray[tune]>=2.45.1"]
[project.optional-dependencies]
plots = ["numpy>=1.26"]
all = ["numpy>=1.10", "planted[plots]"]
"""
PASSES = "def test_sum():\n    assert 1 + 1 == 2\n\ndef test_more():\n    pass\n"
FAILS = "def test_sum():\n    pass\n\ndef test_product():\n    assert 2 * 3 == 5\n"
INSTALLABLE = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "planted"
version = "1"
dependencies = ["pytest>=9", "pytest-xdist>=3.8"]
[project.optional-dependencies]
workers = ["execnet>=2.1"]
[tool.hatch.build.targets.wheel]
bypass-selection = true
"""


def plant(folder: Path, pyproject: str = PYPROJECT, **tests: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text(pyproject)
    for name, text in tests.items():
        (folder / f"test_{name}.py").write_text(text)
    return folder


def test_the_highest_floor_of_each_package_counts_and_what_is_held_is_left_out(tmp_path: Path) -> None:
    found = floors(plant(tmp_path), {"torch": "2.13.0"})
    assert found == {"numpy": "1.26", "ray": "2.45.1"}


@pytest.mark.parametrize("line", ["numpy", "numpy==1.26", "numpy<3", "numpy>=two"])
def test_a_requirement_without_an_oldest_version_is_named(line: str, tmp_path: Path) -> None:
    root = plant(tmp_path, PYPROJECT.replace("numpy>=1.9", line))
    with pytest.raises(ValueError, match=rf"^'{line}' in pyproject.toml names no oldest version"):
        floors(root, {})


def test_no_requirement_of_headway_is_above_the_tested_version_and_every_test_of_the_row_is_there() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().split()
    tested = dict(line.split("==") for line in lines)
    oldest = floors(ROOT, {})
    assert {"torch", "numpy", "typer", "pytest", "sphinx"} <= set(oldest)
    assert [package for package, version in oldest.items() if numbers(tested[package]) < numbers(version)] == []
    assert [path for path in SUITE if not (ROOT / path).exists()] == []


def counted(attempt: Attempt, cases: int) -> RowResult:
    @contextmanager
    def attempts(seed: int, folder: Path) -> Iterator[Attempt]:
        yield attempt

    return run(Row("planted", 1, "", "", cases, attempts), cases, seed=0)


def test_a_suite_that_fails_is_counted_with_the_names_of_its_failures(tmp_path: Path) -> None:
    suites = [plant(tmp_path / name, **{name: text}) for name, text in (("right", PASSES), ("wrong", FAILS))]
    found = counted(lambda number: passed(Path(sys.executable), suites[number], ["."], "oldest", workers=0), 2)
    assert found.outcomes == {"2 passed": 1, "FAILED": 1}
    assert found.failures[0].case == 1
    assert found.failures[0].seen == "oldest: exit 1; 1 failed, 1 passed; FAILED test_wrong.py::test_product"


def test_a_python_that_does_not_start_is_passed_over_and_a_missing_one_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale, real = tmp_path / "stale", tmp_path / "real"
    for folder in (stale, real):
        folder.mkdir()
    (stale / "python3.0").write_text("#!/bin/sh\nexit 127\n")
    (stale / "python3.0").chmod(0o755)
    (real / "python3.0").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", os.pathsep.join([str(stale), str(real)]))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert find_python("3.0") == str(real / "python3.0")
    of_pyenv = tmp_path / "pyenv" / "versions" / "3.2.1" / "bin"
    of_pyenv.mkdir(parents=True)
    (of_pyenv / "python3.2").symlink_to(sys.executable)
    assert find_python("3.2") == str(of_pyenv / "python3.2")
    monkeypatch.setattr(dependencies, "PYTHONS", ("3.1",))
    environments = Environments(tmp_path, [], {}, tmp_path)
    assert counted(environments.attempt, 2).outcomes == {"no Python 3.1 on this machine": 2}


@pytest.mark.long
def test_oldest_and_newest_are_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip installs a planted project, whose tests hold with its oldest packages alone."""
    monkeypatch.setattr(dependencies, "PYTHONS", (".".join(map(str, sys.version_info[:2])),))
    test = (
        "from importlib.metadata import version\n\ndef test_versions():\n    assert version('iniconfig') == '2.0.0'\n"
    )
    test += "    assert version('execnet') == '2.1.0'\n"
    root = plant(tmp_path / "project", INSTALLABLE, versions=test)
    environments = Environments(root, ["."], {"iniconfig": "2.0.0"}, tmp_path)
    found = counted(environments.attempt, 2)
    assert [failure.case for failure in found.failures] == [1]
    assert "FAILED test_versions.py::test_versions" in found.failures[0].seen
    assert "newest" in found.failures[0].seen
    assert any(outcome.startswith("oldest, Python 3.") and outcome.endswith(": 1 passed") for outcome in found.outcomes)
