"""What commands do when nobody reads what they print: `headway runs | head -1` is no error."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.runs import RunDirectory
from tests.tiny_recipes import write_recipe

HEADWAY = [sys.executable, "-m", "headway"]
BUFFER = 8192
"""Bytes that Python collects before it writes them to a pipe."""


@pytest.fixture(autouse=True)
def buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


@pytest.fixture
def unread() -> Iterator[int]:
    """A pipe whose reader is gone."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder of so many runs that their list is longer than the buffer."""
    for number in range(200):
        (tmp_path / "runs" / f"run-{number}").mkdir(parents=True)
        (tmp_path / "runs" / f"run-{number}" / "config.json").write_text("{}")
    return tmp_path / "runs"


def headway(*arguments: str, stdout: int = subprocess.PIPE) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*HEADWAY, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


@pytest.mark.parametrize("option", ["--json", "--quiet"])
def test_a_long_result_that_nobody_reads_is_no_error(runs: Path, unread: int, option: str) -> None:
    assert len(headway("runs", str(runs), option).stdout) > 2 * BUFFER
    found = headway("runs", str(runs), option, stdout=unread)
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [["runs", "{empty}"], ["--help"], ["train", "--help"], ["--version"]])
def test_a_short_result_that_nobody_reads_is_no_error(tmp_path: Path, unread: int, arguments: list[str]) -> None:
    found = headway(*(one.format(empty=tmp_path) for one in arguments), stdout=unread)
    assert (found.returncode, found.stderr) == (0, "")


def test_the_first_line_is_there_for_a_reader_that_wants_no_more(runs: Path) -> None:
    command = f'set -o pipefail; "$0" -m headway runs "{runs}" | head -1'
    found = subprocess.run(["bash", "-c", command, sys.executable], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.split() == ["run", "task", "state", "steps", "validation", "accuracy"]


def test_an_error_is_told_and_keeps_its_exit_code_where_nobody_reads_results(tmp_path: Path, unread: int) -> None:
    (tmp_path / "a-file").write_text("text")
    found = headway("runs", str(tmp_path / "a-file"), stdout=unread)
    assert (found.returncode, found.stderr) == (2, f"headway: {tmp_path}/a-file is not a directory\n")


@pytest.mark.parametrize("option", ["--json", "--quiet"])
@pytest.mark.parametrize("place", ["runs", "."])
def test_a_result_that_cannot_be_written_is_an_error(runs: Path, place: str, option: str) -> None:
    with Path("/dev/full").open("w") as full:
        found = headway("runs", str(runs.parent / place), option, stdout=full.fileno())
    assert found.returncode == 2
    assert found.stderr.startswith("headway: ")
    assert found.stderr.endswith("[Errno 28] No space left on device\n")
    assert found.stderr.count("\n") == 1


def test_training_goes_on_when_nobody_reads_its_progress(tmp_path: Path, unread: int) -> None:
    command = [*HEADWAY, "train", str(write_recipe(tmp_path)), "--device", "cpu", "--out", str(tmp_path / "run")]
    found = subprocess.run(command, stdout=subprocess.PIPE, stderr=unread, text=True, check=False)
    assert found.returncode == 0
    assert "4 steps" in found.stdout
    assert RunDirectory(tmp_path / "run").newest_state()["finished"]


BROKEN = """
import headway.runs
from headway.cli.main import main

def list_runs(folder):
    raise BrokenPipeError(32, "Broken pipe")

headway.runs.list_runs = list_runs
main()
"""


def test_another_pipe_that_breaks_is_an_error(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BROKEN, "runs", str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (2, "", "headway: [Errno 32] Broken pipe\n")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "iso8859-15"])
def test_signs_that_the_encoding_of_a_pipe_lacks_are_printed_in_ascii(encoding: str) -> None:
    program = "from headway.cli import main; main.run = lambda arguments: print('−1.5 ≥ 2 ✓') or 0; main.main()"
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=False)
    assert (found.returncode, found.stderr) == (0, b"")
    assert found.stdout == b"-1.5 >= 2 \\u2713\n"


def test_signs_are_printed_as_they_are_where_the_encoding_has_them() -> None:
    program = "from headway.cli import main; main.run = lambda arguments: print('−1.5 ≥ 2 ✓') or 0; main.main()"
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=False)
    assert found.stdout.decode() == "−1.5 ≥ 2 ✓\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("many", [True, False])
def test_a_full_standard_output_is_named(runs: Path, many: bool) -> None:
    with Path("/dev/full").open("w") as full:
        found = headway("runs", str(runs if many else runs / "run-0"), stdout=full.fileno())
    assert found.returncode == 2
    assert found.stderr == "headway: standard output: [Errno 28] No space left on device\n"
