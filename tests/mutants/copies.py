"""A copy of the repository in which bugs are planted, with a process that runs tests there."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.catalogue import PACKAGE, ROOT, Mutant

SLOW = (
    *("torch", "numpy", "scipy.stats", "hypothesis", "jaxtyping", "beartype", "safetensors.torch", "typer.testing"),
    *(
        "rich.progress",
        "jinja2",
        "matplotlib.figure",
        "matplotlib.backends.backend_agg",
        "playwright.sync_api",
        "pytest",
    ),
)
"""Packages that the process which runs tests imports once."""


@dataclass(frozen=True)
class Outcome:
    """How one run of tests ended."""

    status: int | None
    """pytest's exit status: 0 all passed, 1 a test failed, 2 a file could not be imported; None: the time limit."""
    seconds: float
    output: str

    @property
    def failed(self) -> str:
        """The first test that failed, or an empty text."""
        lines = [line for line in self.output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return lines[0].split(" ", 1)[1].split(" - ")[0] if lines else ""


def files_in(root: Path) -> list[str]:
    """The tracked and new files of a work tree, by their paths in it."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout.decode().split("\0")
    return [name for name in sorted(names) if (root / name).is_file()]


class Copy:
    """The tracked and new files of a work tree in a temporary folder; the work tree itself is never changed."""

    def __init__(self, root: Path = ROOT, packages: tuple[str, ...] = SLOW) -> None:
        self.packages = packages
        self.folder = tempfile.TemporaryDirectory(prefix="headway-mutants-", ignore_cleanup_errors=True)
        self.path = Path(self.folder.name)
        for name in files_in(root):
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, self.path / name)
        self._written = 0
        self._server: subprocess.Popen[str] | None = None

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        """The bug is in the copy's file inside the block."""
        path = self.path / PACKAGE / mutant.file
        text = path.read_text()
        self._write(path, mutant.plant(text))
        try:
            yield
        finally:
            self._write(path, text)

    def _write(self, path: Path, text: str) -> None:
        """Every text gets a time of its own: Python takes compiled code for current by time and size alone."""
        self._written += 1
        path.write_text(text)
        os.utime(path, (1_000_000_000 + self._written,) * 2)

    def run(self, tests: tuple[str, ...], limit: float) -> Outcome:
        """The tests, up to the first that fails."""
        server = self._running_server()
        assert server.stdin and server.stdout
        print(json.dumps({"tests": tests, "limit": limit}), file=server.stdin, flush=True)
        answer = server.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process that runs tests ended with status {server.wait()}")
        return Outcome(**json.loads(answer))

    def _running_server(self) -> subprocess.Popen[str]:
        if self._server is None:
            environment = {**os.environ, "PYTHONPATH": str(self.path / "src"), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
            environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
            self._server = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("server.py"), *self.packages],
                cwd=self.path,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        return self._server

    def close(self) -> None:
        """The process ends and the copy is deleted."""
        if self._server is not None:
            self._server.terminate()
            self._server.communicate()
        self.folder.cleanup()
