"""Methods for a paper: LaTeX whose numbers are those of the documents."""

import json
import re
from pathlib import Path

import pytest

from headway.cli.main import run as cli
from headway.reports.methods_tex import latex, methods
from tests.reports.made_up_runs import make_run


def test_numbers_are_those_of_the_documents_and_tables_are_whole(tmp_path: Path) -> None:
    made = make_run(tmp_path / "a_run", analyses=("evaluation", "heads", "lengths"))
    text = methods(made)
    assert r"\paragraph{a\_run}" in text
    heads = json.loads((made.path / "analysis" / "heads.json").read_text())["heads"]
    for head in heads:
        assert f"{head['head']} & " in text
    assert "8,100" in text
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 3
    assert not re.search(r"(?<!\\)%", text.partition("\n")[2]), "nothing is commented out"
    for table in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", text, re.DOTALL):
        rows = [line for line in table[1].splitlines() if line.endswith(r"\\")]
        assert {len(re.findall(r"(?<!\\)&", line)) + 1 for line in rows} == {len(table[0])}


def test_the_command_writes_the_file_and_keeps_one_of_someone_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_run(tmp_path / "bare", analyses=())
    place = tmp_path / "methods.tex"
    command = ["report", str(made.path), "--methods", str(place), "--quiet", "--out", str(tmp_path / "page")]
    assert cli(command) == 0
    assert place.read_text().startswith("% generator: headway")
    place.write_text("mine")
    assert cli(command) == 2
    assert "methods.tex" in capsys.readouterr().err
    assert place.read_text() == "mine"


def test_special_letters_are_printed() -> None:
    assert latex("−5 & {x}") == r"$-$5 \& \{x\}"
