"""headway explore, as a user calls it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli import explore as command
from headway.cli.main import run
from headway.results.lengths import Checkpoint
from headway.runs import RunDirectory
from headway.training import train
from tests.results.made_up import length_row, lengths_of
from tests.tiny import ADDITION, config


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one small run."""
    made = tmp_path_factory.mktemp("explored")
    train(config(ADDITION, train={"steps": 2}), made / "runs" / "small", device="cpu")
    return made


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(folder)
    return folder


def test_the_page_is_named_for_its_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explore", "small"]) == 0
    printed = capsys.readouterr()
    size = (here / "small-explorer.html").stat().st_size
    assert printed.out == f"the explorer of small is small-explorer.html ({size / 1e6:.1f} MB)\n"
    assert "explore: 1 of 1" in printed.err
    assert (here / "small-explorer.html").read_text().startswith("<!doctype html>")


def test_a_run_is_named_for_its_directory_where_the_path_has_no_name(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(here / "runs" / "small", tmp_path / "copied")
    monkeypatch.chdir(tmp_path / "copied")
    measured = lengths_of([length_row(8)], checkpoint=Checkpoint(step=1, chosen_on="asked for"))
    RunDirectory(".").replace_analysis("lengths", measured.to_json())
    assert run(["explore", ".", "--quiet"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("the explorer of copied is copied-explorer.html (")
    what = "of step 1, not of step 2, and is left out; run headway lengths again"
    assert printed.err == f"warning: .: analysis/lengths.json is {what}\n"


def test_json_out_and_open(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Path] = []
    monkeypatch.setattr(command, "show_in_browser", shown.append)
    options = ["--out", "there.html", "--open", "--json", "--quiet", "--precision", "fp32"]
    assert run(["explore", "small", "runs/small", *options]) == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert told == {"runs": ["small", "small"], "page": "there.html", "bytes": told["bytes"], "warnings": []}
    assert Path("there.html").stat().st_size == told["bytes"]
    assert printed.err == ""
    assert shown == [Path("there.html")]


def test_without_a_run_the_page_holds_trained_models_and_needs_no_torch(tmp_path: Path) -> None:
    """In a process of its own, as this one has torch: the page is there at once."""
    code = "import sys; from headway.cli.main import run; run(['explore']); sys.exit('torch' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    size = (tmp_path / "explorer.html").stat().st_size
    assert size < 3_500_000
    names = "addition-seed0, sortedness-long-seed0, sortedness-learned-seed0"
    told = f"the explorer of {names} is explorer.html ({size / 1e6:.1f} MB)\n"
    assert ended.stdout == told


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["nowhere"], "no run at nowhere or runs/nowhere; known under ./runs: small"),
        (["small", "--precision", "fp8"], "--precision 'fp8'; known: fp16, fp32"),
        ([""], "RUN '' is empty; a run directory or the name of a run under ./runs needed"),
        # Before the work: there is no run of that name either.
        (["nowhere", "--out", "runs"], "--out runs is a directory; a file needed, such as runs/explorer.html"),
        (
            ["nowhere", "--out", "runs/small/config.json/deep/page.html"],
            "--out runs/small/config.json/deep/page.html: runs/small/config.json is not a directory; "
            "a file inside a directory needed",
        ),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    here: Path, capsys: pytest.CaptureFixture[str], options: list[str], word: str
) -> None:
    assert run(["explore", "--quiet", *options]) == 2
    assert capsys.readouterr().err == f"headway: {word}\n"
