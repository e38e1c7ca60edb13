"""What a person at a terminal of 80 columns sees."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headway.cli import options, terminal
from headway.cli.doctor import coloured
from headway.cli.head_lines import screen
from headway.cli.main import run
from headway.cli.report import panel
from headway.cli.terminal import Piece, show_pieces
from headway.narration.tables import Column, Table
from headway.reports.writing import Written
from headway.results.doctor import Diagnosis
from headway.results.schema import read
from tests.reports.documents import make_document
from tests.reports.made_up_runs import FINDINGS, doctor_document
from tests.results.made_up_values import typed

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def shown(pieces: list[Piece], *, colours: bool = False) -> str:
    page = io.StringIO()
    show_pieces(pieces, Console(file=page, width=80, force_terminal=True, color_system="standard", highlight=False))
    return page.getvalue() if colours else COLOUR.sub("", page.getvalue())


@pytest.fixture(scope="module")
def found() -> Any:
    document = make_document(n_layers=2, n_heads=4, wrong=3)
    return typed({**document, "warnings": []})


def test_the_table_of_heads_fits_80_columns_and_breaks_no_number(found: Any) -> None:
    text = shown(screen(found))
    assert max(map(len, text.splitlines())) <= 80
    rows = [line for line in text.splitlines() if re.match(r"\s*(enc|dec)\d\.(self|cross)\.h\d ", line)]
    assert rows
    for line in rows:
        assert re.search(r" −?\d+\.\d+ +\S* *−?\d+\.\d+ to −?\d+\.\d+ ", line), "the drop, its bar and both ends"


def test_heads_are_sorted_by_their_drop_and_those_that_cost_nothing_are_one_sentence(found: Any) -> None:
    pieces = screen(found)
    (table,) = [piece for piece in pieces if isinstance(piece, Table)]
    drops = [row[2].number for row in table.cells]
    assert drops == sorted(drops, reverse=True)
    assert 0 < len(drops) < len(found.heads)
    assert "The other heads cost at most" in shown(pieces)


def test_verdicts_are_coloured_and_the_largest_drop_has_the_longest_bar() -> None:
    columns = [Column("head", numeric=False), Column("verdict", numeric=False), Column("drop", bar=True)]
    from headway.narration.numbers import number, points

    rows = [["a", "critical", number(80.0, points)], ["b", "redundant", number(20.0, points)]]
    text = shown([Table("", columns, rows)], colours=True)
    assert "\x1b[1;31mcritical" in text
    assert "\x1b[32mredundant" in text
    assert "█" * terminal.BAR in text
    lengths = [line.count("█") for line in COLOUR.sub("", text).splitlines() if "█" in line]
    assert lengths == [8, 2]


def test_a_study_ends_with_five_facts_and_two_paths() -> None:
    tiles = [["Accuracy", "99.9 %", "3 of 8,100 wrong", ""], ["Critical heads", "2 of 24", "7 important", ""]]
    tiles += [["Removable together", "9", "0.30 points", ""], ["Doctor", "no error", "warned of: x", "warning"]]
    written = Written(
        page="studies/a/report/index.html",
        markdown="",
        figures=[],
        bytes=0,
        sections=[],
        answer=[],
        left_out=[],
        headline="2 of 24 heads are critical.",
        tiles=tiles,
    )
    text = shown([panel("a", written, ("explorer", "studies/a/report/explorer.html"))])
    framed = [line for line in text.splitlines() if line.startswith("│") and line.strip("│ ")]
    assert len(framed) == 5
    assert text.splitlines()[-2:] == [
        "report   studies/a/report/index.html",
        "explorer studies/a/report/explorer.html",
    ]
    assert max(map(len, text.splitlines())) <= 80


def test_the_doctor_is_coloured_and_counts_what_is_fine() -> None:
    document = doctor_document(Path("run"), FINDINGS)
    text = shown(coloured(read(Diagnosis, document, "doctor.json")), colours=True)
    assert "\x1b[1;31merror" in text
    assert "\x1b[33mwarning" in text
    plain = COLOUR.sub("", text)
    assert "splits-overlap" not in plain, "31 rows of fine"
    assert "1 check finds nothing wrong" in " ".join(plain.split())
    assert max(map(len, plain.splitlines())) <= 80


def test_into_a_pipe_everything_is_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    options.show({}, ["all of it"], as_json=False, at_terminal=["a part"])
    assert capsys.readouterr().out == "all of it\n"


def test_a_progress_bar_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    err = Screen()
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setenv("TERM", "xterm")
    with options.progress("doctor", quiet=False) as meter:
        meter(3, 4)
    last = err.getvalue().rpartition("doctor")[2]
    assert "\x1b[2K" in last, "the line is erased, although the work ended before the bar was full"


def test_no_summary_in_the_help_is_cut_off(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    assert "..." not in text.replace("[ARGS]...", "")
    from headway.cli.doctor import doctor

    first = " ".join((doctor.__doc__ or "").partition("\n\n")[0].split())
    assert first in " ".join(text.split())
