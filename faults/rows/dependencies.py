"""headway's tests with the oldest packages that pyproject.toml allows, and with the newest, on every Python at hand."""

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faults.campaign import Attempt, Row, must

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13")
SUITE = (
    "tests/attachment",
    "tests/contracts/test_encodings.py",
    "tests/contracts/test_poolings.py",
    "tests/model",
    "tests/cli/test_any_model.py",
    "tests/cli/test_wrong_inputs.py",
    "tests/reports/test_course.py",
    "tests/reports/test_figures.py",
    "tests/reports/test_methods_tex.py",
    "tests/reports/test_notebook.py",
    "tests/reports/test_page.py",
    "tests/sweeps/test_search.py",
    "tests/training/test_mirror.py",
    "tests/test_config.py",
    "tests/test_conversion.py",
    "tests/test_documentation.py",
    "tests/test_randomness.py",
    "tests/test_runs.py",
    "tests/test_site.py",
    "tests/test_typechecking.py",
    "tests/test_wheel.py",
)
"""Tests that use what is installed: torch and numpy in models, typer and rich in commands, safetensors in runs,
jaxtyping and beartype everywhere, matplotlib and jinja2 in reports, optuna in searches, tensorboard in the mirror,
transformers and TransformerLens in attachment, sphinx in the site, hatchling in the wheel."""
REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[\w,.-]+\])?>=([\d.]+)")
LIMIT = 900
"""Seconds of an installation, and of a suite."""


class Environments:
    """Virtual environments for a project's tests; torch, gigabytes of files, is unpacked once for each Python."""

    def __init__(self, root: Path, tests: Sequence[str], held: Mapping[str, str], folder: Path):
        self.root, self.tests, self.held, self.folder = root, tests, held, folder

    def attempt(self, number: int) -> str:
        version, oldest = PYTHONS[number // 2], number % 2 == 0
        python = find_python(version)
        if python is None:
            return f"no Python {version} on this machine"
        name = f"{'oldest' if oldest else 'newest'}, Python {version}"
        place = self.folder / f"case-{number}"
        shutil.copytree(self.with_held(python, version), place, symlinks=True, copy_function=os.link)
        try:
            self.install(place, floors(self.root, self.held) if oldest else {}, name)
            return f"{name}: {passed(place / 'bin' / 'python', self.root, self.tests, name)}"
        finally:
            shutil.rmtree(place)

    def with_held(self, python: str, version: str) -> Path:
        """An environment with the held packages alone; its files are linked into each case's, never written there."""
        place = self.folder / f"python-{version}"
        if not place.exists():
            subprocess.run([python, "-m", "venv", place], check=True, timeout=LIMIT)
            pip_install(place, [f"{package}=={held}" for package, held in self.held.items()], f"Python {version}")
        return place

    def install(self, place: Path, pinned: Mapping[str, str], name: str) -> None:
        """The project with all its extras; what pip finds, within what is held and pinned."""
        limits = place / "limits.txt"
        fixed = {**self.held, **pinned}
        limits.write_text("".join(f"{package}=={version}\n" for package, version in fixed.items()), encoding="utf-8")
        extras = ",".join(described(self.root).get("optional-dependencies", {}))
        pip_install(place, ["--constraint", str(limits), "--editable", f"{self.root}[{extras}]"], name)


def find_python(version: str) -> str | None:
    """The first interpreter of this version that starts: on the search path, then among those that pyenv installed."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for folder in [*os.get_exec_path(), *map(str, sorted(pyenv.glob(f"{version}.*/bin")))]:
        program = Path(folder, f"python{version}")
        if program.exists() and subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode == 0:
            return str(program)
    return None


def described(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def floors(root: Path, held: Mapping[str, str]) -> dict[str, str]:
    """The oldest version that pyproject.toml allows of each package, extras included, except what is held."""
    project = described(root)
    lists = [project.get("dependencies", []), *project.get("optional-dependencies", {}).values()]
    oldest: dict[str, str] = {}
    for line in (line for lines in lists for line in lines):
        if line.startswith(f"{project['name']}["):  # an extra that contains other extras
            continue
        matched = REQUIREMENT.fullmatch(line)
        if matched is None:
            raise ValueError(f"{line!r} in pyproject.toml names no oldest version: PACKAGE>=VERSION needed")
        package, version = matched.groups()
        if package not in held:
            oldest[package] = max(oldest.get(package, version), version, key=numbers)
    return oldest


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def tested_version(package: str) -> str:
    """The version in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith(f"{package}==")).removeprefix(f"{package}==")


def pip_install(place: Path, words: Sequence[str], name: str) -> None:
    if not words:
        return
    ended = _run([place / "bin" / "python", "-m", "pip", "install", "--no-compile", *words], place)
    conflict = ended.stdout.partition("The conflict is caused by:")[2].partition("\n\n")[0]
    errors = [line for line in ended.stderr.splitlines() if line.startswith("ERROR")]
    must(ended.returncode == 0, f"{name}: not installable: {conflict or ' '.join(errors)}")


def passed(python: Path, root: Path, tests: Sequence[str], name: str, *, workers: int = 2) -> str:
    """How many tests passed, in pytest's words; raises `BarBroken` with the names of those that did not."""
    options = ["-p", "no:cacheprovider", "-n", str(workers), "--dist", "loadfile"]
    ended = _run([python, "-m", "pytest", *options, *tests], root)
    lines = ended.stdout.splitlines()
    failed = [line.split(" - ")[0] for line in lines if line.startswith(("FAILED ", "ERROR "))]
    counts = ", ".join(re.findall(r"\d+ (?:passed|failed|skipped|errors?|deselected)", lines[-1] if lines else ""))
    seen = "; ".join([f"exit {ended.returncode}", counts, *failed]) if failed else (ended.stdout + ended.stderr)[-400:]
    must(ended.returncode == 0 and " passed" in counts, f"{name}: {seen}")
    return counts


def _run(words: Sequence[str | Path], folder: Path) -> "subprocess.CompletedProcess[str]":
    """A command that sees no packages but its own."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST"))}
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT
    )


@contextmanager
def attempts(seed: int, folder: Path) -> Iterator[Attempt]:
    yield Environments(ROOT, SUITE, {"torch": tested_version("torch")}, folder).attempt


ROW = Row(
    name="dependencies",
    position=13,
    attack="headway installed with the oldest versions that pyproject.toml allows and with the newest of today, on "
    "Python 3.11, 3.12 and 3.13; then its tests",
    bar="the tests pass; warnings are errors",
    count=2 * len(PYTHONS),
    attempts=attempts,
    limits=(
        "torch has the version of constraints.txt in every case. What the named packages need in turn has the newest "
        "version that they allow.",
        f"A case runs part of the tests: {', '.join(path.removeprefix('tests/') for path in SUITE)}. ray is installed "
        "and not started, and no page is opened in a browser.",
        "The cases do not depend on the seed, and what is newest changes from day to day.",
    ),
)
