"""headway report, as a user calls it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import headway as hw
from headway.cli import report as command
from headway.cli.main import run
from tests.reports.made_up_runs import make_run


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A run that nothing was found about yet, so that its report is quick."""
    return make_run(tmp_path / "bare", analyses=()).path


def test_the_report_is_told_and_its_place_named(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(bare)]) == 0
    printed = capsys.readouterr()
    assert "it answers 83.3 % of validation right" in printed.out
    assert f"the report is {bare / 'report' / 'index.html'} (" in printed.out
    assert "report: 2 of 2" in printed.err, "the overview and training"


def test_json_is_one_document_and_needs_no_torch(bare: Path) -> None:
    """In a process of its own, as this one has torch."""
    code = "import sys; from headway.cli.main import run; run(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", code, "report", str(bare), "--json", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    told = json.loads(ended.stdout)
    assert Path(told["page"]).stat().st_size == told["bytes"]
    assert told["sections"][0] == "doctor"


def test_out_and_open(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Path] = []
    monkeypatch.setattr(command, "show_in_browser", shown.append)
    assert run(["report", str(bare), "--out", str(tmp_path / "there"), "--open", "--quiet"]) == 0
    assert shown == [tmp_path / "there" / "index.html"]
    assert (tmp_path / "there" / "report.md").exists()
    assert not (bare / "report").exists()


def test_a_wrong_run_is_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"headway: {tmp_path} is not a run: it has no config.json\n"


def test_from_python(bare: Path) -> None:
    assert Path(hw.report(bare).page) == bare / "report" / "index.html"
