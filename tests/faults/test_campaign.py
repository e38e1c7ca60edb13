"""A campaign counts what happened, keeps every failure with what repeats it, and cannot pass where a bar is broken."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from faults import __main__ as program
from faults.campaign import Attempt, Row, RowResult, chance, must, run
from faults.found_first import FOUND_FIRST
from faults.page import PAGE, page, read_results


@contextmanager
def thirds(seed: int, folder: Path) -> Iterator[Attempt]:
    """A made-up attack: every third case breaks the bar, case 4 raises something else."""
    (folder / "shared").write_text("text")

    def attempt(number: int) -> str:
        must(number % 3 != 2, f"case {number} of seed {seed} was lost")
        if number == 4:
            raise KeyError("unexpected")
        return "refused" if number % 2 else "harmless"

    yield attempt


ROW = Row("thirds", 1, "counting", "no case divides", 6, thirds, limits=("Nothing above six.",))


def test_outcomes_and_failures_are_counted() -> None:
    told: list[str] = []
    found = run(ROW, 6, 7, told=told.append)
    assert found.tried == 6
    assert found.outcomes == {"FAILED": 3, "harmless": 1, "refused": 2}
    assert [failure.case for failure in found.failures] == [2, 4, 5]
    assert found.failures[0].seen == "case 2 of seed 7 was lost"
    assert "KeyError: 'unexpected'" in found.failures[1].seen
    assert found.failures[2].reproduce == "python -m faults thirds --seed 7 --only 5"
    assert len(told) == 3


def test_one_case_is_repeated_alone() -> None:
    assert run(ROW, 6, 7, only=2).failures[0].case == 2
    assert run(ROW, 6, 7, only=0).outcomes == {"harmless": 1}
    assert chance(1, "thirds", 2).random() == chance(1, "thirds", 2).random() != chance(1, "thirds", 3).random()


def test_the_program_keeps_long_versions_only_and_its_exit_code_tells_of_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "known_rows", lambda: {"thirds": ROW})
    places = ["--results", str(tmp_path / "faults.json"), "--page", str(tmp_path / "faults.md")]
    assert program.main(["thirds", "--count", "2", *places]) == 0
    assert not [*tmp_path.iterdir()]
    assert program.main(["thirds", "--seed", "3", *places]) == 1
    assert "thirds: 6 tried, 3 failed" in capsys.readouterr().out
    stored = read_results(tmp_path / "faults.json")
    assert isinstance(stored["thirds"], RowResult)
    assert stored["thirds"].circumstances["command"][-1] == "3"
    text = (tmp_path / "faults.md").read_text()
    assert "| [thirds](#thirds) | counting | no case divides | 6 | 3 |" in text
    assert "- Failed: case 2: case 2 of seed 3 was lost (`python -m faults thirds --seed 3 --only 2`)" in text
    assert "- Nothing above six." in text


@pytest.mark.parametrize(
    ("words", "message"), [("nope", "no row 'nope'; known: "), ("--only 3", "--only needs one row")]
)
def test_wrong_words_are_refused(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        program.main(words.split())
    assert message in capsys.readouterr().err


def test_every_row_has_a_name_and_a_place_of_its_own() -> None:
    rows = program.known_rows()
    assert len({row.position for row in rows.values()}) == len(rows)
    assert all(re.fullmatch("[a-z-]+", name) and name == row.name for name, row in rows.items())


def test_the_page_is_that_of_the_stored_results() -> None:
    rows = [*program.known_rows().values()]
    assert PAGE.read_text(encoding="utf-8") == page(rows, read_results()), "run: python -m faults --write-page"


@pytest.mark.parametrize("test", sorted({test for _, test in FOUND_FIRST}))
def test_what_was_found_before_has_the_test_that_the_page_names(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"\ndef {name}(" in Path(__file__).parents[2].joinpath(file).read_text(encoding="utf-8")
