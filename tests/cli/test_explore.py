"""headway explore, as a user calls it."""

import json
from pathlib import Path

import pytest

from headway.cli import explore as command
from headway.cli.main import run
from headway.training import train
from tests.tiny import ADDITION, config


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with one small run."""
    train(config(ADDITION, train={"steps": 2}), tmp_path / "runs" / "small", device="cpu")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_is_named_for_its_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explore", "small"]) == 0
    printed = capsys.readouterr()
    size = (here / "small-explorer.html").stat().st_size
    assert printed.out == f"the explorer of small is small-explorer.html ({size / 1e6:.1f} MB)\n"
    assert "explore: 1 of 1" in printed.err
    assert (here / "small-explorer.html").read_text().startswith("<!doctype html>")


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


def test_without_a_run_the_page_holds_trained_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["explore", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("the explorer of addition-seed0, sortedness-long-seed0 is ")
    assert Path("explorer.html").stat().st_size < 4_000_000


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["nowhere"], "no run at nowhere or runs/nowhere; known under ./runs: small"),
        (["small", "--precision", "fp8"], "--precision 'fp8'; known: fp16, fp32"),
        (["small", "--out", "runs"], "--out runs is a directory; a file needed, such as runs/explorer.html"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    here: Path, capsys: pytest.CaptureFixture[str], options: list[str], word: str
) -> None:
    assert run(["explore", "--quiet", *options]) == 2
    assert capsys.readouterr().err == f"headway: {word}\n"
